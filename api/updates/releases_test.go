package updates_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/gate"
	"tsmon/store/object"
)

// TestReleasesAdmission: without a token this machine alone sees releases, asked by a name
// of its own, through nothing and by no other server's page; with one whoever has it.
func TestReleasesAdmission(t *testing.T) {
	w := apitest.Embedded(t)
	w.Desk(t).PublishVersion(t, "stable", "1.0.0")
	routes := []string{
		"/releases/overview", "/releases/versions", "/releases/versions/1.0.0", "/releases/channels/stable/adoption",
		"/releases/channels/stable/log", "/releases/channels/stable/log/1", "/releases/channels/stable/plans", "/releases/channels/stable/rehearse",
	}
	// ask returns the status for a request as it arrives.
	ask := func(w *apitest.World, path string, change func(*http.Request)) int {
		t.Helper()
		server := api.New(w.Options)
		defer server.Close()
		method, body := http.MethodGet, ""
		if strings.HasSuffix(path, "/rehearse") {
			method, body = http.MethodPost, `{"move":"pause","reason":"r"}`
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:8080"
		change(r)
		got := httptest.NewRecorder()
		server.Handler().ServeHTTP(got, r)
		return got.Code
	}
	host := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	from := func(address string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = address } }
	sent := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, change := range map[string]func(*http.Request){
		"itself": func(*http.Request) {}, "by name": host("localhost:8080"), "without a port": host("localhost"), "by IPv6": host("[::1]:8080"), "IPv6 without a port": host("[::1]"),
		"over IPv6": from("[::1]:5000"), "mapped": from("[::ffff:127.0.0.1]:5000"), "another loopback": host("127.1.2.3"),
		"its own page": sent("Origin", "http://127.0.0.1:8080"), "typed": sent("Sec-Fetch-Site", "none"), "same site": sent("Sec-Fetch-Site", "same-origin"),
	} {
		for _, path := range routes {
			if got := ask(w, path, change); got != http.StatusOK {
				t.Errorf("%s: %s: %d", name, path, got)
			}
		}
	}
	hostile := map[string]func(*http.Request){
		"another machine": from("192.0.2.7:5000"), "no address": from(""), "a socket": from("@"), "IPv6": from("[2001:db8::1]:5000"),
		"rebound": host("tsmon.example.com:8080"), "a prefix": host("127.0.0.1.example.com"), "localhost of others": host("localhost.example.com"), "no host": host(""), "a dot": host("localhost."),
		"decimal": host("2130706433"), "short": host("127.1"), "octal": host("0177.0.0.1"), "user": host("127.0.0.1@example.com"), "all": host("0.0.0.0:8080"), "its address": host("192.0.2.1:8080"),
		"another page": sent("Origin", "https://example.com"), "the desktop application": sent("Origin", "tauri://localhost"), "null": sent("Origin", "null"), "another port": sent("Origin", "http://127.0.0.1:9999"),
		"cross-site": sent("Sec-Fetch-Site", "cross-site"), "same-site": sent("Sec-Fetch-Site", "same-site"), "odd": sent("Sec-Fetch-Site", "SAME-ORIGIN"),
	}
	for _, name := range []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded", "Forwarded", "Via", "X-Real-Ip", "x-real-ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "Cdn-Loop",
	} {
		hostile["forwarded by "+name] = sent(name, "127.0.0.1")
		hostile["empty "+name] = sent(name, "")
	}
	for name, change := range hostile {
		for _, path := range routes {
			for _, prefix := range []string{"", "/api"} {
				if got := ask(w, prefix+path, change); got != http.StatusForbidden {
					t.Errorf("%s: %s%s: %d", name, prefix, path, got)
				}
			}
		}
	}
	behind := *w
	behind.BehindProxy = true
	if got := ask(&behind, routes[0], func(*http.Request) {}); got != http.StatusForbidden {
		t.Errorf("behind a proxy that says nothing: %d", got)
	}
	const token = "token-of-the-pages"
	closed := *w
	closed.ConsoleToken = token
	for _, path := range routes {
		for bearer, want := range map[string]int{
			"Bearer " + token: 200, "bearer " + token: 200, "": 401, "Bearer": 401, "Bearer ": 401, "Bearer " + token[1:]: 401, "Bearer " + token + "x": 401,
			"Basic " + token: 401, "Bearer " + apitest.MetricsKey: 401, token: 401,
		} {
			got := ask(&closed, path, func(r *http.Request) {
				r.RemoteAddr, r.Host = "192.0.2.7:5000", "tsmon.example.com"
				r.Header.Set("X-Forwarded-For", "192.0.2.9")
				r.Header.Set("Authorization", bearer)
			})
			if got != want {
				t.Errorf("%q: %s: %d, want %d", bearer, path, got, want)
			}
		}
	}
	if got := ask(&closed, routes[0], func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token} }); got != 401 {
		t.Errorf("two tokens: %d", got)
	}
}

