// Package config reads tsmon.yaml and the environment, and holds the defaults. No
// other package does.
//
// The file is the one that --config or TSMON_CONFIG names, else ./tsmon.yaml if it
// exists. The environment overrides it, and flags override both. An unknown key is
// an error with its line. Relative paths in the file are relative to its folder.
//
//	storage: s3://releases/desktop?endpoint=https://minio.example.com
//	public_url: https://releases.example.com/desktop
//	trusted_keys: [RWS…]
//	bundle_types: [nsis, appimage, deb]            # leaves out msi and rpm
//	windows_installer: msi                         # for clients that don't name their type
//	channels:
//	  stable: {targets: [windows-x86_64, darwin-x86_64, darwin-aarch64, linux-x86_64], allow_unbound: true}
//	  beta:   {follows: stable, prerelease: true, guard: {failures: 5, clients: 20, within: 2h}}
//	server:
//	  listen: 127.0.0.1:8080
//	  records: postgres://tsmon@db.example.com/tsmon
//	  series: {url: http://influx.example.com:8086, org: water, token: …}
//	  mqtt: {url: mqtts://tsmon:…@broker.example.com:8883}
//	  cors_origins: [https://scada.example.com]
//	  tls: {cert: server.crt, key: server.key}       # or behind_proxy: true
//	  refresh: 5s
//	  updates: {redirect: presigned, token: …}       # or public
//	  webhook: https://chat.example.com/hooks/…
//	  log: {level: info, format: json}               # or text
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Defaults that help and documents repeat.
const (
	DefaultListen    = "127.0.0.1:8080"
	DefaultRefresh   = 5 * time.Second
	DefaultMaxUpload = 20 << 20
	DefaultLogLevel  = "info"
	DefaultLogFormat = LogJSON
	// DefaultBroker is the address of the broker in the process. Where it is taken,
	// the broker listens on a free port.
	DefaultBroker = "127.0.0.1:1883"
)

// Config is everything that can be configured.
type Config struct {
	// Storage is s3://BUCKET/PREFIX?endpoint=URL or a directory.
	Storage string `yaml:"storage" env:"TSMON_STORAGE"`
	// PublicURL is the address where clients find the root of the storage.
	PublicURL string `yaml:"public_url" env:"TSMON_PUBLIC_URL"`
	// TrustedKeys are public keys, or files that hold one.
	TrustedKeys []string `yaml:"trusted_keys" env:"TSMON_TRUSTED_KEYS" envSeparator:","`
	// BundleTypes leaves out the other types of the systems whose types it lists.
	BundleTypes []string `yaml:"bundle_types"`
	// WindowsInstaller is what clients get that don't name their type: nsis, the
	// default, or msi.
	WindowsInstaller string             `yaml:"windows_installer"`
	Channels         map[string]Channel `yaml:"channels"`
	Server           Server             `yaml:"server"`
	// Data is the folder of everything that is not configured elsewhere, empty if
	// there is no home folder for its default.
	Data    string  `yaml:"-"`
	Signing Signing `yaml:"-"`

	source string // what errors name
}

// Channel is the policy of one channel.
type Channel struct {
	Targets    []string `yaml:"targets"`    // platform keys that every manifest must have
	Prerelease bool     `yaml:"prerelease"` // accepts pre-releases
	Follows    string   `yaml:"follows"`    // channel whose moves this one repeats
	// AllowUnbound accepts signatures that name no version.
	AllowUnbound bool  `yaml:"allow_unbound"`
	Guard        Guard `yaml:"guard"`
}

// Guard says when the server halts a rollout of the channel. nil is the server's
// default.
type Guard struct {
	Failures *float64       `yaml:"failures"` // percent of the clients that tried, above which it halts; 100 for never
	Clients  *int           `yaml:"clients"`  // that have to have tried
	Within   *time.Duration `yaml:"within"`
}

