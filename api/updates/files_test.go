package updates_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/object"
	"tsmon/store/object/dir"
)

// cutCases are ranges of an entity of 1000 bytes; want is empty where everything
// is sent.
var cutCases = []struct {
	header string
	status int
	want   string // Content-Range
}{
	{"bytes=0-0", 206, "bytes 0-0/1000"},
	{"bytes=0-999", 206, "bytes 0-999/1000"},
	{"bytes=500-", 206, "bytes 500-999/1000"},
	{"bytes=500-509", 206, "bytes 500-509/1000"},
	{"bytes=999-", 206, "bytes 999-999/1000"},
	{"bytes=990-5000", 206, "bytes 990-999/1000"},
	{"bytes=0-99999999999999999999999", 206, "bytes 0-999/1000"},
	{"bytes=-1", 206, "bytes 999-999/1000"},
	{"bytes=-1000", 206, "bytes 0-999/1000"},
	{"bytes=-5000", 206, "bytes 0-999/1000"},
	{"bytes=-99999999999999999999999", 206, "bytes 0-999/1000"},
	{"bytes=1000-", 416, "bytes */1000"},
	{"bytes=1000-1001", 416, "bytes */1000"},
	{"bytes=9223372036854775807-", 416, "bytes */1000"},
	{"bytes=99999999999999999999999-", 416, "bytes */1000"},
	{"bytes=-0", 416, "bytes */1000"},
	{"bytes=10-5", 200, ""},
	{"bytes=0-0,5-9", 200, ""}, // several are not sent in parts
	{"bytes=0-0, -1", 200, ""},
	{"bytes=" + strings.Repeat("0-0,", 3000) + "0-0", 200, ""},
	{"bytes=", 200, ""},
	{"bytes=-", 200, ""},
	{"bytes=--1", 200, ""},
	{"bytes=+1-2", 200, ""},
	{"bytes=1-2-3", 200, ""},
	{"bytes=0x1-0x2", 200, ""},
	{"bytes= 1-2", 200, ""},
	{"bytes=1 -2", 200, ""},
	{"bytes=a-b", 200, ""},
	{"bytes 0-1", 200, ""},
	{"items=0-1", 200, ""},
	{"0-1", 200, ""},
	{"bytes=١-٢", 200, ""},
}

// TestRanges asks for parts of a small and of a large file.
func TestRanges(t *testing.T) { testRanges(t, apitest.Embedded(t)) }

