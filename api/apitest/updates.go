package apitest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/fleet"
	"tsmon/api/updates"
	"tsmon/api/web"
)

// Updates is the updates side of a server, alone, with the parts that a test drives
// itself.
type Updates struct {
	Client
	Heads   *updates.Heads
	Fleet   *fleet.Sightings
	Server  *updates.Server
	Handler http.Handler // what Client reaches over the network
}

// ServeUpdates serves the updates of a world, /readyz and /metrics. Its goroutines
// begin with the first request.
func (w *World) ServeUpdates(tb testing.TB) *Updates {
	tb.Helper()
	registry := prometheus.NewRegistry()
	observer := web.NewObserver(w.Log, registry, w.BehindProxy)
	u := &Updates{Heads: updates.NewHeads(updates.HeadsOptions{
		Objects: w.Objects, Histories: fleet.Histories{Records: w.Records}, Keys: w.Keys, Unbound: w.Unbound, Trust: w.Trust, Downgrades: w.Downgrades, Rings: w.Rings, Interval: w.Refresh, PublicURL: w.Options.PublicURL, Registry: registry, Log: w.Log, Now: w.Now,
	})}
	u.Fleet = fleet.NewSightings(fleet.Options{
		Records: w.Records, Clients: w.Clients, Series: w.Series, Channels: u.Heads.Channels, Asks: u.Heads.TakeAsks, Registry: registry, Log: w.Log, Now: w.Now,
	})
	u.Server = updates.New(updates.Options{
		Objects: w.Objects, Heads: u.Heads, Fleet: u.Fleet, Observer: observer, Token: w.UpdatesToken, Key: w.MetricsKey, ReportSecrets: w.ReportSecrets,
		Elsewhere: w.Elsewhere, Presigner: w.Presigner, BehindProxy: w.BehindProxy, Deadline: web.Deadline, Now: w.Now,
	})
	routes := chi.NewRouter()
	routes.Use(observer.Observe, observer.Recover)
	u.Server.Routes(routes)
	routes.Get("/readyz", web.NewHealth(u.Server.Checks(), w.Now, w.Log, registry).ServeHTTP)
	routes.Get("/metrics", web.Metrics{Registry: registry}.Open)
	u.Handler = u.Server.Shortcut(routes)
	server := httptest.NewServer(u.Handler)
	tb.Cleanup(func() {
		server.Close()
		u.Server.Close()
	})
	u.Client = Client{TB: tb, Base: server.URL}
	return u
}
