package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"tsmon/api"
	"tsmon/api/console"
	"tsmon/api/token"
	"tsmon/cmd/tsmon/config"
)

const serveHelp = `Serve the monitoring interface, and the updates of the store under /updates/, at
/ and at /api. The address is written to stderr once the server answers; port 0
takes a free one. SIGINT and SIGTERM end it, after running requests.

Without configuration everything lies in the data folder: records and time series
in SQLite, files in a folder, the keys of access tokens, and secrets that are made
up on the first start; messages go to an MQTT broker inside the process. Beyond
this machine the server speaks TLS, or says that a proxy in front does.

Environment, beside what ` + "`tsmon help`" + ` lists:
  TSMON_MQTT_URL           mqtt[s]://USER:PASSWORD@HOST:PORT of an MQTT 5 broker
  TSMON_MQTT_LISTEN        address of the broker in the process (default
                           127.0.0.1:1883, or a free port if that is taken)
  TSMON_UPLOAD_ACCESS_KEY, TSMON_UPLOAD_SECRET_KEY
                           key pair of uploads (default: secrets.json in the data
                           folder, made up)
  TSMON_UPLOAD_MAX_BYTES   largest upload (default 20971520)
  TSMON_CORS_ORIGINS       origins of web pages that may ask, comma-separated,
                           beside those of the desktop application
  TSMON_CONSOLE_IMAGES     origins, comma-separated, that pictures of diagrams in
                           the console may come from, besides this server
  TSMON_TLS_CERT, TSMON_TLS_KEY   files of the certificate and its key; they are
                           read again when they change
  TSMON_BEHIND_PROXY       true: a proxy in front speaks TLS, sets
                           X-Forwarded-For and passes Host on
  TSMON_TOKEN_KEYS         file of the keys of access tokens (default
                           token-keys.json in the data folder); servers that
                           share records share it
  TSMON_SERIES_TOKEN       without TSMON_SERIES_URL: the token of /api/v2/write
                           (default: in secrets.json)
  TSMON_METRICS_KEY        bearer token that opens /metrics to other machines
  TSMON_REFRESH            how old a channel may be that is served (default 5s)
  TSMON_UPDATES_REDIRECT   where clients are sent for bundles: public, to
                           TSMON_PUBLIC_URL; presigned, to the S3 storage itself,
                           at an address that is good for 15 minutes (default:
                           nowhere, they get them here)
  TSMON_UPDATES_PRESIGN_ENDPOINT
                           https://HOST by which clients reach the S3 server, if
                           that is not the endpoint in TSMON_STORAGE
  TSMON_WEBHOOK            address that is told, by POST of JSON, of rollouts
                           that the server halted because the release failed
  TSMON_UPDATES_TOKEN      bearer token that clients have to show under /updates/
                           (default: none, they are public)

With --demo there is a small water network that lives: a tenant with variables,
diagrams, charts and menus, ten days of history, and new values every few seconds.
Once it is ready, demo.json in the data folder (mode 0600) holds base_url, email,
tokenApp, schemaName, ts_name, accesskey and secretkey.`

type serveOptions struct {
	listen, data string
	demo         bool
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the monitoring interface and the updates",
		Long:  serveHelp,
		Example: `  tsmon serve --demo
  tsmon serve --listen 127.0.0.1:8080 --data /var/lib/tsmon`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runServe(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.listen, "listen", "", "`ADDRESS` to listen on (default server.listen, 127.0.0.1:8080)")
	cmd.Flags().StringVar(&o.data, "data", "", "`FOLDER` of everything that is not configured elsewhere (default TSMON_DATA)")
	cmd.Flags().BoolVar(&o.demo, "demo", false, "show a small water network that lives")
	cmd.AddCommand(a.rotateKeyCommand())
	return cmd
}

// rotatedKey is what `tsmon serve rotate-key` prints.
type rotatedKey struct {
	File string `json:"file"`
	Kid  string `json:"kid"` // name of the new key
}

func (a *app) rotateKeyCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Sign access tokens with a new key",
		Long: `Put a new key in front of those that access tokens are signed with. Running
servers take it up within a minute. Tokens of the key before stay good until they
expire or the key is rotated again; those of older keys end, so that rotating twice
within twelve hours logs everybody out. The file keeps its algorithm.`,
		Example: "  tsmon serve rotate-key",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.loadWith(data)
			if err != nil {
				return err
			}
			kid, err := token.Rotate(cmd.Context(), c.Server.TokenKeys)
			if err != nil {
				return err
			}
			return a.print(rotatedKey{c.Server.TokenKeys, kid}, func() { fmt.Fprintf(a.stdout, "%s: new key %s\n", c.Server.TokenKeys, kid) })
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "`FOLDER` of everything that is not configured elsewhere (default TSMON_DATA)")
	return cmd
}