func testRanges(t *testing.T, w *apitest.World) {
	small := bytes.Repeat([]byte("0123456789"), 100)
	large := bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz\n"), 400_000) // 10 MB
	for key, data := range map[string][]byte{"releases/1.0.0/small.bin": small, "releases/1.0.0/large.bin": large, "releases/1.0.0/empty.bin": nil} {
		apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), key, bytes.NewReader(data), int64(len(data)), object.Attributes{}))
	}
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	const address = "/updates/releases/1.0.0/small.bin"
	whole := nobody.Get(address)
	etag, modified := whole.Header.Get("ETag"), whole.Header.Get("Last-Modified")
	if whole.Status != 200 || !bytes.Equal(whole.Body, small) || whole.Header.Get("Accept-Ranges") != "bytes" || etag == "" || modified == "" {
		t.Errorf("%d %v", whole.Status, whole.Header)
	}
	for _, c := range cutCases {
		for _, method := range []string{"GET", "HEAD"} {
			got := nobody.Send(method, address, nil, http.Header{"Range": {c.header}})
			want := c.status
			if method == "HEAD" {
				want = 200 // which has no part
			}
			checkPart(t, method+" "+c.header, got, want, c.want, small, method == "HEAD")
		}
	}
	for name, c := range map[string]struct {
		header http.Header
		want   int
	}{
		"of this one":         {http.Header{"If-Range": {etag}}, 206},
		"of another":          {http.Header{"If-Range": {`"other"`}}, 200},
		"weakly this one":     {http.Header{"If-Range": {"W/" + etag}}, 200},
		"without quotes":      {http.Header{"If-Range": {strings.Trim(etag, `"`)}}, 200},
		"by its date":         {http.Header{"If-Range": {modified}}, 200}, // which is no proof
		"of two":              {http.Header{"If-Range": {etag, etag}}, 200},
		"of none":             {http.Header{"If-Range": {""}}, 200},
		"that it has":         {http.Header{"If-None-Match": {etag}}, 304},
		"that it has, by":     {http.Header{"If-Modified-Since": {modified}}, 304},
		"that it has not":     {http.Header{"If-None-Match": {`"other"`}}, 206},
		"said twice":          {http.Header{"Range": {"bytes=0-4", "bytes=0-4"}}, 200},
		"beyond, of another":  {http.Header{"Range": {"bytes=5000-"}, "If-Range": {`"other"`}}, 200},
		"beyond, of this one": {http.Header{"Range": {"bytes=5000-"}, "If-Range": {etag}}, 416},
	} {
		if c.header["Range"] == nil {
			c.header["Range"] = []string{"bytes=0-4"}
		}
		got := nobody.Send("GET", address, nil, c.header)
		if got.Status != c.want || got.Status == 206 && string(got.Body) != "01234" || got.Status == 304 && len(got.Body) > 0 {
			t.Errorf("a part %s: %d %.100q, want %d", name, got.Status, got.Body, c.want)
		}
	}
	for header, part := range map[string][]byte{"bytes=5000000-5999999": large[5_000_000:6_000_000], "bytes=-300000": large[len(large)-300_000:], "bytes=1-": large[1:], "bytes=0-": large} {
		got := nobody.Send("GET", "/updates/releases/1.0.0/large.bin", nil, http.Header{"Range": {header}})
		if got.Status != 206 || !bytes.Equal(got.Body, part) {
			t.Errorf("%s: %d with %d bytes, want %d", header, got.Status, len(got.Body), len(part))
		}
	}
	if got := nobody.Get("/updates/releases/1.0.0/large.bin"); !bytes.Equal(got.Body, large) {
		t.Errorf("all of the large one: %d with %d bytes", got.Status, len(got.Body))
	}
	for header, want := range map[string]int{"bytes=0-0": 416, "bytes=-1": 416, "bytes=0-0,1-1": 200} {
		if got := nobody.Send("GET", "/updates/releases/1.0.0/empty.bin", nil, http.Header{"Range": {header}}); got.Status != want {
			t.Errorf("%s of nothing: %d", header, got.Status)
		}
	}
}

// checkPart holds an answer to what a range is of data.
func checkPart(t *testing.T, what string, got apitest.Answer, status int, contentRange string, data []byte, head bool) {
	t.Helper()
	if got.Status != status {
		t.Errorf("%.60s: %d, want %d", what, got.Status, status)
		return
	}
	want := data
	if status == 416 {
		got.WantFailure(t, 416)
	}
	if status == 206 {
		from, to := 0, 0
		if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/1000", &from, &to); err != nil {
			t.Fatal(err)
		}
		want = data[from : to+1]
	}
	if status == 200 {
		contentRange = ""
	}
	if got.Header.Get("Content-Range") != contentRange {
		t.Errorf("%.60s: Content-Range %q, want %q", what, got.Header.Get("Content-Range"), contentRange)
	}
	if length := got.Header.Get("Content-Length"); status != 416 && length != strconv.Itoa(len(want)) {
		t.Errorf("%.60s: Content-Length %s, want %d", what, length, len(want))
	}
	if status != 416 && !head && !bytes.Equal(got.Body, want) {
		t.Errorf("%.60s: %d other bytes", what, len(got.Body))
	}
}

// restless is a store whose objects change whenever they are looked at.
type restless struct{ object.Store }

func (restless) GetRange(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	return nil, object.ErrChanged
}

// TestRangeOfTheChanged: what changes while it is asked for is sent whole.
func TestRangeOfTheChanged(t *testing.T) {
	w := apitest.Embedded(t)
	apitest.Must[object.Info](t)(w.Objects.Create(t.Context(), "releases/1.0.0/a.bin", strings.NewReader("0123456789"), 10, object.Attributes{}))
	w.Objects = restless{w.Objects}
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	got := nobody.Send("GET", "/updates/releases/1.0.0/a.bin", nil, http.Header{"Range": {"bytes=2-3"}})
	if got.Status != 200 || string(got.Body) != "0123456789" || got.Header.Get("Content-Range") != "" {
		t.Errorf("%d %s %v", got.Status, got.Body, got.Header)
	}
}

