package updates_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/store/object"
	"tsmon/store/object/s3"
	"tsmon/store/servertest"
)

// bucketed is a world whose files are in MinIO, and whose bundles clients get there.
func bucketed(t *testing.T) (*apitest.World, *servertest.MinIO) {
	t.Helper()
	minio := servertest.StartMinIO(t)
	minio.Setenv()
	w := apitest.Embedded(t)
	limits := s3.Limits{Tries: 1}
	w.Objects = apitest.Must[object.Store](t)(s3.Open(minio.URL("desktop"), limits))
	w.Presigner = apitest.Must[object.Presigner](t)(s3.OpenPresigner(minio.URL("desktop"), "", limits))
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	return w, minio
}

// untold demands that no header but Location, no body and no log shows an address
// that is good.
func untold(t *testing.T, w *apitest.World, got apitest.Answer) {
	t.Helper()
	for name, values := range got.Header {
		if name != "Location" && strings.Contains(strings.Join(values, " "), "X-Amz") {
			t.Errorf("%s: %s", name, values)
		}
	}
	if strings.Contains(string(got.Body), "X-Amz") || strings.Contains(w.Logged.String(), "X-Amz") {
		t.Errorf("the body or the log shows a presigned address: %.300s", got.Body)
	}
}

// TestUpdatesPresigned: bundles, and nothing else, come from the bucket, for who
// has the token.
func TestUpdatesPresigned(t *testing.T) {
	const token = "token-of-the-updates"
	w, minio := bucketed(t)
	odd := "Agua, Pro+ñ;%.zip"
	apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), "releases/1.0.0/"+odd, strings.NewReader("odd"), 3, object.Attributes{}))
	store := w.WatchObjects()
	w.UpdatesToken = token
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	somebody := nobody
	somebody.Token = token
	for path, want := range map[string]string{
		"/updates/releases/1.0.0/App_universal.app.tar.gz":     "App_universal.app.tar.gz1.0.0",
		"/api/updates/releases/1.0.0/App_universal.app.tar.gz": "App_universal.app.tar.gz1.0.0",
		"/updates/releases/1.0.0/" + url.PathEscape(odd):       "odd",
	} {
		got := nobody.Get(path)
		got.WantFailure(t, 401)
		untold(t, w, got)
		got = somebody.Send("GET", path+"?token="+token, nil, http.Header{"Range": {"bytes=1-2"}, "If-None-Match": {"*"}})
		untold(t, w, got)
		if got.Status != 302 || len(got.Body) > 0 || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Fatalf("%s: %d %v %.300s", path, got.Status, got.Header, got.Body)
		}
		location := apitest.Must[*url.URL](t)(url.Parse(got.Header.Get("Location")))
		if location.Scheme+"://"+location.Host != minio.Endpoint || location.Query().Get("X-Amz-Expires") != "900" || strings.Contains(location.String(), token) {
			t.Errorf("%s: sent to %s", path, location)
		}
		if answer, body := servertest.Fetch(t, "GET", location.String(), nil); answer.StatusCode != 200 || body != want {
			t.Errorf("%s: the bucket answers %d %.300q", path, answer.StatusCode, body)
		}
		if answer, body := servertest.Fetch(t, "GET", location.String(), http.Header{"Range": {"bytes=1-2"}}); answer.StatusCode != 206 || body != want[1:3] {
			t.Errorf("%s: a part of it is %d %.300q", path, answer.StatusCode, body)
		}
		if got := somebody.Send("HEAD", path, nil, nil); got.Status != 200 || got.Header.Get("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("HEAD %s: %d %v", path, got.Status, got.Header)
		}
	}
	if n := store.Count("Get releases/1.0.0/App_universal.app.tar.gz"); n > 2 { // for HEAD, twice
		t.Errorf("a bundle passed through the server %d times", n)
	}
	if text := w.Logged.String(); strings.Contains(text, token) || !strings.Contains(text, `"status":302`) {
		t.Error("the token is in the log, or the redirects are not")
	}
}

