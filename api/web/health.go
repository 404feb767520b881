package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Alive answers that the process runs.
func Alive(*http.Request) (any, error) {
	return struct {
		Status string `json:"status"`
	}{"ok"}, nil
}

// readiness is what /readyz answers.
type readiness struct {
	Status   string            `json:"status"`   // ok or failing
	Backends map[string]string `json:"backends"` // ok or failing, by name
}

// Check asks one back end whether it answers.
type Check struct {
	Name string
	Ask  func(context.Context) error
}

// Health asks the back ends, at most once a second, and serves /readyz.
type Health struct {
	checks []Check
	now    func() time.Time
	log    *slog.Logger

	mu      sync.Mutex
	asked   time.Time
	last    readiness
	failing map[string]bool // what the log says
}

// NewHealth returns the health of the back ends that checks ask.
func NewHealth(checks []Check, now func() time.Time, log *slog.Logger) *Health {
	return &Health{checks: checks, now: now, log: log, failing: map[string]bool{}}
}

// checkTime is how long all checks may take together.
const checkTime = 3 * time.Second

// look returns what the back ends last answered.
func (h *Health) look(ctx context.Context) readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.asked); age < 0 || age >= time.Second {
		h.last = h.ask(context.WithoutCancel(ctx))
		h.asked = h.now()
	}
	return h.last
}

func (h *Health) ask(ctx context.Context) readiness {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	found := make([]error, len(h.checks))
	var wait sync.WaitGroup
	for i, c := range h.checks {
		wait.Go(func() { found[i] = safely(ctx, c.Ask) })
	}
	wait.Wait()
	r := readiness{"ok", map[string]string{}}
	for i, c := range h.checks {
		r.Backends[c.Name] = "ok"
		if found[i] != nil {
			r.Status, r.Backends[c.Name] = "failing", "failing"
		}
		h.note(c.Name, found[i])
	}
	return r
}

// safely turns a panic, which would end the process here, into an error.
func safely(ctx context.Context, ask func(context.Context) error) (err error) {
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

// ServeHTTP answers which back ends answer: 200 if all do, else 503.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := h.look(r.Context())
	status := http.StatusOK
	if found.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	Send(w, r, status, found)
}
