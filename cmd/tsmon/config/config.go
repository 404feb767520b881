// Package config is the one reader of tsmon.yaml, of the environment and of the
// defaults.
//
// The file is the one that is named, else TSMON_CONFIG, else ./tsmon.yaml if it
// exists. The environment overrides it, and flags override both. Unknown keys
// are errors that name the line. Relative paths in the file are relative to it.
//
//	storage: s3://releases/desktop?endpoint=https://minio.example.com
//	public_url: https://releases.example.com/desktop
//	trusted_keys: [RWS…]
//	bundle_types: [nsis, deb]
//	channels:
//	  stable: {targets: [windows-x86_64, darwin-x86_64, darwin-aarch64, linux-x86_64]}
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
//	  console: {images: [https://cdn.example.com]}
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
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Config is everything that can be configured.
type Config struct {
	// Storage is s3://BUCKET/PREFIX?endpoint=URL or a directory.
	Storage string `yaml:"storage" env:"TSMON_STORAGE"`
	// PublicURL is where clients find the root of the storage.
	PublicURL string `yaml:"public_url" env:"TSMON_PUBLIC_URL"`
	// TrustedKeys are public keys, or files that hold one.
	TrustedKeys []string `yaml:"trusted_keys" env:"TSMON_TRUSTED_KEYS" envSeparator:","`
	// BundleTypes are published beside the update archives; order is preference.
	BundleTypes []string           `yaml:"bundle_types"`
	Channels    map[string]Channel `yaml:"channels"`
	Server      Server             `yaml:"server"`
	// Data is the folder of everything that is not configured to lie elsewhere;
	// empty if there is no home folder to find it in.
	Data    string  `yaml:"-"`
	Signing Signing `yaml:"-"`

	source string // what to name where a value is wrong
}

// Channel is the policy of one channel.
type Channel struct {
	Targets    []string `yaml:"targets"`    // platform keys that every manifest must have
	Prerelease bool     `yaml:"prerelease"` // takes pre-releases
	Follows    string   `yaml:"follows"`    // channel that moves this one along
	Guard      Guard    `yaml:"guard"`
}

// Guard says when the server halts a rollout of the channel. What is not set is
// the server's own default.
type Guard struct {
	Failures *float64       `yaml:"failures"` // percent of the clients that tried, above which; 100 for never
	Clients  *int           `yaml:"clients"`  // that must have tried
	Within   *time.Duration `yaml:"within"`
}

// Server is what `tsmon serve` listens on, and where the monitoring side keeps
// its data.
type Server struct {
	Listen string `yaml:"listen" env:"TSMON_LISTEN"`
	// Records is postgres://… or the path of an SQLite file. The URL may hold a
	// password.
	Records Secret `yaml:"records" env:"TSMON_RECORDS"`
	Series  Series `yaml:"series"`
	MQTT    MQTT   `yaml:"mqtt"`
	// CORSOrigins are those of web pages that may ask with credentials.
	CORSOrigins []string `yaml:"cors_origins" env:"TSMON_CORS_ORIGINS" envSeparator:","`
	Upload      Upload   `yaml:"upload"`
	TLS         TLS      `yaml:"tls"`
	// BehindProxy says that a proxy in front speaks TLS and sets X-Forwarded-For.
	BehindProxy bool `yaml:"behind_proxy" env:"TSMON_BEHIND_PROXY"`
	// TokenKeys is the file of the keys that access tokens are signed with.
	TokenKeys string `yaml:"token_keys" env:"TSMON_TOKEN_KEYS"`
	// MetricsKey opens /metrics to other machines.
	MetricsKey Secret `yaml:"metrics_key" env:"TSMON_METRICS_KEY"`
	// Refresh is how old a channel may be that is served, 5 s by default.
	Refresh time.Duration `yaml:"refresh" env:"TSMON_REFRESH"`
	Updates Updates       `yaml:"updates"`
	// Webhook is told of rollouts that the server halted. The address is a secret.
	Webhook Secret  `yaml:"webhook" env:"TSMON_WEBHOOK"`
	Console Console `yaml:"console"`
}

// Console configures the pages under /console/.
type Console struct {
	// Images are the origins that pictures of diagrams may come from, besides the
	// server itself.
	Images []string `yaml:"images" env:"TSMON_CONSOLE_IMAGES" envSeparator:","`
}

// Updates says how the storage is served under /updates/.
type Updates struct {
	// Redirect is where clients are sent for bundles: RedirectPublic, for which
	// the file may also say true, RedirectPresigned, or empty for nowhere.
	Redirect string `yaml:"redirect" env:"TSMON_UPDATES_REDIRECT"`
	// PresignEndpoint is where clients reach the S3 server, if that is not where
	// this one does.
	PresignEndpoint string `yaml:"presign_endpoint" env:"TSMON_UPDATES_PRESIGN_ENDPOINT"`
	// Token is the bearer token that clients have to show; empty: none.
	Token Secret `yaml:"token" env:"TSMON_UPDATES_TOKEN"`
}