// Server configures `tsmon serve` and the data of the monitoring side.
type Server struct {
	Listen string `yaml:"listen" env:"TSMON_LISTEN"`
	// Records is postgres://… or the path of an SQLite file. The URL may hold a
	// password.
	Records Secret `yaml:"records" env:"TSMON_RECORDS"`
	Series  Series `yaml:"series"`
	MQTT    MQTT   `yaml:"mqtt"`
	// CORSOrigins are the origins of web pages that may send credentials.
	CORSOrigins []string `yaml:"cors_origins" env:"TSMON_CORS_ORIGINS" envSeparator:","`
	Upload      Upload   `yaml:"upload"`
	TLS         TLS      `yaml:"tls"`
	// BehindProxy says that a proxy in front terminates TLS and sets
	// X-Forwarded-For.
	BehindProxy bool `yaml:"behind_proxy" env:"TSMON_BEHIND_PROXY"`
	// TokenKeys is the file of the keys that sign access tokens.
	TokenKeys string `yaml:"token_keys" env:"TSMON_TOKEN_KEYS"`
	// MetricsKey is the bearer token for /metrics from other machines.
	MetricsKey Secret `yaml:"metrics_key" env:"TSMON_METRICS_KEY"`
	// Refresh is the longest time for which a served channel may be out of date.
	Refresh time.Duration `yaml:"refresh" env:"TSMON_REFRESH"`
	Updates Updates       `yaml:"updates"`
	// Webhook is the address that events of rollouts are posted to.
	Webhook Secret `yaml:"webhook" env:"TSMON_WEBHOOK"`
	Log     Log    `yaml:"log"`
}

// Log configures the server's log on stderr.
type Log struct {
	Level  string `yaml:"level" env:"TSMON_LOG_LEVEL"`   // debug, info, warn or error
	Format string `yaml:"format" env:"TSMON_LOG_FORMAT"` // LogJSON or LogText
}

// Values of Log.Format.
const (
	LogJSON = "json"
	LogText = "text"
)

// Updates configures how the storage is served under /updates/.
type Updates struct {
	// Redirect is where bundle requests are redirected: RedirectPublic, which may
	// be written true, RedirectPresigned, or empty for nowhere.
	Redirect string `yaml:"redirect" env:"TSMON_UPDATES_REDIRECT"`
	// PresignEndpoint is the address of the S3 server for clients, if it differs
	// from the one in the storage setting.
	PresignEndpoint string `yaml:"presign_endpoint" env:"TSMON_UPDATES_PRESIGN_ENDPOINT"`
	// Token is the bearer token that clients have to send; empty for none.
	Token Secret `yaml:"token" env:"TSMON_UPDATES_TOKEN"`
}

// Values of Updates.Redirect.
const (
	RedirectPublic    = "public"    // to public_url
	RedirectPresigned = "presigned" // to an address in the bucket that is valid for a while
)

// MQTT is the broker that messages are published to: one in the process if no URL
// is set.
type MQTT struct {
	URL Secret `yaml:"url" env:"TSMON_MQTT_URL"` // may hold user and password
	// Listen is the address of the broker in the process; empty for DefaultBroker.
	Listen string `yaml:"listen" env:"TSMON_MQTT_LISTEN"`
}

// Upload is the key pair that uploads have to send; the server generates one if
// none is set.
type Upload struct {
	AccessKey Secret `yaml:"access_key" env:"TSMON_UPLOAD_ACCESS_KEY"`
	SecretKey Secret `yaml:"secret_key" env:"TSMON_UPLOAD_SECRET_KEY"`
	MaxBytes  int64  `yaml:"max_bytes" env:"TSMON_UPLOAD_MAX_BYTES"`
}

// TLS names the files of the server's certificate, with its chain, and its key.
type TLS struct {
	Cert string `yaml:"cert" env:"TSMON_TLS_CERT"`
	Key  string `yaml:"key" env:"TSMON_TLS_KEY"`
}

// Series is the store of time series: an InfluxDB, or an SQLite file if no URL is
// set.
type Series struct {
	URL   Secret `yaml:"url" env:"TSMON_SERIES_URL"` // may hold a password
	Org   string `yaml:"org" env:"TSMON_SERIES_ORG"`
	Token Secret `yaml:"token" env:"TSMON_SERIES_TOKEN"`
	File  string `yaml:"-"` // in the data folder
}

// Signing holds the variables of the private key, which the Tauri CLI reads, too.
// They can't be set in the file.
type Signing struct {
	Key     Secret `env:"TAURI_SIGNING_PRIVATE_KEY"`      // the key itself or a path
	KeyPath string `env:"TAURI_SIGNING_PRIVATE_KEY_PATH"` // a path
	// KeyPassword is TAURI_SIGNING_PRIVATE_KEY_PASSWORD, nil if it is not set. An
	// empty one is a password.
	KeyPassword *Secret
}

