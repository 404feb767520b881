package updater_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsmon/manifest"
	"tsmon/manifest/updater"
)

var old = manifest.Client{Version: "1.0.0", Target: "linux-x86_64"}

// Endpoints are asked in order until one decides.
func TestCheckEndpoints(t *testing.T) {
	good := release("1.1.0", linux)
	routes := map[string]http.HandlerFunc{
		"/good":             text(200, good),
		"/created":          text(201, good),
		"/299":              text(299, good),
		"/same":             text(200, release("1.0.0", linux)),
		"/204":              text(204, ""),
		"/300":              text(300, good),
		"/304":              text(304, ""),
		"/404":              text(404, good),
		"/500":              text(500, "<html>"),
		"/shape":            text(200, `{"error":"none"}`),
		"/othershape":       text(200, `[]`),
		"/html":             text(200, "<html>"),
		"/empty":            text(200, ""),
		"/205":              text(205, ""),
		"/cut":              cut(good),
		"/hangup":           hangUp,
		"/redirect":         func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) },
		"/loop":             func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"/large":            text(200, good+strings.Repeat(" ", manifest.MaxSize)),
		"/fitting":          text(200, good+strings.Repeat(" ", manifest.MaxSize-len(good))),
		"/elsewhere":        text(200, release("1.1.0", `{}`)),
		"/currentelsewhere": text(200, release("1.0.0", `{}`)),
	}
	for _, c := range []struct {
		endpoints string // paths
		decided   string // path of the endpoint that decided
		attempts  int
		offered   bool
		err       error
		says      string
	}{
		{"/good", "/good", 1, true, nil, ""},
		{"/created", "/created", 1, true, nil, ""},
		{"/299", "/299", 1, true, nil, ""},
		{"/good /html", "/good", 1, true, nil, ""},
		{"/same /good", "/same", 1, false, nil, ""},
		{"/204 /good", "/204", 1, false, nil, ""},
		{"/shape /204 /good", "/204", 2, false, nil, ""},
		{"/300 /304 /404 /500 /good", "/good", 5, true, nil, ""},
		{"/hangup /good", "/good", 2, true, nil, ""},
		{"/loop /good", "/good", 2, true, nil, ""},
		{"/redirect", "/redirect", 1, true, nil, ""},
		{"/shape /othershape /good", "/good", 3, true, nil, ""},
		{"/fitting", "/fitting", 1, true, nil, ""},

		{"/html /good", "", 1, false, manifest.ErrNotJSON, "/html: "},
		{"/empty /good", "", 1, false, manifest.ErrNotJSON, "/empty: "},
		{"/205 /good", "", 1, false, manifest.ErrNotJSON, "/205: "},
		{"/cut /good", "", 1, false, io.ErrUnexpectedEOF, "/cut: "},
		{"/shape /html /good", "", 2, false, manifest.ErrNotJSON, "/html: "},
		{"/large /good", "", 1, false, nil, "longer than 1048576 bytes"},

		{"/404", "", 1, false, updater.ErrNoRelease, ""},
		{"/404 /500", "", 2, false, updater.ErrNoRelease, ""},
		{"", "", 0, false, updater.ErrNoRelease, ""},
		{"/shape", "", 1, false, manifest.ErrShape, "/shape: "},
		{"/shape /404", "", 2, false, manifest.ErrShape, "/shape: "}, // the status leaves the error before it in place
		{"/shape /othershape", "", 2, false, manifest.ErrShape, "/othershape: "},
		{"/shape /hangup", "", 2, false, io.EOF, "/hangup: "},
		{"/hangup /shape /500", "", 3, false, manifest.ErrShape, "/shape: "},
		{"/loop", "", 1, false, nil, "stopped after 10 redirects"},

		{"/elsewhere /good", "/elsewhere", 1, false, manifest.ErrTarget, "linux-x86_64"},
		{"/currentelsewhere /good", "/currentelsewhere", 1, false, nil, ""},
	} {
		t.Run(c.endpoints, func(t *testing.T) {
			s := newServer(t, routes)
			u := &updater.Updater{Client: old, HTTP: s.Client()}
			for path := range strings.FieldsSeq(c.endpoints) {
				u.Endpoints = append(u.Endpoints, s.URL+path)
			}
			result, err := u.Check(t.Context())
			failed := c.err != nil || c.says != ""
			if (err != nil) != failed || failed && (c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("ended with %v, want %v and %q", err, c.err, c.says)
			}
			if (result.Offer != nil) != c.offered || c.offered && result.Offer.Version != "1.1.0" {
				t.Errorf("offered %+v", result.Offer)
			}
			if strings.TrimPrefix(result.URL, s.URL) != c.decided || len(result.Attempts) != c.attempts {
				t.Errorf("decided by %q after %+v, want %q after %d attempts", result.URL, result.Attempts, c.decided, c.attempts)
			}
			for i, a := range result.Attempts {
				last := i == len(result.Attempts)-1
				if a.URL != u.Endpoints[i] || (a.Err == nil) != (last && c.decided != "") {
					t.Errorf("attempt %d is %+v", i+1, a)
				}
			}
		})
	}
}

