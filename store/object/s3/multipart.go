package s3

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/minio/crc64nvme"
	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"tsmon/store/object"
)

const (
	partSize   = object.StraightSize
	maxParts   = 4       // in memory at any time
	senders    = 2       // of one upload
	smallSize  = 1 << 18 // bytes of an object that needs no shared buffer
	abortAfter = 10 * time.Second
)

func uploadable(size int64) error {
	if size < 0 || size > 10_000*partSize {
		return fmt.Errorf("an object of %d bytes can't be uploaded; at most %d are allowed", size, 10_000*partSize)
	}
	return nil
}

// takeBuffer waits for a buffer for size bytes. The caller gives it back.
func (s *Store) takeBuffer(ctx context.Context, size int64) ([]byte, error) {
	if size <= smallSize {
		return make([]byte, size), nil
	}
	select {
	case buf := <-s.parts:
		if buf == nil {
			buf = make([]byte, partSize)
		}
		return buf, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) giveBack(buf []byte) {
	if len(buf) == partSize {
		s.parts <- buf
	}
}

// createLarge sends the object in parts and returns its checksum. The client library's own
// upload in parts can't be conditional.
func (s *Store) createLarge(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (uint64, error) {
	_, _, err := s.head(ctx, key)
	if err == nil {
		return 0, fs.ErrExist
	}
	if !isCode(err, "NoSuchKey") {
		return 0, err
	}
	opts := putOptions(attrs)
	opts.UserMetadata = map[string]string{"X-Amz-Checksum-Algorithm": "CRC64NVME", checksumType: wholeObject}
	id, err := s.begin(ctx, key, opts)
	if err != nil {
		return 0, err
	}
	if id == "" {
		return 0, errUnlike
	}
	u := &upload{s: s, key: key, id: id, r: r, left: size, sum: crc64nvme.New()}
	if err = u.send(ctx); err == nil {
		err = u.complete(ctx)
	}
	if err != nil {
		u.abort(ctx)
		return 0, err
	}
	return u.sum.Sum64(), nil
}

// begin starts an upload. It outlives ctx, since an upload can be aborted only by its id.
func (s *Store) begin(ctx context.Context, key string, opts minio.PutObjectOptions) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortAfter)
	defer cancel()
	return s.core.NewMultipartUpload(ctx, s.bucket, s.path(key), opts)
}

type upload struct {
	s       *Store
	key, id string

	mu    sync.Mutex // held while r is read
	r     io.Reader
	left  int64
	sum   hash.Hash64 // of all that was read
	parts []minio.CompletePart
}

// send sends all of r. Each sender reads a part and sends it while the other reads.
func (u *upload) send(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range min(senders, (u.left+partSize-1)/partSize) {
		g.Go(func() error {
			buf, err := u.s.takeBuffer(ctx, partSize)
			if err != nil {
				return err
			}
			defer u.s.giveBack(buf)
			return u.sendParts(ctx, buf)
		})
	}
	return g.Wait()
}

func (u *upload) sendParts(ctx context.Context, buf []byte) error {
	for {
		part, data, err := u.read(ctx, buf)
		if err != nil || data == nil {
			return err
		}
		header := http.Header{}
		header.Set(checksumHeader, part.ChecksumCRC64NVME)
		sent, err := u.s.core.PutObjectPart(ctx, u.s.bucket, u.s.path(u.key), u.id, part.PartNumber, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectPartOptions{CustomHeader: header, DisableContentSha256: true})
		if err != nil {
			return err
		}
		u.mu.Lock()
		u.parts[part.PartNumber-1].ETag = sent.ETag
		u.mu.Unlock()
	}
}

// read reads the next part into buf. It returns nil after the last part, with which r must
// end.
func (u *upload) read(ctx context.Context, buf []byte) (minio.CompletePart, []byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := ctx.Err(); err != nil || u.left == 0 {
		return minio.CompletePart{}, nil, err
	}
	data := buf[:min(u.left, partSize)]
	if err := fill(data, u.r, u.left == int64(len(data))); err != nil {
		return minio.CompletePart{}, nil, err
	}
	u.left -= int64(len(data))
	u.sum.Write(data)
	part := minio.CompletePart{PartNumber: len(u.parts) + 1, ChecksumCRC64NVME: encode(crc64nvme.Checksum(data))}
	u.parts = append(u.parts, part)
	return part, data, nil
}

// complete creates the object from the parts, unless its key is taken.
func (u *upload) complete(ctx context.Context) error {
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{checksumHeader: encode(u.sum.Sum64()), checksumType: wholeObject}}
	opts.SetMatchETagExcept("*")
	_, err := u.s.core.CompleteMultipartUpload(ctx, u.s.bucket, u.s.path(u.key), u.id, u.parts, opts)
	if !isCode(err, "NoSuchUpload") {
		return err
	}
	// An earlier attempt may have succeeded without its answer arriving.
	if _, _, there := u.s.head(ctx, u.key); there == nil {
		return fs.ErrExist
	}
	return err
}

// abort deletes the parts, even after ctx has ended. It ignores errors, since the caller
// reports one.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortAfter)
	defer cancel()
	_ = u.s.core.AbortMultipartUpload(ctx, u.s.bucket, u.s.path(u.key), u.id)
}