// TestReleasesGuesses: wrong tokens are bounded as failed logins are. Who asks without one
// guesses nothing; nobody locks out others, also where all seem to come from one address.
func TestReleasesGuesses(t *testing.T) {
	const token = "token-of-the-pages"
	w := apitest.Embedded(t)
	w.ConsoleToken = token
	now := time.Now()
	w.Now = func() time.Time { return now }
	server := api.New(w.Options)
	t.Cleanup(server.Close)
	ask := func(address, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/releases/overview", nil)
		r.RemoteAddr, r.Host = address+":5000", "tsmon.example.com"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		got := httptest.NewRecorder()
		server.Handler().ServeHTTP(got, r)
		return got
	}
	want := func(what string, got *httptest.ResponseRecorder, status int) {
		t.Helper()
		if got.Code != status {
			t.Errorf("%s: %d %s, want %d", what, got.Code, got.Body, status)
		}
		if wait := got.Header().Get("Retry-After"); (status == http.StatusTooManyRequests) != (wait != "") {
			t.Errorf("%s: Retry-After is %q", what, wait)
		}
	}
	for range 200 {
		want("no token", ask("192.0.2.7", ""), 401)
	}
	for i := range 100 {
		want("a guess", ask("192.0.2.7", fmt.Sprint("guess-", i)), 401)
		want("a guess behind a proxy", ask("127.0.0.1", fmt.Sprint("guess-", i)), 401)
	}
	want("a guess too many", ask("192.0.2.7", "guess"), 429)
	want("the token after a guess too many", ask("192.0.2.7", token), 429)
	want("the token from another address", ask("192.0.2.8", token), 200)
	want("the token behind the proxy", ask("127.0.0.1", token), 200)
	now = now.Add(5 * time.Minute)
	want("the token, later", ask("192.0.2.7", token), 200)
	for range 10 {
		want("one guess", ask("127.0.0.1", "guess"), 401)
	}
	want("one guess, again", ask("127.0.0.1", "guess"), 429)
	for range 200 {
		want("the token, often", ask("192.0.2.7", token), 200)
	}
}

// read decodes the answer of a route.
func read[T any](t *testing.T, got apitest.Answer) (v T) {
	t.Helper()
	if err := json.Unmarshal(got.Body, &v); got.Status != http.StatusOK || err != nil || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %.300s: %v", got.Status, got.Body, err)
	}
	return v
}