// Secret is a text that prints as three asterisks.
type Secret string

// String hides the text.
func (Secret) String() string { return "***" }

// Format hides the text whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// Load reads the file, if there is one, and the environment, given as NAME=value,
// and sets defaults. path may be empty.
func Load(path string, environ []string) (*Config, error) {
	vars := env.ToMap(environ)
	c := &Config{}
	if path == "" {
		path = vars["TSMON_CONFIG"]
	}
	if err := c.readFile(path); err != nil {
		return nil, err
	}
	if err := env.ParseWithOptions(c, env.Options{Environment: vars}); err != nil {
		return nil, fmt.Errorf("environment: %w", explainEnvironment(err))
	}
	if password, set := vars["TAURI_SIGNING_PRIVATE_KEY_PASSWORD"]; set {
		c.Signing.KeyPassword = (*Secret)(&password)
	}
	if err := c.fill(vars); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source, err)
	}
	return c, nil
}

const fileName = "tsmon.yaml"

func (c *Config) readFile(path string) error {
	named := path != ""
	if !named {
		path = fileName
	}
	c.source = "environment"
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	c.source = path
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	if err == nil {
		err = c.decode(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.resolve(filepath.Dir(path))
	return nil
}

func (c *Config) decode(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(c)
	if err == nil || errors.Is(err, io.EOF) { // an empty file
		return nil
	}
	return explainYAML(err)
}

// resolve resolves relative paths of the file against its folder.
func (c *Config) resolve(folder string) {
	if c.Storage != "" && !strings.Contains(c.Storage, "://") && !filepath.IsAbs(c.Storage) {
		c.Storage = filepath.Join(folder, c.Storage)
	}
	if records := string(c.Server.Records); records != "" && !strings.Contains(records, "://") && !filepath.IsAbs(records) {
		c.Server.Records = Secret(filepath.Join(folder, records))
	}
	for _, path := range []*string{&c.Server.TLS.Cert, &c.Server.TLS.Key, &c.Server.TokenKeys} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
	for i, key := range c.TrustedKeys {
		if at := filepath.Join(folder, key); !filepath.IsAbs(key) && isFile(at) {
			c.TrustedKeys[i] = at
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the user names the file
	return err == nil && info.Mode().IsRegular()
}

// fill sets defaults and normalises values.
func (c *Config) fill(vars map[string]string) error {
	data, err := dataFolder(vars)
	if err == nil {
		c.Data = data
		c.Server.Series.File = filepath.Join(data, "series.db")
		c.Server.Records = cmp.Or(c.Server.Records, Secret(filepath.Join(data, "records.db")))
		c.Server.TokenKeys = cmp.Or(c.Server.TokenKeys, filepath.Join(data, "token-keys.json"))
	}
	if c.Storage == "" {
		if err != nil {
			return err
		}
		c.Storage = filepath.Join(data, "objects")
	}
	c.Server.Listen = cmp.Or(c.Server.Listen, DefaultListen)
	c.Server.Refresh = cmp.Or(c.Server.Refresh, DefaultRefresh)
	c.Server.Upload.MaxBytes = cmp.Or(c.Server.Upload.MaxBytes, DefaultMaxUpload)
	c.Server.Log.Level = cmp.Or(c.Server.Log.Level, DefaultLogLevel)
	c.Server.Log.Format = cmp.Or(c.Server.Log.Format, DefaultLogFormat)
	if len(c.Channels) == 0 {
		c.Channels = map[string]Channel{"stable": {}, "beta": {Follows: "stable", Prerelease: true}}
	}
	switch c.Server.Updates.Redirect {
	case "true":
		c.Server.Updates.Redirect = RedirectPublic
	case "false":
		c.Server.Updates.Redirect = ""
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.TrustedKeys = trimmed(c.TrustedKeys)
	c.Server.CORSOrigins = trimmed(c.Server.CORSOrigins)
	return nil
}

// dataFolder returns TSMON_DATA or its default.
func dataFolder(vars map[string]string) (string, error) {
	if data := vars["TSMON_DATA"]; data != "" {
		return data, nil
	}
	if data := vars["XDG_DATA_HOME"]; filepath.IsAbs(data) {
		return filepath.Join(data, "tsmon"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", "tsmon"), err
}

func trimmed(texts []string) []string {
	var kept []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

func (c *Config) check() error {
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		switch {
		case err != nil || !isAddress(c.PublicURL):
			return errors.New("public_url is not an absolute http(s) address")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return errors.New("public_url must have no user, query or fragment")
		}
	}
	if err := errors.Join(c.checkRedirect(), checkRecords(string(c.Server.Records)), c.Server.check()); err != nil {
		return err
	}
	for name, channel := range c.Channels {
		if channel.Follows == "" {
			continue
		}
		leader, ok := c.Channels[channel.Follows]
		switch {
		case !ok:
			return fmt.Errorf("channels.%s follows %s, which is not configured", name, channel.Follows)
		case leader.Follows != "":
			return fmt.Errorf("channels.%s follows %s, which itself follows another", name, channel.Follows)
		}
	}
	return nil
}

func (c *Config) checkRedirect() error {
	u := c.Server.Updates
	switch {
	case u.Redirect != "" && u.Redirect != RedirectPublic && u.Redirect != RedirectPresigned:
		return errors.New("server.updates.redirect is neither public (or true), presigned nor false (TSMON_UPDATES_REDIRECT)")
	case u.Redirect == RedirectPublic && c.PublicURL == "":
		return errors.New("server.updates.redirect needs public_url, where bundles are (TSMON_UPDATES_REDIRECT and TSMON_PUBLIC_URL)")
	case u.Redirect == RedirectPresigned && !strings.HasPrefix(c.Storage, "s3:"):
		return errors.New("server.updates.redirect: presigned needs a storage like s3://BUCKET/PREFIX (TSMON_UPDATES_REDIRECT and TSMON_STORAGE)")
	case u.Redirect != RedirectPresigned && u.PresignEndpoint != "":
		return errors.New("server.updates.presign_endpoint needs redirect: presigned (TSMON_UPDATES_PRESIGN_ENDPOINT and TSMON_UPDATES_REDIRECT)")
	}
	return nil
}

// Bounds of Refresh. Asking the store more often gains nothing.
const (
	minRefresh = 10 * time.Millisecond
	maxRefresh = time.Minute
)

func (s Server) check() error {
	switch {
	case (s.TLS.Cert == "") != (s.TLS.Key == ""):
		return errors.New("server.tls needs both cert and key (TSMON_TLS_CERT and TSMON_TLS_KEY)")
	case (s.Upload.AccessKey == "") != (s.Upload.SecretKey == ""):
		return errors.New("server.upload needs both access_key and secret_key (TSMON_UPLOAD_ACCESS_KEY and TSMON_UPLOAD_SECRET_KEY)")
	case s.Upload.MaxBytes < 0 || s.Upload.MaxBytes > 1<<30:
		return errors.New("server.upload.max_bytes is not between 1 and 1 GiB")
	case s.Refresh < minRefresh || s.Refresh > maxRefresh:
		return fmt.Errorf("server.refresh is not between %s and %s (TSMON_REFRESH)", minRefresh, maxRefresh)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, s.Log.Level):
		return errors.New("server.log.level is not debug, info, warn or error (TSMON_LOG_LEVEL)")
	case s.Log.Format != LogJSON && s.Log.Format != LogText:
		return errors.New("server.log.format is neither json nor text (TSMON_LOG_FORMAT)")
	case s.Webhook != "" && !isAddress(string(s.Webhook)):
		return errors.New("server.webhook is not an absolute http(s) address (TSMON_WEBHOOK)")
	case strings.ContainsFunc(string(s.Updates.Token), func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("server.updates.token has a character that clients can't send (TSMON_UPDATES_TOKEN)")
	}
	return nil
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// checkRecords refuses a mistyped URL, which would be taken for a path and shown in
// errors with its password.
func checkRecords(records string) error {
	scheme, _, isURL := strings.Cut(records, "://")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return nil
	case isURL, strings.Contains(records, "postgres:"), strings.Contains(records, "postgresql:"), strings.Contains(records, "password="):
		return errors.New("server.records is neither the path of a file nor like postgres://USER:PASSWORD@HOST/DATABASE")
	}
	return nil
}
