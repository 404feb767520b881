package updater_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/signing"
)

// folder returns the names in a directory with the content of the files.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(content)
	}
	return files
}

func TestDownload(t *testing.T) {
	key := newSigner(t)
	large := strings.Repeat("0123456789abcdef", 1<<16) // more than one read
	for _, c := range []struct {
		name   string
		bundle string
		route  http.HandlerFunc
		first  string // event
		last   string // before Finished; empty: none
	}{
		{"with its length", "bundle", text(200, "bundle"), `{"event":"Started","data":{"contentLength":6}}`,
			`{"event":"Progress","data":{"chunkLength":6,"downloaded":6,"percent":100}}`},
		{"without its length", "bundle", chunked("bundle"), `{"event":"Started","data":{}}`,
			`{"event":"Progress","data":{"chunkLength":6,"downloaded":6}}`},
		{"one byte", "x", text(200, "x"), `{"event":"Started","data":{"contentLength":1}}`, `{"event":"Progress","data":{"chunkLength":1,"downloaded":1,"percent":100}}`},
		{"large", large, text(200, large), `{"event":"Started","data":{}}`, `"downloaded":1048576}}`},
		{"empty", "", text(200, ""), `{"event":"Finished","data":{}}`, ""},
		{"other status of success", "bundle", text(299, "bundle"), `{"event":"Started","data":{"contentLength":6}}`, `"percent":100}}`},
		{"redirected", "bundle", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, `{"event":"Started","data":{"contentLength":9}}`, `"percent":100}}`},
		// Clients undo no content coding: a .tar.gz that is labelled so arrives whole.
		{"labelled as compressed", "\x1f\x8b no gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b no gzip")
		}, `{"event":"Started","data":{"contentLength":10}}`, `"percent":100}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "redirected" {
				c.bundle = "elsewhere"
			}
			s := newServer(t, map[string]http.HandlerFunc{"/x": c.route, "/elsewhere": text(200, "elsewhere")})
			dir, seen := t.TempDir(), &recorder{}
			path := filepath.Join(dir, "App.tar.gz")
			if err := os.WriteFile(path, []byte("what was there before"), 0o600); err != nil {
				t.Fatal(err)
			}
			u := &updater.Updater{Keys: key.keys(), RequireVersion: true, HTTP: s.Client()}
			if err := u.Download(t.Context(), key.offer(s.URL+"/x", c.bundle, "1.1.0"), path, seen.record); err != nil {
				t.Fatal(err)
			}
			if files := folder(t, dir); len(files) != 1 || files["App.tar.gz"] != c.bundle {
				t.Errorf("the folder holds %d files, the bundle has %d bytes", len(files), len(files["App.tar.gz"]))
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
				t.Errorf("the file has mode %v, %v", info.Mode(), err)
			}
			lines := strings.Split(seen.json(t), "\n")
			if lines[0] != c.first || lines[len(lines)-1] != `{"event":"Finished","data":{}}` {
				t.Errorf("events: %s", lines)
			}
			if c.last != "" && (seen.names() != "Started Progress Finished" || !strings.HasSuffix(lines[len(lines)-2], c.last)) {
				t.Errorf("events: %s", lines)
			}
			total := 0
			for _, e := range seen.events {
				if total += e.Data.ChunkLength; e.Event == "Progress" && e.Data.Downloaded != int64(total) {
					t.Errorf("%+v after %d bytes", e, total)
				}
			}
			if total != len(c.bundle) {
				t.Errorf("%d of %d bytes were reported", total, len(c.bundle))
			}
		})
	}
}

// Percent is rounded down; each piece is sent when the one before was reported.
func TestDownloadProgress(t *testing.T) {
	const bundle = "abcdefg"
	key, reported := newSigner(t), make(chan struct{})
	s := newServer(t, map[string]http.HandlerFunc{"/x": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(bundle)))
		for i := range len(bundle) {
			_, _ = io.WriteString(w, bundle[i:i+1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-reported:
			case <-r.Context().Done():
				return
			}
		}
	}})
	var percents []int64
	u := &updater.Updater{Keys: key.keys()}
	err := u.Fetch(t.Context(), key.offer(s.URL+"/x", bundle, "1.1.0"), io.Discard, func(e updater.Event) {
		if e.Event == "Progress" {
			percents = append(percents, *e.Data.Percent)
			reported <- struct{}{}
		}
	})
	if got, want := fmt.Sprint(percents), "[14 28 42 57 71 85 100]"; err != nil || got != want {
		t.Errorf("percents %s, %v; want %s", got, err, want)
	}
}

// A failed download leaves no file, not even a temporary one, and an existing file
// unchanged.
func TestDownloadFailures(t *testing.T) {
	const bundle = "the bundle"
	key, stranger := newSigner(t), newSigner(t)
	signature := key.sign(bundle, "1.1.0")
	var form *signing.FormatError
	const unasked, started, whole = "no request", "Started Progress", "Started Progress Finished"
	for _, c := range []struct {
		name   string
		route  http.HandlerFunc
		change func(*manifest.Offer)
		err    error
		says   string
		events string
	}{
		{"changed bundle", text(200, "the bundlf"), nil, signing.ErrSignature, "changed after it was signed", whole},
		{"longer bundle", text(200, bundle+"\n"), nil, signing.ErrSignature, "", whole},
		{"shorter bundle", text(200, bundle[:9]), nil, signing.ErrSignature, "", whole},
		{"page in place of the bundle", text(200, "<html>"), nil, signing.ErrSignature, "", whole},
		{"no content", text(204, ""), nil, signing.ErrSignature, "", "Finished"},
		{"less than announced", cut(bundle), nil, io.ErrUnexpectedEOF, "", started},
		{"broken off", func(w http.ResponseWriter, _ *http.Request) { chunked(bundle)(w, nil); panic(http.ErrAbortHandler) }, nil, io.ErrUnexpectedEOF, "", started},
		{"closed connection", hangUp, nil, io.EOF, "", ""},
		{"missing", text(404, bundle), nil, updater.ErrStatus, "unexpected status 404", ""},
		{"choices", text(300, bundle), nil, updater.ErrStatus, "unexpected status 300", ""},
		{"server error", text(503, bundle), nil, updater.ErrStatus, "unexpected status 503", ""},
		{"endless redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, nil, nil, "stopped after 10 redirects", ""},
		{"redirect to nothing", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/gone", http.StatusFound) }, nil, updater.ErrStatus, "unexpected status 404", ""},
		{"no server", nil, func(o *manifest.Offer) { o.URL = "http://127.0.0.1:1/x" }, nil, "refused", ""},
		{"no address", nil, func(o *manifest.Offer) { o.URL = "http://h:port/" }, nil, "not an address", ""},
		{"other key", text(200, bundle), func(o *manifest.Offer) { o.Signature = stranger.sign(bundle, "1.1.0") }, signing.ErrUntrustedKey, "", unasked},
		{"other version", text(200, bundle), func(o *manifest.Offer) { o.Version = "1.2.0" }, signing.ErrBound, `"1.1.0" is signed`, unasked},
		{"no version", text(200, bundle), func(o *manifest.Offer) { o.Signature = key.sign(bundle, "") }, signing.ErrUnbound, "", unasked},
		{"no signature", text(200, bundle), func(o *manifest.Offer) { o.Signature = "App.sig" }, nil, "name of a file", unasked},
		{"signature with a line break", text(200, bundle), func(o *manifest.Offer) { o.Signature += "\n" }, nil, "line break", unasked},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, map[string]http.HandlerFunc{"/x": c.route})
			if c.route == nil {
				s = newServer(t, nil)
			}
			offer := &manifest.Offer{Version: "1.1.0", Platform: manifest.Platform{URL: s.URL + "/x", Signature: signature}}
			if c.change != nil {
				c.change(offer)
			}
			u := &updater.Updater{Keys: key.keys(), RequireVersion: true, HTTP: s.Client()}
			for _, before := range []map[string]string{{}, {"App.tar.gz": "what was there before"}} {
				dir, seen := t.TempDir(), &recorder{}
				for name, content := range before {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				err := u.Download(t.Context(), offer, filepath.Join(dir, "App.tar.gz"), seen.record)
				if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), offer.URL+": ") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("ended with %v, want %v and %q", err, c.err, c.says)
				}
				if errors.As(err, &form) != (strings.Contains(c.name, "signature")) {
					t.Errorf("ended with %v", err)
				}
				if after := folder(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the folder held %q, now it holds %q", before, after)
				}
				if want := strings.TrimPrefix(c.events, unasked); seen.names() != want {
					t.Errorf("events %q, want %q", seen.names(), want)
				}
			}
			if asked := len(s.asked()); (asked == 0) != (c.events == unasked || c.route == nil) {
				t.Errorf("%d requests", asked)
			}
		})
	}
}

// A bundle has at most the size that the record of its release states: an endless answer
// is cut off there, and leaves no file.
func TestDownloadIsBounded(t *testing.T) {
	const bundle = "the bundle"
	key := newSigner(t)
	taken := 0
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	}
	record := text(200, fmt.Sprintf(`{"version":"1.1.0","bundles":[{"name":"Other.zip","size":99999},{"name":"App.zip","size":%d}]}`, len(bundle)))
	for name, c := range map[string]struct {
		record, bundle http.HandlerFunc
		err            error
	}{
		"as stated":          {record, text(200, bundle), nil},
		"without a length":   {record, chunked(bundle), nil},
		"endless":            {record, endless, updater.ErrSize},
		"announced too long": {record, text(200, bundle+"x"), updater.ErrSize},
		"one byte too many":  {record, chunked(bundle + "x"), updater.ErrSize},
		"no record":          {text(404, ""), text(200, bundle), nil},
		"no record, announced as enormous": {text(404, ""), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3221225472")
		}, updater.ErrSize},
		"a page for a record":          {text(200, "<html>"), chunked(bundle), nil},
		"an endless record":            {endless, text(200, bundle), nil},
		"a record of other files":      {text(200, `{"bundles":[{"name":"x","size":1}]}`), text(200, bundle), nil},
		"a record that gives no bytes": {text(200, `{"bundles":[{"name":"App.zip","size":0}]}`), text(200, bundle), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, map[string]http.HandlerFunc{"/d/releases/1.1.0/App.zip": c.bundle, "/d/releases/1.1.0/release.json": c.record})
			offer := &manifest.Offer{Version: "1.1.0", Platform: manifest.Platform{URL: s.URL + "/d/releases/1.1.0/App.zip", Signature: key.sign(bundle, "1.1.0")}}
			u := &updater.Updater{Keys: key.keys(), RequireVersion: true, HTTP: s.Client()}
			dir := t.TempDir()
			taken = 0
			err := u.Download(t.Context(), offer, filepath.Join(dir, "App.zip"), func(e updater.Event) { taken += e.Data.ChunkLength })
			want := map[string]string{}
			if c.err == nil {
				want["App.zip"] = bundle
			}
			if got := folder(t, dir); !errors.Is(err, c.err) || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, left %.100q; want %v", err, got, c.err)
			}
			if taken > len(bundle)+1 {
				t.Errorf("took %d bytes", taken)
			}
		})
	}
}

// Unbound signatures are accepted unless the application requires a version.
func TestDownloadUnbound(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, map[string]http.HandlerFunc{"/x": text(200, "bundle")})
	path := filepath.Join(t.TempDir(), "App.tar.gz")
	offer := &manifest.Offer{Version: "7.0.0", Platform: manifest.Platform{URL: s.URL + "/x", Signature: key.sign("bundle", "")}}
	if err := (&updater.Updater{Keys: key.keys()}).Download(t.Context(), offer, path, func(updater.Event) {}); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(path); string(content) != "bundle" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestDownloadStalls(t *testing.T) {
	const short, long = 50 * time.Millisecond, time.Minute
	key := newSigner(t)
	for _, c := range []struct {
		name         string
		route        http.HandlerFunc
		start, stall time.Duration
		says, events string
	}{
		{"before the headers", stall(false, ""), short, long, "the download did not start within 50ms", ""},
		{"after the headers", stall(true, ""), short, long, "the download did not start within 50ms", ""},
		{"in the middle", stall(true, "the bun"), long, short, "no data for 50ms", "Started Progress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, map[string]http.HandlerFunc{"/x": c.route})
			dir, seen := t.TempDir(), &recorder{}
			u := &updater.Updater{Keys: key.keys(), StartTimeout: c.start, StallTimeout: c.stall, HTTP: s.Client()}
			err := u.Download(t.Context(), key.offer(s.URL+"/x", "the bundle", "1.1.0"), filepath.Join(dir, "App"), seen.record)
			if !errors.Is(err, updater.ErrTimeout) || !strings.HasSuffix(err.Error(), c.says) || !strings.HasPrefix(err.Error(), s.URL+"/x: ") {
				t.Errorf("ended with %v", err)
			}
			if files := folder(t, dir); len(files) > 0 || seen.names() != c.events {
				t.Errorf("the folder holds %q after %s", files, seen.names())
			}
		})
	}
}

func TestDownloadCancelled(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, map[string]http.HandlerFunc{"/x": stall(true, "the bun")})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	err := (&updater.Updater{Keys: key.keys()}).Download(ctx, key.offer(s.URL+"/x", "the bundle", "1.1.0"), filepath.Join(dir, "App"), func(e updater.Event) {
		if e.Event == "Progress" {
			cancel()
		}
	})
	if files := folder(t, dir); !errors.Is(err, context.Canceled) || errors.Is(err, updater.ErrTimeout) || len(files) > 0 {
		t.Errorf("ended with %v, the folder holds %q", err, files)
	}
}

func TestDownloadNeedsAWritablePath(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, map[string]http.HandlerFunc{"/x": text(200, "bundle")})
	u, offer := &updater.Updater{Keys: key.keys()}, key.offer(s.URL+"/x", "bundle", "1.1.0")
	dir := t.TempDir()
	if err := u.Download(t.Context(), offer, filepath.Join(dir, "absent", "App"), func(updater.Event) {}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("%v was asked for, with nowhere to put it", asked)
	}
	if err := os.MkdirAll(filepath.Join(dir, "taken", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := u.Download(t.Context(), offer, filepath.Join(dir, "taken"), func(updater.Event) {}); err == nil {
		t.Error("a folder is replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// full fails like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, fs.ErrPermission }

func TestFetchIntoFailingWriter(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, map[string]http.HandlerFunc{"/x": text(200, "bundle")})
	seen := &recorder{}
	err := (&updater.Updater{Keys: key.keys()}).Fetch(t.Context(), key.offer(s.URL+"/x", "bundle", "1.1.0"), full{}, seen.record)
	if !errors.Is(err, fs.ErrPermission) || seen.names() != "Started Progress" {
		t.Errorf("ended with %v after %s", err, seen.names())
	}
}