func TestReleases(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	d.Policies["stable"] = release.Policy{Targets: []string{"linux-x86_64"}}
	d.Who = "maintainer"
	d.Origin = &channels.Origin{Commit: "0123abc", Run: "https://ci.example.com/4711"}
	d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Why = "faster"
		o.Rollout = &channels.Rollout{Steps: []int{25, 50, 100}, Every: channels.Duration(time.Hour)}
	})
	c := apitest.Client{TB: t, Base: w.Serve(t).URL}
	o := read[updates.Overview](t, c.Get("/releases/overview"))
	if len(o.Channels) != 2 || o.Channels[0].Channel != "beta" || len(o.Alarms) != 0 || !o.Rehearses || o.Channels[0].Shown || o.Channels[0].Version != "" {
		t.Fatalf("%+v", o)
	}
	s := o.Channels[1]
	if s.Version != "1.0.0" || s.Newest != "1.1.0" || s.Before != "1.0.0" || !s.Shown || s.Rollout.Percent != 25 || s.NextStep != 50 || s.Rollout.Due.IsZero() ||
		s.Last.Who != "maintainer" || s.Last.Why != "faster" || s.Last.Origin.Run != "https://ci.example.com/4711" || len(s.Missing) != 0 || !slices.Equal(s.Platforms, []string{"linux-x86_64", "linux-x86_64-appimage"}) ||
		s.Files[0] != "App_1.1.0_amd64.AppImage.tar.gz" || s.Adoption == nil || s.Adoption.Guard == nil || s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	for query, want := range map[string][]uint64{"": {2, 1}, "?limit=1": {2}, "?before=2": {1}, "?before=1": {}, "?limit=200&before=99": {2, 1}} {
		page := read[updates.EntryPage](t, c.Get("/releases/channels/stable/log"+query))
		got := []uint64{}
		for _, e := range page.Entries {
			got = append(got, e.Sequence)
		}
		if !slices.Equal(got, want) || page.More != (query == "?limit=1") {
			t.Errorf("%s: %v, more %v", query, got, page.More)
		}
	}
	e := read[updates.EntryDetail](t, c.Get("/releases/channels/stable/log/2"))
	if e.Manifest.Version != "1.0.0" || e.Rolling == nil || e.Rolling.Version != "1.1.0" || len(e.Reach) == 0 || e.Why != "faster" || !strings.HasPrefix(e.Manifest.Platforms["linux-x86_64"].URL, d.PublicURL) {
		t.Errorf("%+v", e)
	}
	offered := func(r gate.Reach) bool {
		return r.Version == "1.0.0" && r.Rollout == gate.In && r.Address == gate.Dynamic && r.Outcome == "offered" && r.Offered == "1.1.0"
	}
	if !slices.ContainsFunc(e.Reach, offered) {
		t.Errorf("nobody gets it: %+v", e.Reach)
	}
	a := read[updates.Spread](t, c.Get("/releases/channels/stable/adoption"))
	if a.Channel != "stable" || a.Guard == nil || a.History == nil {
		t.Errorf("%+v", a)
	}
	v := read[updates.Versions](t, c.Get("/releases/versions"))
	if len(v.Versions) != 2 || v.Versions[0].Version != "1.1.0" || v.Versions[0].Rollouts["stable"] != 25 || v.Versions[0].Size == 0 || !slices.Equal(v.Versions[1].Channels, []string{"stable"}) {
		t.Errorf("%+v", v)
	}
	one := read[updates.VersionDetail](t, c.Get("/releases/versions/1.1.0"))
	if len(one.Bundles) != 1 || !one.Bundles[0].Trusted || !one.Bundles[0].Bound || one.Bundles[0].KeyID == "" || one.Bundles[0].Size == 0 {
		t.Errorf("%+v", one)
	}
	if plans := read[updates.Waiting](t, c.Get("/releases/channels/stable/plans")); len(plans.Plans) != 0 {
		t.Errorf("%+v", plans)
	}
	for path, status := range map[string]int{
		"/releases/channels/nightly/log": 404, "/releases/channels/..%2fstable/log": 404, "/releases/channels/Stable/log": 404, "/releases/channels/stable/log/3": 404, "/releases/channels/stable/log/0": 404,
		"/releases/channels/stable/log/x": 400, "/releases/channels/stable/log/-1": 400, "/releases/channels/stable/log/99999999999999999999": 400, "/releases/channels/stable/log?limit=0": 400,
		"/releases/channels/stable/log?limit=201": 400, "/releases/channels/stable/log?before=x": 400, "/releases/channels/stable/log?before=": 400, "/releases/channels/stable/log?limit=": 400, "/releases/versions/9.9.9": 404, "/releases/versions/..%2f..": 404, "/releases/versions/x": 404,
		"/releases/channels/beta/adoption": 404, "/releases": 404, "/releases/channels": 404, "/releases/channels/releases/log": 404,
	} {
		c.Get(path).WantFailure(t, status)
	}
}

