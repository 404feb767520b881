package influx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"

	"tsmon/store/series"
)

// errIncomplete means that the server left out a statement or a part of its answer.
var errIncomplete = fmt.Errorf("the answer is not complete: %w", series.ErrUnavailable)

// explain translates an error and adds what was attempted.
func (s *server) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, s.translate(ctx, err))
}

// translate maps an error of the client to one of the contract.
func (s *server) translate(ctx context.Context, err error) error {
	if ctx.Err() != nil && isCancelled(err) {
		return ctx.Err()
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%s: the answer is %w: more than %d bytes", s.place, series.ErrTooLarge, large.Limit)
	}
	for _, known := range []error{series.ErrKind, series.ErrUnavailable, series.ErrNoDatabase, series.ErrExpired, series.ErrName, series.ErrInvalid} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", s.place, err)
		}
	}
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.StatusCode != 0 {
		return fmt.Errorf("%s: %w (status %d: %.200q)", s.place, s.meaning(refused), refused.StatusCode, refused.Message)
	}
	if isSlow(err) {
		return fmt.Errorf("%s: %w", s.place, series.ErrSlow)
	}
	if isMalformed(err) {
		return fmt.Errorf("%s does not answer like InfluxDB: %w: %w", s.place, series.ErrUnavailable, err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // its text doesn't repeat the URL
	}
	return fmt.Errorf("%s: %w: %w", s.place, series.ErrUnavailable, err)
}

func isCancelled(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isSlow reports whether the server accepted the connection but didn't answer in time.
func isSlow(err error) bool {
	wait, ok := errors.AsType[net.Error](err)
	op, isOp := errors.AsType[*net.OpError](err)
	return ok && wait.Timeout() && !(isOp && op.Op == "dial")
}

func isMalformed(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return syntax || kind || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// errHidden is ErrNoDatabase of InfluxDB 2.x, which gives the same answer if the token may
// not read the database.
var errHidden = fmt.Errorf("%w, or the token may not read it", series.ErrNoDatabase)

// meaning maps a refusal to an error of the contract. InfluxDB has no error codes for these
// cases. It has messages, which have been the same in all of 1.x and 2.x.
func (s *server) meaning(e *client.Error) error {
	switch message := strings.ToLower(e.Message); {
	case e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden:
		return fs.ErrPermission
	case strings.Contains(message, "database not found"), strings.Contains(message, "no dbrp mapping found"), strings.Contains(message, "bucket") && strings.Contains(message, "not found"):
		if s.org != "" { // it is 2.x
			return errHidden
		}
		return series.ErrNoDatabase
	case strings.Contains(message, "field type conflict"):
		return series.ErrKind
	case strings.Contains(message, "beyond retention policy"), strings.Contains(message, "outside retention policy"), strings.Contains(message, "point time is expired"):
		return series.ErrExpired
	case e.StatusCode == http.StatusGatewayTimeout, strings.Contains(message, "timeout"):
		return series.ErrSlow
	case e.StatusCode == http.StatusRequestEntityTooLarge:
		return series.ErrTooLarge
	case e.StatusCode == http.StatusBadRequest || e.StatusCode == http.StatusUnprocessableEntity:
		return series.ErrInvalid
	}
	return series.ErrUnavailable
}
