// Package serving holds `tsmon serve`: it opens the configured back ends, connects them to the
// HTTP interface, and adds the demo.
package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"tsmon/api"
	"tsmon/api/console"
	"tsmon/api/fleet"
	"tsmon/api/monitor/token"
	"tsmon/api/web"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
)

// Help is the text of `tsmon serve --help`.
var Help = fmt.Sprintf(`Serve the monitoring interface at / and at /api, and the updates in the storage under
/updates/. The address is written to stderr once the server is ready; port 0 picks a
free port.

SIGINT stops the server after the running requests. After SIGTERM /readyz fails, but the
server accepts requests for another TSMON_DRAIN. A second signal stops it at once. SIGHUP
reads tsmon.yaml and the files that it names again: the certificate, keys, tokens, the
channels' settings and most others. The log says what changed, and what needs a restart.

Without configuration everything is kept in the data folder: records and time series in
SQLite, files in a folder, the keys of access tokens, and secrets, which are generated at
the first start. Messages go to an MQTT broker inside the process. To be reachable from
other machines the server needs TLS or a proxy in front of it.

Environment, in addition to what %[1]s lists:
  TSMON_MQTT_URL           mqtt[s]://USER:PASSWORD@HOST:PORT of an MQTT 5 broker
  TSMON_MQTT_LISTEN        address of the embedded broker (default
                           `+config.DefaultBroker+`, or a free port if that is taken)
  TSMON_UPLOAD_ACCESS_KEY, TSMON_UPLOAD_SECRET_KEY
                           key pair for uploads (default: generated, in
                           secrets.json in the data folder)
  TSMON_UPLOAD_MAX_BYTES   largest upload (default %[2]d)
  TSMON_UPLOAD_DAYS        days after which uploads are deleted (default 0: never)
  TSMON_AUDIT_DAYS         days after which audit rows are deleted; 0 for never
                           (default %[9]d)
  TSMON_CORS_ORIGINS       origins of web pages that may send requests,
                           comma-separated, in addition to the desktop application's
  TSMON_CONSOLE_IMAGES     origins, comma-separated, that the console may load
                           pictures of diagrams from, in addition to this server
  TSMON_CONSOLE_TOKEN      bearer token for the console's release pages (default:
                           only this machine can see them, not through a proxy)
  TSMON_TLS_CERT, TSMON_TLS_KEY   files of the certificate and its key; they are
                           read again when they change
  TSMON_BEHIND_PROXY       true: a proxy in front terminates TLS and sets
                           X-Forwarded-For, and sets X-Forwarded-Host or keeps Host
  TSMON_TOKEN_KEYS         file of the keys of access tokens (default
                           token-keys.json in the data folder)
  TSMON_SECRET             secret of 32 characters or more, such as openssl rand
                           -base64 32 prints. It encrypts the keys of access tokens
                           and the credentials for uploads and /api/v2/write in the
                           records, so that all servers with these records share
                           them. To change it, put the new one first: NEW,OLD
  TSMON_SECRET_FILE        file with that secret, or with several, one per line
  TSMON_SERIES_TOKEN       without TSMON_SERIES_URL: the token for /api/v2/write
                           (default: in secrets.json)
  TSMON_METRICS_KEY        bearer token for /metrics and `+"`channel adoption --server`"+`
                           (default: both are refused)
  TSMON_METRICS_LISTEN     separate address that serves only /metrics, to anybody who
                           can reach it, without a key (default: none)
  TSMON_REFRESH            longest time for which a channel is served from memory
                           (default %[3]s)
  TSMON_DRAIN              how long requests are accepted after SIGTERM, so that load
                           balancers notice (default %[7]s)
  TSMON_DRAIN_DOWNLOADS    how long running requests may then take (default %[8]s)
  TSMON_UPDATES_REDIRECT   where requests for bundles are redirected: public, to
                           TSMON_PUBLIC_URL; presigned, to the S3 storage, with an
                           address that is valid for 15 minutes (default: nowhere,
                           clients download from this server)
  TSMON_UPDATES_PRESIGN_ENDPOINT
                           https://HOST at which clients reach the S3 server, if
                           that is not the endpoint in TSMON_STORAGE
  TSMON_UPDATES_TOKEN      bearer token that clients must send under /updates/
                           (default: none, updates are public)
  TSMON_UPDATES_CLIENTS    how many clients are recorded per channel and per release;
                           of larger fleets a sample is recorded, and figures are
                           estimates (default %[6]d)
  TSMON_UPDATES_REPORT_SECRETS
                           secrets, comma-separated, with which applications sign
                           reports; unsigned reports then count neither for nor
                           against a release (default: all reports count)
  TSMON_WEBHOOK            address that gets a JSON POST about every move of a
                           channel, and when an object in the store does not verify
  TSMON_WEBHOOK_SECRET     secret that signs these messages: any text, or whsec_ and
                           base64 (default: they are not signed)
  TSMON_LOG_LEVEL          debug, info, warn or error (default %[4]s)
  TSMON_LOG_FORMAT         json or text (default %[5]s)

--only updates serves only updates, and needs no broker, keys or secrets. --only
monitoring serves no updates and moves no channels.

--demo adds a small simulated water network: a tenant with variables, diagrams,
charts and menus, ten days of history, and new values every few seconds. Once it is
ready, demo.json in the data folder (mode 0600) holds base_url, email, tokenApp,
schemaName, ts_name, accesskey and secretkey. --demo is refused if the records contain
other tenants.`,
	"`tsmon help`", config.DefaultMaxUpload, config.DefaultRefresh, config.DefaultLogLevel, config.DefaultLogFormat, config.DefaultClients,
	config.DefaultDrain, config.DefaultDownloads, config.DefaultAuditDays)

