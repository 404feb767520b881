package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
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
	Status   string            `json:"status"`   // ok, failing or draining
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
	}
}

// health asks the backends, at most once a second.
type health struct {
	checks []check
	now    func() time.Time

	mu       sync.Mutex
	draining bool
	asked    time.Time
	last     readiness
	errors   map[string]error
}

// checkTime is what all checks together may take.
const checkTime = 3 * time.Second

func (h *health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// look returns what the backends last said, and why those that failed did.
func (h *health) look(ctx context.Context) (readiness, map[string]error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.asked); age < 0 || age >= time.Second {
		h.ask(context.WithoutCancel(ctx))
		h.asked = h.now()
	}
	if h.draining {
		return readiness{"draining", h.last.Backends}, h.errors
	}
	return h.last, h.errors
}

func (h *health) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	found := make([]error, len(h.checks))
	var wait sync.WaitGroup
	for i, c := range h.checks {
		wait.Go(func() { found[i] = c.ask(ctx) })
	}
	wait.Wait()
	h.last, h.errors = readiness{"ok", map[string]string{}}, map[string]error{}
	for i, c := range h.checks {
		h.last.Backends[c.name] = "ok"
		if found[i] != nil {
			h.last.Status, h.last.Backends[c.name] = "failing", "failing"
			h.errors[c.name] = found[i]
		}
	}
}

// ready answers which backends answer: 200 if all do, else 503.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	found, causes := s.health.look(r.Context())
	status := http.StatusOK
	if found.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	for name, cause := range causes {
		s.Log.Warn("backend does not answer", "request", noteOf(r).id, "backend", name, "error", cause)
	}
	s.send(w, r, status, found)
}
