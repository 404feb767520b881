package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

var (
	// errRefused says that the condition of a write did not hold.
	errRefused = errors.New("the condition does not hold")
	// errRejected says that the server refused the request.
	errRejected = errors.New("the server refused the request")
	// errUnlike says that the response is not from an S3 server.
	errUnlike = errors.New("the endpoint does not answer like an S3 server")
)

// sourceError marks an error of Create's reader, which is returned unchanged.
type sourceError struct{ error }

// explain maps an error to the contract's and adds the operation and the key; refused
// is the one for a failed condition.
func (s *Store) explain(ctx context.Context, op, key string, err *error, refused error) {
	if source, ok := errors.AsType[sourceError](*err); ok {
		*err = source.error
		return
	}
	switch {
	case *err == nil:
		return
	case ctx.Err() != nil && isCancelled(*err):
		*err = ctx.Err()
	default:
		*err = s.translate(*err)
	}
	if errors.Is(*err, errRefused) {
		*err = refused
	}
	*err = fmt.Errorf("%s %s: %w", op, cmp.Or(key, "everything"), *err)
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// translate maps errors of the client library to those of the contract.
func (s *Store) translate(err error) error {
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return s.answered(answer)
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%s: the server's certificate is not trusted: %w", s.endpoint, certificate.Err)
	}
	if isMalformed(err) {
		return fmt.Errorf("%s: %w", s.place(), errUnlike)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	} else if !isConnection(err) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", s.place(), object.ErrUnavailable, err)
}

func isConnection(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, errHungUp) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isMalformed reports whether an answer was not the expected XML.
func isMalformed(err error) bool {
	_, syntax := errors.AsType[*xml.SyntaxError](err)
	_, other := errors.AsType[xml.UnmarshalError](err)
	return syntax || other || errors.Is(err, io.EOF) || errors.Is(err, errUnlike)
}

// codes are the S3 error codes that say more than their status, which is 200 where
// completing an upload fails late.
var codes = map[string]error{
	"NoSuchKey":                      fs.ErrNotExist,
	"NoSuchBucket":                   object.ErrNoStore,
	"AccessDenied":                   fs.ErrPermission,
	"ExpiredToken":                   fs.ErrPermission,
	"InvalidToken":                   fs.ErrPermission,
	"PreconditionFailed":             errRefused,
	"ConditionalRequestConflict":     errRefused,
	"XMinioStorageFull":              object.ErrFull,
	"XMinioAdminBucketQuotaExceeded": object.ErrFull,
	"RequestTimeTooSkewed":           object.ErrClock,
	"BadDigest":                      object.ErrCorrupt,
	"XAmzContentChecksumMismatch":    object.ErrCorrupt,
	"XAmzContentSHA256Mismatch":      object.ErrCorrupt,
	"InvalidRange":                   object.ErrRange,
	"KeyTooLongError":                object.ErrBadKey,
	"XMinioInvalidObjectName":        object.ErrBadKey,
	"XMinioParentIsObject":           object.ErrBadKey,
	"XMinioObjectExistsAsDirectory":  object.ErrBadKey,
	"InternalError":                  object.ErrUnavailable,
	"NoSuchUpload":                   object.ErrUnavailable,
	"RequestTimeout":                 object.ErrUnavailable,
	"ServiceUnavailable":             object.ErrUnavailable,
	"SlowDown":                       object.ErrUnavailable,
}

func (s *Store) answered(a minio.ErrorResponse) error {
	cause, known := codes[a.Code]
	if !known {
		cause = byStatus(a.StatusCode)
	}
	if errors.Is(cause, fs.ErrPermission) && s.wire.skewed() { // the answer to HEAD has no code
		cause = object.ErrClock
	}
	switch {
	case a.StatusCode == 0: // made up by the client library
		return fmt.Errorf("%s: %w", s.place(), errUnlike)
	case cause == fs.ErrNotExist || cause == errRefused || cause == object.ErrRange:
		return cause
	case cause == fs.ErrPermission && s.identity.none.Load():
		return anonymous(s.place())
	case cause == errRejected && a.Region != "" && a.Region != s.region:
		return fmt.Errorf("%s: the bucket is in another region; add region=%.40q to the storage url", s.place(), a.Region)
	}
	return fmt.Errorf("%s: %w (%.80s, status %d)", s.place(), cause, a.Code, a.StatusCode)
}

// anonymous is the error of a request that needs credentials when none were found.
func anonymous(place string) error {
	return fmt.Errorf("%s: %w: no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", place, fs.ErrPermission)
}

func byStatus(status int) error {
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fs.ErrPermission
	case status == http.StatusPreconditionFailed:
		return errRefused
	case status == http.StatusInsufficientStorage:
		return object.ErrFull
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return object.ErrUnavailable
	}
	return errRejected
}