// loadWith reads the configuration with another data folder, if one is given.
func (a *app) loadWith(data string) (*config.Config, error) {
	if data != "" {
		a.environ = append(a.environ, "TSMON_DATA="+data)
	}
	return a.load()
}

// drain is how long running requests may take after a signal: what the longest
// may take anyway, and a little.
const drain = 25 * time.Second

// gcPercent lets the garbage of several thousand requests gather before it is
// collected. What lives is a few megabytes, so that this is little memory and an
// eighth of the work of a small answer.
const gcPercent = 400

func (a *app) runServe(ctx context.Context, o serveOptions) error {
	c, err := a.loadWith(o.data)
	if err != nil {
		return err
	}
	if o.listen != "" {
		c.Server.Listen = o.listen
	}
	if err := checkServer(c.Server); err != nil {
		return err
	}
	before, err := leftDemo(c, o.demo)
	if err != nil {
		return err
	}
	if a.variable("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	lines := &gathered{to: a.stderr}
	defer lines.Flush()
	log := logTo(lines)
	b, err := a.openBackends(ctx, c, log)
	if err != nil {
		return err
	}
	return errors.Join(a.serveBackends(ctx, c, b, before), b.Close())
}

// serveBackends answers requests until the context ends, and shows the demo
// where before is not nil.
func (a *app) serveBackends(ctx context.Context, c *config.Config, b *backends, before *demoFile) error {
	listener, err := net.Listen("tcp", c.Server.Listen)
	if err != nil {
		return &hinted{err, "choose another address with --listen"}
	}
	scheme := "http"
	if c.Server.TLS.Cert != "" {
		scheme = "https"
		if listener, err = listenTLS(listener, c.Server.TLS, b.log); err != nil {
			return err
		}
	}
	base := scheme + "://" + reachable(listener.Addr().String())
	options := b.options(c)
	options.Console = consoleOptions(c, before != nil)
	handler := api.New(options)
	defer handler.Close()
	server := &http.Server{
		Handler:           handler.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(b.log.Handler(), slog.LevelWarn),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var background errgroup.Group
	if before != nil {
		background.Go(func() error { return a.runDemo(ctx, c, b, base, before) })
	}
	background.Go(func() error { return a.steerRollouts(ctx, c, b, handler, listener.Addr().String()) })
	a.say("serving %s/", base)
	if b.mqttURL != "" {
		a.say("messages for devices at %s", b.mqttURL)
	}
	handler.Watch(ctx)
	err = serveUntil(ctx, server, listener)
	stop()
	return errors.Join(err, background.Wait())
}

// reachable is the address by which this machine reaches a listener.
func reachable(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err == nil && at.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return address
}

// serveUntil serves until the context ends, then lets running requests finish.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-failed
	return err
}

// checkServer refuses to send tokens over a network in the open, and origins
// that no page has.
func checkServer(s config.Server) error {
	for _, origin := range s.CORSOrigins {
		if err := api.CheckOrigin(origin); err != nil {
			return &hinted{&usageError{fmt.Errorf("server.cors_origins: %w", err)}, "TSMON_CORS_ORIGINS takes exact origins, separated by commas"}
		}
	}
	if err := console.CheckImages(s.Console.Images); err != nil {
		return &hinted{&usageError{fmt.Errorf("server.console.images: %w", err)}, "TSMON_CONSOLE_IMAGES takes exact origins, separated by commas"}
	}
	local, err := isLocal(s.Listen)
	if err != nil {
		return usagef("--listen: %w", err)
	}
	if !local && s.TLS.Cert == "" && !s.BehindProxy {
		return &hinted{usagef("%s is reached from other machines, and the server would speak without TLS", s.Listen),
			"set TSMON_TLS_CERT and TSMON_TLS_KEY, or TSMON_BEHIND_PROXY=true if a proxy in front speaks TLS"}
	}
	if s.MQTT.Listen == "" {
		return nil
	}
	if local, err = isLocal(s.MQTT.Listen); err != nil {
		return usagef("server.mqtt.listen (TSMON_MQTT_LISTEN): %w", err)
	}
	if !local {
		return &hinted{usagef("server.mqtt.listen: %s is reached from other machines, and the broker in the process knows neither TLS nor users", s.MQTT.Listen),
			"listen on 127.0.0.1, or set TSMON_MQTT_URL to a broker such as Mosquitto"}
	}
	return nil
}

// isLocal reports whether only this machine reaches an address.
func isLocal(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback(), nil
}

// makeFolder makes the data folder, for this user alone.
func makeFolder(c *config.Config) error {
	if c.Data == "" {
		return nil
	}
	return os.MkdirAll(c.Data, 0o700)
}
