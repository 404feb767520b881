package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsmon/signing"
)

// TestPlugin lets an application with the real updater plugin (testdata/plugin) update
// itself from the server: from the manifest, from the dynamic address, and after a rollback. It must
// refuse tampered bundles and those of another key. `make test-plugin` builds the application;
// without it the test is skipped.
func TestPlugin(t *testing.T) {
	program := os.Getenv("TSMON_TEST_PLUGIN")
	if program == "" {
		t.Skip("needs TSMON_TEST_PLUGIN; run make test-plugin")
	}
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	publish := func(version string) []byte {
		t.Helper()
		file := filepath.Join(t.TempDir(), "App_"+version+"_amd64.AppImage")
		content := append([]byte("\x7fELF"), bytes.Repeat([]byte(version+"\n"), 5000)...) // the plugin looks at that
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		k.must(t, "release", "publish", "--version", version, file)
		return content
	}
	key := k.keys
	// update returns what the application says, and what lies on its disk then.
	update := func(endpoint, current string, env ...string) (said string, installed []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "App.AppImage")
		if err := os.WriteFile(file, []byte("installed"), 0o755); err != nil {
			t.Fatal(err)
		}
		pubkey := base64.StdEncoding.EncodeToString([]byte("untrusted comment: public key\n" + key + "\n"))
		cmd := exec.CommandContext(t.Context(), program, k.url+endpoint, pubkey, current, file)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if installed, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out)), installed
	}
	const static, dynamic = "/stable/latest.json", "/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"
	gets := func(endpoint, current, want string, content []byte, env ...string) {
		t.Helper()
		if content == nil {
			content = []byte("installed") // as before
		}
		if said, installed := update(endpoint, current, env...); !strings.HasPrefix(said, want) || !bytes.Equal(installed, content) {
			t.Errorf("%s on %s: %s, with %.20q on the disk; want %s", endpoint, current, said, installed, want)
		}
	}

	first := publish("1.0.0")
	second := publish("1.1.0")
	for _, endpoint := range []string{static, dynamic} {
		gets(endpoint, "1.0.0", "installed 1.1.0", second)
		gets(endpoint, "1.1.0", "no update", nil)
	}
	other, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key = other.Public().String()
	gets(static, "1.0.0", "download failed: ", nil)
	gets(dynamic, "1.0.0", "download failed: ", nil)
	key = k.keys

	k.must(t, "release", "rollback", "--channel", "stable", "--reason", "crashes at start")
	gets(static, "1.1.0", "no update", nil)
	gets(dynamic, "1.1.0", "no update", nil)
	gets(static, "1.1.0", "installed 1.0.0", first, "ALLOW_DOWNGRADES=1")

	bundle := filepath.Join(k.storage, "releases/1.0.0/App_1.0.0_amd64.AppImage")
	if err := os.Chmod(bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle, bytes.Repeat([]byte("9.0.0\n"), 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	gets(static, "0.9.0", "download failed: ", nil)
}

// TestPluginReports has the guide's application follow a channel. With the same ID it reports that it
// runs, the outcome of an update, and a crash.
func TestPluginReports(t *testing.T) {
	program := os.Getenv("TSMON_TEST_PLUGIN")
	if program == "" {
		t.Skip("needs TSMON_TEST_PLUGIN; run make test-plugin")
	}
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		file := filepath.Join(t.TempDir(), "App_"+version+"_amd64.AppImage")
		if err := os.WriteFile(file, []byte("\x7fELF"+strings.Repeat(version+"\n", 5000)), 0o644); err != nil {
			t.Fatal(err)
		}
		k.must(t, "release", "publish", "--version", version, file)
	}
	server, err := url.Parse(strings.TrimSuffix(k.url, "/updates"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var reports []string
	ids := map[string]bool{}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(server) }}
	proxy.ModifyResponse = func(answer *http.Response) error {
		r := answer.Request
		mu.Lock()
		defer mu.Unlock()
		ids[r.Header.Get("X-Tsmon-Client")] = true
		if r.URL.Path == "/updates/report" {
			reports = append(reports, answer.Status)
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/updates/report" {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			reports = append(reports, string(body))
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	home := t.TempDir()
	// run returns what the application says, and its reports with their answers.
	run := func(current, key string, env ...string) (said, reported string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "App.AppImage")
		if err := os.WriteFile(file, []byte("installed"), 0o755); err != nil {
			t.Fatal(err)
		}
		pubkey := base64.StdEncoding.EncodeToString([]byte("untrusted comment: public key\n" + key + "\n"))
		cmd := exec.CommandContext(t.Context(), program, front.URL, pubkey, current, file)
		cmd.Env = append(os.Environ(), append([]string{"REPORT=1", "HOME=" + home, "XDG_DATA_HOME=" + home}, env...)...)
		out, _ := cmd.Output() // a panic is what one run is about
		mu.Lock()
		defer mu.Unlock()
		reported, reports = strings.Join(reports, " "), nil
		return strings.TrimSpace(string(out)), reported
	}
	report := func(event, version string) string {
		return `{"channel":"stable","event":"` + event + `","target":"linux-x86_64","version":"` + version + `"} 204 No Content`
	}
	other, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		current, key string
		env          []string
		said         string
		reported     []string
	}{
		{"1.0.0", other.Public().String(), nil, "update failed: ", []string{report("started", "1.0.0"), report("failed", "1.1.0")}},
		{"1.0.0", k.keys, nil, "updated", []string{report("started", "1.0.0"), report("installed", "1.1.0")}},
		{"1.1.0", k.keys, []string{"CRASH=1"}, "", []string{report("started", "1.1.0")}},
		{"1.1.0", k.keys, nil, "no update", []string{report("crashed", "1.1.0"), report("started", "1.1.0")}},
		{"1.1.0", k.keys, nil, "no update", []string{report("started", "1.1.0")}},
	} {
		if said, reported := run(c.current, c.key, c.env...); !strings.HasPrefix(said, c.said) || reported != strings.Join(c.reported, " ") {
			t.Errorf("on %s it says %q and reports %s; want %q, %s", c.current, said, reported, c.said, strings.Join(c.reported, " "))
		}
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("its IDs are %v", ids)
	}
}