type serveOptions struct {
	listen, data string
	demo         bool
	only         string // api.Updates or api.Monitoring, empty for both
}

// Command returns `tsmon serve`.
func Command(app *cli.App) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the monitoring interface and the updates",
		Long:  Help,
		Example: `  tsmon serve --demo
  tsmon serve --listen 127.0.0.1:8080 --data /var/lib/tsmon
  tsmon serve --only updates`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), app, o) },
	}
	cmd.Flags().StringVar(&o.listen, "listen", "", "`ADDRESS` to listen on (default server.listen, "+config.DefaultListen+")")
	dataFlag(cmd, &o.data)
	cmd.Flags().StringVar(&o.only, "only", "", "serve one `SIDE` alone: updates or monitoring (default both)")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(sides, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags
	cmd.Flags().BoolVar(&o.demo, "demo", false, "add a small simulated water network")
	cmd.AddCommand(rotateKeyCommand(app), secretsCommand(app))
	return cmd
}

var sides = []string{api.Updates, api.Monitoring}

// RotatedKey is what `tsmon serve rotate-key` prints.
type RotatedKey struct {
	File string `json:"file,omitempty"` // empty if the keys are in the records
	Kid  string `json:"kid"`            // name of the new key
}

func rotateKeyCommand(app *cli.App) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Sign access tokens with a new key",
		Long: `Sign access tokens with a new key. Running servers use it within a minute. Tokens
that the previous key signed stay valid until they expire or the key is rotated
again; those of older keys are no longer valid, so that rotating twice within
twelve hours logs everybody out. The algorithm stays the same.`,
		Example: "  tsmon serve rotate-key",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadWith(app, data)
			if err != nil {
				return err
			}
			kid, err := rotateKey(cmd.Context(), c)
			if err != nil {
				return err
			}
			return app.Print(RotatedKey{c.Server.TokenKeys, kid}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: new key %s\n", cmp.Or(c.Server.TokenKeys, "shared keys in the records"), kid)
			})
		},
	}
	dataFlag(cmd, &data)
	return cmd
}

func rotateKey(ctx context.Context, c *config.Config) (kid string, err error) {
	if !c.Server.HasSecret() {
		if err := checkOpenFile(ctx, c); err != nil {
			return "", err
		}
	}
	switch {
	case c.Server.TokenKeys != "":
		kid, err = token.Rotate(ctx, c.Server.TokenKeys)
		if errors.Is(err, fs.ErrNotExist) {
			err = cli.WithHint(fmt.Errorf("there are no keys of access tokens yet: %w", err), "start `tsmon serve` once, which creates them")
		}
		return kid, err
	case !c.Server.HasSecret():
		return "", cli.NoFolder(tokenKeysSetting)
	}
	err = cli.WithRecords(ctx, c, func(records record.Store) error {
		shared, err := openVault(c, records)
		if err == nil {
			kid, err = token.RotateShared(ctx, shared.Row(tokensRow))
		}
		return explainVault(err)
	})
	return kid, err
}

