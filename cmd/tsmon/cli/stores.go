package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tsmon/cmd/tsmon/config"
	"tsmon/release"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/s3"
	"tsmon/store/record"
	"tsmon/store/record/postgres"
	recordfile "tsmon/store/record/sqlite"
	"tsmon/store/series"
	"tsmon/store/series/influx"
	seriesfile "tsmon/store/series/sqlite"
)

// Errors of a store that is an SQLite file and has not been created yet.
var (
	ErrNoRecords = errors.New("there are no records yet")
	ErrNoSeries  = errors.New("there are no time series yet")
)

// SeriesStore is a store of time series that has to be closed.
type SeriesStore interface {
	series.Store
	io.Closer
}

// OpenStore opens the object store of a storage setting.
func OpenStore(_ context.Context, storage string) (object.Store, error) {
	if strings.HasPrefix(storage, "s3:") {
		store, err := s3.Open(storage, s3.Limits{})
		if err != nil {
			return nil, WithHint(Usage(err), "write it like s3://BUCKET/PREFIX?endpoint=https://minio.example.com&region=us-east-1")
		}
		return store, nil
	}
	if scheme, _, ok := strings.Cut(storage, "://"); ok {
		return nil, Usagef("storage is s3://BUCKET/PREFIX?endpoint=URL or a directory, not %s://…", scheme)
	}
	store, err := dir.Open(storage)
	if errors.Is(err, object.ErrNoStore) {
		err = WithHint(err, "name a folder in storage (TSMON_STORAGE), or a place where one can be created")
	}
	if err != nil {
		return nil, err
	}
	return store, nil
}

// LoadPublisher reads the configuration and returns it with its Publisher.
func (a *App) LoadPublisher(ctx context.Context, verb string) (*config.Config, *release.Publisher, error) {
	c, err := a.Load()
	if err != nil {
		return nil, nil, err
	}
	p, err := a.Publisher(ctx, c, verb)
	return c, p, err
}

// Publisher returns the publisher for the release commands. It shows progress with this verb, or
// none if the verb is empty.
func (a *App) Publisher(ctx context.Context, c *config.Config, verb string) (*release.Publisher, error) {
	keys, err := Keyring(c.TrustedKeys)
	if err != nil {
		return nil, err
	}
	store, err := a.OpenStore(ctx, c.Storage)
	if err != nil {
		return nil, err
	}
	reads := a.ReadsManifest(c)
	trust, err := Trust(c)
	if err != nil {
		return nil, err
	}
	root, _ := Root(c) // Trust has read it
	policies := map[string]release.Policy{}
	for name, channel := range c.Channels {
		policies[name] = release.Policy{Targets: channel.Targets, Prerelease: channel.Prerelease, Follows: channel.Follows, AllowUnbound: channel.AllowUnbound,
			AllowDowngrades: channel.AllowDowngrades, Rings: channel.Rings, Operators: trust[name].Operators, PlanLife: channel.ApprovalsWithin,
			ReadsManifest: reads || channel.ReadsManifest}
	}
	known := KnownClients{c, a.Now, func(text string) { a.Warn([]string{text}) }}
	publisher := &release.Publisher{Store: store, PublicURL: c.PublicURL, Keys: keys, Policies: policies, Who: a.Who(), Origin: a.Origin(), Now: a.Now, Root: root, Sign: a.Sign(c), Clients: known.ByVersion(), Types: known.ByType()}
	if verb != "" {
		p := a.NewProgress(verb)
		publisher.Transferred, publisher.Uploaded, publisher.Step = p.Transferred, p.Uploaded, p.Step
	}
	return publisher, nil
}

// OpenPresigner returns the presigner for redirecting clients to the bucket, nil if they are
// not redirected.
func OpenPresigner(c *config.Config) (object.Presigner, error) {
	if c.Server.Updates.Redirect != config.RedirectPresigned {
		return nil, nil
	}
	presigner, err := s3.OpenPresigner(c.Storage, c.Server.Updates.PresignEndpoint, s3.Limits{})
	if err != nil {
		return nil, WithHint(Usage(err), "write TSMON_UPDATES_PRESIGN_ENDPOINT like https://files.example.com, the address at which clients reach the bucket's server")
	}
	return presigner, nil
}

