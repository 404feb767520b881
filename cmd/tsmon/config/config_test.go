package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// written makes a configuration file and returns its path.
func written(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tsmon.yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", []string{"HOME=" + os.Getenv("HOME"), "TSMON_DATA=/var/lib/tsmon"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Storage != "/var/lib/tsmon/objects" || c.Server.Listen != "127.0.0.1:8080" || c.PublicURL != "" || len(c.TrustedKeys) != 0 {
		t.Errorf("%+v", c)
	}
	if len(c.Channels) != 2 || c.Channels["beta"].Follows != "stable" || !c.Channels["beta"].Prerelease || c.Channels["stable"].Prerelease {
		t.Errorf("channels %+v", c.Channels)
	}
	c, err = Load("", []string{"XDG_DATA_HOME=/data"})
	if err != nil || c.Storage != "/data/tsmon/objects" {
		t.Errorf("storage %s, %v", c.Storage, err)
	}
}

func TestFileEnvironmentAndTheirOrder(t *testing.T) {
	path := written(t, `
storage: objects
public_url: https://file.example.com/app/
trusted_keys: [app.pub, RWfile]
bundle_types: [deb]
windows_installer: msi
channels:
  stable: {targets: [linux-x86_64], allow_unbound: true, allow_downgrades: true, reads_latest_json: true, rings: true}
  nightly: {follows: stable, prerelease: true}
server: {listen: "127.0.0.1:1"}
`)
	folder := filepath.Dir(path)
	if err := os.WriteFile(filepath.Join(folder, "app.pub"), []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Storage != filepath.Join(folder, "objects") || c.PublicURL != "https://file.example.com/app" || c.Server.Listen != "127.0.0.1:1" {
		t.Errorf("%+v", c)
	}
	if c.TrustedKeys.String() != filepath.Join(folder, "app.pub")+",RWfile" || fmt.Sprint(c.BundleTypes) != "[deb]" || c.WindowsInstaller != "msi" || !c.Channels["stable"].AllowUnbound || !c.Channels["stable"].AllowDowngrades || !c.Channels["stable"].ReadsManifest || !c.Channels["stable"].Rings || c.Channels["nightly"].Rings || len(c.Channels) != 2 {
		t.Errorf("%+v", c)
	}
	c, err = Load("", []string{"TSMON_CONFIG=" + path, "TSMON_STORAGE=s3://b/p", "TSMON_PUBLIC_URL=https://env.example.com", "TSMON_TRUSTED_KEYS=RWa, RWb,", "TSMON_LISTEN=:2"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Storage != "s3://b/p" || c.PublicURL != "https://env.example.com" || c.Server.Listen != ":2" || c.TrustedKeys.String() != "RWa,RWb" {
		t.Errorf("%+v", c)
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"unknown key":       {"storage: x\npublicurl: y\n", "line 2: unknown key publicurl; did you mean public_url?"},
		"unknown deep key":  {"channels:\n  stable:\n    target: [a]\n", "line 3: unknown key target; did you mean targets?"},
		"wrong kind":        {"channels:\n  stable: {prerelease: often}\n", "line 2: \"often\" is not true or false"},
		"not YAML":          {"storage: [", "line 1"},
		"twice":             {"storage: a\nstorage: b\n", "already"},
		"relative address":  {"public_url: releases.example.com\n", "public_url is not an absolute http(s) address"},
		"file address":      {"public_url: file:///srv\n", "public_url is not an absolute http(s) address"},
		"secret in address": {"public_url: https://u:p@example.com\n", "must have no user"},
		"query":             {"public_url: https://example.com?a=b\n", "must have no user, query"},
		"follows nobody":    {"channels:\n  beta: {follows: stable}\n", "channels.beta.follows names stable, which is not configured"},
		"follows itself":    {"channels:\n  beta: {follows: beta}\n", "which itself follows another"},
		"circle":            {"channels:\n  a: {follows: b}\n  b: {follows: a}\n", "which itself follows another"},
		"other database":    {"server: {records: 'mysql://u:hush@h/d'}\n", "server.records is neither"},
		"half an address":   {"server: {records: 'postgres:u:hush@h/d'}\n", "server.records is neither"},
		"words":             {"server: {records: 'host=h password=hush'}\n", "server.records is neither"},
		"unknown series":    {"server:\n  series: {db: x}\n", "line 2: unknown key db"},
		"refresh too short": {"server: {refresh: 5ms}\n", "server.refresh is not between 10ms and 1m0s"},
		"refresh too long":  {"server: {refresh: 61s}\n", "server.refresh is not between"},
		"refresh backwards": {"server: {refresh: -5s}\n", "server.refresh is not between"},
		"plans too long":    {"operators: {a: x}\nchannels: {stable: {approvals_within: 2161h}}\n", "channels.stable.approvals_within is not between 1m and 2160h"},
		"no approvals":      {"operators: {a: x}\nchannels:\n  stable:\n    approvals: 0\n", "line 4: channels.stable.approvals is 0, but a move needs at least 1"},
		"fewer than none":   {"operators: {a: x}\nchannels:\n  stable:\n    approvals: 1\n    rollback_approvals: -1\n", "line 5: channels.stable.rollback_approvals is -1, but a move needs at least 1"},
		"of nobody":         {"channels:\n  stable: {approvals: 0}\n", "line 2: channels.stable has approvals, but there are no operators"},
		"operator root":     {"operators:\n  a: x\n  root: y\n", "line 3: operators.root is reserved"},
		"another operator":  {"operators: {a: x}\nchannels: {stable: {operators: [a, b]}}\n", `channels.stable.operators names "b", which is not in operators`},
		"plans too short":   {"operators: {a: x}\nchannels: {stable: {approvals_within: 59s}}\n", "channels.stable.approvals_within is not between"},
		"refresh of what":   {"server: {refresh: 5}\n", "line 1: \"5\" is not a duration, such as 5s"},
		"refresh as words":  {"server: {refresh: often}\n", "line 1: \"often\" is not a duration, such as 5s"},
		"redirect nowhere":  {"server: {updates: {redirect: true}}\n", "server.updates.redirect needs public_url"},
		"public nowhere":    {"server: {updates: {redirect: public}}\n", "server.updates.redirect needs public_url"},
		"redirect of what":  {"server: {updates: {redirect: hush}}\n", "server.updates.redirect must be public (or true), presigned or false"},
		"redirects":         {"server: {updates: {redirect: [public]}}\n", "line 1: a list is not a text"},
		"presigned folder":  {"storage: objects\nserver: {updates: {redirect: presigned}}\n", "redirect is presigned, which needs a storage like s3://"},
		"presigned default": {"server: {updates: {redirect: presigned}}\n", "redirect is presigned, which needs a storage like s3://"},
		"endpoint unused":   {"storage: s3://b\nserver: {updates: {presign_endpoint: 'https://u:hush@h'}}\n", "presign_endpoint needs redirect: presigned"},
		"endpoint public":   {"storage: s3://b\npublic_url: https://h\nserver: {updates: {redirect: public, presign_endpoint: 'https://h'}}\n", "presign_endpoint needs redirect: presigned"},
		"token with space":  {"server: {updates: {token: 'hush hush'}}\n", "server.updates.token has a character"},
		"token with a line": {"server: {updates: {token: \"hush\\n\"}}\n", "server.updates.token has a character"},
		"two documents":     {"project: a\n---\nproject: b\n", "line 2: a second document begins here; put all settings into one"},
		"fraction of days":  {"server:\n  audit_days: 1.5\n", "line 2: \"1.5\" is not a whole number"},
		"half an approval":  {"operators: {ann: x}\nchannels:\n  stable: {approvals: 1.5}\n", "line 3: \"1.5\" is not a whole number"},
		"fraction of what":  {"channels:\n  stable: {approvals_within: 1.5}\n", "line 2: \"1.5\" is not a duration, such as 5s"},
		"unknown updates":   {"server: {updates: {tokens: x}}\n", "unknown key tokens; did you mean token?"},
		"guard of words":    {"channels:\n  stable: {guard: {failures: some}}\n", "line 2: \"some\" is not a number"},
		"guard of a sign":   {"channels:\n  stable: {guard: {failures: '%'}}\n", "line 2"},
		"unknown guard":     {"channels:\n  stable: {guard: {failure: 1}}\n", "unknown key failure; did you mean failures?"},
		"hook nowhere":      {"server: {webhook: hush}\n", "server.webhook is not an absolute http(s) address"},
		"unknown level":     {"server: {log: {level: loud}}\n", "server.log.level is not debug, info, warn or error"},
		"unknown format":    {"server: {log: {format: xml}}\n", "server.log.format is neither json nor text"},
		"unknown log":       {"server: {log: {levels: info}}\n", "unknown key levels; did you mean level?"},
		"guessable metrics": {"server: {metrics_key: hush}\n", "server.metrics_key has fewer than 16 characters (TSMON_METRICS_KEY)"},
		"guessable pages":   {"server: {console: {token: hush}}\n", "server.console.token has fewer than 16 characters"},
		"too large":         {"# " + strings.Repeat("x", maxFile), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t, c.content)
			_, err := Load(path, []string{"TSMON_DATA=/d"})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "config.") {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := Load("/nowhere/tsmon.yaml", nil); err == nil {
		t.Error("a named file that is missing was passed over")
	}
}

func TestMonitoringStores(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", []string{"TSMON_DATA=/d"})
	if err != nil || c.Data != "/d" || c.Server.Records != "/d/records.db" || c.Server.Series.File != "/d/series.db" || c.Server.Series.URL != "" {
		t.Errorf("%q, %#v, %v", string(c.Server.Records), c.Server, err)
	}
	path := written(t, "server:\n  records: own.db\n  series: {url: 'http://file:8086', org: o, token: hush}\n")
	c, err = Load(path, []string{"TSMON_DATA=/d", "TSMON_SERIES_URL=http://env:8086"})
	if err != nil || string(c.Server.Records) != filepath.Join(filepath.Dir(path), "own.db") ||
		c.Server.Series.URL != "http://env:8086" || c.Server.Series.Org != "o" || c.Server.Series.Token != "hush" {
		t.Errorf("%+v, %v", c.Server, err)
	}
	c, err = Load(path, []string{"TSMON_DATA=/d", "TSMON_RECORDS=postgres://u:hush@h/d", "TSMON_SERIES_TOKEN=hush2", "TSMON_SERIES_ORG=p"})
	if err != nil || c.Server.Records != "postgres://u:hush@h/d" || c.Server.Series.Token != "hush2" || c.Server.Series.Org != "p" {
		t.Errorf("%+v, %v", c.Server, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c, c.Server); strings.Contains(text, "hush") {
		t.Error(text)
	}
}

func TestLog(t *testing.T) {
	path := written(t, "server: {log: {level: warn, format: text}}\n")
	c, err := Load(path, []string{"TSMON_DATA=/d", "TSMON_LOG_LEVEL=debug"})
	if err != nil || c.Server.Log != (Log{Level: "debug", Format: LogText}) {
		t.Errorf("%+v, %v", c.Server.Log, err)
	}
}

func TestGuard(t *testing.T) {
	path := written(t, "channels:\n  a: {guard: {failures: 0, networks: 1}}\n  b: {}\n  c: {guard: {failures: 2.5%}}\n  d: {guard: {failures: \"7 %\"}}\n")
	c, err := Load(path, []string{"TSMON_DATA=/d", "TSMON_WEBHOOK=https://chat.example.com/hook"})
	if err != nil || c.Server.Webhook != "https://chat.example.com/hook" {
		t.Fatalf("%q, %v", string(c.Server.Webhook), err)
	}
	a, b := c.Channels["a"].Guard, c.Channels["b"].Guard
	if a.Failures == nil || *a.Failures != 0 || *a.Networks != 1 || b != (Guard{}) {
		t.Errorf("%+v, %+v", a, b)
	}
	if c, d := c.Channels["c"].Guard.Failures, c.Channels["d"].Guard.Failures; *c != 2.5 || *d != 7 {
		t.Errorf("%v, %v", *c, *d)
	}
}

// sameUpdates compares what is configured, beside the defaults.
func sameUpdates(c *Config, want Updates) bool {
	want.Clients = DefaultClients
	return reflect.DeepEqual(c.Server.Updates, want)
}

func TestUpdates(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", []string{"TSMON_DATA=/d"})
	if err != nil || c.Server.Refresh != 5*time.Second || !sameUpdates(c, Updates{}) {
		t.Errorf("%+v, %v", c.Server, err)
	}
	path := written(t, "public_url: https://cdn.example.com/app\nserver: {refresh: 2s, updates: {redirect: true, token: hush}}\n")
	c, err = Load(path, []string{"TSMON_DATA=/d"})
	if err != nil || c.Server.Refresh != 2*time.Second || !sameUpdates(c, Updates{Redirect: RedirectPublic, Token: "hush"}) {
		t.Errorf("%+v, %v", c.Server, err)
	}
	c, err = Load(path, []string{"TSMON_DATA=/d", "TSMON_REFRESH=250ms", "TSMON_UPDATES_REDIRECT=false", "TSMON_UPDATES_TOKEN=hush2"})
	if err != nil || c.Server.Refresh != 250*time.Millisecond || !sameUpdates(c, Updates{Token: "hush2"}) {
		t.Errorf("%+v, %v", c.Server, err)
	}
	for _, bad := range []string{"TSMON_REFRESH=often", "TSMON_REFRESH=5", "TSMON_REFRESH=1ns", "TSMON_REFRESH=1h", "TSMON_UPDATES_REDIRECT=perhaps", "TSMON_UPDATES_REDIRECT=Public", "TSMON_UPDATES_REDIRECT=presigned", "TSMON_UPDATES_PRESIGN_ENDPOINT=https://u:hush@h", "TSMON_UPDATES_TOKEN=hush\x00",
		"TSMON_UPDATES_CLIENTS=10", "TSMON_UPDATES_CLIENTS=100000000", "TSMON_UPDATES_CLIENTS=many", "TSMON_UPDATES_REPORT_SECRETS=hush"} {
		if _, err := Load("", []string{"TSMON_DATA=/d", bad}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for bad, want := range map[string]string{
		"TSMON_REFRESH=often":         "environment: TSMON_REFRESH is not a duration, such as 5s",
		"TSMON_UPLOAD_MAX_BYTES=20MB": "environment: TSMON_UPLOAD_MAX_BYTES is not a number",
		"TSMON_BEHIND_PROXY=perhaps":  "environment: TSMON_BEHIND_PROXY is not true or false",
	} {
		if _, err := Load("", []string{"TSMON_DATA=/d", bad}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
}

// TestRedirect: the file and the environment, of which the environment wins.
func TestRedirect(t *testing.T) {
	for _, c := range []struct{ file, variable, want string }{
		{"", "", ""},
		{"''", "", ""},
		{"null", "", ""},
		{"false", "", ""},
		{"true", "", RedirectPublic},
		{"'true'", "", RedirectPublic},
		{"public", "", RedirectPublic},
		{"presigned", "", RedirectPresigned},
		{"", "true", RedirectPublic},
		{"", "public", RedirectPublic},
		{"", "presigned", RedirectPresigned},
		{"presigned", "public", RedirectPublic},
		{"public", "presigned", RedirectPresigned},
		{"presigned", "false", ""},
		{"neither", "presigned", RedirectPresigned},
	} {
		content := "storage: s3://bucket\npublic_url: https://cdn.example.com/app\n"
		if c.file != "" {
			content += "server: {updates: {redirect: " + c.file + "}}\n"
		}
		got, err := Load(written(t, content), []string{"TSMON_DATA=/d", "TSMON_UPDATES_REDIRECT=" + c.variable})
		if err != nil || !sameUpdates(got, Updates{Redirect: c.want}) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	path := written(t, "storage: s3://bucket\nserver: {updates: {redirect: presigned, presign_endpoint: 'https://file.example.com'}}\n")
	for variable, want := range map[string]string{"": "https://file.example.com", "https://env.example.com": "https://env.example.com"} {
		c, err := Load(path, []string{"TSMON_DATA=/d", "TSMON_UPDATES_PRESIGN_ENDPOINT=" + variable})
		if err != nil || !sameUpdates(c, Updates{Redirect: RedirectPresigned, PresignEndpoint: want}) {
			t.Errorf("%q: %v", variable, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := Load("", []string{"TSMON_DATA=/d", "TAURI_SIGNING_PRIVATE_KEY=hush-key", "TAURI_SIGNING_PRIVATE_KEY_PASSWORD=hush-password"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Signing.Key != "hush-key" || *c.Signing.KeyPassword != "hush-password" {
		t.Fatal("the variables were not read")
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, c.Signing) + fmt.Sprintf(verb, *c.Signing.KeyPassword); strings.Contains(text, "hush") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
	empty, err := Load("", []string{"TSMON_DATA=/d", "TAURI_SIGNING_PRIVATE_KEY_PASSWORD="})
	if err != nil || empty.Signing.KeyPassword == nil {
		t.Errorf("the empty password counts as unset: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("storage: x\nchannels: {stable: {targets: [a]}}\n")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, content string) {
		i := &Inspection{Config: &Config{}}
		found := append(i.decode([]byte(content)), i.Config.check()...)
		for _, m := range found {
			if i.locate(m).Error() == "" {
				t.Error("a mistake without a text")
			}
		}
		i.Settings()
	})
}

// TestProjectFolder: a named project has its own data folder, unless TSMON_DATA is set.
func TestProjectFolder(t *testing.T) {
	home := t.TempDir()
	for _, c := range []struct {
		file, variable, data string
		shared               bool
	}{
		{"", "", "tsmon", true},
		{"project: com.example.app", "", "tsmon/projects/com.example.app", false},
		{"project: com.example.other", "", "tsmon/projects/com.example.other", false},
		{"project: com.example.app", "here", "here", false},
		{"", "here", "here", false},
	} {
		file := filepath.Join(t.TempDir(), "tsmon.yaml")
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		vars := []string{"XDG_DATA_HOME=" + home}
		if c.variable != "" {
			vars = append(vars, "TSMON_DATA="+filepath.Join(home, c.variable))
		}
		got, err := Load(file, vars)
		if want := filepath.Join(home, c.data); err != nil || got.Data != want || got.Shared != c.shared || string(got.Server.Records) != filepath.Join(want, "records.db") || got.Storage != filepath.Join(want, "objects") {
			t.Errorf("%+v: %v, %+v", c, err, got)
		}
	}
	for _, name := range []string{"..", "../other", "a/b", ".hidden", "a b", "a\\b", strings.Repeat("a", 101)} {
		if CheckProject(name) == nil {
			t.Errorf("%q is a project", name)
		}
	}
}
