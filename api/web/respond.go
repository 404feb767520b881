package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Data is the answer of a route that returns something.
type Data struct {
	Data any `json:"data"`
}

// Done is the answer of a route that changes something.
type Done struct {
	Success bool `json:"success"`
	Data    any  `json:"data"`
}

// Header is an answer, or a Stream, that also sets headers.
type Header interface{ SetHeader(http.Header) }

// Responder answers with what handlers return. Its zero value explains the errors
// of the object store.
type Responder struct {
	Faults []Fault // of other back ends, most specific first
	// Problem returns the text of an error that is meant for clients, or empty. Nil
	// where there are no such errors.
	Problem func(error) string
}

// Open serves a route that needs no user. The handler returns the answer's body,
// or an error that Explain turns into an answer.
func (p Responder) Open(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := h(r)
		if err != nil {
			p.Fail(w, r, err)
			return
		}
		if h, ok := body.(Header); ok {
			h.SetHeader(w.Header())
		}
		if s, ok := body.(Stream); ok {
			sendStream(w, r, s)
			return
		}
		Send(w, r, http.StatusOK, body)
	}
}

// Fail answers an error and records its cause for the log.
func (p Responder) Fail(w http.ResponseWriter, r *http.Request, err error) {
	f := p.Explain(r, err)
	if f.Cause != nil {
		NoteOf(r).Fail(f.Cause)
	}
	if f.Wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.Wait+time.Second-1)/time.Second)))
	}
	Send(w, r, f.Status, f.body())
}

// writeTime is how long a client may take to read an answer, or one piece of a long one.
const writeTime = 30 * time.Second

// Send writes body as JSON.
func Send(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := encode(body)
	if err != nil {
		NoteOf(r).Fail(fmt.Errorf("answer: %w", err))
		status, text = http.StatusInternalServerError, []byte(`{"error1":{"message":"the answer can't be written"}}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	extendDeadline(w, time.Now())
	w.WriteHeader(status)
	_, _ = w.Write(text) //nolint:gosec // JSON with nosniff; fails if the client went away
}

// encode returns JSON that shows <, > and & as they are.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return b.Bytes(), err
}

// extendDeadline gives a client writeTime to take the next piece of an answer.
func extendDeadline(w http.ResponseWriter, now time.Time) {
	// It fails for recorders in tests, and once the connection is gone, as writing then shows.
	_ = http.NewResponseController(w).SetWriteDeadline(now.Add(writeTime))
}