// OpenRecords opens the store of server.records. Its errors don't quote the URL, which may contain
// a password.
func OpenRecords(ctx context.Context, c *config.Config) (record.Store, error) {
	if c.Server.Records == "" {
		return nil, NoFolder("server.records (TSMON_RECORDS)")
	}
	if file := RecordsFile(c); file != "" {
		store, err := recordfile.Open(ctx, file, recordfile.Limits{})
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	store, err := postgres.Open(string(c.Server.Records), postgres.Limits{}) //nolint:contextcheck // it connects on first use
	if err != nil {
		return nil, WithHint(Usagef("server.records is not a usable postgres:// URL"),
			"write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require; special characters of the password as %XX")
	}
	return store, nil
}

// OpenSeries opens the store of server.series.
func OpenSeries(ctx context.Context, c *config.Config) (SeriesStore, error) { //nolint:ireturn // of two adapters
	s := c.Server.Series
	if s.URL != "" {
		store, err := influx.Open(influx.Options{URL: string(s.URL), Org: s.Org, Token: string(s.Token)})
		if err != nil {
			return nil, WithHint(Usagef("server.series: %w", err), "set TSMON_SERIES_URL to http(s)://HOST:8086 and TSMON_SERIES_TOKEN to the token")
		}
		return store, nil
	}
	if s.File == "" {
		return nil, NoFolder("server.series (TSMON_SERIES_URL)")
	}
	store, err := seriesfile.Open(ctx, s.File, seriesfile.Options{})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// WithRecords runs f on the store of records. If there is none it fails with ErrNoRecords, and
// does not create it.
func WithRecords(ctx context.Context, c *config.Config, f func(record.Store) error) error {
	if err := CheckFile(RecordsFile(c), ErrNoRecords); err != nil {
		return err
	}
	store, err := OpenRecords(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// WithSeries runs f on the store of time series. If there is none it fails with ErrNoSeries, and
// does not create it.
func WithSeries(ctx context.Context, c *config.Config, f func(SeriesStore) error) error {
	if err := CheckFile(SeriesFile(c), ErrNoSeries); err != nil {
		return err
	}
	store, err := OpenSeries(ctx, c)
	if err != nil {
		return ExplainSeries(err)
	}
	return errors.Join(ExplainSeries(f(store)), store.Close())
}

// RecordsFile is the SQLite file of records, empty if they are in PostgreSQL.
func RecordsFile(c *config.Config) string {
	if strings.Contains(string(c.Server.Records), "://") {
		return ""
	}
	return string(c.Server.Records)
}

// SeriesFile is the SQLite file of time series, empty if they are in InfluxDB.
func SeriesFile(c *config.Config) string {
	if c.Server.Series.URL != "" {
		return ""
	}
	return c.Server.Series.File
}

// CheckFile fails with missing if a file does not exist. An empty name is ignored.
func CheckFile(file string, missing error) error {
	if file == "" {
		return nil
	}
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, missing)
	}
	return err
}

// MakeFile creates an empty file, if there is none, and the folders above it. SQLite gives its
// side files the same mode, 0600. An empty name is ignored.
func MakeFile(file string) error {
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

// NoFolder returns the error for a setting that has neither a value nor a default.
func NoFolder(setting string) error {
	return WithHint(Usagef("%s is not set, and there is no home folder for its default", setting), "set it, or TSMON_DATA to a folder")
}

// ExplainSeries adds the hint for a token that the series store refuses.
func ExplainSeries(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return WithHint(err, "check TSMON_SERIES_TOKEN and its rights, or the permissions of the file")
	}
	if errors.Is(err, influx.ErrOrg) {
		return WithHint(err, "set server.series.org (TSMON_SERIES_ORG) to the organisation of a token that may read organisations and create buckets")
	}
	return err
}
