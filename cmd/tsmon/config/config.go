// Package config reads tsmon.yaml and the environment, and holds the defaults. No
// other package does.
//
// The file is the one named by --config or TSMON_CONFIG, or else ./tsmon.yaml if it
// exists. The environment overrides the file, and flags override both. An unknown key
// is an error with its line. Relative paths in the file are relative to its folder.
// Load returns all mistakes as one error; Inspect returns them together with the
// settings in force and their sources.
//
//	project: com.example.app                       # gives the project its own data folder
//	storage: s3://releases/desktop?endpoint=https://minio.example.com
//	public_url: https://releases.example.com/desktop
//	trusted_keys:
//	  - {key: RWS…, until: 1.6.0}                  # built into versions below 1.6.0
//	  - {key: RWT…, from: 1.6.0}                   # built into 1.6.0 and later; or only RWT…
//	operators:                                     # the OpenSSH keys that sign moves
//	  ann: ssh-ed25519 AAAA…
//	  ci: ssh-ed25519 AAAA…
//	  guard: {key: ssh-ed25519 AAAA…, only: pause}
//	bundle_types: [nsis, appimage, deb]            # leaves out msi and rpm
//	windows_installer: msi                         # for clients that don't name their type
//	channels:
//	  stable: {targets: [windows-x86_64, darwin-x86_64, darwin-aarch64, linux-x86_64], allow_unbound: true, approvals: 2}
//	  lab:    {allow_downgrades: true, rings: true}
//	  beta:   {follows: stable, prerelease: true, guard: {failures: 5%, networks: 1}}
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
//	  console: {images: [https://cdn.example.com], token: …}
package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// Defaults, which help texts and documents repeat.
const (
	DefaultListen  = "127.0.0.1:8080"
	DefaultRefresh = 5 * time.Second
	DefaultDrain   = 5 * time.Second
	// DefaultDownloads is a little more than the deadline of a request.
	DefaultDownloads = 25 * time.Second
	DefaultMaxUpload = 20 << 20
	DefaultClients   = 100_000
	DefaultAuditDays = 730
	// DefaultFailures, in percent, and DefaultNetworks are those of Guard.
	DefaultFailures  = 2
	DefaultNetworks  = 3
	DefaultLogLevel  = "info"
	DefaultLogFormat = LogJSON
	// DefaultBroker is the address of the embedded broker, which picks a free port if it is taken.
	DefaultBroker = "127.0.0.1:1883"
)

// Config is everything that can be configured.
type Config struct {
	// Project names the application and so gives it a data folder of its own, unless
	// TSMON_DATA is set. Without either all projects of a user share one folder.
	Project string `yaml:"project"`
	// Storage is s3://BUCKET/PREFIX?endpoint=URL or a directory.
	Storage string `yaml:"storage" env:"TSMON_STORAGE"`
	// PublicURL is the address where clients find the root of the storage.
	PublicURL string `yaml:"public_url" env:"TSMON_PUBLIC_URL"`
	// TrustedKeys are public keys, or files that contain one, each with the versions of
	// the application that it is built into.
	TrustedKeys TrustedKeys `yaml:"trusted_keys" env:"TSMON_TRUSTED_KEYS"`
	// Operators are the people and jobs that sign the moves of channels, by name.
	Operators map[string]Operator `yaml:"operators"`
	// BundleTypes lists the bundle types to publish. Systems with no type in the list
	// keep all of theirs.
	BundleTypes []string `yaml:"bundle_types"`
	// WindowsInstaller is the type for Windows clients that don't name theirs: nsis, the
	// default, or msi.
	WindowsInstaller string             `yaml:"windows_installer"`
	Channels         map[string]Channel `yaml:"channels"`
	Server           Server             `yaml:"server"`
	// Data is the folder for everything that has no other location; empty if there is no
	// home folder to put the default in.
	Data string `yaml:"-" env:"TSMON_DATA"`
	// Shared is true if Data is the default folder, which all projects without a name share.
	Shared  bool    `yaml:"-"`
	Signing Signing `yaml:"-"`
}

