package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/record/postgres"
	recordfile "tsmon/store/record/sqlite"
	"tsmon/store/series"
	"tsmon/store/series/influx"
	seriesfile "tsmon/store/series/sqlite"
)

var (
	errNoRecords = cli.ErrNoRecords
	errNoSeries  = cli.ErrNoSeries
)

// seriesStore is a store of time series that has an end.
type seriesStore interface {
	series.Store
	io.Closer
}

// withRecords runs f with the store of records. A file that is not there is
// errNoRecords, so that looking makes nothing.
func (a *app) withRecords(ctx context.Context, f func(record.Store) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	return withRecordsOf(ctx, c, f)
}

func withRecordsOf(ctx context.Context, c *config.Config, f func(record.Store) error) error {
	if err := mustBeThere(recordsFile(c), errNoRecords); err != nil {
		return err
	}
	store, err := openRecords(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// recordsFile is the SQLite file of records, empty if they lie in PostgreSQL.
func recordsFile(c *config.Config) string {
	if strings.Contains(string(c.Server.Records), "://") {
		return ""
	}
	return string(c.Server.Records)
}

// seriesFile is the SQLite file of time series, empty if they lie in InfluxDB.
func seriesFile(c *config.Config) string {
	if c.Server.Series.URL != "" {
		return ""
	}
	return c.Server.Series.File
}

// mustBeThere is missing if a file is named and not there.
func mustBeThere(file string, missing error) error {
	if file == "" {
		return nil
	}
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, missing)
	}
	return err
}

// makeFile makes an empty file for SQLite, which gives the files beside it the
// same permissions, and the folders above it: nobody else's business.
func makeFile(file string) error {
	if file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return made.Close()
}

// openRecords joins server.records to its adapter. What is wrong with a URL is
// not quoted: it holds a password.
func openRecords(ctx context.Context, c *config.Config) (record.Store, error) {
	if c.Server.Records == "" {
		return nil, noFolder("server.records (TSMON_RECORDS)")
	}
	if file := recordsFile(c); file != "" {
		return recordfile.Open(ctx, file, recordfile.Limits{})
	}
	store, err := postgres.Open(string(c.Server.Records), postgres.Limits{})
	if err != nil {
		return nil, &hinted{usagef("server.records is not a usable postgres:// URL"),
			"write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require; special characters of the password as %XX"}
	}
	return store, nil
}

// openSeries joins server.series to its adapter.
func openSeries(ctx context.Context, c *config.Config) (seriesStore, error) {
	s := c.Server.Series
	if s.URL != "" {
		store, err := influx.Open(influx.Options{URL: string(s.URL), Org: s.Org, Token: string(s.Token)})
		if err != nil {
			return nil, &hinted{&usageError{fmt.Errorf("server.series: %w", err)}, "set TSMON_SERIES_URL to http(s)://HOST:8086 and TSMON_SERIES_TOKEN to the token"}
		}
		return store, nil
	}
	if s.File == "" {
		return nil, noFolder("server.series (TSMON_SERIES_URL)")
	}
	return seriesfile.Open(ctx, s.File, seriesfile.Options{})
}

func noFolder(setting string) error {
	return &hinted{usagef("%s is not set, and there is no home folder for its default", setting), "set it, or TSMON_DATA to a folder"}
}

// explainSeries adds the remedy for a token that is refused.
func explainSeries(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &hinted{err, "check TSMON_SERIES_TOKEN and its rights, or the permissions of the file"}
	}
	return err
}