// stored returns every object of a world with its ETag.
func stored(t *testing.T, w *apitest.World) map[string]string {
	t.Helper()
	all := map[string]string{}
	for info, err := range w.Objects.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		all[info.Key] = info.ETag
	}
	return all
}

// TestRehearsal: a rehearsal is the plan of the dry run, or its refusal, and writes nothing.
func TestRehearsal(t *testing.T) {
	w := apitest.Embedded(t)
	w.Clock.Move(0)
	d := w.Desk(t)
	fixed := w.Clock.Now()
	d.Now = func() time.Time { return fixed }
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		d.PublishVersion(t, "stable", version)
	}
	d.PublishVersion(t, "beta", "1.3.0")
	c := apitest.Client{TB: t, Base: w.Serve(t).URL}
	before := stored(t, w)
	dry := release.Options{Channel: "stable", DryRun: true}
	why := func(o release.Options, text string) release.Options { o.Why = text; return o }
	quarter := func(o release.Options) release.Options { o.Rollout = &channels.Rollout{Steps: []int{25}}; return o }
	for body, want := range map[string]struct {
		command string
		plan    func() (*release.Plan, error)
	}{
		`{"move":"rollback","reason":"it's bad"}`: {`tsmon release rollback --channel stable --reason 'it'\''s bad'`,
			func() (*release.Plan, error) {
				return d.Rollback(t.Context(), release.RollbackOptions{Options: why(dry, "it's bad")})
			}},
		`{"move":"rollback","to":"1.0.0","reason":"$(id)"}`: {`tsmon release rollback --channel stable --to 1.0.0 --reason '$(id)'`,
			func() (*release.Plan, error) {
				return d.Rollback(t.Context(), release.RollbackOptions{Options: why(dry, "$(id)"), To: "1.0.0"})
			}},
		`{"move":"promote","from":"beta","steps":[25]}`: {`tsmon release promote --from beta --to stable --percent 25`,
			func() (*release.Plan, error) {
				return d.Promote(t.Context(), release.PromoteOptions{Options: quarter(dry), From: "beta"})
			}},
		`{"move":"promote","from":"beta","to":"1.3.0"}`: {`tsmon release promote --from beta --to stable 1.3.0`,
			func() (*release.Plan, error) {
				return d.Promote(t.Context(), release.PromoteOptions{Options: dry, From: "beta", Version: "1.3.0"})
			}},
		`{"move":"pause","reason":"wait"}`: {`tsmon channel pause stable --reason 'wait'`, func() (*release.Plan, error) { return d.Pause(t.Context(), why(dry, "wait")) }},
		`{"move":"resume"}`:                {`tsmon channel resume stable`, func() (*release.Plan, error) { return d.Resume(t.Context(), dry) }},
		`{"move":"rollout","steps":[5,50],"every":"6h"}`: {`tsmon channel rollout stable --steps 5,50 --every 6h`, func() (*release.Plan, error) {
			o := dry
			o.Rollout = &channels.Rollout{Steps: []int{5, 50}, Every: channels.Duration(6 * time.Hour)}
			return d.Rollout(t.Context(), o)
		}},
		`{"move":"rollback","to":"9.9.9","reason":"r"}`: {`tsmon release rollback --channel stable --to 9.9.9 --reason 'r'`,
			func() (*release.Plan, error) {
				return d.Rollback(t.Context(), release.RollbackOptions{Options: why(dry, "r"), To: "9.9.9"})
			}},
		`{"move":"rollback"}`: {`tsmon release rollback --channel stable`, func() (*release.Plan, error) { return d.Rollback(t.Context(), release.RollbackOptions{Options: dry}) }},
	} {
		got := read[map[string]any](t, c.Send("POST", "/releases/channels/stable/rehearse", apitest.Raw(body), nil))
		plan, err := want.plan()
		wanted := map[string]any{"command": want.command}
		if err != nil {
			refusal := err.(*release.Refusal) //nolint:forcetypeassert // of all of them
			wanted["refusal"] = map[string]any{"text": refusal.Error(), "mend": refusal.Mend}
		} else {
			var decoded any
			data, err := json.Marshal(plan)
			if err == nil {
				err = json.Unmarshal(data, &decoded)
			}
			if err != nil {
				t.Fatal(err)
			}
			wanted["plan"] = decoded
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s:\n%v, want\n%v", body, got, wanted)
		}
	}
	if after := stored(t, w); !maps.Equal(before, after) {
		t.Errorf("a rehearsal wrote: %v, before %v", after, before)
	}
	for body, status := range map[string]int{
		`{"move":"publish"}`: 400, `{}`: 400, `[]`: 400, ``: 400, `{"move":"rollback","to":"-x","reason":"r"}`: 400, `{"move":"rollback","to":"1.0.0;id","reason":"r"}`: 400,
		`{"move":"promote"}`: 400, `{"move":"promote","from":"beta --to x"}`: 400, `{"move":"pause","reason":"a\nb"}`: 400, `{"move":"pause","reason":"` + strings.Repeat("a", 1001) + `"}`: 400,
		`{"move":"rollout","steps":[5,50],"every":"soon"}`: 400, `{"move":"rollout","steps":["x"]}`: 400,
	} {
		c.Send("POST", "/releases/channels/stable/rehearse", apitest.Raw(body), nil).WantFailure(t, status)
	}
	c.Send("POST", "/releases/channels/nightly/rehearse", apitest.Raw(`{"move":"pause","reason":"r"}`), nil).WantFailure(t, 404)
	steps := strings.TrimSuffix(strings.Repeat("1,", 500), ",")
	c.Send("POST", "/releases/channels/stable/rehearse", apitest.Raw(fmt.Sprintf(`{"move":"promote","from":"beta","steps":[%s],"every":"1h"}`, steps)), nil).WantFailure(t, 400)
}

