package cli

import (
	"errors"
	"path/filepath"
	"testing"

	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
)

// TestStoreThatDoesNotOpen: no store comes with an error, so that a caller that
// closes what is not nil does not panic.
func TestStoreThatDoesNotOpen(t *testing.T) {
	folder := t.TempDir() // which is no SQLite file
	c := &config.Config{Server: config.Server{Records: config.Secret(folder), Series: config.Series{File: folder}}}
	if store, err := OpenRecords(t.Context(), c); err == nil || store != nil {
		t.Errorf("records: %v, %v", store, err)
	}
	if store, err := OpenSeries(t.Context(), c); err == nil || store != nil {
		t.Errorf("series: %v, %v", store, err)
	}
	for _, storage := range []string{"s3:/", "gs://bucket", "\x00"} {
		if store, err := OpenStore(t.Context(), storage); err == nil || store != nil {
			t.Errorf("storage %q: %v, %v", storage, store, err)
		}
	}
	c.Server.Updates.Redirect = config.RedirectPresigned
	if presigner, err := OpenPresigner(c); err == nil || presigner != nil {
		t.Errorf("presigner: %v, %v", presigner, err)
	}
}

// TestLookingCreatesNothing: a store that does not exist is not created by use.
func TestLookingCreatesNothing(t *testing.T) {
	c := &config.Config{Server: config.Server{Records: config.Secret(filepath.Join(t.TempDir(), "data", "records.db"))}}
	err := WithRecords(t.Context(), c, func(record.Store) error { t.Error("there is a store"); return nil })
	if !errors.Is(err, ErrNoRecords) {
		t.Error(err)
	}
}
