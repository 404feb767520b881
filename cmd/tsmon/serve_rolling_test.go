package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/servertest"
)

// TestRollingRestart restarts three servers that share PostgreSQL, InfluxDB and MinIO one
// after another, behind nginx as the guide configures it, while clients go on: no request
// fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts seven servers")
	}
	postgres, influx, minio := servertest.SharedPostgres(t), servertest.StartInfluxDB(t), servertest.SharedMinIO(t)
	minio.MakeBucket("app")
	env := append(minio.Env(), "TSMON_RECORDS="+postgres.Database(), "TSMON_SERIES_URL="+influx.URL, "TSMON_STORAGE="+minio.URL("app"),
		"TSMON_SECRET="+outerSecret, "TSMON_BEHIND_PROXY=true", "TSMON_DRAIN=5s")
	folder := t.TempDir()
	data := func(i int) string { return filepath.Join(folder, fmt.Sprint(i)) }
	listen := func() string {
		address, err := servertest.FreeAddress() // each starts again where nginx looks for it
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	servers := []*served{serve(t, data(0), env, "--demo", "--listen", listen())}
	d := servers[0].demoReady()
	for i := 1; i < 3; i++ {
		servers = append(servers, serve(t, data(i), env, "--listen", listen()))
	}
	proxy := behindNginx(t, servers)
	for _, s := range servers {
		s.ready()
	}
	token := proxy.login(d)
	items := proxy.view(token)
	var series []any
	for i := range 20 {
		series = append(series, map[string]any{"id": i, "measurement": "embalse", "field": "nivel", "samplingPeriod": "1h"})
	}
	pollers := map[string]*poller{}
	asks := map[string]func() (int, []byte){
		"menus":  func() (int, []byte) { return proxy.ask("GET", "/getAllMenu", token, nil) },
		"values": func() (int, []byte) { return proxy.ask("POST", "/multipleDataTs", token, items) },
		"series": func() (int, []byte) { return proxy.ask("POST", "/api/seriesDataTs", token, series) },
		"login":  func() (int, []byte) { return proxy.ask("POST", "/loginPartner", "", d) },
		"upload": func() (int, []byte) { return proxy.upload(d, "nivel del tanque") },
	}
	for i := range 16 {
		asks[fmt.Sprint("save ", i)] = proxy.saver(token)
	}
	for name, ask := range asks {
		pollers[name] = &poller{ask: func() (int, []byte) {
			status, text := ask()
			if status != http.StatusOK {
				return 0, fmt.Appendf(nil, "%d %s", status, text) // which is wrong whatever it says
			}
			return status, text
		}}
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, p := range pollers {
		running.Go(func() { p.run(ctx) })
	}
	more := func(when string) {
		t.Helper()
		for name, p := range pollers {
			before, _ := p.now()
			until(t, name+" "+when, func() bool { number, _ := p.now(); return number >= before+5 })
		}
	}
	more("before")
	for i, s := range servers {
		s.stop()
		more(fmt.Sprint("without server ", i))
		servers[i] = serve(t, data(i), env, "--listen", strings.TrimPrefix(s.base, "http://"))
		servers[i].ready()
	}
	more("after")
	stop()
	running.Wait()
	for name, p := range pollers {
		t.Logf("%s: %d answers", name, p.number)
		for _, wrong := range p.wrong {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

// saver returns a function that saves a diagram of its own again, with the version in the last
// response. If a save is lost or made twice, a later one is refused, or its version is not the next.
func (s *served) saver(token string) func() (int, []byte) {
	diagram := struct {
		ID      int64  `json:"id,omitempty"`
		Version int64  `json:"version"`
		Title   string `json:"title"`
	}{}
	return func() (int, []byte) {
		diagram.Title = fmt.Sprint("Planta ", diagram.Version+1)
		status, text := s.ask("POST", "/saveDiagram", token, map[string]any{"diagram": diagram})
		var answer struct{ Data struct{ ID, Version int64 } }
		if status == http.StatusOK && (json.Unmarshal(text, &answer) != nil || answer.Data.Version != diagram.Version+1) {
			return 0, fmt.Appendf(nil, "after version %d: %s", diagram.Version, text)
		}
		if status == http.StatusOK {
			diagram.ID, diagram.Version = answer.Data.ID, answer.Data.Version
		}
		return status, text
	}
}

// ready waits like the loop in the guide.
func (s *served) ready() {
	s.t.Helper()
	until(s.t, "ready", func() bool {
		status, _ := s.ask("GET", "/readyz?for=monitoring", "", nil)
		return status == http.StatusOK
	})
}

// behindNginx returns an nginx before three servers. Its configuration is the guide's, with other
// addresses and another certificate.
func behindNginx(t *testing.T, servers []*served) *served {
	t.Helper()
	guide, err := os.ReadFile("../../api/monitor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```nginx\n")
	text, _, _ = strings.Cut(text, "```")
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	servertest.Certificate(t, cert, key)
	site := func(address string) string {
		site := text
		for old, replacement := range map[string]string{
			"listen 443 ssl":                 "listen " + address + " ssl",
			"/etc/ssl/scada.example.com.crt": cert,
			"/etc/ssl/scada.example.com.key": key,
			"10.0.0.11:8080":                 strings.TrimPrefix(servers[0].base, "http://"),
			"10.0.0.12:8080":                 strings.TrimPrefix(servers[1].base, "http://"),
			"10.0.0.13:8080":                 strings.TrimPrefix(servers[2].base, "http://"),
		} {
			if strings.Count(site, old) != 1 {
				t.Fatalf("the guide has not one %q", old)
			}
			site = strings.ReplaceAll(site, old, replacement)
		}
		return site
	}
	nginx := servertest.StartNginx(t, site)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(nginx.Output())
		}
	})
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &served{t: t, base: "https://" + nginx.Address, http: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 32},
	}}
}
