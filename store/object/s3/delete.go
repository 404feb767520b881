package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

// Delete sends up to a thousand keys a request.
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
	results, err := s.core.RemoveObjectsWithIter(ctx, s.bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: s.path(key)}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return err
	}
	var failed error
	for result := range results {
		if key, ok := errors.AsType[minio.ErrorResponse](result.Err); ok {
			key.StatusCode = cmp.Or(key.StatusCode, http.StatusOK) // that of the answer about all keys
			result.Err = key
		}
		if !isCode(result.Err, "NoSuchKey") {
			failed = cmp.Or(failed, result.Err)
		}
	}
	return cmp.Or(failed, ctx.Err())
}
