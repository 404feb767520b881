package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Alive answers that the process runs.
func Alive(*http.Request) (any, error) {
	return struct {
		Status string `json:"status"`
	}{"ok"}, nil
}

// readiness is what /readyz answers.
type readiness struct {
	// Status is "ok" if everything works, "degraded" if a concern fails or lacks a part while
	// another works, "failing" if none works, and "ending" once the server was asked to stop.
	Status   string            `json:"status"`
	Concerns map[string]string `json:"concerns"` // ok or failing, by name
	Backends map[string]string `json:"backends"` // ok or failing, by name
}

// Check asks one back end whether it answers, and whether it accepts a write, which fails if the
// disk is full. Either may be nil.
type Check struct {
	Name    string
	Concern string // what can't work without it, such as updates
	Partly  bool   // a part of the concern works without it
	Ask     func(context.Context) error
	Write   func(context.Context) error // at most every 30 s while it succeeds
}

// Health asks the back ends, at most once a second, and serves /readyz. A concern works if all
// of its back ends work, except those that it needs partly. A load balancer asks for the concern
// that it balances with ?for=CONCERN.
type Health struct {
	checks []*asked
	now    func() time.Time
	log    *slog.Logger

	ending atomic.Bool

	mu      sync.Mutex
	asked   time.Time
	last    []error         // by check
	failing map[string]bool // what the log says
	up      *prometheus.GaugeVec
}

// asked is a back end with its last answers.
type asked struct {
	Check
	turn  chan struct{} // holds a value while it is asked
	wrote time.Time     // when it last accepted a write
}

// NewHealth returns the health of the back ends of checks, and registers its metric.
func NewHealth(checks []Check, now func() time.Time, log *slog.Logger, registry prometheus.Registerer) *Health {
	h := &Health{now: now, log: log, failing: map[string]bool{}, up: promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "tsmon_backend_up", Help: "1 if a back end answers, else 0.",
	}, []string{"backend", "concern"})}
	for _, c := range checks {
		h.checks = append(h.checks, &asked{Check: c, turn: make(chan struct{}, 1)})
	}
	return h
}

// Look asks the back ends, at most once a second, for the metrics.
func (h *Health) Look(ctx context.Context) { h.look(ctx) }

// End makes the server unready for good, so that a load balancer sends its requests elsewhere
// before the server ends.
func (h *Health) End() { h.ending.Store(true) }

const (
	checkTime = 3 * time.Second  // for all checks together
	roomTime  = 30 * time.Second // how long a successful write counts
)

// look returns what each back end last answered.
func (h *Health) look(ctx context.Context) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.asked); age < 0 || age >= time.Second {
		h.last = h.ask(context.WithoutCancel(ctx))
		h.asked = h.now()
	}
	return h.last
}

func (h *Health) ask(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	found := make([]error, len(h.checks))
	var wait sync.WaitGroup
	for i, c := range h.checks {
		wait.Go(func() { found[i] = c.ask(ctx, h.now()) })
	}
	wait.Wait()
	for i, c := range h.checks {
		up := h.up.WithLabelValues(c.Name, c.Concern)
		if up.Set(1); found[i] != nil {
			up.Set(0)
		}
		h.note(c.Name, found[i])
	}
	return found
}

var errHangs = errors.New("it has not answered the request before")

// ask asks the back end. It does not ask again while an earlier request hangs, as one to a broken
// disk may, which can't be interrupted.
func (a *asked) ask(ctx context.Context, now time.Time) error {
	select {
	case a.turn <- struct{}{}:
	default:
		return errHangs
	}
	done := make(chan error, 1)
	go func() {
		err := Safely(ctx, func(ctx context.Context) error { return a.try(ctx, now) })
		<-a.turn
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *asked) try(ctx context.Context, now time.Time) error {
	if a.Ask != nil {
		if err := a.Ask(ctx); err != nil {
			return err
		}
	}
	if age := now.Sub(a.wrote); a.Write == nil || age >= 0 && age < roomTime {
		return nil
	}
	err := a.Write(ctx)
	if err == nil {
		a.wrote = now
	}
	return err
}

// readiness sums up the back ends of a concern, or of all concerns if it is empty.
// ok is false if there is no such concern.
func (h *Health) readiness(found []error, concern string) (r readiness, ok bool) {
	r = readiness{Concerns: map[string]string{}, Backends: map[string]string{}}
	lacking := false
	for i, c := range h.checks {
		if concern != "" && c.Concern != concern {
			continue
		}
		r.Backends[c.Name] = statusOK
		if found[i] != nil {
			r.Backends[c.Name] = statusFailing
			lacking = lacking || c.Partly
			if !c.Partly {
				r.Concerns[c.Concern] = statusFailing
			}
		}
		if r.Concerns[c.Concern] == "" {
			r.Concerns[c.Concern] = statusOK
		}
	}
	statuses := slices.Collect(maps.Values(r.Concerns))
	switch {
	case !slices.Contains(statuses, statusOK):
		r.Status = statusFailing
	case slices.Contains(statuses, statusFailing) || lacking:
		r.Status = statusDegraded
	default:
		r.Status = statusOK
	}
	return r, len(r.Concerns) > 0
}

const (
	statusOK       = "ok"
	statusDegraded = "degraded"
	statusFailing  = "failing"
	statusEnding   = "ending"
)

// Safely turns a panic into an error, where it would end the process.
func Safely(ctx context.Context, ask func(context.Context) error) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("panic: %v\n%s", found, debug.Stack())
		}
	}()
	return ask(ctx)
}

// note logs when a back end stops answering and when it answers again.
func (h *Health) note(name string, err error) {
	switch failing := err != nil; {
	case failing && !h.failing[name]:
		h.log.Warn("backend does not answer", "backend", name, "error", err)
	case !failing && h.failing[name]:
		h.log.Info("backend answers again", "backend", name)
	}
	h.failing[name] = err != nil
}

// ServeHTTP answers which concerns and back ends work. The status is 503 if the concern in the
// query's "for" does not work, or none works if there is no "for", and once the server ends.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	found, ok := h.readiness(h.look(r.Context()), query.Get("for"))
	if !ok || query.Has("for") && query.Get("for") == "" {
		Responder{}.Fail(w, r, Refuse(http.StatusBadRequest, "for has to be updates or monitoring"))
		return
	}
	if h.ending.Load() {
		found.Status = statusEnding
	}
	status := http.StatusOK
	if found.Status == statusFailing || found.Status == statusEnding {
		status = http.StatusServiceUnavailable
	}
	Send(w, r, status, found)
}
