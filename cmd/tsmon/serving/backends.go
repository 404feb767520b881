package serving

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"syscall"
	"time"

	"tsmon/api"
	"tsmon/api/fleet"
	"tsmon/api/monitor"
	"tsmon/api/monitor/mqtt"
	"tsmon/api/monitor/token"
	"tsmon/api/updates"
	"tsmon/api/web"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/record"
)

type messages interface {
	monitor.Publisher
	io.Closer
}

type backends struct {
	log     *slog.Logger
	objects object.Store
	presign object.Presigner // nil unless clients are redirected to the bucket
	records record.Store
	series  cli.SeriesStore
	mqtt    messages
	mqttURL string // of the broker in the process, if there is one
	tokens  *token.Keys
	digest  [sha256.Size]byte // of tokens when they were opened
	trusted signing.Keyring
	trust   map[string]updates.Trust
	secrets Secrets
	build   web.Build
	memory  *api.Memory // kept across reloads
	only    string      // the side that is served, empty for both
}

// openBackends opens the stores and the broker. A remote one that is down is no error, because
// requests connect to it.
func openBackends(ctx context.Context, app *cli.App, c *config.Config, only string, log *slog.Logger) (b *backends, err error) {
	b = &backends{log: log, only: only, memory: api.NewMemory(time.Now), build: web.Build{Version: app.Version, Commit: app.Commit}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if c.Data != "" {
		if err = os.MkdirAll(c.Data, 0o700); err != nil {
			return b, err
		}
	}
	if err = errors.Join(cli.MakeFile(cli.RecordsFile(c)), cli.MakeFile(cli.SeriesFile(c))); err != nil {
		return b, err
	}
	if b.objects, err = app.OpenStore(ctx, c.Storage); err != nil {
		return b, err
	}
	if b.records, err = cli.OpenRecords(ctx, c); err != nil {
		return b, err
	}
	if b.series, err = cli.OpenSeries(ctx, c); err != nil {
		return b, err
	}
	if err = b.configure(ctx, c); err != nil {
		return b, err
	}
	if b.only != api.Updates {
		b.mqtt, b.mqttURL, err = openMessages(ctx, c.Server.MQTT, log)
	}
	return b, err
}

// configure reads the settings that a reload reads again.
func (b *backends) configure(ctx context.Context, c *config.Config) (err error) {
	if b.trusted, err = cli.Keyring(c.TrustedKeys); err != nil {
		return err
	}
	if b.trust, err = cli.Trust(c); err != nil {
		return err
	}
	if b.presign, err = cli.OpenPresigner(c); err != nil {
		return err
	}
	if b.only != api.Updates {
		if b.tokens, b.secrets, err = openSecrets(ctx, c, b.records, b.log); err == nil {
			b.digest = b.tokens.Digest()
		}
	}
	return err
}

// secretsChanged reports whether the secrets of clients differ from those in force. It is false
// if they can't be read.
func (b *backends) secretsChanged(ctx context.Context, c *config.Config) bool {
	if b.only == api.Updates {
		return false
	}
	shared, err := openVault(c, b.records)
	if err != nil {
		return false
	}
	now, err := clientSecrets(ctx, c, shared)
	return err == nil && now != b.secrets
}

func (b *backends) Close() error {
	var errs []error
	for _, c := range []io.Closer{b.mqtt, b.series, b.records} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

func (b *backends) options(c *config.Config) api.Options {
	o := api.Options{
		Options: monitor.Options{
			Objects: b.objects, Records: b.records, Series: b.series, Messages: b.mqtt, Tokens: b.tokens, Log: b.log,
			Uploads: monitor.KeyPair{Access: b.secrets.AccessKey, Secret: b.secrets.SecretKey}, WriteToken: b.secrets.WriteToken,
			MaxUpload: c.Server.Upload.MaxBytes, BehindProxy: c.Server.BehindProxy,
			KeepAudits: days(c.Server.AuditDays), KeepUploads: days(c.Server.Upload.Days),
		},
		Only: b.only, Build: b.build, Memory: b.memory, Store: c.StoreName(), Presigner: b.presign, Origins: c.Server.CORSOrigins,
		Keys: b.trusted, Trust: b.trust, Refresh: c.Server.Refresh, PublicURL: c.PublicURL, Unbound: map[string]bool{}, Downgrades: map[string]bool{}, Rings: map[string]bool{}, UpdatesToken: string(c.Server.Updates.Token),
		Webhook: fleet.Webhook{Address: string(c.Server.Webhook), Secret: string(c.Server.WebhookSecret)},
		Clients: c.Server.Updates.Clients, ReportSecrets: texts(c.Server.Updates.ReportSecrets),
		MetricsKey: string(c.Server.MetricsKey),
	}
	for name, channel := range c.Channels {
		o.Downgrades[name], o.Rings[name] = channel.AllowDowngrades, channel.Rings
		o.Unbound[name] = channel.AllowUnbound || c.Channels[channel.Follows].AllowUnbound
	}
	if c.Server.Updates.Redirect == config.RedirectPublic {
		o.Elsewhere, _ = url.Parse(c.PublicURL) // config checked it
	}
	return o
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func texts(secrets []config.Secret) []string {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		all[i] = string(s)
	}
	return all
}

// openMessages connects to the broker, or starts one.
func openMessages(ctx context.Context, c config.MQTT, log *slog.Logger) (messages, string, error) { //nolint:ireturn // of two adapters
	if c.URL != "" {
		client, err := mqtt.Dial(ctx, mqtt.Options{URL: string(c.URL), Log: log})
		if err != nil {
			return nil, "", cli.BadBroker(err)
		}
		return client, "", nil
	}
	broker, err := startBroker(ctx, c.Listen, log)
	if err != nil {
		return nil, "", cli.WithHint(err, "choose another address with TSMON_MQTT_LISTEN")
	}
	return broker, "mqtt://" + broker.Addr(), nil
}

// startBroker starts a broker. If no address is configured and the default one is taken, it picks
// a free port and logs that.
func startBroker(ctx context.Context, listen string, log *slog.Logger) (*mqtt.Broker, error) {
	broker, err := mqtt.Listen(ctx, mqtt.BrokerOptions{Address: cmp.Or(listen, config.DefaultBroker), Log: log})
	if listen != "" || !errors.Is(err, syscall.EADDRINUSE) {
		return broker, err
	}
	broker, err = mqtt.Listen(ctx, mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: log})
	if err == nil {
		log.Warn("the default address of the MQTT broker is taken: devices must connect to another one, which changes with each restart",
			"taken", config.DefaultBroker, "address", broker.Addr(), "mend", "set TSMON_MQTT_LISTEN to a free address")
	}
	return broker, err
}