func TestCheckAttemptsSayTheStatus(t *testing.T) {
	s := newServer(t, map[string]http.HandlerFunc{"/500": text(500, ""), "/hangup": hangUp, "/shape": text(203, "{}"), "/204": text(204, "")})
	u := &updater.Updater{Client: old, Endpoints: []string{s.URL + "/500", s.URL + "/hangup", s.URL + "/shape", s.URL + "/204"}}
	result, err := u.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var statuses []int
	for _, a := range result.Attempts {
		statuses = append(statuses, a.Status)
	}
	if want := []int{500, 0, 203, 204}; !slices.Equal(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	if !errors.Is(result.Attempts[0].Err, updater.ErrStatus) || result.Response != nil {
		t.Errorf("ended with %+v", result)
	}
}

// What is no address would stop a client from starting; no endpoint behind it
// makes up for it.
func TestCheckBadAddress(t *testing.T) {
	s := newServer(t, map[string]http.HandlerFunc{"/good": text(200, release("1.1.0", linux))})
	u := &updater.Updater{Client: old, Endpoints: []string{"https://h:port/x", s.URL + "/good"}}
	if result, err := u.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "https://h:port/x: not an address") || len(result.Attempts) != 1 {
		t.Errorf("ended with %+v, %v", result, err)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("%v was asked for", asked)
	}
}

func TestCheckEndpointVariables(t *testing.T) {
	plain := "/{{target}}/{{arch}}/{{current_version}}/{{bundle_type}}"
	encoded := strings.NewReplacer("{", "%7B", "}", "%7D").Replace(plain)
	const query = "?v={{current_version}}&a={{arch}}&b={{bundle_type}}&t={{target}}{{target}}"
	for _, c := range []struct {
		path   string
		client manifest.Client
		want   string
	}{
		{plain, manifest.Client{Version: "1.2.3", Target: "darwin-aarch64", BundleType: "app"}, "/darwin/aarch64/1.2.3/app"},
		{encoded, manifest.Client{Version: "1.2.3", Target: "darwin-aarch64", BundleType: "app"}, "/darwin/aarch64/1.2.3/app"},
		{plain + query, manifest.Client{Version: "v1.2.3-rc.1+b.5+", Target: "windows-x86_64"}, "/windows/x86_64/1.2.3-rc.1%2Bb.5%2B/unknown?v=1.2.3-rc.1%2Bb.5%2B&a=x86_64&b=unknown&t=windowswindows"},
		{encoded + query, manifest.Client{Version: "1.2.3+b", Target: "linux-armv7", BundleType: "deb"}, "/linux/armv7/1.2.3%2Bb/deb?v=1.2.3%2Bb&a=armv7&b=deb&t=linuxlinux"},
		{"/x{{ target }}{{TARGET}}{target}", manifest.Client{Version: "1.2.3", Target: "linux-armv7"}, "/x%7B%7B%20target%20%7D%7D%7B%7BTARGET%7D%7D%7Btarget%7D"},
		{"/%7b%7btarget%7d%7d", manifest.Client{Version: "1.2.3", Target: "linux-armv7"}, "/%7b%7btarget%7d%7d"},
	} {
		s := newServer(t, nil)
		u := &updater.Updater{Client: c.client, Endpoints: []string{s.URL + c.path}}
		if _, err := u.Check(t.Context()); !errors.Is(err, updater.ErrNoRelease) {
			t.Errorf("%s: %v", c.path, err)
		}
		if asked := s.asked(); !slices.Equal(asked, []string{c.want}) {
			t.Errorf("%s of %+v is asked for as %v, want %s", c.path, c.client, asked, c.want)
		}
	}
}

// Nothing is sent but what the updater sends.
func TestRequestHeaders(t *testing.T) {
	headers := make(chan http.Header, 1)
	s := newServer(t, map[string]http.HandlerFunc{"/x": func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.WriteHeader(http.StatusNoContent)
	}})
	want := func(accept string) http.Header {
		return http.Header{"Accept": {accept}, "Accept-Encoding": {"identity"}, "User-Agent": {"tauri-plugin-updater/2.14.1"}}
	}
	u := &updater.Updater{Client: old, Endpoints: []string{s.URL + "/x"}}
	if _, err := u.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-headers; !maps.EqualFunc(got, want("application/json"), slices.Equal) {
		t.Errorf("a check sends %v", got)
	}
	key := newSigner(t)
	u.Keys = key.keys()
	if err := u.Fetch(t.Context(), key.offer(s.URL+"/x", "", "1.1.0"), io.Discard, func(updater.Event) {}); err != nil {
		t.Fatal(err)
	}
	if got := <-headers; !maps.EqualFunc(got, want("application/octet-stream"), slices.Equal) {
		t.Errorf("a download sends %v", got)
	}
}