// TestConditions asks for a manifest and a bundle under all sorts of conditions.
func TestConditions(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, address := range []string{"/updates/stable/latest.json", "/api/updates/stable/latest.json", "/updates/releases/1.0.0/App_universal.app.tar.gz", "/updates/releases/1.0.0/release.json"} {
		identity := []string{"identity"} // or the client asks for gzip by itself
		whole := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": identity})
		etag := whole.Header.Get("ETag")
		modified := apitest.Must[time.Time](t)(http.ParseTime(whole.Header.Get("Last-Modified")))
		at := func(d time.Duration) string { return modified.Add(d).Format(http.TimeFormat) }
		for name, c := range map[string]struct {
			header http.Header
			want   int
		}{
			"none":               {nil, 200},
			"its ETag":           {http.Header{"If-None-Match": {etag}}, 304},
			"weakly":             {http.Header{"If-None-Match": {"W/" + etag}}, 304},
			"any":                {http.Header{"If-None-Match": {"*"}}, 304},
			"in a list":          {http.Header{"If-None-Match": {`"a", W/"b" ,` + etag + `,"c"`}}, 304},
			"in two lines":       {http.Header{"If-None-Match": {`"a"`, etag}}, 304},
			"another":            {http.Header{"If-None-Match": {`"a"`}}, 200},
			"without quotes":     {http.Header{"If-None-Match": {strings.Trim(etag, `"`)}}, 200},
			"half of it":         {http.Header{"If-None-Match": {etag[:len(etag)-2] + `"`}}, 200},
			"empty":              {http.Header{"If-None-Match": {""}}, 200},
			"its date":           {http.Header{"If-Modified-Since": {at(0)}}, 304},
			"a later date":       {http.Header{"If-Modified-Since": {at(time.Hour)}}, 304},
			"an earlier date":    {http.Header{"If-Modified-Since": {at(-time.Second)}}, 200},
			"no date":            {http.Header{"If-Modified-Since": {"yesterday"}}, 200},
			"another and a date": {http.Header{"If-None-Match": {`"a"`}, "If-Modified-Since": {at(time.Hour)}}, 200},
			"ETag and old date":  {http.Header{"If-None-Match": {etag}, "If-Modified-Since": {at(-time.Hour)}}, 304},
		} {
			header := http.Header{"Accept-Encoding": identity}
			maps.Copy(header, c.header)
			for _, method := range []string{"GET", "HEAD"} {
				got := nobody.Send(method, address, nil, header)
				wantBody := got.Status == 200 && method == "GET"
				if got.Status != c.want || wantBody != (len(got.Body) > 0) || wantBody && !bytes.Equal(got.Body, whole.Body) {
					t.Errorf("%s %s, %s: %d with %d bytes", method, address, name, got.Status, len(got.Body))
				}
				kept := []string{"ETag", "Cache-Control", "Vary", "Last-Modified", "X-Content-Type-Options"}
				if got.Status == 304 {
					kept = kept[:3] // a cache has the others
				}
				for _, line := range kept {
					if got.Header.Get(line) != whole.Header.Get(line) {
						t.Errorf("%s %s, %s: %s is %q", method, address, name, line, got.Header.Get(line))
					}
				}
				if got.Status == 304 && (got.Header.Get("Content-Type") != "" || got.Header.Get("Content-Length") != "") {
					t.Errorf("%s %s, %s: %v", method, address, name, got.Header)
				}
				if got.Status == 200 && got.Header.Get("Content-Length") != strconv.Itoa(len(whole.Body)) {
					t.Errorf("%s %s, %s: length %s", method, address, name, got.Header.Get("Content-Length"))
				}
			}
		}
	}
}