// dataFlag adds --data, for loadWith.
func dataFlag(cmd *cobra.Command, data *string) {
	cmd.Flags().StringVar(data, "data", "", "data `FOLDER`, for everything that has no other location (default TSMON_DATA)")
}

// loadWith reads the configuration with another data folder, if one is given.
func loadWith(app *cli.App, data string) (*config.Config, error) {
	if data != "" {
		app.Environ = append(app.Environ, "TSMON_DATA="+data)
	}
	return app.Load()
}

// gcPercent delays garbage collection. The live heap is a few megabytes, so this costs
// little memory and saves an eighth of the work of a small answer.
const gcPercent = 400

func runServe(ctx context.Context, app *cli.App, o serveOptions) error {
	switch {
	case o.only != "" && !slices.Contains(sides, o.only):
		return cli.Usagef("--only is updates or monitoring, not %.80q", o.only)
	case o.only == api.Updates && o.demo:
		return cli.Usagef("--demo and --only updates can't be combined: the demo is of the monitoring side")
	}
	if o.listen != "" { // for reloads, too
		app.Environ = append(app.Environ, "TSMON_LISTEN="+o.listen)
	}
	c, err := loadWith(app, o.data)
	if err != nil {
		return err
	}
	if err := CheckServer(c.Server); err != nil {
		return err
	}
	before, err := leftDemo(c, o.demo)
	if err != nil {
		return err
	}
	if app.Variable("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	lines := &batchWriter{to: app.Stderr}
	defer lines.Flush()
	level := new(slog.LevelVar)
	log := newLog(lines, c.Server.Log, level)
	b, err := openBackends(ctx, app, c, o.only, log)
	if err != nil {
		return err
	}
	if before != nil {
		if err := onlyDemo(ctx, b.records); err != nil && !errors.Is(err, record.ErrUnavailable) {
			return errors.Join(err, b.Close())
		}
	}
	l := &live{app: app, backends: b, demo: o.demo, level: level, log: log}
	return errors.Join(l.serve(ctx, c, before), b.Close())
}

// serve serves until the context ends, with the demo if before is not nil.
func (l *live) serve(ctx context.Context, c *config.Config, before *DemoFile) error {
	listener, err := listen(ctx, c.Server.Listen)
	if err != nil {
		return cli.WithHint(err, "choose another address with --listen")
	}
	tcp, scheme := listener, "http"
	if c.Server.TLS.Cert != "" {
		scheme = "https"
		if listener, l.certificate, err = listenTLS(listener, c.Server.TLS, l.log); err != nil {
			return err
		}
	}
	l.address = listener.Addr().String()
	base := scheme + "://" + reachable(l.address)
	server := &http.Server{
		Handler:           l,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(l.log.Handler(), slog.LevelWarn),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.start(ctx, c)
	defer l.close()
	var background errgroup.Group
	if address := c.Server.MetricsListen; address != "" {
		if err := serveMetrics(ctx, l.app, address, http.HandlerFunc(l.metrics), &background); err != nil {
			stop()
			return errors.Join(err, background.Wait())
		}
	}
	if before != nil {
		background.Go(func() error { return runDemo(ctx, l.app, c, l.backends, base, before) })
	} else if l.backends.only != api.Updates {
		background.Go(func() error { warnOfDemo(ctx, l.backends); return nil })
	}
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP) // before anybody is told that it serves: SIGHUP would end it
	defer signal.Stop(hangUps)
	background.Go(func() error { l.follow(ctx, hangUps); return nil })
	l.app.Say("serving %s/", base)
	if l.backends.mqttURL != "" {
		l.app.Say("messages for devices at %s", l.backends.mqttURL)
	}
	err = (&ending{server: server, tcp: tcp, begin: l.unready, drain: c.Server.Drain, downloads: c.Server.DrainDownloads, log: l.log}).serve(ctx, listener)
	stop()
	return errors.Join(err, background.Wait())
}

// serveMetrics serves the metrics at an address of their own until the context ends.
func serveMetrics(ctx context.Context, app *cli.App, address string, metrics http.Handler, background *errgroup.Group) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return cli.WithHint(fmt.Errorf("server.metrics_listen: %w", err), "choose another address with TSMON_METRICS_LISTEN")
	}
	server := &http.Server{Handler: metrics, ReadTimeout: metricsTime, WriteTimeout: metricsTime, MaxHeaderBytes: 8 << 10}
	app.Say("metrics at http://%s/metrics", reachable(listener.Addr().String()))
	background.Go(func() error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// metricsTime bounds a request for metrics.
const metricsTime = 30 * time.Second

// moveChannels finishes and halts rollouts until the context ends. The channels' log
// names the server by its address, so that two servers of the same user recognise
// their own entries.
func moveChannels(ctx context.Context, app *cli.App, c *config.Config, b *backends, handler *api.Server, address string) error {
	if b.only == api.Monitoring {
		return nil
	}
	if c.PublicURL == "" || len(b.trusted) == 0 {
		b.log.Info("this server neither guards nor ends rollouts: it has no public_url or no trusted_keys")
		return nil
	}
	p, err := app.Publisher(ctx, c, "")
	if err != nil {
		return err
	}
	p.Clients, p.Types = nil, nil // its moves were decided by people, or stop a release
	p.Who = "tsmon serve at " + address + ", " + app.Who()
	p.Seen = fleet.Histories{Records: b.records, Store: c.StoreName()}.Seen
	guards := cli.Guards(c, b.records, time.Now)
	guards.Channels, guards.Recorded = handler.Channels, handler.Recorded
	steward := &fleet.Steward{
		Publisher: p, Log: b.log, Guards: guards, Look: handler.Look,
	}
	steward.Run(ctx, slices.Collect(maps.Keys(c.Channels)))
	return nil
}

// reachable returns an address at which this machine reaches a listener.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err == nil && at.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return address
}

