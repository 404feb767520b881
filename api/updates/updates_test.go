package updates_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/store/object"
	"tsmon/store/servertest"
)

// newServer serves a store with a release, and what else is stored beside one. It
// also returns the manifest of stable.
func newServer(t *testing.T, wrap func(object.Store) object.Store) (*httptest.Server, string) {
	t.Helper()
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	for key, content := range map[string]string{
		"releases/1.0.0/My App.zip":        "bundle",
		"releases/1.0.0/My App.zip.sig":    "signature",
		"releases/1.0.0/staged/linux.json": "{}",
		"uploads/file":                     "secret",
		"staged/1.0.0/linux-x86_64/1.json": "secret",
		"stable/other.json":                "{}",
		"releases/1.0.0/Agua, Pro+ñ;%.zip": "odd",
	} {
		if _, err := w.Objects.Create(t.Context(), key, strings.NewReader(content), int64(len(content)), object.Attributes{}); err != nil {
			t.Fatal(err)
		}
	}
	manifest, _ := w.Stored(t, "stable/latest.json")
	w.Objects = wrap(w.Objects)
	return w.Serve(t), string(manifest)
}

func same(s object.Store) object.Store { return s }

func TestUpdates(t *testing.T) {
	server, manifest := newServer(t, same)
	for _, c := range []struct{ path, body, kind, cache string }{
		{"/updates/stable/latest.json", manifest, "application/json", "public, max-age=60, must-revalidate"},
		{"/api/updates/stable/latest.json", manifest, "application/json", "public, max-age=60, must-revalidate"},
		{"/updates/releases/1.0.0/My%20App.zip", "bundle", "application/octet-stream", "public, max-age=31536000, immutable"},
		{"/updates/releases/1.0.0/" + url.PathEscape("Agua, Pro+ñ;%.zip"), "odd", "application/octet-stream", "public, max-age=31536000, immutable"},
		{"/api/updates/releases/1.0.0/" + url.PathEscape("Agua, Pro+ñ;%.zip"), "odd", "application/octet-stream", "public, max-age=31536000, immutable"},
		{"/updates/releases/1.0.0/My%20App.zip.sig", "signature", "text/plain; charset=utf-8", "public, max-age=31536000, immutable"},
	} {
		answer, body := servertest.Fetch(t, "GET", server.URL+c.path, nil)
		if answer.StatusCode != 200 || body != c.body || answer.Header.Get("Content-Type") != c.kind || answer.Header.Get("Cache-Control") != c.cache {
			t.Errorf("%s: %d %q %v", c.path, answer.StatusCode, body, answer.Header)
		}
		etag := answer.Header.Get("ETag")
		answer, body = servertest.Fetch(t, "GET", server.URL+c.path, http.Header{"If-None-Match": {`"other", W/` + etag}})
		if answer.StatusCode != 304 || body != "" || answer.Header.Get("ETag") != etag {
			t.Errorf("%s with its ETag: %d %q", c.path, answer.StatusCode, body)
		}
		answer, body = servertest.Fetch(t, "HEAD", server.URL+c.path, nil)
		if answer.StatusCode != 200 || body != "" || answer.ContentLength != int64(len(c.body)) {
			t.Errorf("HEAD %s: %d, length %d", c.path, answer.StatusCode, answer.ContentLength)
		}
	}
}

func TestUpdatesRefusesTheRest(t *testing.T) {
	server, _ := newServer(t, same)
	for _, path := range []string{
		"/", "/updates", "/updates/", "/updates/stable", "/updates/stable/", "/updates/stable/other.json", "/updates/beta/latest.json",
		"/updates/log/stable/0000000001.json", "/updates/uploads/file", "/updates/releases/1.0.0/staged/linux.json", "/updates/staged/1.0.0/linux-x86_64/1.json", "/updates/releases/1.0.0",
		"/updates/stable/../uploads/file", "/updates/stable%2flatest.json%00", "/updates/%2e%2e/uploads/file", "/updates/releases/../uploads/file",
		"/updates/releases/1.0.0/..%2f..%2fuploads%2ffile", "/updates/.tsmon/x", "/updates/releases/1.0.0/My App.zip/x",
		"/updates/" + strings.Repeat("a/", 500), "/updates/uploads/latest.json", "/updates/log/latest.json",
	} {
		if answer, body := servertest.Fetch(t, "GET", server.URL+strings.ReplaceAll(path, " ", "%20"), nil); answer.StatusCode != 404 || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %q, want 404", path, answer.StatusCode, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		if answer, _ := servertest.Fetch(t, method, server.URL+"/updates/stable/latest.json", nil); answer.StatusCode != 405 {
			t.Errorf("%s: %d, want 405", method, answer.StatusCode)
		}
	}
}

// failing is a store that is down, or whose bodies break off.
type failing struct {
	object.Store
	down bool
}

func (f *failing) Stat(ctx context.Context, key string) (object.Info, error) {
	if f.down {
		return object.Info{}, errors.Join(object.ErrUnavailable, errors.New("secret detail"))
	}
	return f.Store.Stat(ctx, key)
}

func (f *failing) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if f.down {
		return nil, object.Info{}, errors.Join(object.ErrUnavailable, errors.New("secret detail"))
	}
	body, info, err := f.Store.Get(ctx, key)
	info.Size += 5
	return body, info, err
}

func TestUpdatesWithABrokenStore(t *testing.T) {
	server, _ := newServer(t, func(s object.Store) object.Store { return &failing{s, true} })
	if answer, body := servertest.Fetch(t, "GET", server.URL+"/updates/stable/latest.json", nil); answer.StatusCode != 503 || strings.Contains(body, "secret") {
		t.Errorf("%d %q, want 503 without details", answer.StatusCode, body)
	}
	server, _ = newServer(t, func(s object.Store) object.Store { return &failing{s, false} })
	answer, err := http.Get(server.URL + "/updates/releases/1.0.0/My%20App.zip")
	if err != nil {
		return // not even its head is there
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("a body that broke off was read to a proper end: %q", body)
	}
}

// TestFilesWait: a store that hangs keeps nobody past the deadline of a request,
// neither a reader nor who uploads; a manifest in memory does not wait at all.
func TestFilesWait(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	f := apitest.Unsteady(w)
	server := w.ServeHasty(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	nobody.Get("/updates/stable/latest.json")
	f.Set(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, "objects.")
	for _, path := range []string{"/updates/releases/1.0.0/App_universal.app.tar.gz", "/uploads/0123456789abcdef0123456789abcdef.png"} {
		nobody.Get(path).WantFailure(t, 503)
		nobody.Send("HEAD", path, nil, nil)
	}
	body, header := apitest.Form(t, w, "file", "x.png", apitest.PNG)
	nobody.Send("POST", "/upload", body, header).WantFailure(t, 500)
	if got := nobody.Get("/updates/stable/latest.json"); got.Status != 200 {
		t.Errorf("the manifest: %d", got.Status)
	}
}