// TestReleasesOutage: while the store is away the overview shows what was known and since
// when, and a rehearsal says that the store can't be reached.
func TestReleasesOutage(t *testing.T) {
	w := apitest.Embedded(t)
	w.Refresh = 50 * time.Millisecond
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "stable", "1.1.0")
	outage := apitest.Unsteady(w)
	d.Store = w.Objects
	c := apitest.Client{TB: t, Base: w.Serve(t).URL}
	read[updates.EntryPage](t, c.Get("/releases/channels/stable/log"))
	outage.Fail(object.ErrUnavailable, "objects.")
	deadline := time.Now().Add(time.Minute)
	for {
		w.Clock.Move(5 * time.Second) // past what is kept
		o := read[updates.Overview](t, c.Get("/releases/overview"))
		if !o.Away.IsZero() {
			if i := slices.IndexFunc(o.Channels, func(c updates.ChannelState) bool { return c.Channel == "stable" }); o.Channels[i].Version != "1.1.0" || !o.Channels[i].Shown {
				t.Errorf("%+v", o)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the outage is not shown")
		}
	}
	c.Send("POST", "/releases/channels/stable/rehearse", apitest.Raw(`{"move":"rollback","reason":"r"}`), nil).WantFailure(t, 500)
	c.Get("/releases/versions").WantFailure(t, 500)
}
