package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestEveryMistake: one look finds all mistakes, with the place of each.
func TestEveryMistake(t *testing.T) {
	path := written(t, `storage: objects
publicurl: x
public_url: example.com
listen: 127.0.0.1:1
channels:
  stable:
    target: [a]
    prerelease: often
  beta: {follows: sable}
server:
  tls: {cert: a.crt}
  refresh: 2m
`)
	i := Inspect(path, []string{"TSMON_DATA=/d", "TSMON_REFRESH=3m", "TSMON_BEHIND_PROXY=perhaps", "TSMON_UPLOAD_MAX_BYTES=many"})
	var got []string
	for _, m := range i.Mistakes {
		got = append(got, strings.TrimPrefix(m.Where(), path)+" "+m.Text)
	}
	want := []string{
		":2 unknown key publicurl; did you mean public_url?",
		":4 unknown key listen; did you mean server.listen?",
		":7 unknown key target; did you mean targets?",
		":8 \"often\" is not true or false",
		"TSMON_BEHIND_PROXY TSMON_BEHIND_PROXY is not true or false",
		"TSMON_UPLOAD_MAX_BYTES TSMON_UPLOAD_MAX_BYTES is not a number",
		":3 public_url is not an absolute http(s) address",
		":11 server.tls needs both cert and key (TSMON_TLS_CERT and TSMON_TLS_KEY)",
		"TSMON_REFRESH server.refresh is not between 10ms and 1m0s (TSMON_REFRESH)",
		":9 channels.beta.follows names sable, which is not configured",
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found %q", got)
	}
	if _, err := Load(path, []string{"TSMON_DATA=/d"}); err == nil || !strings.Contains(err.Error(), "line 4: unknown key listen") || !strings.Contains(err.Error(), "; ") {
		t.Errorf("Load: %v", err)
	}
}

// TestSettings: what is in force, where it comes from, and no secret.
func TestSettings(t *testing.T) {
	path := written(t, `public_url: https://file.example.com/
trusted_keys: [RWa, RWb]
channels:
  stable: {targets: [linux-x86_64], guard: {failures: 3}}
server:
  behind_proxy: false
  records: postgres://u:hush@db.example.com:5432/tsmon?password=hush
  series: {url: 'http://u:hush@influx:8086', token: hush}
  mqtt: {url: 'mqtts://u:hush@broker:8883'}
  webhook: https://chat.example.com/hooks/hush
`)
	i := Inspect(path, []string{"TSMON_DATA=/d", "TSMON_LISTEN=127.0.0.1:1", "TAURI_SIGNING_PRIVATE_KEY=hush", "TSMON_UPDATES_TOKEN=hush"})
	if len(i.Mistakes) > 0 {
		t.Fatal(i.Mistakes)
	}
	var got []string
	for _, s := range i.Settings() {
		got = append(got, fmt.Sprintf("%s=%s (%s %s)", s.Name, s.Value, s.Source, strings.TrimPrefix(s.Where, path)))
	}
	want := []string{
		"storage=/d/objects (default )",
		"public_url=https://file.example.com (file :1)",
		"trusted_keys=RWa,RWb (file :2)",
		"channels.stable.targets=linux-x86_64 (file :4)",
		"channels.stable.guard.failures=3 (file :4)",
		"server.listen=127.0.0.1:1 (environment TSMON_LISTEN)",
		"server.records=postgres://db.example.com:5432/*** (file :7)",
		"server.series.url=http://influx:8086 (file :8)",
		"server.series.token=*** (file :8)",
		"server.mqtt.url=mqtts://broker:8883 (file :9)",
		"server.upload.max_bytes=20971520 (default )",
		"server.audit_days=730 (default )",
		"server.behind_proxy=false (file :6)",
		"server.token_keys=/d/token-keys.json (default )",
		"server.refresh=5s (default )",
		"server.drain=5s (default )",
		"server.drain_downloads=25s (default )",
		"server.updates.token=*** (environment TSMON_UPDATES_TOKEN)",
		"server.updates.clients=100000 (default )",
		"server.webhook=https://chat.example.com/*** (file :10)",
		"server.log.level=info (default )",
		"server.log.format=json (default )",
		"TSMON_DATA=/d (environment TSMON_DATA)",
		"TAURI_SIGNING_PRIVATE_KEY=*** (environment TAURI_SIGNING_PRIVATE_KEY)",
	}
	if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") || strings.Contains(text, "hush") {
		t.Errorf("got\n%s", text)
	}
}

// TestMistypedSecrets: an invalid value is not shown.
func TestMistypedSecrets(t *testing.T) {
	for _, records := range []string{"postgres:u:hush@h/d", "host=h password=hush", "mysql://u:hush@h/d"} {
		i := Inspect(written(t, "server: {records: '"+records+"'}\n"), []string{"TSMON_DATA=/d"})
		if text := fmt.Sprint(i.Settings(), i.Mistakes); len(i.Mistakes) != 1 || strings.Contains(text, "hush") {
			t.Errorf("%s: %s", records, text)
		}
	}
}

// TestMistypedVariables: an unknown variable that resembles a known one is reported.
func TestMistypedVariables(t *testing.T) {
	i := Inspect("", []string{"TSMON_DATA=/d", "TSMON_CONFIG=", "TSMON_PUBLICURL=x", "TSMON_TEST_REAL=1", "TSMON_STORAGES=x", "PATH=/bin"})
	if got := i.Mistyped(); fmt.Sprint(got) != "map[TSMON_PUBLICURL:TSMON_PUBLIC_URL TSMON_STORAGES:TSMON_STORAGE]" {
		t.Error(got)
	}
}

// TestChannelLike: the lines give a channel the settings of another, and nothing else.
func TestChannelLike(t *testing.T) {
	for name, settings := range map[string]string{
		"plain":  "{}",
		"all":    "{targets: [linux-x86_64, windows-x86_64-msi], prerelease: true, follows: other, allow_unbound: true, allow_downgrades: true, reads_latest_json: true, rings: true, guard: {failures: 0%, networks: 1}, approvals: 2, rollback_approvals: 1, approvals_within: 48h, operators: [a]}",
		"a half": "{guard: {failures: 0.5%}}",
	} {
		read := func(lines string) Channel {
			t.Helper()
			file := filepath.Join(t.TempDir(), "tsmon.yaml")
			if err := os.WriteFile(file, []byte("operators: {a: x}\n"+lines), 0o600); err != nil {
				t.Fatal(err)
			}
			return Inspect(file, []string{"TSMON_DATA=" + t.TempDir()}).Config.Channels["stable-2"]
		}
		c := &Config{Channels: map[string]Channel{"stable": read("channels:\n  stable-2: " + settings)}}
		lines := c.ChannelLike("stable-2", "stable", "")
		if got := read(lines); !reflect.DeepEqual(got, c.Channels["stable"]) || strings.Count(lines, "\n") != 1 {
			t.Errorf("%s: %s\n%+v\nwant\n%+v", name, lines, got, c.Channels["stable"])
		}
		want := c.Channels["stable"]
		want.Follows = "next"
		if got := read(c.ChannelLike("stable-2", "stable", "next")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, following another:\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

// TestMissingFile: a missing file is the only mistake, and all settings have their defaults.
func TestMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	i := Inspect(path, []string{"TSMON_DATA=" + t.TempDir()})
	if len(i.Mistakes) != 1 || i.Mistakes[0].Where() != path || i.Config.Server.Listen != DefaultListen {
		t.Errorf("%v; the server listens on %q", i.Mistakes, i.Config.Server.Listen)
	}
}
