package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/api/fleet"
)

// TestAdoptionOfServer: a maintainer without the records asks a server, with its key.
func TestAdoptionOfServer(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", bundles(t, "1.1.0", 100))
	data := t.TempDir()
	s := serve(t, data, append(k.env, "TSMON_REFRESH=50ms", "TSMON_METRICS_KEY=sesame-open-the-door"))
	check := func(id, version string) {
		t.Helper()
		if _, stderr, code := command(t, k.env, "tsmon", "update", "check", "--current", version, "--target", "linux-x86_64",
			"--endpoint", s.base+"/updates/stable/{{target}}/{{arch}}/{{current_version}}", "--header", "X-Tsmon-Client: "+id); code != 0 {
			t.Fatal(stderr)
		}
	}
	check("ana", "1.0.0")
	check("eva", "1.1.0")
	check("luis", "1.1.0")

	// Nothing but the key is configured where it is asked.
	elsewhere := func(key string, args ...string) (stdout, stderr string, code int) {
		env := []string{"TSMON_STORAGE=" + filepath.Join(t.TempDir(), "nothing")}
		if key != "" {
			env = append(env, "TSMON_METRICS_KEY="+key)
		}
		return command(t, env, "tsmon", append([]string{"channel", "adoption"}, args...)...)
	}
	var seen fleet.Adoption
	until(t, "the server counts three clients and an offer", func() bool {
		seen = fleet.Adoption{}
		stdout, stderr, code := elsewhere("sesame-open-the-door", "stable", "--server", s.base, "--json")
		if code != 0 {
			t.Fatal(stderr)
		}
		parse(t, stdout, &seen)
		return seen.Clients == 3 && seen.Newest.Offered == 1 // which are written apart
	})
	if v := seen.Versions; seen.Channel != "stable" || seen.Version != "1.1.0" || len(v) != 2 || v[0].Version != "1.1.0" || v[0].Clients != 2 || v[0].Percent != 66.7 || seen.Guard != nil {
		t.Errorf("%+v", seen)
	}
	if len(seen.Groups) != 2 || seen.Groups[0].Target != "linux-x86_64" {
		t.Errorf("groups %+v", seen.Groups)
	}
	if stdout, stderr, code := elsewhere("sesame-open-the-door", "stable", "--server", s.base+"/updates/"); code != 0 || !strings.Contains(stdout, "stable shows 1.1.0\n3 clients in the last 30 days\n") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	var here fleet.Adoption
	parse(t, k.mustWith(t, []string{"TSMON_DATA=" + data}, "channel", "adoption", "stable", "--json"), &here)
	if here.Clients != seen.Clients || len(here.Versions) != len(seen.Versions) || here.Versions[0] != seen.Versions[0] || here.Newest != seen.Newest {
		t.Errorf("the records have %+v, the server says %+v", here, seen)
	}

	closed := httptest.NewServer(nil)
	closed.Close()
	quiet := serve(t, t.TempDir(), append(k.env, "TSMON_REFRESH=50ms")) // has no key
	for _, base := range []string{s.base, quiet.base} {
		response, err := s.http.Get(base + "/updates/stable/adoption")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("without a key: status %d", response.StatusCode)
		}
	}
	for _, c := range []struct {
		what, key string
		args      []string
		code      int
		wants     string
	}{
		// follows: set TSMON_METRICS_KEY (server.metrics_key) to the key of the server there; a server without a key refuses everybody
		{"no key", "", []string{"stable", "--server", s.base}, 2, "set TSMON_METRICS_KEY (server.metrics_key) to the key of the server there"},
		{"another key", "another-door-another-key", []string{"stable", "--server", s.base}, 1, "refuses the key (status 403)\nhint: set TSMON_METRICS_KEY"},
		{"a server without a key", "sesame-open-the-door", []string{"stable", "--server", quiet.base}, 1, "refuses the key (status 403)\nhint: set TSMON_METRICS_KEY"},
		// follows: check channel and address: --server is the address of a tsmon serve that has adoption, not of a bucket, nor of an older one
		{"no such channel", "sesame-open-the-door", []string{"nightly", "--server", s.base}, 1, "was not found\nhint: check channel and address"},
		{"no channel at all", "sesame-open-the-door", []string{"../x", "--server", s.base}, 2, "not a channel name"},
		// follows: check --server, the server there and the network
		{"a server that is away", "sesame-open-the-door", []string{"stable", "--server", closed.URL}, 1, "hint: check --server, the server there and the network"},
		// follows: write https://, or ask on the machine of the server, by http://127.0.0.1:8080
		{"no TLS", "sesame-open-the-door", []string{"stable", "--server", "http://releases.example.com"}, 2, "would get the key without TLS\nhint: write https://"},
		// follows: write --server https://releases.example.com
		{"no address", "sesame-open-the-door", []string{"stable", "--server", "releases.example.com"}, 2, "hint: write --server https://releases.example.com"},
		{"an empty address", "sesame-open-the-door", []string{"stable", "--server", ""}, 2, "is not the address of a server"},
		{"a secret in the address", "sesame-open-the-door", []string{"stable", "--server", "https://ana:geheim@releases.example.com"}, 2, "is not the address of a server"},
	} {
		if stdout, stderr, code := elsewhere(c.key, c.args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.wants) || strings.Contains(stderr, "sesame-open-the-door") || strings.Contains(stderr, "geheim") {
			t.Errorf("%s: code %d: %s%s", c.what, code, stdout, stderr)
		}
	}
}