// Channel is the policy of one channel.
type Channel struct {
	Targets    []string `yaml:"targets,omitempty"`    // platform keys that every manifest must have
	Follows    string   `yaml:"follows,omitempty"`    // channel whose moves this one repeats
	Prerelease bool     `yaml:"prerelease,omitempty"` // accepts pre-releases
	// AllowUnbound accepts signatures that are not bound to a version.
	AllowUnbound bool `yaml:"allow_unbound,omitempty"`
	// AllowDowngrades says that applications with allowDowngrades read the channel.
	AllowDowngrades bool `yaml:"allow_downgrades,omitempty"`
	// ReadsManifest says that installed versions read latest.json, even if the project
	// now asks the server.
	ReadsManifest bool `yaml:"reads_latest_json,omitempty"`
	// Rings keeps a manifest for each hundredth of the clients, for staged rollouts
	// without a server.
	Rings bool  `yaml:"rings,omitempty"`
	Guard Guard `yaml:"guard,omitempty"`
	// Operators are the names of the operators who may sign moves of the channel; all of
	// them if it is not set.
	Operators []string `yaml:"operators,omitempty"`
	// Approvals is how many operators must sign a move, 1 if it is not set.
	Approvals *int `yaml:"approvals,omitempty"`
	// RollbackApprovals is how many must sign a rollback to a lower version that was never
	// rolled back itself; Approvals if it is not set.
	RollbackApprovals *int `yaml:"rollback_approvals,omitempty"`
	// ApprovalsWithin is how long a plan may wait for approvals; a week if it is not set.
	ApprovalsWithin time.Duration `yaml:"approvals_within,omitempty"`
}

// Guard says when the server halts a rollout of the channel. nil means the default.
type Guard struct {
	Failures *Percent `yaml:"failures,omitempty"` // percentage of clients that a release may fail for; 100 turns the guard off
	Networks *int     `yaml:"networks,omitempty"` // number of networks that a release must fail in; 1 for a fleet behind one address
}

// Percent is a percentage, written with or without a percent sign.
type Percent float64

// UnmarshalYAML reads a number such as 2, 0.5 or 2%.
func (p *Percent) UnmarshalYAML(node *yaml.Node) error {
	bare := *node
	if number := strings.TrimSpace(strings.TrimSuffix(node.Value, "%")); number != "" {
		bare.Value, bare.Tag, bare.Style = number, "", 0
	}
	return bare.Decode((*float64)(p))
}

// Server configures `tsmon serve` and the data of the monitoring side.
type Server struct {
	// Listen is the address of the server.
	Listen string `yaml:"listen" env:"TSMON_LISTEN"`
	// Records is postgres://… or the path of an SQLite file. The URL may contain a
	// password.
	Records Secret `yaml:"records" env:"TSMON_RECORDS"`
	Series  Series `yaml:"series"`
	MQTT    MQTT   `yaml:"mqtt"`
	// CORSOrigins are the origins of web pages that may send credentials.
	CORSOrigins []string `yaml:"cors_origins" env:"TSMON_CORS_ORIGINS" envSeparator:","`
	Upload      Upload   `yaml:"upload"`
	// AuditDays is how long audit rows are kept; 0 for ever.
	AuditDays int `yaml:"audit_days" env:"TSMON_AUDIT_DAYS"`
	TLS       TLS `yaml:"tls"`
	// BehindProxy says that a proxy in front of the server terminates TLS and sets
	// X-Forwarded-For.
	BehindProxy bool `yaml:"behind_proxy" env:"TSMON_BEHIND_PROXY"`
	// Secrets encrypt the keys of access tokens and the credentials for uploads and
	// writing, so that servers can share them in Records. The first one encrypts, all of
	// them decrypt. Without any, keys and credentials are in files of the data folder.
	Secrets []Secret `yaml:"secrets" env:"TSMON_SECRET" envSeparator:","`
	// SecretFile is a file with Secrets, one per line.
	SecretFile string `yaml:"secret_file" env:"TSMON_SECRET_FILE"`
	// TokenKeys is the file with the keys that sign access tokens; empty if Secrets are
	// set, because the keys are in Records then.
	TokenKeys string `yaml:"token_keys" env:"TSMON_TOKEN_KEYS"`
	// MetricsKey is the bearer token for /metrics at Listen; if it is empty, /metrics is refused there.
	MetricsKey Secret `yaml:"metrics_key" env:"TSMON_METRICS_KEY"`
	// MetricsListen is an address that serves only /metrics, to anybody who can reach it;
	// empty for none.
	MetricsListen string `yaml:"metrics_listen" env:"TSMON_METRICS_LISTEN"`
	// Refresh is the longest time for which a served channel may be out of date.
	Refresh time.Duration `yaml:"refresh" env:"TSMON_REFRESH"`
	// Drain is how long a server still accepts requests after SIGTERM, while /readyz
	// fails.
	Drain time.Duration `yaml:"drain" env:"TSMON_DRAIN"`
	// DrainDownloads is how long running requests may take after Drain.
	DrainDownloads time.Duration `yaml:"drain_downloads" env:"TSMON_DRAIN_DOWNLOADS"`
	Updates        Updates       `yaml:"updates"`
	// OperatorsRoot are OpenSSH keys, each of which may put other operators into force.
	OperatorsRoot []string `yaml:"operators_root"`
	// Webhook is the address that gets a message about every move of a channel and about
	// alarms.
	Webhook Secret `yaml:"webhook" env:"TSMON_WEBHOOK"`
	// WebhookSecret signs the messages to Webhook: whsec_ and base64, or any text.
	WebhookSecret Secret  `yaml:"webhook_secret" env:"TSMON_WEBHOOK_SECRET"`
	Log           Log     `yaml:"log"`
	Console       Console `yaml:"console"`
}