// TestApplicationHeadersWin: Accept and User-Agent are the updater's defaults only.
func TestApplicationHeadersWin(t *testing.T) {
	headers := make(chan http.Header, 1)
	s := newServer(t, map[string]http.HandlerFunc{"/x": func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.WriteHeader(http.StatusNoContent)
	}})
	own := http.Header{"Accept": {"application/vnd.github+json"}, "User-Agent": {"app/1"}}
	u := &updater.Updater{Client: old, Endpoints: []string{s.URL + "/x"}, Header: own}
	if _, err := u.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-headers; got.Get("Accept") != own.Get("Accept") || got.Get("User-Agent") != own.Get("User-Agent") {
		t.Errorf("sent %v", got)
	}
}

func TestCheckTimeout(t *testing.T) {
	s := newServer(t, map[string]http.HandlerFunc{"/silent": stall(false, ""), "/half": stall(true, `{"version":`), "/good": text(200, release("1.1.0", linux))})
	u := &updater.Updater{Client: old, CheckTimeout: 50 * time.Millisecond}
	u.Endpoints = []string{s.URL + "/silent", s.URL + "/good"}
	if result, err := u.Check(t.Context()); err != nil || result.Offer == nil || !errors.Is(result.Attempts[0].Err, updater.ErrTimeout) {
		t.Errorf("a silent endpoint is not passed over: %+v, %v", result, err)
	}
	u.Endpoints = []string{s.URL + "/half", s.URL + "/good"}
	if result, err := u.Check(t.Context()); !errors.Is(err, updater.ErrTimeout) || len(result.Attempts) != 1 {
		t.Errorf("half an answer ended with %+v, %v", result, err)
	}
	u.Endpoints = []string{s.URL + "/silent"}
	if result, err := u.Check(t.Context()); !errors.Is(err, updater.ErrTimeout) || !strings.HasPrefix(err.Error(), s.URL+"/silent: ") || result.Offer != nil {
		t.Errorf("silence ended with %+v, %v", result, err)
	}
}

func TestCheckCancelled(t *testing.T) {
	arrived := make(chan struct{})
	s := newServer(t, map[string]http.HandlerFunc{"/silent": func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	u := &updater.Updater{Client: old, Endpoints: []string{s.URL + "/silent", s.URL + "/good"}}
	if result, err := u.Check(ctx); !errors.Is(err, context.Canceled) || len(result.Attempts) != 1 {
		t.Errorf("ended with %+v, %v", result, err)
	}
}

func TestDefaultTimeouts(t *testing.T) {
	key := newSigner(t)
	offer := key.offer("https://h/x", "bundle", "1.1.0")
	started := transport(func(r *http.Request) (*http.Response, error) {
		return respond(r, io.MultiReader(strings.NewReader("bun"), quiet{r.Context()}), 6), nil
	})
	headed := transport(func(r *http.Request) (*http.Response, error) { return respond(r, quiet{r.Context()}, 6), nil })
	fetch := func(u *updater.Updater) error {
		return u.Fetch(context.Background(), offer, io.Discard, func(updater.Event) {})
	}
	check := func(u *updater.Updater) error {
		_, err := u.Check(context.Background())
		return err
	}
	for _, c := range []struct {
		name    string
		network transport
		do      func(*updater.Updater) error
		want    time.Duration
		says    string
	}{
		{"check", silence, check, 30 * time.Second, "https://h/latest.json: time-out"},
		{"before the headers", silence, fetch, 20 * time.Second, "https://h/x: time-out: the download did not start within 20s"},
		{"after the headers", headed, fetch, 20 * time.Second, "https://h/x: time-out: the download did not start within 20s"},
		{"in the middle", started, fetch, 30 * time.Second, "https://h/x: time-out: nothing came for 30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := c.do(&updater.Updater{Endpoints: []string{"https://h/latest.json"}, Client: old, Keys: key.keys(), HTTP: &http.Client{Transport: c.network}})
				if took := time.Since(begin); !errors.Is(err, updater.ErrTimeout) || err.Error() != c.says || took != c.want {
					t.Errorf("after %s: %v; want after %s: %s", took, err, c.want, c.says)
				}
			})
		})
	}
}

func TestFetchManifest(t *testing.T) {
	fitting := strings.Repeat("x", manifest.MaxSize)
	s := newServer(t, map[string]http.HandlerFunc{"/fitting": text(200, fitting), "/large": text(200, fitting+"x"), "/204": text(204, ""), "/500": text(500, "no"), "/cut": cut("{}")})
	if body, err := (&updater.Updater{}).FetchManifest(t.Context(), s.URL+"/fitting"); err != nil || string(body) != fitting {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	for path, c := range map[string]struct {
		err  error
		says string
	}{
		"/large": {nil, "longer than 1048576 bytes"},
		"/204":   {updater.ErrStatus, "unexpected status 204"},
		"/500":   {updater.ErrStatus, "unexpected status 500"},
		"/cut":   {io.ErrUnexpectedEOF, ""},
	} {
		body, err := (&updater.Updater{}).FetchManifest(t.Context(), s.URL+path)
		if body != nil || err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), s.URL+path+": ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
}