// What Updates.Redirect may be.
const (
	RedirectPublic    = "public"    // to public_url
	RedirectPresigned = "presigned" // to an address in the bucket that is good for a while
)

// MQTT is the broker that messages are published to: one elsewhere, or one in
// the process where no URL is set.
type MQTT struct {
	URL Secret `yaml:"url" env:"TSMON_MQTT_URL"` // may hold user and password
	// Listen is the address of the broker in the process; empty for port 1883 of
	// this machine, or any free one if that is taken.
	Listen string `yaml:"listen" env:"TSMON_MQTT_LISTEN"`
}

// Upload is the key pair that uploads have to show; the server makes one up
// where none is set.
type Upload struct {
	AccessKey Secret `yaml:"access_key" env:"TSMON_UPLOAD_ACCESS_KEY"`
	SecretKey Secret `yaml:"secret_key" env:"TSMON_UPLOAD_SECRET_KEY"`
	MaxBytes  int64  `yaml:"max_bytes" env:"TSMON_UPLOAD_MAX_BYTES"` // 0 for 20 MiB
}

// TLS names the files of the server's certificate, with its chain, and its key.
type TLS struct {
	Cert string `yaml:"cert" env:"TSMON_TLS_CERT"`
	Key  string `yaml:"key" env:"TSMON_TLS_KEY"`
}

// Series is where time series are kept: an InfluxDB, or an SQLite file where no
// URL is set.
type Series struct {
	URL   Secret `yaml:"url" env:"TSMON_SERIES_URL"` // which should hold no password, but may
	Org   string `yaml:"org" env:"TSMON_SERIES_ORG"`
	Token Secret `yaml:"token" env:"TSMON_SERIES_TOKEN"`
	File  string `yaml:"-"` // in the data folder
}

// Signing holds the private key's variables, which the Tauri CLI reads too.
// They come from the environment alone.
type Signing struct {
	Key     Secret `env:"TAURI_SIGNING_PRIVATE_KEY"`      // the key itself or a path
	KeyPath string `env:"TAURI_SIGNING_PRIVATE_KEY_PATH"` // a path
	// KeyPassword is TAURI_SIGNING_PRIVATE_KEY_PASSWORD: nil if it is not set,
	// which is not the same as empty.
	KeyPassword *Secret
}

// Secret is a text that prints as three asterisks.
type Secret string

// String hides the text.
func (Secret) String() string { return "***" }

// Format hides the text whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "***") }

// Load reads the file, if there is one, and the environment, given as
// NAME=value, and fills in defaults. path may be empty.
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
		return nil, fmt.Errorf("environment: %w", err)
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
	file, err := os.Open(path)
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
	if errors.Is(err, io.EOF) {
		return nil // an empty file
	}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		return errors.New(strings.ReplaceAll(strings.Join(typed.Errors, "; "), " in type config.", " in "))
	}
	return err
}

// resolve makes the file's relative paths relative to its folder.
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
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// fill sets what was left open.
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
	c.Server.Listen = cmp.Or(c.Server.Listen, "127.0.0.1:8080")
	c.Server.Refresh = cmp.Or(c.Server.Refresh, 5*time.Second)
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
	c.Server.Console.Images = trimmed(c.Server.Console.Images)
	return nil
}

// dataFolder is where everything lies that is not configured to lie elsewhere.
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
			return fmt.Errorf("channels.%s follows %s, which follows another itself", name, channel.Follows)
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
		return errors.New("server.updates.redirect: presigned needs a storage like s3://BUCKET/PREFIX, for nothing else has presigned addresses (TSMON_UPDATES_REDIRECT and TSMON_STORAGE)")
	case u.Redirect != RedirectPresigned && u.PresignEndpoint != "":
		return errors.New("server.updates.presign_endpoint goes with redirect: presigned alone (TSMON_UPDATES_PRESIGN_ENDPOINT and TSMON_UPDATES_REDIRECT)")
	}
	return nil
}

// Between these a channel may be old: what asks the store more often gains
// nothing, and a publisher waits 15 s to see what it published.
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
		return fmt.Errorf("server.refresh is not between %s and %s; write it like 5s (TSMON_REFRESH)", minRefresh, maxRefresh)
	case s.Webhook != "" && !isAddress(string(s.Webhook)):
		return errors.New("server.webhook is not an absolute http(s) address (TSMON_WEBHOOK)")
	case strings.ContainsFunc(string(s.Updates.Token), func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("server.updates.token holds a character that clients can't send (TSMON_UPDATES_TOKEN)")
	}
	return nil
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// checkRecords refuses what is meant to be a URL and is none before it is taken
// for a path, which errors show.
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
