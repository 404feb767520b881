package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

// Delete implements object.Store, a thousand keys a request.
func (s *Store) Delete(ctx context.Context, keys ...string) (err error) {
	what := fmt.Sprintf("%d objects", len(keys))
	if len(keys) == 1 {
		what = keys[0]
	}
	defer s.explain(ctx, "delete", what, &err, nil)
	for _, key := range keys {
		if err := object.ValidKey(key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil || len(keys) == 0 {
		return err
	}
	if !s.seen.Load() { // the response does not distinguish a missing bucket from missing keys
		if err := s.bucketErr(ctx); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // also ends the sender if the library stops reading
	doomed := make(chan minio.ObjectInfo)
	go func() {
		defer close(doomed)
		for _, key := range keys {
			select {
			case doomed <- minio.ObjectInfo{Key: s.path(key)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var failed error
	for result := range s.core.RemoveObjects(ctx, s.bucket, doomed, minio.RemoveObjectsOptions{}) {
		if !isCode(result.Err, "NoSuchKey") {
			failed = errors.Join(failed, result.Err)
		}
	}
	if failed == nil {
		return ctx.Err()
	}
	return failed
}
