package s3

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"tsmon/store/object"
)

var _ object.Protector = (*Store)(nil)

func (s *Store) Protection(ctx context.Context, prefix string) (p object.Protection, err error) {
	defer s.explain(ctx, "ask for the versions of", prefix, &err, nil)
	versions, err := s.core.GetBucketVersioning(ctx, s.bucket)
	if isCode(err, "NotImplemented") {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.Versions = versions.Enabled() && !slices.ContainsFunc(versions.ExcludedPrefixes, func(e minio.ExcludedPrefix) bool {
		return strings.HasPrefix(s.path(prefix), strings.TrimRight(e.Prefix, "*")) // of MinIO alone
	})
	_, mode, validity, unit, err := s.core.GetObjectLockConfig(ctx, s.bucket)
	if isCode(err, "ObjectLockConfigurationNotFoundError") {
		return p, nil
	}
	if err != nil || mode == nil || validity == nil || unit == nil {
		return p, err
	}
	const day = 24 * time.Hour
	p.Kept = time.Duration(*validity) * day
	if *unit == minio.Years {
		p.Kept *= 365
	}
	return p, nil
}
