package serving

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"tsmon/api"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

// live serves with a configuration that can be reloaded. On each reload a new server takes over
// with the same back ends, and the previous one ends after its last request.
type live struct {
	app         *cli.App
	backends    *backends
	demo        bool         // whether it is served, too
	address     string       // of the listener
	certificate *certificate // nil without TLS
	level       *slog.LevelVar
	log         *slog.Logger
	ended       sync.WaitGroup // generations that were replaced

	mu      sync.RWMutex // guards the fields below
	config  *config.Config
	present *generation
}

type generation struct {
	server  *api.Server
	handler http.Handler
	metrics http.Handler
	running sync.WaitGroup // requests
	stop    context.CancelFunc
	moves   sync.WaitGroup // of channels
}

// start makes a new generation the present one.
func (l *live) start(ctx context.Context, c *config.Config) {
	options := l.backends.options(c)
	options.Console = consoleOptions(c, l.demo)
	l.showReleases(ctx, c, &options)
	server := api.New(options)
	g := &generation{server: server, handler: server.Handler(), metrics: server.Metrics()}
	moving, stop := context.WithCancel(ctx)
	g.stop = stop
	server.Watch(ctx)
	l.mu.Lock()
	before := l.present
	l.present, l.config = g, c
	l.mu.Unlock()
	l.ended.Go(func() { before.end() })
	g.moves.Go(func() {
		before.awaitMoves()
		if err := moveChannels(moving, l.app, c, l.backends, server, l.address); err != nil {
			l.log.Error("rollouts are neither guarded nor ended by this server", "error", err)
		}
	})
}

// showReleases configures the release pages, which are read-only.
func (l *live) showReleases(ctx context.Context, c *config.Config, o *api.Options) {
	if o.Only == api.Monitoring {
		return
	}
	o.ConsoleToken, o.Guards = string(c.Server.Console.Token), cli.Guards(c, l.backends.records, time.Now)
	p, err := l.app.Publisher(ctx, c, "")
	if err != nil {
		l.log.Error("moves can't be rehearsed", "error", err)
		return
	}
	p.Sign, p.Origin = nil, nil
	known := cli.KnownClients{Config: c, Now: l.app.Now, Warn: func(text string) { l.log.Warn(text) }}
	p.Clients, p.Types = known.ByVersion(), known.ByType()
	o.Publisher = p
}

// awaitMoves stops the moves of a generation and waits for them.
func (g *generation) awaitMoves() {
	if g != nil {
		g.stop()
		g.moves.Wait()
	}
}

// end ends a generation after its last request.
func (g *generation) end() {
	if g == nil {
		return
	}
	g.awaitMoves()
	g.running.Wait()
	g.server.Close()
}

// enter returns the present generation with one more running request. The caller calls
// running.Done.
func (l *live) enter() *generation {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.present.running.Add(1)
	return l.present
}

func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := l.enter()
	defer g.running.Done()
	g.handler.ServeHTTP(w, r)
}

func (l *live) metrics(w http.ResponseWriter, r *http.Request) {
	g := l.enter()
	defer g.running.Done()
	g.metrics.ServeHTTP(w, r)
}

// unready makes /readyz fail for good.
func (l *live) unready() {
	g := l.enter()
	defer g.running.Done()
	g.server.End()
}

// close ends all generations after their last requests.
func (l *live) close() {
	l.present.end()
	l.ended.Wait()
}

// lookEvery is how often the secrets of clients are read again. Another server or a command may
// have replaced them, or the records were down at the start.
const lookEvery = 10 * time.Second

// follow reloads on each signal, and when the secrets of clients have changed, until the context
// ends.
func (l *live) follow(ctx context.Context, hangUps <-chan os.Signal) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-hangUps:
		case <-look.C:
			if !l.backends.secretsChanged(ctx, l.config) {
				continue
			}
		case <-ctx.Done():
			return
		}
		l.reload(ctx)
	}
}

// reload reads the configuration and the files that it names, and logs what changed. If there
// is a mistake, nothing changes.
func (l *live) reload(ctx context.Context) {
	changed, restart, err := l.tryReload(ctx)
	if err != nil {
		l.log.Error("not reloaded: everything stays as it was", "error", err, "hint", cli.HintFor(err))
		return
	}
	l.log.Info("reloaded", "changed", strings.Join(changed, ", "))
	if len(restart) > 0 {
		l.log.Warn("settings changed that need a restart", "settings", strings.Join(restart, ", "))
	}
	_ = l.level.UnmarshalText([]byte(l.config.Server.Log.Level)) // checked by Load; set last, so that it doesn't hide the lines above
}

func (l *live) tryReload(ctx context.Context) (changed, restart []string, err error) {
	c, err := l.app.Load()
	if err != nil {
		return nil, nil, err
	}
	if err := CheckServer(c.Server); err != nil {
		return nil, nil, err
	}
	changed = config.Changed(l.config, c)
	restart = slices.DeleteFunc(slices.Clone(changed), isReloaded)
	changed = slices.DeleteFunc(changed, func(name string) bool { return !isReloaded(name) })
	keepFixed(c, l.config)
	next := *l.backends
	if err := next.configure(ctx, c); err != nil {
		return nil, nil, err
	}
	if l.certificate != nil {
		renewed, err := l.certificate.reload()
		if err != nil {
			return nil, nil, fmt.Errorf("server.tls: %w", err)
		}
		if renewed {
			changed = append(changed, "the certificate")
		}
	}
	if !reflect.DeepEqual(next.trusted, l.backends.trusted) && !slices.ContainsFunc(changed, func(name string) bool { return strings.HasPrefix(name, "trusted_keys") }) {
		changed = append(changed, "trusted_keys")
	}
	if next.digest != l.backends.digest {
		changed = append(changed, "the keys of access tokens")
	}
	if next.secrets != l.backends.secrets {
		changed = append(changed, "the credentials of uploads and of writing")
	}
	l.backends = &next
	l.start(ctx, c)
	return changed, restart, nil
}

// fixed are the settings that need a restart, including those below them.
var fixed = []string{
	"TSMON_DATA", "project", "storage", "server.listen", "server.metrics_listen", "server.records", "server.series", "server.mqtt", "server.tls",
	"server.drain", "server.drain_downloads", "server.log.format",
}

func isReloaded(setting string) bool {
	return !slices.ContainsFunc(fixed, func(name string) bool { return setting == name || strings.HasPrefix(setting, name+".") })
}

// keepFixed resets the settings that need a restart to their values in force.
func keepFixed(c, inForce *config.Config) {
	c.Project, c.Data, c.Storage = inForce.Project, inForce.Data, inForce.Storage
	s, f := &c.Server, inForce.Server
	s.Listen, s.MetricsListen, s.Records, s.Series, s.MQTT, s.TLS = f.Listen, f.MetricsListen, f.Records, f.Series, f.MQTT, f.TLS
	s.Drain, s.DrainDownloads, s.Log.Format = f.Drain, f.DrainDownloads, f.Log.Format
}
