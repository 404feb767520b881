package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tsmon/api"
	"tsmon/api/monitor/mqtt"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
	"tsmon/store/series"
)

// serverArea asks the back ends of `tsmon serve`, and the servers that run, whether they are
// ready.
type serverArea struct{ *patient }

func (p serverArea) examine(ctx context.Context, n *notes) {
	n.at("server")
	if err := p.CheckServer(p.config.Server); err != nil {
		n.failed(err, "correct it")
	}
	pair := p.certificate(n)
	p.records(ctx, n.at("server.records"))
	p.series(ctx, n.at("server.series"))
	p.messages(ctx, n.at("server.mqtt"))
	p.ready(ctx, n, pair)
}

// certificate loads the certificate of `tsmon serve`, nil if it has none.
func (p serverArea) certificate(n *notes) *x509.Certificate {
	files := p.config.Server.TLS
	if files.Cert == "" {
		return nil
	}
	n.at("server.tls")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		n.fail("name PEM files of a certificate and its key (TSMON_TLS_CERT and TSMON_TLS_KEY)", "%v", err)
		return nil
	}
	validity(n, pair.Leaf, p.App.Now())
	return pair.Leaf
}

func (p serverArea) records(ctx context.Context, n *notes) {
	err := cli.WithRecords(ctx, p.config, func(s record.Store) error { return s.Ping(ctx) })
	switch {
	case errors.Is(err, cli.ErrNoRecords):
		n.ok("no records yet; `tsmon serve` creates %s", cli.RecordsFile(p.config))
	case err != nil:
		n.failed(err, "put the database back from a backup, or correct server.records (TSMON_RECORDS)")
	default:
		n.ok("the store of records answers")
	}
}

func (p serverArea) series(ctx context.Context, n *notes) {
	const mend = "put the database back from a backup, or correct server.series (TSMON_SERIES_URL)"
	file := cli.SeriesFile(p.config)
	err := cli.WithSeries(ctx, p.config, func(s cli.SeriesStore) error { return s.Ping(ctx) })
	switch {
	case errors.Is(err, cli.ErrNoSeries):
		n.ok("no time series yet; `tsmon serve` creates %s", file)
	case errors.Is(err, series.ErrUnavailable) && file != "": // no server is down: the file is damaged
		n.fail(mend, "%v", err)
	case err != nil:
		n.failed(err, mend)
	default:
		n.ok("the store of time series answers")
	}
}

// messages connects to the broker, if there is one outside of the server.
func (p serverArea) messages(ctx context.Context, n *notes) {
	if p.config.Server.MQTT.URL == "" {
		n.ok("the broker is inside of `tsmon serve`")
		return
	}
	const mend = "check the host, the port, the user and the password in server.mqtt.url (TSMON_MQTT_URL)"
	client, err := mqtt.Dial(ctx, mqtt.Options{URL: string(p.config.Server.MQTT.URL), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.fail(mend, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	if err := errors.Join(client.Connected(ctx), client.Close()); err != nil {
		n.fail(mend, "the broker accepts no connections: %v", err)
		return
	}
	n.ok("the broker accepts connections")
}

// brokerPatience is how long the broker may take to accept a connection.
const brokerPatience = 5 * time.Second

// ready asks the server at server.listen, and the one behind public_url, whether
// they are ready. The first may have a certificate, which is not for its address.
func (p serverArea) ready(ctx context.Context, n *notes, certificate *x509.Certificate) {
	scheme, client := "http", p.http
	if p.config.Server.TLS.Cert != "" {
		scheme = "https"
	}
	if certificate != nil {
		client = clientOf(certificate)
	}
	host := p.config.Server.Listen
	if at, err := netip.ParseAddrPort(host); err == nil && at.Addr().IsUnspecified() || strings.HasPrefix(host, ":") {
		host = "localhost" + host[strings.LastIndex(host, ":"):]
	}
	local := scheme + "://" + host
	p.readyAt(ctx, n, client, local)
	if base, ok := strings.CutSuffix(p.config.PublicURL, "/updates"); ok && base != local {
		p.readyAt(ctx, n, p.http, base)
	}
}

// clientOf returns a client that trusts the server with this certificate.
func clientOf(c *x509.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(c)
	name := c.Subject.CommonName
	if len(c.DNSNames) > 0 {
		name = strings.Replace(c.DNSNames[0], "*", "any", 1)
	} else if len(c.IPAddresses) > 0 {
		name = c.IPAddresses[0].String()
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}}
}

func (p serverArea) readyAt(ctx context.Context, n *notes, client *http.Client, base string) {
	for _, concern := range []string{api.Updates, api.Monitoring} {
		if !readyFor(ctx, n, client, base, concern) {
			return
		}
	}
}

// readyFor checks one side of a server. answers is false if no server of ours answers.
func readyFor(ctx context.Context, n *notes, client *http.Client, base, concern string) (answers bool) {
	n.at(base + "/readyz?for=" + concern)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.where, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if isRefused(err) {
		n.ok("nothing listens at %s now", base)
		return false
	}
	if err != nil {
		n.warn("check that server.listen (TSMON_LISTEN) and the certificate are those of this machine", "%v", err)
		return false
	}
	defer response.Body.Close()
	var state struct {
		Status   string
		Backends map[string]string
		Error1   struct{ Message string }
	}
	body := io.LimitReader(response.Body, 1<<16)
	err = json.NewDecoder(body).Decode(&state)
	if err == nil && response.StatusCode == http.StatusBadRequest && state.Error1.Message != "" {
		n.ok("the server at %s is not for %s", base, concern) // serve --only
		return true
	}
	if err != nil || state.Status == "" {
		n.ok("something else than `tsmon serve` answers at %s (status %d)", base, response.StatusCode)
		return false
	}
	maps.DeleteFunc(state.Backends, func(_, status string) bool { return status == "ok" })
	failing := slices.Sorted(maps.Keys(state.Backends))
	switch {
	case len(failing) > 0:
		n.fail("the log of `tsmon serve` says why", "the server is not ready: %s", strings.Join(failing, ", "))
	case response.StatusCode != http.StatusOK:
		n.fail("the log of `tsmon serve` says why", "the server is not ready (status %d)", response.StatusCode)
	default:
		n.ok("the server at %s is ready for %s", base, concern)
	}
	return true
}
