package monitor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// triedDatabases is how many databases are tried until one exists.
const triedDatabases = 10

// trySeries tries a write to the database of the first tenant that has one. Without
// tenants, and without the records, which have a check of their own, it tries none.
func trySeries(records record.Store, values series.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		tenants, err := records.Tenants(ctx)
		if err != nil {
			return nil //nolint:nilerr // it is not the series' fault
		}
		for _, t := range tenants[:min(len(tenants), triedDatabases)] {
			if err = values.TryWrite(ctx, t.TsName); !errors.Is(err, series.ErrNoDatabase) {
				return err
			}
		}
		return err
	}
}

// readyKey is the object that is written to see whether the store takes an upload. Its
// name is none of an upload.
const readyKey = uploadFolder + "ready"

// readyBytes are enough for a full disk to refuse them, and little for a bucket that
// keeps all versions.
const readyBytes = 1 << 10

// tryUpload replaces one small object.
func tryUpload(objects object.Store) func(context.Context) error {
	return func(ctx context.Context) error {
		info, err := objects.Stat(ctx, readyKey)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		content := bytes.Repeat([]byte("written by tsmon to see whether there is room for uploads\n"), readyBytes/58+1)
		_, err = objects.Swap(ctx, readyKey, info.ETag, content, object.Attributes{ContentType: fileTypes[".txt"]})
		if errors.Is(err, object.ErrChanged) {
			return nil // another server has just written it
		}
		return err
	}
}
