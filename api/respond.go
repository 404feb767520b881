package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// data is the answer of every route that has one.
type data struct {
	Data any `json:"data"`
}

// done is the answer of a route that changes something.
type done struct {
	Success bool `json:"success"`
	Data    any  `json:"data"`
}

// caller is who asks: a user and its tenant, as they stood at most a minute ago.
type caller struct {
	tenant tenant
	user   user
}

// private is a route that needs a token. What it returns is the answer's body.
func (s *Server) private(h func(*http.Request, caller) (any, error)) http.HandlerFunc {
	return s.open(func(r *http.Request) (any, error) {
		who, err := s.authenticate(r)
		if err != nil {
			return nil, err
		}
		noteOf(r).who(who)
		return h(r, who)
	})
}

// open is a route that everybody may ask.
func (s *Server) open(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := h(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if h, ok := body.(interface{ header(http.Header) }); ok {
			h.header(w.Header())
		}
		s.send(w, r, http.StatusOK, body)
	}
}

// fail answers an error and puts into the log what the client is not told.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := s.explain(r, err)
	if f.cause != nil {
		noteOf(r).failed(f.cause)
	}
	if f.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.wait+time.Second-1)/time.Second)))
	}
	s.send(w, r, f.status, f.body())
}

// writeTime is what a client may take for an answer, or for the next piece of
// a long one.
const writeTime = 30 * time.Second

// send writes an answer.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := encode(body)
	if err != nil {
		noteOf(r).failed(fmt.Errorf("answer: %w", err))
		status, text = http.StatusInternalServerError, []byte(`{"error1":{"message":"the answer can't be written"}}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	allow(w)
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that went away
}

// encode returns JSON that shows <, > and & as they are.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return b.Bytes(), err
}

// allow gives a client the time to take the next piece of an answer.
func allow(w http.ResponseWriter) { allowFrom(w, time.Now()) }

// allowFrom is allow at a time that is known already.
func allowFrom(w http.ResponseWriter, now time.Time) {
	err := http.NewResponseController(w).SetWriteDeadline(now.Add(writeTime))
	if err != nil && !errors.Is(err, http.ErrNotSupported) { // by recorders in tests
		return // the connection is gone, which writing will show
	}
}
