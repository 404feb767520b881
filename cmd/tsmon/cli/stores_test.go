package cli

import (
	"errors"
	"path/filepath"
	"testing"

	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
)

// TestStoreThatDoesNotOpen: with an error the store is nil, so that callers can close what is not
// nil.
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

// TestAddressesMend: an address that is refused opens once it is written as its hint says.
func TestAddressesMend(t *testing.T) {
	var c config.Config
	c.Storage = "s3://desktop?endpoint=https://minio.example.com&region=us-east-1"
	c.Server.Updates.Redirect = config.RedirectPresigned
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	presigner := func() error { _, err := OpenPresigner(&c); return err }
	records := func() error {
		store, err := OpenRecords(t.Context(), &c)
		if err == nil {
			err = store.Close()
		}
		return err
	}
	series := func() error {
		store, err := OpenSeries(t.Context(), &c)
		if err == nil {
			err = store.Close()
		}
		return err
	}
	for _, step := range []struct {
		set   func(string)
		open  func() error
		wrong string
		hint  string
		right string
	}{
		// follows: write TSMON_UPDATES_PRESIGN_ENDPOINT like https://files.example.com, the address at which clients reach the bucket's server
		{func(s string) { c.Server.Updates.PresignEndpoint = s }, presigner, "files.example.com/x",
			"write TSMON_UPDATES_PRESIGN_ENDPOINT like https://files.example.com, the address at which clients reach the bucket's server", "https://files.example.com"},
		// follows: write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require; special characters of the password as %XX
		{func(s string) { c.Server.Records = config.Secret(s) }, records, "postgres://tsmon:50%@db.example.com:5432/records",
			"write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require; special characters of the password as %XX", "postgres://tsmon:50%25@db.example.com:5432/records?sslmode=require"},
		// follows: set TSMON_SERIES_URL to http(s)://HOST:8086 and TSMON_SERIES_TOKEN to the token
		{func(s string) { c.Server.Series.URL, c.Server.Series.Token = config.Secret(s), "token" }, series, "influx.example.com",
			"set TSMON_SERIES_URL to http(s)://HOST:8086 and TSMON_SERIES_TOKEN to the token", "https://influx.example.com:8086"},
	} {
		step.set(step.wrong)
		if err := step.open(); HintFor(err) != step.hint {
			t.Errorf("%s: %v, hint %q, want %q", step.wrong, err, HintFor(err), step.hint)
		}
		step.set(step.right)
		if err := step.open(); err != nil {
			t.Errorf("%s: %v", step.right, err)
		}
	}
}
