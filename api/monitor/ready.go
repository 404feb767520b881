package monitor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"tsmon/store/object"
	"tsmon/store/series"
)

// triedDatabases is how many databases are tried until one exists.
const triedDatabases = 10

// trySeries tries a write to the database of the first tenant that has one. Without
// tenants, and without the records, which have a check of their own, it tries none.
func (s *Server) trySeries(ctx context.Context) error {
	tenants, err := s.Records.Tenants(ctx)
	if err != nil {
		return nil //nolint:nilerr // the check of the records says so
	}
	for _, t := range tenants[:min(len(tenants), triedDatabases)] {
		if err = s.Series.TryWrite(ctx, t.TsName); !errors.Is(err, series.ErrNoDatabase) {
			return err
		}
	}
	return err
}

// readyKey is the object that is written to see whether the store takes an upload. No
// upload has such a name.
const readyKey = uploadFolder + "ready"

// readyText is long enough for a full disk to refuse it, and short enough for a bucket
// that keeps all versions.
var readyText = bytes.Repeat([]byte("written by tsmon to see whether there is room for uploads\n"), 18)

// tryUpload replaces one small object.
func (s *Server) tryUpload(ctx context.Context) error {
	info, err := s.Objects.Stat(ctx, readyKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = s.Objects.Swap(ctx, readyKey, info.ETag, readyText, object.Attributes{ContentType: fileTypes[".txt"]})
	if errors.Is(err, object.ErrChanged) {
		return nil // another server has just written it
	}
	return err
}