// TestGzip asks for compressed JSON, and whether what one has is still good, in
// either form.
func TestGzip(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, address := range []string{"/updates/stable/latest.json", "/updates/releases/1.0.0/release.json"} {
		plain := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {"identity"}})
		packed := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {"gzip"}})
		z := apitest.Must[*gzip.Reader](t)(gzip.NewReader(bytes.NewReader(packed.Body)))
		if text := apitest.Must[[]byte](t)(io.ReadAll(z)); !bytes.Equal(text, plain.Body) || len(packed.Body) >= len(plain.Body) {
			t.Errorf("%s: %d bytes become %d", address, len(packed.Body), len(text))
		}
		etag, short := plain.Header.Get("ETag"), packed.Header.Get("ETag")
		if etag == short || plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v and %v", address, plain.Header, packed.Header)
		}
		for encoding, wantPacked := range map[string]bool{
			"": false, "identity": false, "gzip": true, "x-gzip": true, "GZIP": true, "gzip;q=1": true, "gzip;q=0.001": true, "br, gzip": true, "*": true,
			"gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=x": false, "gzip;q=-1": false, "br": false, "deflate, br;q=1": false, "*;q=0": false, "*, gzip;q=0": false, "gzip;q=0, *": false, "gzippy": false,
			"identity;q=0.5, *;q=0.1": true, ",,,gzip": true, ";": false,
		} {
			got := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {encoding}})
			if (got.Header.Get("Content-Encoding") == "gzip") != wantPacked || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%s, %q: %v", address, encoding, got.Header)
			}
		}
		for _, c := range []struct {
			encoding, has string
			status        int
			etag          string
		}{
			{"identity", etag, 304, etag},
			{"gzip", short, 304, short},
			{"gzip", etag, 304, etag}, // it reads plain text too
			{"gzip", etag + ", " + short, 304, short},
			{"identity", short, 200, etag}, // a shared cache asks for one who does not take gzip
			{"identity", "*", 304, etag},
			{"gzip", "*", 304, short},
			{"gzip", `"other"`, 200, short},
		} {
			got := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {c.encoding}, "If-None-Match": {c.has}})
			if got.Status != c.status || got.Header.Get("ETag") != c.etag {
				t.Errorf("%s: has %s and takes %s: %d %s", address, c.has, c.encoding, got.Status, got.Header.Get("ETag"))
			}
		}
		// A part is one of the form that is sent.
		got := nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {"gzip"}, "Range": {"bytes=10-19"}, "If-Range": {short}})
		if got.Status != 206 || !bytes.Equal(got.Body, packed.Body[10:20]) {
			t.Errorf("%s: a part: %d", address, got.Status)
		}
		got = nobody.Send("GET", address, nil, http.Header{"Accept-Encoding": {"identity"}, "Range": {"bytes=10-19"}, "If-Range": {short}})
		if got.Status != 200 || !bytes.Equal(got.Body, plain.Body) {
			t.Errorf("%s: a part of the other form: %d", address, got.Status)
		}
		nobody.Send("GET", address, nil, http.Header{"Range": {"bytes=1000000-"}}).WantFailure(t, 416)
	}
}

// TestBundleIsStreamed sends a quarter of a gibibyte and wants it not to pass
// through memory.
func TestBundleIsStreamed(t *testing.T) {
	w, size := apitest.Embedded(t), int64(256<<20)
	folder := t.TempDir()
	w.Objects = apitest.Must[*dir.Store](t)(dir.Open(folder))
	name := filepath.Join(folder, "releases", "1.0.0", "large.bin")
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600), os.Truncate(name, size)); err != nil {
		t.Fatal(err)
	}
	server := w.Serve(t)
	fetch := func(header string) (n int64) {
		r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", server.URL+"/updates/releases/1.0.0/large.bin", nil))
		r.Header.Set("Range", header)
		got := apitest.Must[*http.Response](t)(http.DefaultClient.Do(r))
		defer got.Body.Close()
		return apitest.Must[int64](t)(io.Copy(io.Discard, got.Body))
	}
	if n := fetch("bytes=-10"); n != 10 {
		t.Errorf("the end has %d bytes", n)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if n := fetch("bytes=1-"); n != size-1 {
		t.Errorf("%d bytes came", n)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("it took %d MiB of memory", used>>20)
	}
}

// TestBundleBreaksOff: what ends early in the store does not look whole to a
// client, over either way to send it.
func TestBundleBreaksOff(t *testing.T) {
	w := apitest.Embedded(t)
	folder := t.TempDir()
	files := apitest.Must[*dir.Store](t)(dir.Open(folder))
	data := bytes.Repeat([]byte("x"), 20<<20)
	apitest.Must[object.Info](t)(files.Create(t.Context(), "releases/1.0.0/a.bin", bytes.NewReader(data), int64(len(data)), object.Attributes{}))
	for name, store := range map[string]object.Store{"file": files, "stream": apitest.PlainBodies{Store: files}} {
		w.Objects = store
		server := w.Serve(t)
		got := apitest.Must[*http.Response](t)(http.Get(server.URL + "/updates/releases/1.0.0/a.bin"))
		if _, err := io.ReadFull(got.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "releases", "1.0.0", "a.bin")
		if err := os.Truncate(path, 1<<20); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, got.Body); err == nil {
			t.Errorf("%s: it looks whole after %d bytes", name, n)
		}
		got.Body.Close()
		apitest.Eventually(t, "a line of the log", func() bool { return strings.Contains(w.Logged.String(), "a.bin broke off") })
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		w.Logged.Reset()
	}
}