// TestAdoptionOfStrangers: what another server answers is bounded and checked, and the key
// goes nowhere else.
func TestAdoptionOfStrangers(t *testing.T) {
	t.Parallel()
	const good = `"channel":"stable","version":"1.0.0","clients":1,"newest":{"version":"1.0.0"}`
	answers := map[string]http.HandlerFunc{}
	answer := func(name, body string) {
		answers[name] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	answer("noise", "<html>")
	answer("another's", `{"channel":"beta","version":"1.0.0","newest":{"version":"1.0.0"}}`)
	answer("empty", `{}`)
	answer("a share above all", `{`+good+`,"versions":[{"version":"1.0.0","percent":1e300}]}`)
	answer("fewer than none", `{`+good+`,"curve":[{"clients":1},{"clients":-5}]}`)
	answer("a sample of nothing", `{`+good+`,"sample":{"share":0}}`)
	answer("too long a curve", `{`+good+`,"curve":[{"clients":1}`+strings.Repeat(`,{"clients":1}`, 1000)+`]}`)
	answer("too large", `{`+good+strings.Repeat(" ", 17<<20)+`}`)
	answers["broken off"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{` + good))
	}
	answers["a failure"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	told := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told += r.Header.Get("Authorization") + "!" }))
	t.Cleanup(thief.Close)
	answers["elsewhere"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, http.StatusFound) }
	// follows: check that --server is the address of a tsmon serve; its log says why it failed
	for name, h := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(h)
			defer server.Close()
			stdout, stderr, code := command(t, []string{"TSMON_METRICS_KEY=sesame-open-the-door"}, "tsmon", "channel", "adoption", "stable", "--server", server.URL)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "\nhint: check ") || strings.Contains(stderr, "panic") {
				t.Errorf("code %d: %s%.500s", code, stdout, stderr)
			}
		})
	}
	if told != "" {
		t.Errorf("a redirect was followed: %s", told)
	}

	// Text of a stranger can't act on a terminal, or pass for other rows.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{` + good + `,"versions":[{"version":"1.0.0\u001b[2J\n9.9.9","percent":1}],"guard":{"decision":"halt"}}`))
	}))
	defer server.Close()
	stdout, stderr, code := command(t, []string{"TSMON_METRICS_KEY=sesame-open-the-door"}, "tsmon", "channel", "adoption", "stable", "--server", server.URL)
	if code != 0 || strings.Contains(stdout, "\x1b") || strings.Contains(stdout, "\n9.9.9") || strings.Contains(stdout, "guard") {
		t.Errorf("code %d: %q%s", code, stdout, stderr)
	}
}

// mustWith is must with more variables.
func (k *kit) mustWith(t *testing.T, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, code := command(t, append(k.env[:len(k.env):len(k.env)], env...), "tsmon", args...)
	if code != 0 {
		t.Fatalf("tsmon %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}
