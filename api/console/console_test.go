package console_test

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsmon/api/console"
)

// TestBuilt holds the committed files to what the sources give.
func TestBuilt(t *testing.T) {
	folder := t.TempDir()
	dist, types := filepath.Join(folder, "dist"), filepath.Join(folder, "types.gen.ts")
	if out, err := exec.Command("go", "run", "./build", "-out", dist, "-types", types).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const hint = "run go generate ./api/console"
	built, committed := filesIn(t, dist), filesIn(t, "dist")
	for name, data := range built {
		if !bytes.Equal(committed[name], data) {
			t.Errorf("dist/%s is not what the sources give: %s", name, hint)
		}
	}
	for name := range committed {
		if built[name] == nil {
			t.Errorf("dist/%s is left over: %s", name, hint)
		}
	}
	if !bytes.Equal(read(t, types), read(t, "src/types.gen.ts")) {
		t.Errorf("src/types.gen.ts is not what openapi.yaml says: %s", hint)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func filesIn(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(folder, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func get(h http.Handler, method, path string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPage(t *testing.T) {
	h := console.Handler(console.Options{Images: []string{"https://cdn.example.com"}})
	page := get(h, "GET", "/console/", nil)
	if page.Code != 200 || page.Header().Get("Cache-Control") != "no-store" || !strings.Contains(page.Body.String(), `<div id="app">`) {
		t.Errorf("%d %v %.100s", page.Code, page.Header(), page.Body)
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"img-src 'self' data: blob: https://cdn.example.com; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
	if got := page.Header().Get("Content-Security-Policy"); got != policy {
		t.Errorf("the policy is %s", got)
	}
	for _, match := range regexp.MustCompile(`(?:href|src)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1) {
		a := get(h, "GET", "/console/"+match[1], map[string]string{"Accept-Encoding": "gzip"})
		if a.Code != 200 || a.Header().Get("Content-Encoding") != "gzip" || a.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", match[1], a.Code, a.Header())
		}
		if immutable := strings.Contains(a.Header().Get("Cache-Control"), "immutable"); immutable == strings.HasPrefix(match[1], "img/") {
			t.Errorf("%s: %s", match[1], a.Header().Get("Cache-Control"))
		}
	}
	for path, status := range map[string]int{"/console": 308, "/console/nothing.js": 404, "/console/index.html": 404, "/console/img": 404, "/console/img/tanque.svg": 200} {
		if got := get(h, "GET", path, nil); got.Code != status {
			t.Errorf("%s: %d, want %d", path, got.Code, status)
		}
	}
	if got := get(h, "POST", "/console/", nil); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got.Code)
	}
}

// TestSizes bounds what all pages weigh together, compressed.
func TestSizes(t *testing.T) {
	h := console.Handler(console.Options{})
	all := 0
	for name := range filesIn(t, "dist") {
		path := "/console/" + strings.TrimSuffix(name, "index.html")
		a := get(h, "GET", path, map[string]string{"Accept-Encoding": "gzip"})
		n, err := io.Copy(io.Discard, a.Body)
		if err != nil || a.Code != 200 {
			t.Errorf("%s: %d %v", path, a.Code, err)
		}
		all += int(n)
	}
	t.Logf("all files together have %d bytes, compressed", all)
	if all > 200<<10 {
		t.Errorf("all files together have %d bytes, compressed", all)
	}
}

func TestRedirect(t *testing.T) {
	h := console.Redirect(http.NotFoundHandler())
	html := map[string]string{"Accept": "text/html,application/xhtml+xml"}
	for _, c := range []struct {
		method, path string
		header       map[string]string
		status       int
	}{
		{"GET", "/", html, 302},
		{"HEAD", "/", html, 302},
		{"GET", "/", nil, 404},
		{"GET", "/", map[string]string{"Accept": "application/json"}, 404},
		{"POST", "/", html, 404},
		{"GET", "/nothing", html, 404},
	} {
		if got := get(h, c.method, c.path, c.header); got.Code != c.status || c.status == 302 && got.Header().Get("Location") != "/console/" {
			t.Errorf("%s %s %v: %d %s", c.method, c.path, c.header, got.Code, got.Header().Get("Location"))
		}
	}
}

// TestDemoLogin gives the demo's login only to pages of this server that are
// opened on this machine.
func TestDemoLogin(t *testing.T) {
	login := console.Login{Email: "demo@example.com", TokenApp: "secret-of-the-demo", Schema: "demo", TsName: "ts_demo"}
	known := true
	h := console.Handler(console.Options{Demo: func() (console.Login, bool) { return login, known }})
	ask := func(remote, host string, header map[string]string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/console/demo", nil)
		r.RemoteAddr, r.Host = remote, host
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	own := map[string]string{"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
	good := ask("127.0.0.1:4000", "127.0.0.1:8080", own)
	if good.Code != 200 || !strings.Contains(good.Body.String(), `"tokenApp":"secret-of-the-demo"`) || good.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s %v", good.Code, good.Body, good.Header())
	}
	if v6 := ask("[::1]:4000", "localhost:8080", map[string]string{"Origin": "http://localhost:8080"}); v6.Code != 200 {
		t.Errorf("over ::1: %d", v6.Code)
	}
	for name, got := range map[string]*httptest.ResponseRecorder{
		"another machine": ask("192.0.2.7:4000", "127.0.0.1:8080", own),
		"rebound name":    ask("127.0.0.1:4000", "evil.example", map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}),
		"another page":    ask("127.0.0.1:4000", "127.0.0.1:8080", map[string]string{"Origin": "http://127.0.0.1:9090", "Sec-Fetch-Site": "same-site"}),
		"no page":         ask("127.0.0.1:4000", "127.0.0.1:8080", nil),
		"a proxy":         ask("127.0.0.1:4000", "127.0.0.1:8080", map[string]string{"Origin": "http://127.0.0.1:8080", "X-Forwarded-For": "192.0.2.7"}),
	} {
		if got.Code != http.StatusForbidden || strings.Contains(got.Body.String(), "secret") {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
	known = false
	if got := ask("127.0.0.1:4000", "127.0.0.1:8080", own); got.Code != http.StatusServiceUnavailable {
		t.Errorf("before the demo is ready: %d", got.Code)
	}
	for host, want := range map[string]bool{"127.0.0.1:8080": true, "evil.example": false} {
		r := httptest.NewRequest("GET", "/console/", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:4000", host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if offered := strings.Contains(w.Body.String(), "<html data-demo "); offered != want {
			t.Errorf("at %s the page offers the demo: %v", host, offered)
		}
	}
	h = console.Handler(console.Options{})
	if got := ask("127.0.0.1:4000", "127.0.0.1:8080", own); got.Code != http.StatusNotFound {
		t.Errorf("without a demo: %d", got.Code)
	}
}

func TestCheckImages(t *testing.T) {
	if err := console.CheckImages([]string{"https://cdn.example.com", "http://10.0.0.7:9000"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "cdn.example.com", "https://cdn.example.com/", "https://a;script-src *", "https://*", "javascript:alert(1)", "https://u@h", "data:"} {
		if console.CheckImages([]string{bad}) == nil {
			t.Errorf("%q is taken for an origin", bad)
		}
	}
}
