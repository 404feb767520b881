package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsmon/cmd/tsmon/demo"
	"tsmon/cmd/tsmon/serving"
	"tsmon/store/record"
	"tsmon/store/servertest"
)

// served is a `tsmon serve` that runs as a process of its own.
type served struct {
	t    testing.TB
	base string // http://127.0.0.1:…
	data string // folder
	cmd  *exec.Cmd
	http *http.Client
	log  servertest.Log // stderr after it says that it serves
}

// serve starts the program on a free port and waits until it serves. It is stopped after the test.
func serve(t testing.TB, data string, env []string, args ...string) *served {
	t.Helper()
	cmd := exec.Command("tsmon", append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TSMON_MQTT_LISTEN=127.0.0.1:0", "TSMON_DRAIN=0s"}, env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, data: data, cmd: cmd, http: &http.Client{Timeout: time.Minute}}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the log of the server at %s:\n%s", s.base, s.log.String())
		}
	})
	lines := bufio.NewReader(stderr)
	for s.base == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("tsmon serve ended: %q", line)
		}
		s.base, _ = strings.CutPrefix(strings.TrimSpace(line), "serving ")
		if !strings.HasPrefix(s.base, "http") {
			s.base = ""
		}
	}
	s.base = strings.TrimSuffix(s.base, "/")
	go io.Copy(&s.log, lines) // ends with the process
	return s
}

// stop stops the server as an administrator would, which must succeed.
func (s *served) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("tsmon serve: %v", err)
	}
}

// until polls a condition for a minute.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	within(t, time.Minute, what, condition)
}

// within is until with another bound. The pauses between its checks grow, because a condition may read
// a whole channel.
func within(t testing.TB, bound time.Duration, what string, condition func() bool) {
	t.Helper()
	began, deadline := time.Now(), time.After(bound)
	for !condition() {
		select {
		case <-time.After(min(max(time.Since(began)/20, 5*time.Millisecond), 250*time.Millisecond)):
		case <-deadline:
			t.Fatalf("not within %s: %s", bound, what)
		}
	}
}

// demoReady waits for demo.json and returns its content.
func (s *served) demoReady() (d serving.DemoFile) {
	s.t.Helper()
	path := filepath.Join(s.data, "demo.json")
	until(s.t, "demo.json", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	info, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || info.Mode().Perm() != 0o600 {
		s.t.Fatalf("demo.json, mode %v: %v", info.Mode(), err)
	}
	return d
}

// ask sends a request and returns status and body; 0 if there was no answer.
func (s *served) ask(method, path, token string, body any) (int, []byte) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Error(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, reader)
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return s.do(r)
}

func (s *served) do(r *http.Request) (int, []byte) {
	answer, err := s.http.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, text
}

// data requests existing data and decodes it into v.
func (s *served) dataOf(v any, method, path, token string, body any) {
	s.t.Helper()
	status, text := s.ask(method, path, token, body)
	answer := struct{ Data any }{v}
	if err := json.Unmarshal(text, &answer); status != http.StatusOK || err != nil {
		s.t.Fatalf("%s: %d %.300s: %v", path, status, text, err)
	}
}

func (s *served) login(d serving.DemoFile) (token string) {
	s.t.Helper()
	s.dataOf(&token, "POST", "/loginPartner", "", d)
	return token
}

// upload sends one file and returns status and body.
func (s *served) upload(d serving.DemoFile, content string) (int, []byte) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "nota.txt")
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err == nil {
		err = form.Close()
	}
	r, err2 := http.NewRequestWithContext(s.t.Context(), "POST", s.base+"/upload", &body)
	if err != nil || err2 != nil {
		s.t.Error(err, err2)
		return 0, nil
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("accesskey", d.AccessKey)
	r.Header.Set("secretkey", d.SecretKey)
	return s.do(r)
}

