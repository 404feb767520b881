package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tsmon/cmd/tsmon/serving"
	"tsmon/store/servertest"
)

const outerSecret = "an-outer-secret-of-32-characters-or-more"

// TestServersShareSecrets: servers on different data folders accept each other's access tokens and have
// the same credentials. That also holds through a rotation, and through a change of the secret that
// encrypts them.
func TestServersShareSecrets(t *testing.T) {
	t.Parallel()
	testServersShareSecrets(t, "TSMON_RECORDS="+filepath.Join(t.TempDir(), "records.db"))
}

func TestServersShareSecretsOnPostgres(t *testing.T) {
	t.Parallel()
	testServersShareSecrets(t, "TSMON_RECORDS="+servertest.SharedPostgres(t).Database())
}

func testServersShareSecrets(t *testing.T, records string) {
	folder := t.TempDir()
	with := func(secret string) []string { return []string{records, "TSMON_SECRET=" + secret} }
	env := with(outerSecret)
	tsmon := func(env []string, into any, args ...string) {
		t.Helper()
		stdout, stderr, code := command(t, append(env, "TSMON_DATA="+filepath.Join(folder, "commands")), "tsmon", append(args, "--json")...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), into); err != nil {
			t.Fatalf("%v: %v: %s", args, err, stdout)
		}
	}
	var created struct{ Schema, Email, TokenApp string }
	tsmon(env, &struct{}{}, "tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	tsmon(env, &created, "user", "create", "acueducto", "ana@example.com")
	who := map[string]string{"email": created.Email, "tokenApp": created.TokenApp, "schemaName": created.Schema, "ts_name": "ts_acueducto"}
	login := func(s *served) (token string) {
		t.Helper()
		s.dataOf(&token, "POST", "/loginPartner", "", who)
		return token
	}
	accepted := func(what string, s *served, token string) {
		t.Helper()
		until(t, what, func() bool { // a server looks for new keys once a second
			status, _ := s.ask("GET", "/getAllMenu", token, nil)
			return status == http.StatusOK
		})
	}
	one, two := serve(t, filepath.Join(folder, "one"), env), serve(t, filepath.Join(folder, "two"), env)
	token := login(one)
	accepted("the token of another server", two, token)
	var first, same, rotated serving.Secrets
	tsmon(env, &first, "serve", "secrets")
	tsmon(env, &same, "serve", "secrets")
	if first != same || first.AccessKey == "" {
		t.Errorf("credentials %v, then %v", first, same)
	}
	for _, name := range []string{"one/token-keys.json", "two/token-keys.json", "one/secrets.json", "commands/secrets.json"} {
		if _, err := os.Stat(filepath.Join(folder, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}

	var key serving.RotatedKey
	tsmon(env, &key, "serve", "rotate-key")
	tsmon(env, &rotated, "serve", "secrets", "--rotate")
	if key.Kid == "" || key.File != "" || rotated == first {
		t.Errorf("rotated to %v and %v", key, rotated)
	}
	for _, s := range []*served{one, two} { // which go on running
		until(t, "the new write token is taken", func() bool { return s.writes(rotated.WriteToken) })
		if s.writes(first.WriteToken) {
			t.Error("the old write token is taken beside the new one")
		}
	}
	three := serve(t, filepath.Join(folder, "three"), env)
	accepted("the token of the new key", one, login(three))
	accepted("the token of the key before", three, token)

	// follows: set TSMON_SECRET to what it was, or to NEW,OLD to change it
	const newSecret = "a-new-outer-secret-of-32-characters-or-more"
	refused(t, folder, "set TSMON_SECRET to what it was, or to NEW,OLD to change it", with(newSecret)...)
	serve(t, filepath.Join(folder, "four"), with(newSecret+","+outerSecret)).stop()
	five := serve(t, filepath.Join(folder, "five"), with(newSecret))
	accepted("the token of before", five, token)
	accepted("the token of a server with the new secret", one, login(five))
	tsmon(with(newSecret), &same, "serve", "secrets")
	if same != rotated {
		t.Errorf("credentials are %v, were %v", same, rotated)
	}

	// A server without the secret would have keys of its own, and refuse every second token.
	// follows: set TSMON_SECRET to that of the other servers
	const hint = "set TSMON_SECRET to that of the other servers"
	refused(t, folder, hint, records)
	for _, args := range [][]string{{"serve", "secrets"}, {"serve", "rotate-key"}} {
		_, stderr, code := command(t, []string{records, "TSMON_DATA=" + filepath.Join(folder, "other")}, "tsmon", args...)
		if code != 3 || !strings.HasSuffix(stderr, "hint: "+hint+"\n") {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	if left, err := filepath.Glob(filepath.Join(folder, "other", "*.json")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestWriteToken: InfluxDB has its own token, and nobody can write to it through tsmon.
func TestWriteToken(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"", "TSMON_SERIES_URL=http://127.0.0.1:1"} {
		stdout, stderr, code := command(t, []string{"TSMON_DATA=" + t.TempDir(), "TSMON_SERIES_TOKEN=operator", series}, "tsmon", "serve", "secrets", "--json")
		var set serving.Secrets
		if err := json.Unmarshal([]byte(stdout), &set); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
		}
		if want := map[bool]string{true: "operator"}[series == ""]; set.WriteToken != want || set.AccessKey == "" {
			t.Errorf("%q: %+v", series, set)
		}
	}
}

// refused checks that a server does not start, and that it says what to do.
func refused(t *testing.T, folder, hint string, env ...string) {
	t.Helper()
	_, stderr, code := command(t, append(env, "TSMON_MQTT_LISTEN=127.0.0.1:0"), "tsmon", "serve", "--data", filepath.Join(folder, "refused"), "--listen", "127.0.0.1:0")
	if code == 0 || !strings.HasSuffix(stderr, "hint: "+hint+"\n") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
}

// TestSecretFile: the secret may be in a file, as containers mount it, if not everybody can read the
// file.
func TestSecretFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "secret")
	if err := os.WriteFile(path, []byte("short\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := "TSMON_SECRET_FILE=" + path
	// follows: chmod
	refused(t, folder, "chmod 640 "+path, env)
	if _, stderr, code := command(t, nil, "chmod", "640", path); code != 0 {
		t.Fatal(stderr)
	}
	// follows: write a secret of 32 characters or more to the file
	refused(t, folder, "write a secret of 32 characters or more to the file, such as `openssl rand -base64 32` prints", env)
	if err := os.WriteFile(path, []byte(outerSecret+"\n"), 0o440); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(folder, "data"), []string{env}).stop()
	if _, err := os.Stat(filepath.Join(folder, "data", "token-keys.json")); !os.IsNotExist(err) {
		t.Errorf("keys lie in a file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "data", "records.db")); err != nil {
		t.Error(err)
	}
}

// writes reports whether the server accepts a write token.
func (s *served) writes(token string) bool {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.base+"/api/v2/write?org=o&bucket=ts_acueducto", strings.NewReader("m f=1"))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Token "+token)
	status, _ := s.do(r)
	return status != http.StatusUnauthorized
}

// TestMountedSecret: Kubernetes mounts a secret as a link to ..data/NAME, where ..data is a
// link to a folder, and replaces ..data when the secret changes.
func TestMountedSecret(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	mount := func(version, secrets string) {
		t.Helper()
		err := os.Mkdir(path(version), 0o750)
		if err == nil {
			err = os.WriteFile(filepath.Join(path(version), "secret"), []byte(secrets), 0o440)
		}
		if err == nil {
			err = os.Symlink(version, path("..data_tmp"))
		}
		if err == nil {
			err = os.Rename(path("..data_tmp"), path("..data"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mount("..2026_03_05", outerSecret+"\n")
	if err := os.Symlink(filepath.Join("..data", "secret"), path("secret")); err != nil {
		t.Fatal(err)
	}
	env := []string{"TSMON_SECRET_FILE=" + path("secret")}
	data := path("data")
	s := serve(t, data, env, "--demo")
	d := s.demoReady()
	token := s.login(d)
	mount("..2026_03_06", "mpZk4vVq1xT8cJd0sYwR7uBnE2hGf5Lo\n"+outerSecret+"\n")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "the reload", func() bool { return strings.Contains(s.log.String(), `"reloaded"`) })
	asked := func(when string) {
		t.Helper()
		if status, text := s.ask("GET", "/getAllMenu", token, nil); status != 200 {
			t.Errorf("a token of before, %s: %d %s", when, status, text)
		}
		s.login(d)
	}
	asked("with a new secret before the old one")
	s.stop()
	mount("..2026_03_07", "mpZk4vVq1xT8cJd0sYwR7uBnE2hGf5Lo\n")
	s = serve(t, data, env)
	asked("with the new secret alone")
	s.stop()
	if _, err := os.Stat(filepath.Join(data, "token-keys.json")); !os.IsNotExist(err) {
		t.Errorf("keys lie in a file: %v", err)
	}
	if err := os.Chmod(filepath.Join(path("..2026_03_07"), "secret"), 0o444); err != nil {
		t.Fatal(err)
	}
	refused(t, folder, "chmod 640 "+path("secret"), env...) // follows: chmod
}