// CheckServer refuses to send tokens over a network without TLS, and invalid origins.
func CheckServer(s config.Server) error {
	for _, origin := range s.CORSOrigins {
		if err := web.CheckOrigin(origin); err != nil {
			return cli.WithHint(cli.Usage(fmt.Errorf("server.cors_origins: %w", err)), "TSMON_CORS_ORIGINS takes exact origins, separated by commas")
		}
	}
	if err := console.CheckImages(s.Console.Images); err != nil {
		return cli.WithHint(cli.Usage(fmt.Errorf("server.console.images: %w", err)), "TSMON_CONSOLE_IMAGES takes exact origins, separated by commas")
	}
	for _, at := range [][2]string{{"--listen", s.Listen}, {"server.mqtt.listen", cmp.Or(s.MQTT.Listen, s.Listen)}, {"server.metrics_listen", cmp.Or(s.MetricsListen, s.Listen)}} {
		if err := checkListen(at[1]); err != nil {
			return cli.WithHint(cli.Usagef("%s: %w", at[0], err), "write HOST:PORT, such as 127.0.0.1:8080")
		}
	}
	if !isLocal(s.Listen) && s.TLS.Cert == "" && !s.BehindProxy {
		return cli.WithHint(cli.Usagef("%s can be reached from other machines, but the server has no TLS", s.Listen),
			"set TSMON_TLS_CERT and TSMON_TLS_KEY, or TSMON_BEHIND_PROXY=true if a proxy in front speaks TLS")
	}
	if s.MQTT.Listen != "" && !isLocal(s.MQTT.Listen) {
		return cli.WithHint(cli.Usagef("server.mqtt.listen: %s can be reached from other machines, but the embedded broker has neither TLS nor users", s.MQTT.Listen),
			"listen on 127.0.0.1, or set TSMON_MQTT_URL to a broker such as Mosquitto")
	}
	return nil
}

// checkListen refuses what can't be an address to listen on.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if _, failed := strconv.ParseUint(port, 10, 16); errors.Is(failed, strconv.ErrRange) {
		err = fmt.Errorf("address %s: the port is above 65535", address)
	}
	return err
}

// isLocal reports whether only this machine can reach an address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && config.IsLoopback(host)
}