// view returns a batch of all variables, and their number.
func (s *served) view(token string) (items []any) {
	s.t.Helper()
	var variables []json.RawMessage
	s.dataOf(&variables, "GET", "/getVarsTs", token, nil)
	for _, v := range variables {
		items = append(items, map[string]any{"dataTs": v})
	}
	return items
}

// TestServeDemo starts the demo as the README says, lets it run, and starts it again.
func TestServeDemo(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data, nil, "--demo")
	d := s.demoReady()
	if d.BaseURL != s.base || d.WriteToken == "" || !strings.HasPrefix(d.MQTTURL, "mqtt://127.0.0.1:") {
		t.Errorf("demo.json says %s, %s", d.BaseURL, d.MQTTURL)
	}
	token := s.login(d)
	items := s.view(token)
	first := s.values(token, items)
	if len(items) < 40 || len(first) != len(items) {
		t.Fatalf("%d variables, %d values", len(items), len(first))
	}
	for id, v := range first {
		if v == nil {
			t.Errorf("variable %s has no value", id)
		}
	}
	var diagram, charts, menus, permissions []any
	var notify map[string]any
	s.dataOf(&diagram, "GET", "/getObjectCanva?id=1", token, nil)
	s.dataOf(&charts, "GET", "/indicatorCharts", token, nil)
	s.dataOf(&menus, "GET", "/getAllMenu", token, nil)
	s.dataOf(&permissions, "GET", "/getPermission?id=1&type=id_user&profile=1", token, nil)
	s.dataOf(&notify, "GET", "/getConfigNotify", token, nil)
	if len(diagram) != 1 || len(charts) == 0 || len(menus) == 0 || len(permissions) == 0 || len(notify) == 0 {
		t.Errorf("%d diagrams, %d charts, %d menus, %d permissions, %d devices", len(diagram), len(charts), len(menus), len(permissions), len(notify))
	}
	var series map[string][]struct{ Ts int64 }
	s.dataOf(&series, "POST", "/seriesDataTs", token, []any{map[string]any{"id": "x", "measurement": "embalse", "field": "nivel", "samplingPeriod": "6h",
		"start": time.Now().Add(-demo.Span).UnixMilli()}})
	if n := len(series["x"]); n < 40 || n > 42 {
		t.Errorf("ten days have %d windows of six hours, want 40 or 41", n)
	}
	if status, text := s.upload(d, "hola"); status != 200 {
		t.Errorf("upload: %d %s", status, text)
	}
	until(t, "a value that changed", func() bool {
		now := s.values(token, items)
		return slices.ContainsFunc(slices.Collect(maps.Keys(first)), func(id string) bool {
			return now[id] == nil || first[id] == nil || *now[id] != *first[id]
		})
	})
	s.stop()

	again := serve(t, data, nil, "--demo")
	after := again.demoReady()
	if after.TokenApp != d.TokenApp || after.AccessKey != d.AccessKey {
		t.Error("what demo.json said is no longer good after a restart")
	}
	again.values(token, items) // the access token lives on, too
	again.stop()

	env := []string{"TSMON_DATA=" + data}
	var audits []record.Audit
	stdout, stderr, code := command(t, env, "tsmon", "tenant", "audit", "demo", "--json")
	parse(t, stdout, &audits)
	if code != 0 || !slices.ContainsFunc(audits, func(a record.Audit) bool { return a.Action == "login" && a.OK && a.User != "" && !a.Time.IsZero() }) {
		t.Errorf("the audit rows after a login: %d %s%s", code, stdout, stderr)
	}
	if stdout, _, code := command(t, env, "tsmon", "tenant", "audit", "demo", "--limit", "1"); code != 0 || strings.Count(stdout, "\n") != 2 || !strings.HasPrefix(stdout, "TIME ") {
		t.Errorf("one row: %d %q", code, stdout)
	}
	if _, stderr, code := command(t, env, "tsmon", "tenant", "audit", "demo", "--limit", "0"); code != 2 || !strings.Contains(stderr, "--limit is from 1 to 100000") {
		t.Errorf("no row: %d %s", code, stderr)
	}
	for _, name := range []string{"records.db", "series.db", "secrets.json", "token-keys.json"} {
		if info, err := os.Stat(filepath.Join(data, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// TestDemoOfOthers: the demo refuses records with other tenants, and a server without --demo warns as
// long as the demo's administrator exists.
func TestDemoOfOthers(t *testing.T) {
	t.Parallel()
	const warning = "the administrator of the demo can still log in"
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data, nil, "--demo")
	s.demoReady()
	s.stop()
	if strings.Contains(s.log.String(), warning) {
		t.Error("the demo warns of itself")
	}
	left := serve(t, data, nil)
	until(t, "the warning", func() bool { return strings.Contains(left.log.String(), warning) })
	left.stop()
	if !strings.Contains(left.log.String(), "tsmon tenant delete demo --yes") {
		t.Errorf("it does not say what to do: %s", left.log.String())
	}

	env := []string{"TSMON_DATA=" + data}
	run := func(args ...string) {
		t.Helper()
		if _, stderr, code := command(t, env, "tsmon", args...); code != 0 {
			t.Fatalf("tsmon %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
	}
	run("tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	run("tenant", "delete", "demo", "--yes")
	_, stderr, code := command(t, nil, "tsmon", "serve", "--demo", "--data", data, "--listen", "127.0.0.1:0")
	// follows: give the demo its own folder with --data FOLDER, and unset TSMON_RECORDS and server.records
	if code != 2 || !strings.Contains(stderr, "the tenant acueducto") || !strings.Contains(stderr, "\nhint: give the demo its own folder with --data FOLDER") {
		t.Errorf("beside another tenant: exit code %d\n%s", code, stderr)
	}
	stdout, stderr, code := command(t, env, "tsmon", "tenant", "list", "--json")
	if code != 0 || strings.Contains(stdout, `"demo"`) || !strings.Contains(stdout, `"acueducto"`) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	own := serve(t, filepath.Join(t.TempDir(), "data"), nil, "--demo")
	own.login(own.demoReady())
	own.stop()
	gone := serve(t, data, nil)
	gone.stop() // which waits for what looks for the administrator
	if strings.Contains(gone.log.String(), warning) {
		t.Errorf("it still warns: %s", gone.log.String())
	}
}

func (s *served) values(token string, items []any) (values map[string]*float64) {
	s.t.Helper()
	s.dataOf(&values, "POST", "/multipleDataTs", token, items)
	return values
}

// TestServeDrains: a request that is running when the server is told to stop can finish.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"), []string{"TSMON_DRAIN=2s"}, "--demo")
	d := s.demoReady()
	address := strings.TrimPrefix(s.base, "http://")
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(connection, "POST /loginPartner HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	lines := bufio.NewReader(connection)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // the handler reads
		t.Fatalf("%q %v", line, err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "not ready", func() bool {
		got, err := s.http.Get(s.base + "/readyz")
		if err != nil {
			t.Fatal("it ended without a word to load balancers: ", err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		return err == nil && got.StatusCode == 503 && got.Close && strings.Contains(string(text), `"status":"ending"`)
	})
	if got, err := s.http.Get(s.base + "/healthz"); err != nil || got.StatusCode != 200 {
		t.Errorf("requests are no longer taken: %v", err)
	}
	until(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if _, err := connection.Write(body); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), "200 OK") {
		t.Errorf("%v %.300q", err, rest)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("tsmon serve: %v", err)
	}
}

func TestServeTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	servertest.Certificate(t, cert, key)
	s := serve(t, filepath.Join(folder, "data"), []string{"TSMON_TLS_CERT=" + cert, "TSMON_TLS_KEY=" + key})
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("certificate not read", err)
	}
	s.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	answer, err := s.http.Get(s.base + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if !strings.HasPrefix(s.base, "https://") || answer.StatusCode != 200 || answer.ProtoMajor != 2 {
		t.Errorf("%s: %d over %s", s.base, answer.StatusCode, answer.Proto)
	}
	s.stop()
}

// TestServeRefuses: with a dangerous or impossible configuration the server ends at once. The error
// says what to do and contains no secret.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, env []string
		want      string
	}{
		"in the open":          {[]string{"--listen", "0.0.0.0:0"}, nil, "TSMON_TLS_CERT"},
		"every address":        {[]string{"--listen", ":0"}, nil, "TSMON_TLS_CERT"},
		"no port":              {[]string{"--listen", "localhost"}, nil, "write HOST:PORT"},
		"no such port":         {[]string{"--listen", "127.0.0.1:99999"}, nil, "--listen: address 127.0.0.1:99999: the port is above 65535"},
		"metrics nowhere":      {nil, []string{"TSMON_METRICS_LISTEN=here"}, "server.metrics_listen: address here: missing port"},
		"a broker nowhere":     {nil, []string{"TSMON_MQTT_LISTEN=here"}, "write HOST:PORT"},
		"no certificate":       {nil, []string{"TSMON_TLS_CERT=x.crt", "TSMON_TLS_KEY=x.key"}, "x.crt: no such file"},
		"no file of secrets":   {nil, []string{"TSMON_SECRET_FILE=x.txt"}, "x.txt: no such file"},
		"an origin with *":     {nil, []string{"TSMON_CORS_ORIGINS=https://*.example.com"}, "exact origins"},
		"an origin with /":     {nil, []string{"TSMON_CORS_ORIGINS=https://a.example.com/"}, "exact origins"},
		"all origins":          {nil, []string{"TSMON_CORS_ORIGINS=*"}, "exact origins"},
		"pictures of a path":   {nil, []string{"TSMON_CONSOLE_IMAGES=https://a.example.com/img"}, "TSMON_CONSOLE_IMAGES"},
		"a broker in the open": {[]string{"--listen", "127.0.0.1:0"}, []string{"TSMON_MQTT_LISTEN=0.0.0.0:0"}, "TSMON_MQTT_URL"},
		"half of TLS":          {nil, []string{"TSMON_TLS_CERT=x.crt"}, "both cert and key"},
		"half of a key pair":   {nil, []string{"TSMON_UPLOAD_SECRET_KEY=geheim"}, "access_key"},
		"a broker's bad URL":   {nil, []string{"TSMON_MQTT_URL=http://user:geheim@broker"}, "mqtts://"},
		"a database's bad URL": {nil, []string{"TSMON_RECORDS=postgres://user:geheim@db:port/x"}, "postgres://"},
		"a redirect elsewhere": {nil, []string{"TSMON_UPDATES_REDIRECT=geheim"}, "public (or true), presigned or false"},
		"presigned in folders": {nil, []string{"TSMON_UPDATES_REDIRECT=presigned"}, "s3://"},
		"a bad endpoint": {nil, []string{"TSMON_UPDATES_REDIRECT=presigned", "TSMON_STORAGE=s3://bucket?endpoint=http://127.0.0.1:9",
			"TSMON_UPDATES_PRESIGN_ENDPOINT=https://user:geheim@files.example.com"}, "presign endpoint: "},
		"no region": {nil, []string{"TSMON_UPDATES_REDIRECT=presigned", "TSMON_STORAGE=s3://bucket",
			"TSMON_UPDATES_PRESIGN_ENDPOINT=https://files.example.com"}, "region=REGION"},
		"an argument": {[]string{"extra"}, nil, "no arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data")}, c.args...)
			if c.args == nil {
				args = append(args, "--listen", "127.0.0.1:0")
			}
			_, stderr, code := command(t, c.env, "tsmon", args...)
			if code != 2 || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "hint: ") || strings.Contains(stderr, "geheim") {
				t.Errorf("exit code %d\n%s", code, stderr)
			}
		})
	}
}
