package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsmon/cmd/tsmon/admin"
	"tsmon/cmd/tsmon/serving"
	"tsmon/store/record/sqlite"
	"tsmon/store/record/vault"
)

// TestBackup: a backup of a running server is verified, restored, and served by another server.
func TestBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, file, restored := filepath.Join(folder, "data"), filepath.Join(folder, "tsmon.tar.zst"), filepath.Join(folder, "restored")
	env := []string{"TSMON_DATA=" + data}
	s := serve(t, data, nil, "--demo")
	who := s.demoReady()
	var token string
	s.dataOf(&token, "POST", "/loginPartner", "", who)
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, got := command(t, env, "tsmon", args...)
		if got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, got, code, stderr)
		}
		return stdout, stderr
	}
	status, answer := s.upload(who, "foto del tanque")
	var uploaded struct{ Data struct{ URL string } }
	if err := json.Unmarshal(answer, &uploaded); status != 200 || err != nil {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	values := filepath.Join(folder, "values.csv")
	text := fmt.Sprintf("time,measurement,field,value\n%d,medidor,caudal,41.5\n%d,medidor,caudal,42.25\n", time.Now().Unix()-60, time.Now().Unix()-30)
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(0, "series", "import", "demo", values, "--precision", "s")
	var made, verified admin.Backup
	stdout, _ := run(0, "backup", "create", file, "--json")
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || len(made.Files) < 4 {
		t.Fatalf("%v: %s", err, stdout)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// follows: name another FILE, or move the existing one away
	if _, stderr := run(3, "backup", "create", file); !strings.HasSuffix(stderr, "hint: name another FILE, or move the existing one away\n") {
		t.Error(stderr)
	}
	run(0, "backup", "create", file+".2")
	stdout, _ = run(0, "backup", "restore", file, "--dry-run", "--json")
	if err := json.Unmarshal([]byte(stdout), &verified); err != nil || len(verified.Files) != len(made.Files) || verified.Folder != "" {
		t.Errorf("%v: %s", err, stdout)
	}
	// follows: name another folder with --data, or move the existing one away
	if _, stderr := run(3, "backup", "restore", file); !strings.HasSuffix(stderr, "hint: name another folder with --data, or move the existing one away\n") {
		t.Error(stderr)
	}
	run(0, "backup", "restore", file, "--data", restored)
	s.stop()
	left, err := filepath.Glob(filepath.Join(folder, ".tsmon-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	again := serve(t, restored, nil)
	if status, text := again.ask("GET", "/getVarsTs", token, nil); status != 200 || !strings.Contains(string(text), "varsTs") {
		t.Errorf("the token of before: %d %.300s", status, text)
	}
	var value map[string]struct{ Value float64 }
	again.dataOf(&value, "POST", "/dataTs", token, map[string]any{"measurement": "medidor", "calc_field": "caudal"})
	var series map[string][]struct{ Value float64 }
	again.dataOf(&series, "POST", "/seriesDataTs", token, []any{map[string]any{"id": "x", "measurement": "medidor", "field": "caudal", "samplingPeriod": "1s"}})
	if points := series["x"]; value["caudal"].Value != 42.25 || len(points) != 2 || points[0].Value != 41.5 || points[1].Value != 42.25 {
		t.Errorf("imported values: %v, %v", value, points)
	}
	if status, content := again.ask("GET", strings.TrimPrefix(uploaded.Data.URL, s.base), "", nil); status != 200 || string(content) != "foto del tanque" {
		t.Errorf("the upload: %d %.100q", status, content)
	}
	again.stop()

	packed, err := os.ReadFile(file)
	if err == nil {
		packed[len(packed)/2] ^= 1
		err = os.WriteFile(file, packed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr := run(2, "backup", "restore", filepath.Join(folder, "none")); !strings.HasSuffix(stderr, "hint: check the path\n") {
		t.Error(stderr)
	}
	run(1, "backup", "restore", file, "--data", filepath.Join(folder, "damaged"))
	if _, err := os.Stat(filepath.Join(folder, "damaged")); !os.IsNotExist(err) {
		t.Errorf("a damaged backup was restored: %v", err)
	}
}

// TestSealedBackup: with TSMON_SECRET no key can be read in a backup, not even an older one in the data
// folder. Without it the backup contains the keys, as the help says.
func TestSealedBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	tsmon := func(into any, env []string, args ...string) {
		t.Helper()
		stdout, stderr, code := command(t, append(env, "TSMON_DATA="+data), "tsmon", append(args, "--json")...)
		if code != 0 || json.Unmarshal([]byte(stdout), into) != nil {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	saved := func(name string, env []string) []byte {
		t.Helper()
		tsmon(&admin.Backup{}, env, "backup", "create", filepath.Join(folder, name))
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unpacked, err := zstd.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		defer unpacked.Close()
		content, err := io.ReadAll(io.LimitReader(unpacked, 1<<26))
		if err != nil || !bytes.Contains(content, []byte("ts_acueducto")) {
			t.Fatalf("%d bytes, %v", len(content), err)
		}
		return content
	}
	var user struct{ TokenApp string }
	tsmon(&struct{}{}, nil, "tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	tsmon(&user, nil, "user", "create", "acueducto", "ana@example.com")
	if len(user.TokenApp) < 20 {
		t.Fatalf("%+v", user)
	}
	// keys returns what must not be known: the secrets of clients, and the keys of tokens.
	keys := func(env []string, tokens func() []byte) (all []string) {
		t.Helper()
		serve(t, data, env).stop()
		var clients serving.Secrets
		tsmon(&clients, env, "serve", "secrets")
		all = []string{clients.AccessKey, clients.SecretKey, clients.WriteToken}
		for _, found := range regexp.MustCompile(`"[A-Za-z0-9+/_=-]{40,}"`).FindAll(tokens(), -1) {
			all = append(all, strings.Trim(string(found), `"`))
		}
		if len(all) < 4 {
			t.Fatalf("%d keys", len(all))
		}
		return all
	}
	open := keys(nil, func() []byte {
		text, err := os.ReadFile(filepath.Join(data, "token-keys.json"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
	content := saved("open", nil)
	for _, key := range open {
		if !bytes.Contains(content, []byte(key)) {
			t.Errorf("a restored server does not have %q", key)
		}
	}
	if bytes.Contains(content, []byte(user.TokenApp)) {
		t.Error("it has the token of a user")
	}

	env := []string{"TSMON_SECRET=" + outerSecret}
	sealed := keys(env, func() []byte {
		records, err := sqlite.Open(t.Context(), filepath.Join(data, "records.db"), sqlite.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		shared, err := vault.New(records, []string{outerSecret})
		if err != nil {
			t.Fatal(err)
		}
		text, err := shared.Row("token keys").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
	for name, env := range map[string][]string{"sealed": env, "keys apart": append(env, "TSMON_TOKEN_KEYS="+filepath.Join(data, "token-keys.json"))} {
		content := saved(name, env)
		for _, key := range slices.Concat(sealed, open, []string{user.TokenApp, outerSecret}) {
			raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(key, "="))
			for _, part := range []string{key, key[:len(key)/2], key[len(key)/2:], string(raw)} {
				if len(part) >= 8 && bytes.Contains(content, []byte(part)) {
					t.Errorf("%s: %q of %q can be read", name, part, key)
				}
			}
		}
	}
}