// TestUpdatesPresignedFollowed: a client that follows redirects has nothing else to
// know.
func TestUpdatesPresignedFollowed(t *testing.T) {
	w, minio := bucketed(t)
	base := w.Serve(t).URL
	for _, c := range []struct{ part, want string }{{"", "App_universal.app.tar.gz1.0.0"}, {"bytes=4-12", "universal"}, {"bytes=-5", "1.0.0"}} {
		answer, body := servertest.Fetch(t, "GET", base+"/updates/releases/1.0.0/App_universal.app.tar.gz", http.Header{"Range": {c.part}})
		if answer.StatusCode/100 != 2 || body != c.want || "http://"+answer.Request.URL.Host != minio.Endpoint || answer.Header.Get("Cache-Control") != "private" {
			t.Errorf("%q: %d %.300q from %s, %v", c.part, answer.StatusCode, body, answer.Request.URL.Host, answer.Header)
		}
	}
}

// TestUpdatesPresignedAlone: what is no bundle comes from the server, and what is
// not there from nowhere.
func TestUpdatesPresignedAlone(t *testing.T) {
	w, _ := bucketed(t)
	apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), "uploads/file", strings.NewReader("x"), 1, object.Attributes{}))
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for path, want := range map[string]int{
		"/updates/stable/latest.json":                             200,
		"/updates/stable/linux/x86_64/0.9.0":                      200,
		"/updates/releases/1.0.0/release.json":                    200,
		"/updates/releases/1.0.0/App_universal.app.tar.gz.sig":    200,
		"/updates/releases/1.0.0/nothing.zip":                     404,
		"/updates/releases/1.0.1/App_universal.app.tar.gz":        404,
		"/updates/releases/1.0.0/nothing.zip.sig":                 404,
		"/updates/releases/1.0.0/staged/linux-x86_64.json":        404,
		"/updates/releases/1.0.0/..%2F..%2Fuploads%2Ffile":        404,
		"/updates/releases/%2F%2Fevil.example/x":                  404,
		"/updates/releases/1.0.0/App_universal.app.tar.gz%0d%0a":  404,
		"/updates/releases/1.0.0/App_universal.app.tar.gz%2Fpart": 404,
		"/updates/uploads/file":                                   404,
		"/updates/log/stable/0000000001.json":                     404,
	} {
		got := nobody.Get(path)
		untold(t, w, got)
		if got.Status != want || got.Header.Get("Location") != "" {
			t.Errorf("%s: %d to %q, want %d", path, got.Status, got.Header.Get("Location"), want)
		}
	}
}

// TestUpdatesPresignedFails: without the store, or without credentials to sign with,
// nobody is sent anywhere.
func TestUpdatesPresignedFails(t *testing.T) {
	w, minio := bucketed(t)
	const path = "/updates/releases/1.0.0/App_universal.app.tar.gz"
	fails := func(why string) {
		t.Helper()
		got := apitest.Client{TB: t, Base: w.Serve(t).URL}.Get(path)
		untold(t, w, got)
		if text := got.WantFailure(t, 503); got.Header.Get("Location") != "" || got.Header.Get("Referrer-Policy") != "" || strings.Contains(text, minio.Endpoint) {
			t.Errorf("%s: %s %v", why, text, got.Header)
		}
	}
	if got := (apitest.Client{TB: t, Base: w.Serve(t).URL}).Get(path); got.Status != 302 {
		t.Errorf("with the store and credentials: %d", got.Status)
	}
	presigner := w.Presigner
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MINIO_ROOT_USER", "MINIO_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	w.Presigner = apitest.Must[object.Presigner](t)(s3.OpenPresigner(minio.URL("desktop"), "", s3.Limits{}))
	fails("without credentials")
	w.Presigner = presigner
	minio.Stop()
	fails("without the store")
}
