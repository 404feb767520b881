package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// alive answers that the process runs.
func (s *Server) alive(*http.Request) (any, error) {
	return struct {
		Status string `json:"status"`
	}{"ok"}, nil
}

// readiness is what /readyz answers.
type readiness struct {
	Status   string            `json:"status"`   // ok or failing
	Backends map[string]string `json:"backends"` // ok or failing, by name
}

// check asks one backend whether it answers.
type check struct {
	name string
	ask  func(context.Context) error
}

func (s *Server) checks() []check {
	return []check{
		{"records", s.Records.Ping},
		{"series", s.Series.Ping},
		{"messages", s.Messages.Ping},
		{"objects", func(ctx context.Context) error {
			_, err := s.Objects.Stat(ctx, "ready") // any key shows whether the store answers
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}},
		{"updates", s.heads.check},
	}
}

// health asks the backends, at most once a second.
type health struct {
	checks []check
	now    func() time.Time
	log    *slog.Logger

	mu      sync.Mutex
	asked   time.Time
	last    readiness
	failing map[string]bool // what the log knows
}

// checkTime is what all checks together may take.
const checkTime = 3 * time.Second

// look returns what the backends last said.
func (h *health) look(ctx context.Context) readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.asked); age < 0 || age >= time.Second {
		h.last = h.ask(context.WithoutCancel(ctx))
		h.asked = h.now()
	}
	return h.last
}

func (h *health) ask(ctx context.Context) readiness {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	found := make([]error, len(h.checks))
	var wait sync.WaitGroup
	for i, c := range h.checks {
		wait.Go(func() { found[i] = safely(ctx, c.ask) })
	}
	wait.Wait()
	r := readiness{"ok", map[string]string{}}
	for i, c := range h.checks {
		r.Backends[c.name] = "ok"
		if found[i] != nil {
			r.Status, r.Backends[c.name] = "failing", "failing"
		}
		h.note(c.name, found[i])
	}
	return r
}

// safely makes a panic, which would end the process here, an error.
func safely(ctx context.Context, ask func(context.Context) error) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("panic: %v\n%s", found, debug.Stack())
		}
	}()
	return ask(ctx)
}

// note logs when a backend falls silent and when it answers again.
func (h *health) note(name string, err error) {
	switch failing := err != nil; {
	case failing && !h.failing[name]:
		h.log.Warn("backend does not answer", "backend", name, "error", err)
	case !failing && h.failing[name]:
		h.log.Info("backend answers again", "backend", name)
	}
	h.failing[name] = err != nil
}

// ready answers which backends answer: 200 if all do, else 503.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	found := s.health.look(r.Context())
	status := http.StatusOK
	if found.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	s.send(w, r, status, found)
}
