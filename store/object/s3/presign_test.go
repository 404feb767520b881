package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/object"
	"tsmon/store/object/objecttest"
	"tsmon/store/servertest"
)

func mustPresign(t *testing.T, p object.Presigner, key string) *url.URL {
	t.Helper()
	address, err := p.Presign(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestPresign gets objects with odd keys below an odd prefix, by the name that the
// server has for its users and by another.
func TestPresign(t *testing.T) {
	server := servertest.StartMinIO(t)
	server.Setenv()
	raw := server.URL("a prefix/of ñ+%/" + rand.Text())
	s := open(t, raw, Limits{})
	byAnotherName := strings.Replace(server.Endpoint, "127.0.0.1", "localhost", 1)
	for _, endpoint := range []string{"", byAnotherName} {
		p, err := OpenPresigner(raw, endpoint, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{
			"releases/1.0.0/App_1.0.0_x64.msi.zip", "a b/c  d", "año/ñandú", "日本/東京", "a+b/c+d", "100%/%2F/%zz", "a#b/#c", "a?b/?c=d", "a&b/&=;@,!$'()*",
			"~a/~-_.~", "a..b/c..", "a[b]/{c}", "\"a\"/<b>|^`", "e\u0301/\u00e9", "😀", "a ",
		} {
			if endpoint == "" {
				mustCreate(t, s, key, strings.NewReader("content of "+key), int64(len("content of "+key)))
			}
			address := mustPresign(t, p, key)
			if want := strings.TrimPrefix(server.Endpoint, "http://"); endpoint == "" && address.Host != want || endpoint != "" && "http://"+address.Host != byAnotherName {
				t.Errorf("%q: the address leads to %s", key, address.Host)
			}
			answer, body := servertest.Fetch(t, "GET", address.String(), nil)
			if answer.StatusCode != 200 || body != "content of "+key || answer.Header.Get("Cache-Control") != "private" || answer.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("%q at %s: %d %.200q %v", key, endpoint, answer.StatusCode, body, answer.Header)
			}
			answer, body = servertest.Fetch(t, "GET", address.String(), http.Header{"Range": {"bytes=0-6"}})
			if answer.StatusCode != 206 || body != "content" {
				t.Errorf("a part of %q: %d %.200q", key, answer.StatusCode, body)
			}
		}
	}
	t.Run("NothingElse", func(t *testing.T) { testPresignedAlone(t, s) })
	t.Run("BadKeys", func(t *testing.T) {
		for _, key := range objecttest.BadKeys {
			if address, err := s.Presign(t.Context(), key, time.Minute); !errors.Is(err, object.ErrBadKey) || address != nil {
				t.Errorf("%q: %v, %v", key, address, err)
			}
		}
	})
}

// testPresignedAlone: an address permits reading one object and nothing else.
func testPresignedAlone(t *testing.T, s *Store) {
	for _, key := range []string{"one", "other"} {
		mustCreate(t, s, key, strings.NewReader(key), int64(len(key)))
	}
	address := mustPresign(t, s, "one")
	if life := address.Query().Get("X-Amz-Expires"); life != "60" {
		t.Errorf("it lives for %s s", life)
	}
	for _, method := range []string{"HEAD", "PUT", "DELETE", "POST"} {
		if answer, body := servertest.Fetch(t, method, address.String(), nil); answer.StatusCode/100 != 4 {
			t.Errorf("%s: %d %.200q", method, answer.StatusCode, body)
		}
	}
	elsewhere := strings.Replace(address.String(), "/one?", "/other?", 1)
	longer := strings.Replace(address.String(), "X-Amz-Expires=60", "X-Amz-Expires=600", 1)
	bare, _, _ := strings.Cut(address.String(), "?")
	for _, changed := range []string{elsewhere, longer, bare} {
		if answer, body := servertest.Fetch(t, "GET", changed, nil); answer.StatusCode != 403 || changed == address.String() {
			t.Errorf("%s: %d %.200q", changed, answer.StatusCode, body)
		}
	}
	if answer, _ := servertest.Fetch(t, "GET", mustPresign(t, s, "none").String(), nil); answer.StatusCode != 404 {
		t.Errorf("what is not there: %d", answer.StatusCode)
	}
}

// TestPresignAsksNobody: if the region is known there is no request.
func TestPresignAsksNobody(t *testing.T) {
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	address := mustPresign(t, s, "a/b")
	if !strings.HasPrefix(address.String(), s.endpoint.String()+"/bucket/prefix/a/b?") || strings.Contains(address.String(), "not-the-secret") {
		t.Errorf("the address is %s", address)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Presign(ctx, "a/b", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	for _, life := range []time.Duration{0, -time.Minute, 8 * 24 * time.Hour} {
		if address, err := s.Presign(t.Context(), "a/b", life); err == nil {
			t.Errorf("for %s: %s", life, address)
		}
	}
}

// nowhere opens a store at an endpoint that has to be asked for the region.
func nowhere(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	endpoint, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openAt(location{bucket: "bucket", endpoint: endpoint}, short)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPresignAsksForTheRegion, which it needs once, and no longer than its caller
// waits.
func TestPresignAsksForTheRegion(t *testing.T) {
	var asked atomic.Int32
	s := nowhere(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("location") || asked.Add(1) == 1 {
			failing(503, "SlowDown")(w, r)
			return
		}
		io.WriteString(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">mars</LocationConstraint>`)
	})
	if _, err := s.Presign(t.Context(), "a", time.Minute); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("while it is not told: %v", err)
	}
	for range 3 {
		if address := mustPresign(t, s, "a"); !strings.Contains(address.String(), "%2Fmars%2Fs3%2F") {
			t.Errorf("the address is %s", address)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want once without an answer and once with one", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s = nowhere(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := s.Presign(ctx, "a", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestPresignWithoutCredentials refuses: an address without a signature would look
// like one that is good.
func TestPresignWithoutCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MINIO_ROOT_USER", "MINIO_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s := at(t, "http://127.0.0.1:9")
	if address, err := s.Presign(t.Context(), "a", time.Minute); !errors.Is(err, fs.ErrPermission) || address != nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("%v, %v", address, err)
	}
}

func TestOpenPresignerBad(t *testing.T) {
	const good = "s3://bucket/prefix?endpoint=http://minio:9000"
	for _, c := range []struct{ raw, endpoint, want string }{
		{"s3://key:hunter2@bucket", "", "storage url"},
		{good, "hunter2", "presign endpoint: "},
		{good, "files.example.com", "https://host"},
		{good, "ftp://files.example.com", "https://host"},
		{good, "https://files.example.com/hunter2", "after its host"},
		{good, "https://files.example.com?hunter2", "after its host"},
		{good, "https://key:hunter2@files.example.com", "AWS_ACCESS_KEY_ID"},
		{good, "https://hunter2!0", "not usable"},
		{"s3://bucket", "https://files.example.com", "region"},
	} {
		_, err := OpenPresigner(c.raw, c.endpoint, Limits{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s at %s: %v", c.raw, c.endpoint, err)
		}
	}
	p, err := OpenPresigner("s3://bucket?region=eu-west-1", "https://files.example.com:443/", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if address := mustPresign(t, p, "a/b"); !strings.HasPrefix(address.String(), "https://files.example.com/bucket/a/b?") || !strings.Contains(address.String(), "%2Feu-west-1%2F") {
		t.Errorf("the address is %s", address)
	}
}
