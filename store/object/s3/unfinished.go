package s3

import (
	"context"
	"strings"

	"tsmon/store/object"
)

var _ object.Uploads = (*Store)(nil)

// Unfinished lists the uploads of the whole bucket, since MinIO takes a prefix for a whole key.
// MinIO forgets uploads when it restarts, and removes their data itself after a day.
func (s *Store) Unfinished(ctx context.Context, prefix string) (found []object.Upload, err error) {
	defer s.explain(ctx, "list unfinished uploads of", prefix, &err, nil)
	key, id := "", ""
	for pages := 0; pages < object.MaxUploads/1000; pages++ {
		page, err := s.core.ListMultipartUploads(ctx, s.bucket, "", key, id, "", 1000)
		if err = s.bucketFirst(ctx, err); err != nil {
			return nil, err
		}
		for _, u := range page.Uploads {
			if name, ours := strings.CutPrefix(u.Key, s.prefix); ours && strings.HasPrefix(name, prefix) && object.ValidKey(name) == nil {
				found = append(found, object.Upload{Key: name, Begun: u.Initiated, ID: u.UploadID})
			}
		}
		if !page.IsTruncated {
			break
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
	return found, nil
}

func (s *Store) Abort(ctx context.Context, uploads ...object.Upload) error {
	for _, u := range uploads {
		err := object.ValidKey(u.Key)
		if err == nil {
			err = s.core.AbortMultipartUpload(ctx, s.bucket, s.path(u.Key), u.ID)
		}
		if err != nil && !isCode(err, "NoSuchUpload") {
			s.explain(ctx, "abort the upload of", u.Key, &err, nil)
			return err
		}
	}
	return nil
}