// Console configures the pages under /console/.
type Console struct {
	// Images are the origins that pictures of diagrams may come from, in addition to the
	// server itself.
	Images []string `yaml:"images" env:"TSMON_CONSOLE_IMAGES" envSeparator:","`
	// Token is the bearer token for the release pages. Without one they can be used only
	// on the server's own machine.
	Token Secret `yaml:"token" env:"TSMON_CONSOLE_TOKEN"`
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
	// Token is the bearer token that clients must send; empty for none.
	Token Secret `yaml:"token" env:"TSMON_UPDATES_TOKEN"`
	// Clients is how many clients are recorded at most, per channel and per release that
	// they were offered. Of larger fleets a sample is recorded.
	Clients int `yaml:"clients" env:"TSMON_UPDATES_CLIENTS"`
	// ReportSecrets are the secrets with which applications sign reports; several, if
	// builds with different secrets are installed. If any are set, unsigned reports count
	// neither for nor against a release.
	ReportSecrets []Secret `yaml:"report_secrets" env:"TSMON_UPDATES_REPORT_SECRETS" envSeparator:","`
}

// Values of Updates.Redirect.
const (
	RedirectPublic    = "public"    // to public_url
	RedirectPresigned = "presigned" // to an address in the bucket that is valid for a while
)

// MQTT is the broker that messages are published to: the embedded one if no URL is
// set.
type MQTT struct {
	URL Secret `yaml:"url" env:"TSMON_MQTT_URL"` // may contain user and password
	// Listen is the address of the embedded broker; empty for DefaultBroker or, if that is
	// taken, a free port that the log names.
	Listen string `yaml:"listen" env:"TSMON_MQTT_LISTEN"`
}

// Upload is the key pair that uploads must send; the server generates one if none is
// set.
type Upload struct {
	AccessKey Secret `yaml:"access_key" env:"TSMON_UPLOAD_ACCESS_KEY"` // the header accesskey
	SecretKey Secret `yaml:"secret_key" env:"TSMON_UPLOAD_SECRET_KEY"` // the header secretkey
	MaxBytes  int64  `yaml:"max_bytes" env:"TSMON_UPLOAD_MAX_BYTES"`   // largest upload
	// Days is how long uploads are kept; 0 for ever.
	Days int `yaml:"days" env:"TSMON_UPLOAD_DAYS"`
}

// TLS names the files of the server's certificate.
type TLS struct {
	Cert string `yaml:"cert" env:"TSMON_TLS_CERT"` // file of the certificate with its chain
	Key  string `yaml:"key" env:"TSMON_TLS_KEY"`   // file of its private key
}

// Series is the store of time series: an InfluxDB or openGemini, or an SQLite file if no
// URL is set.
type Series struct {
	URL   Secret `yaml:"url" env:"TSMON_SERIES_URL"`     // may contain a password
	Org   string `yaml:"org" env:"TSMON_SERIES_ORG"`     // organisation in an InfluxDB 2
	Token Secret `yaml:"token" env:"TSMON_SERIES_TOKEN"` // must be allowed to read, write and create databases
	File  string `yaml:"-"`                              // in the data folder
}

