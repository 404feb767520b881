package s3

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

func (s *Store) Get(ctx context.Context, key string) (_ io.ReadCloser, _ object.Info, err error) {
	defer s.explain(ctx, "get", key, &err, nil)
	return s.get(ctx, key)
}

func (s *Store) get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := object.ValidKey(key); err != nil {
		return nil, object.Info{}, err
	}
	raw, o, _, err := s.core.GetObject(ctx, s.bucket, s.path(key), minio.GetObjectOptions{})
	if err = s.bucketFirst(ctx, err); err != nil {
		return nil, object.Info{}, err
	}
	info, err := describe(key, o)
	if err != nil {
		raw.Close()
		return nil, object.Info{}, err
	}
	return &body{object.Exactly(raw, info.Size), raw, s}, info, nil
}

func (s *Store) GetRange(ctx context.Context, key, etag string, offset, length int64) (_ io.ReadCloser, err error) {
	defer s.explain(ctx, "get part of", key, &err, object.ErrChanged)
	if err := object.ValidKey(key); err != nil {
		return nil, err
	}
	if offset < 0 || length <= 0 || offset > math.MaxInt64-length {
		return nil, object.ErrRange
	}
	var opts minio.GetObjectOptions
	err = cmp.Or(opts.SetMatchETag(etag), opts.SetRange(offset, offset+length-1))
	if err != nil { // of an empty ETag, which no object has
		return nil, errRefused
	}
	raw, o, header, err := s.core.GetObject(ctx, s.bucket, s.path(key), opts)
	if err = s.bucketFirst(ctx, err); err != nil {
		return nil, err
	}
	if err := partErr(header.Get("Content-Range"), offset, length); err != nil || o.ETag != etag {
		raw.Close()
		return nil, cmp.Or(err, errRefused)
	}
	return &body{object.Exactly(raw, length), raw, s}, nil
}

// partErr checks that the server sends the requested range: it may send less, or
// ignore the range.
func partErr(sent string, offset, length int64) error {
	switch {
	case sent == "":
		return errUnlike
	case !strings.HasPrefix(sent, fmt.Sprintf("bytes %d-%d/", offset, offset+length-1)):
		return object.ErrRange
	}
	return nil
}

type body struct {
	io.Reader
	io.Closer
	s *Store
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isCancelled(err) {
		err = b.s.translate(err)
	}
	return n, err
}

func describe(key string, o minio.ObjectInfo) (object.Info, error) {
	if o.Size < 0 || o.ETag == "" {
		return object.Info{}, fmt.Errorf("%w: the size or the etag is missing", errUnlike)
	}
	return object.Info{Key: key, Size: o.Size, ETag: o.ETag, ModTime: o.LastModified}, nil
}

func (s *Store) Stat(ctx context.Context, key string) (info object.Info, err error) {
	defer s.explain(ctx, "stat", key, &err, nil)
	_, info, err = s.head(ctx, key)
	return info, err
}

func (s *Store) Checksum(ctx context.Context, key string) (_ uint64, err error) {
	defer s.explain(ctx, "checksum", key, &err, nil)
	o, _, err := s.head(ctx, key)
	if err != nil {
		return 0, err
	}
	return s.checksum(ctx, key, o)
}

// checksum returns the recorded checksum, else it reads the object.
func (s *Store) checksum(ctx context.Context, key string, o minio.ObjectInfo) (uint64, error) {
	if sum, err := base64.StdEncoding.DecodeString(o.ChecksumCRC64NVME); err == nil && len(sum) == crc64nvme.Size {
		return binary.BigEndian.Uint64(sum), nil
	}
	r, _, err := s.get(ctx, key)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	h := crc64nvme.New()
	_, err = io.Copy(h, r)
	return h.Sum64(), err
}

// head requests the description of an object.
func (s *Store) head(ctx context.Context, key string) (minio.ObjectInfo, object.Info, error) {
	if err := object.ValidKey(key); err != nil {
		return minio.ObjectInfo{}, object.Info{}, err
	}
	o, err := s.core.StatObject(ctx, s.bucket, s.path(key), minio.StatObjectOptions{Checksum: true})
	if err = s.bucketFirst(ctx, err); err != nil {
		return minio.ObjectInfo{}, object.Info{}, err
	}
	info, err := describe(key, o)
	return o, info, err
}

func isCode(err error, code string) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && answer.Code == code
}

// bucketFirst returns the error of a request. For a missing key it first checks that the bucket
// exists, since the answer to HEAD does not say which is missing.
func (s *Store) bucketFirst(ctx context.Context, err error) error {
	if err == nil {
		s.seen.Store(true)
	}
	if !isCode(err, "NoSuchKey") || s.seen.Load() {
		return err
	}
	return cmp.Or(s.bucketErr(ctx), err)
}

// Now makes a request unless another one was answered in the last seconds.
func (s *Store) Now(ctx context.Context) (_ time.Time, err error) {
	defer s.explain(ctx, "read", "the store's time", &err, nil)
	now, ok := s.wire.now()
	if ok {
		return now, nil
	}
	if err := s.bucketErr(ctx); err != nil {
		return time.Time{}, err
	}
	if now, ok = s.wire.now(); !ok {
		return time.Time{}, errUnlike
	}
	return now, nil
}

// bucketErr returns object.ErrNoStore if there is no such bucket.
func (s *Store) bucketErr(ctx context.Context) error {
	there, err := s.core.BucketExists(ctx, s.bucket)
	switch {
	case err != nil && errors.Is(s.translate(err), fs.ErrPermission):
		s.seen.Store(true) // it exists, but may not be inspected
		return nil
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s: %w", s.place(), object.ErrNoStore)
	}
	s.seen.Store(true)
	return nil
}

func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		err := s.list(ctx, prefix, after, func(info object.Info) bool { return yield(info, nil) })
		if err != nil {
			s.explain(ctx, "list", prefix, &err, nil)
			yield(object.Info{}, err)
		}
	}
}

func (s *Store) list(ctx context.Context, prefix, after string, yield func(object.Info) bool) error {
	if !object.ValidPrefix(prefix) {
		return s.bucketErr(ctx)
	}
	for o := range s.core.ListObjectsIter(ctx, s.bucket, s.listOptions(prefix, after)) {
		if err := cmp.Or(ctx.Err(), o.Err); err != nil {
			return err
		}
		key := strings.TrimPrefix(o.Key, s.prefix)
		if wanted(key, prefix, after) && !yield(object.Info{Key: key, Size: o.Size, ModTime: o.LastModified}) {
			return nil
		}
	}
	return ctx.Err() // on which the library ends without an error
}

// listOptions request no more than needed. A server may refuse an after that can't begin a
// key, so such an after is left to wanted.
func (l location) listOptions(prefix, after string) minio.ListObjectsOptions {
	opts := minio.ListObjectsOptions{Prefix: l.path(prefix), Recursive: true, FetchOwner: new(bool)}
	if after != "" && object.ValidPrefix(after) {
		opts.StartAfter = l.path(after)
	}
	return opts
}

// wanted reports whether a listed key is valid and in the requested range. The marker of a
// folder, for example, is not valid.
func wanted(key, prefix, after string) bool {
	return strings.HasPrefix(key, prefix) && key > after && object.ValidKey(key) == nil
}
