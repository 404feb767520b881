package updater_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/signing"
)

// signer makes releases with a key of its own.
type signer struct {
	t   testing.TB
	key signing.PrivateKey
}

func newSigner(t testing.TB) signer {
	t.Helper()
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, key}
}

func (s signer) keys() signing.Keyring { return signing.Keyring{{PublicKey: s.key.Public()}} }

// sign returns a bundle's signature, bound to version unless that is empty.
func (s signer) sign(bundle, version string) string {
	s.t.Helper()
	digest, _, err := signing.HashReader(context.Background(), strings.NewReader(bundle))
	if err != nil {
		s.t.Fatal(err)
	}
	sig, err := s.key.Sign(digest, signing.Comment{Version: version})
	if err != nil {
		s.t.Fatal(err)
	}
	return sig.String()
}

func (s signer) offer(address, bundle, version string) *manifest.Offer {
	s.t.Helper()
	return &manifest.Offer{Version: version, Platform: manifest.Platform{URL: address, Signature: s.sign(bundle, version)}}
}

// server answers by path and records requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // URIs
}

func newServer(t testing.TB, routes map[string]http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.RequestURI)
		s.mu.Unlock()
		if handler, ok := routes[r.URL.Path]; ok {
			handler(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cut announces more than it sends.
func cut(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+1))
		_, _ = io.WriteString(w, body)
	}
}

// chunked sends without a Content-Length.
func chunked(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
	}
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// stall sends part, then nothing until the client disconnects.
func stall(header bool, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if header {
			w.Header().Set("Content-Length", fmt.Sprint(len(part)+1))
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func release(version, platforms string) string {
	return `{"version":"` + version + `","platforms":` + platforms + `}`
}

const linux = `{"linux-x86_64":{"signature":"s","url":"https://h/l"}}`

// recorder keeps the events of a download.
type recorder struct{ events []updater.Event }

func (r *recorder) record(e updater.Event) { r.events = append(r.events, e) }

// names returns the events as "Started Progress Finished", repeats once.
func (r *recorder) names() string {
	var names []string
	for _, e := range r.events {
		if len(names) == 0 || names[len(names)-1] != e.Event {
			names = append(names, e.Event)
		}
	}
	return strings.Join(names, " ")
}

func (r *recorder) json(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, e := range r.events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// transport replaces the network in tests with a fake clock.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silence never answers.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func respond(r *http.Request, body io.Reader, length int64) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(body), ContentLength: length}
}

// quiet blocks until its request is cancelled.
type quiet struct{ ctx context.Context }

func (q quiet) Read([]byte) (int, error) {
	<-q.ctx.Done()
	return 0, q.ctx.Err()
}

// strict is an updater that requires signed versions.
func strict(keys signing.Keyring, client *http.Client) updater.Updater {
	return updater.Updater{Keys: keys, HTTP: client, RequireVersion: true}
}