// Signing holds the variables for private keys, which can't be set in the file. The Tauri
// CLI reads those for its key too.
type Signing struct {
	Key     Secret `env:"TAURI_SIGNING_PRIVATE_KEY"`      // the key itself or a path
	KeyPath string `env:"TAURI_SIGNING_PRIVATE_KEY_PATH"` // a path
	// KeyPassword is TAURI_SIGNING_PRIVATE_KEY_PASSWORD, nil if it is not set. An
	// empty one is a password.
	KeyPassword *Secret
	// OperatorKey is the OpenSSH private key that signs moves, or its path.
	OperatorKey Secret `env:"TSMON_OPERATOR_KEY"`
}

// Secret is a text that prints as three asterisks.
type Secret string

// String hides the text.
func (Secret) String() string { return "***" }

// Format hides the text with every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// Load reads the file, if there is one, and the environment, given as NAME=value,
// and sets defaults. path may be empty. The error is of type Mistakes.
func Load(path string, environ []string) (*Config, error) {
	i := Inspect(path, environ)
	if len(i.Mistakes) > 0 {
		return nil, i.Mistakes
	}
	return i.Config, nil
}

// Inspect is like Load, and also returns the sources of settings. It reads as much as it can.
func Inspect(path string, environ []string) *Inspection {
	i := &Inspection{Config: &Config{}, vars: env.ToMap(environ)}
	c := i.Config
	c.Server.Drain, c.Server.DrainDownloads, c.Server.AuditDays = DefaultDrain, DefaultDownloads, DefaultAuditDays // 0 is a valid value for these
	data, err := i.open(cmp.Or(path, i.vars["TSMON_CONFIG"]))
	if err != nil {
		i.Mistakes = Mistakes{{File: i.File, Text: err.Error(), Mend: "check the path that --config or TSMON_CONFIG names"}}
	} else {
		i.Mistakes = i.decode(data)
	}
	if err := env.ParseWithOptions(c, env.Options{Environment: i.vars}); err != nil {
		i.Mistakes = append(i.Mistakes, explainEnvironment(err)...)
	}
	if password, set := i.vars["TAURI_SIGNING_PRIVATE_KEY_PASSWORD"]; set {
		c.Signing.KeyPassword = (*Secret)(&password)
	}
	if err := c.fill(i.vars); err != nil {
		i.Mistakes = append(i.Mistakes, Mistake{Setting: "TSMON_DATA", Text: err.Error()})
		return i
	}
	i.Add(c.check())
	return i
}

// resolve resolves relative paths of the file against its folder.
func (c *Config) resolve(folder string) {
	within := func(path string) string {
		if path == "" || strings.Contains(path, "://") || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(folder, path)
	}
	c.Storage, c.Server.Records = within(c.Storage), Secret(within(string(c.Server.Records)))
	for _, path := range []*string{&c.Server.TLS.Cert, &c.Server.TLS.Key, &c.Server.TokenKeys, &c.Server.SecretFile} {
		*path = within(*path)
	}
	for i, key := range c.TrustedKeys {
		if at := within(key.Key); isFile(at) {
			c.TrustedKeys[i].Key = at
		}
	}
}

// StoreName is the name of the storage in the records: the bucket and prefix, without the way
// to reach them, or the directory.
func (c *Config) StoreName() string {
	if name, _, remote := strings.Cut(c.Storage, "?"); remote || strings.Contains(name, "://") {
		return strings.TrimRight(name, "/")
	}
	if path, err := filepath.Abs(c.Storage); err == nil {
		return path
	}
	return c.Storage
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// fill sets defaults and normalises values.
func (c *Config) fill(vars map[string]string) error {
	data, err := dataFolder(vars)
	if err == nil {
		if c.Shared = vars["TSMON_DATA"] == "" && c.Project == ""; vars["TSMON_DATA"] == "" && CheckProject(c.Project) == nil {
			data = filepath.Join(data, "projects", c.Project)
		}
		c.Data = data
		c.Server.Series.File = filepath.Join(data, "series.db")
		c.Server.Records = cmp.Or(c.Server.Records, Secret(filepath.Join(data, "records.db")))
		if !c.Server.HasSecret() {
			c.Server.TokenKeys = cmp.Or(c.Server.TokenKeys, filepath.Join(data, "token-keys.json"))
		}
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
	c.Server.Updates.Clients = cmp.Or(c.Server.Updates.Clients, DefaultClients)
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
	c.TrustedKeys = c.TrustedKeys.trimmed()
	c.Server.CORSOrigins = trimmed(c.Server.CORSOrigins)
	c.Server.Console.Images = trimmed(c.Server.Console.Images)
	return nil
}

// dataFolder returns TSMON_DATA or the folder of projects without a name.
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
