package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/servertest"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// demoServer is `tsmon serve --demo` in a process of its own, which all tests of
// the package share.
type demoServer struct {
	base string // http://127.0.0.1:…
	cmd  *exec.Cmd
	data string
}

// theDemo starts the server on first use.
var theDemo = sync.OnceValues(startDemo)

// TestMain ends the shared server and browser.
func TestMain(m *testing.M) {
	code := m.Run()
	if theChromium != nil {
		_ = chromedp.Cancel(theChromium)
	}
	if demoStarted.Load() {
		if s, err := theDemo(); err == nil {
			s.end()
		}
	}
	os.Exit(code)
}

var demoStarted atomic.Bool

func startDemo() (*demoServer, error) {
	demoStarted.Store(true)
	return startServer()
}

// end kills the server and removes its data.
func (s *demoServer) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.data)
}

// startServer starts a demo with further variables.
func startServer(env ...string) (*demoServer, error) {
	folder, err := os.MkdirTemp("", "tsmon-console")
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(folder, "tsmon")
	if out, err := exec.Command("go", "build", "-o", binary, "tsmon/cmd/tsmon").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	cmd := exec.Command(binary, "serve", "--demo", "--listen", "127.0.0.1:0", "--data", filepath.Join(folder, "data"))
	cmd.Env = append([]string{"HOME=" + folder, "TSMON_MQTT_LISTEN=127.0.0.1:0"}, env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &demoServer{cmd: cmd, data: folder}
	lines := bufio.NewReader(stderr)
	for ready := false; !ready; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("tsmon serve ended: %q", line)
		}
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "serving "); ok && s.base == "" {
			s.base = strings.TrimSuffix(at, "/")
		}
		ready = strings.HasPrefix(line, "the demo is ready")
	}
	go io.Copy(io.Discard, lines) // ends with the process
	return s, nil
}

// front stands between a browser and the server, and can spoil what passes.
type front struct {
	t *testing.T
	*httptest.Server
	proxy *httputil.ReverseProxy
	spoil atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	polls atomic.Int64 // requests to multipleDataTs
}

// newFront starts a front before the shared server. It ends with the test.
func newFront(t *testing.T) *front {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is slow under the race detector")
	}
	s, err := theDemo()
	if err != nil {
		t.Fatal(err)
	}
	return frontOf(t, s)
}

// frontOf starts a front before a server.
func frontOf(t *testing.T, s *demoServer) *front {
	t.Helper()
	target, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, proxy: &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Host = p.In.Host
	}}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/multipleDataTs" {
			f.polls.Add(1)
		}
		if spoil := f.spoil.Load(); spoil == nil || !(*spoil)(w, r) {
			f.proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// away lets every request for data fail as if nobody listened.
func (f *front) away() {
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/console") {
			return false
		}
		panic(http.ErrAbortHandler)
	})
}

// change changes the values of every batch.
func (f *front) change(change func(values map[string]any)) {
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/multipleDataTs" {
			return false
		}
		answer := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		f.proxy.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK { // the browser went away, or its session ended
			w.WriteHeader(answer.Code)
			return true
		}
		var body struct {
			Data map[string]any `json:"data"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
			f.t.Errorf("%s: %v", answer.Body, err)
		}
		change(body.Data)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // a browser that went away
		return true
	})
}

// pumping lets the demo's pumps run at any hour: nothing stands still.
func (f *front) pumping() {
	f.change(func(values map[string]any) {
		for key, value := range values {
			if value == 0.0 {
				values[key] = 1.0
			}
		}
	})
}

func (f *front) intercept(spoil func(w http.ResponseWriter, r *http.Request) bool) {
	f.spoil.Store(&spoil)
}

func (f *front) back() { f.spoil.Store(nil) }

// hasten lets the timers of pages that wait for seconds wait for a moment, window.moment in
// milliseconds, and counts those that run.
const hasten = `const wait = window.setTimeout, stop = window.clearTimeout, long = new Set();
window.setTimeout = (f, ms, ...rest) => {
	if (!(ms >= 5000)) return wait(f, ms, ...rest);
	const id = wait(() => { long.delete(id); f(...rest); }, window.moment ?? 100);
	long.add(id);
	return id;
};
window.clearTimeout = id => { long.delete(id); stop(id); };`

// browser is a tab of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // exceptions, and what the policy refused
}

// theChromium is the browser that the tests share, nil before its first use.
var theChromium context.Context

// startChromium starts a browser. chromedp.Cancel ends it.
func startChromium(t *testing.T, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(servertest.Chromium(t)), chromedp.NoSandbox)
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// newBrowser opens a tab in the shared browser, with a profile of its own.
func newBrowser(t *testing.T, width, height int64) *browser {
	t.Helper()
	if theChromium == nil {
		theChromium = startChromium(t)
	}
	return newTab(t, theChromium, width, height)
}

// newTab opens a tab with a profile of its own. It ends with the test, which fails if the
// page had exceptions or broke its own policy.
func newTab(t *testing.T, chromium context.Context, width, height int64) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(chromium, 5*time.Minute)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(width, height))
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hasten}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		end()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, problem := range b.problems {
			t.Error("the page:", problem)
		}
	})
	return b
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Source == "security" {
			b.problems = append(b.problems, e.Entry.Text)
		}
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.shot("failed")
		b.t.Fatal(err)
	}
}

// until waits for a JavaScript expression to be true.
func (b *browser) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(0))); err != nil {
		b.shot("failed")
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// text waits until the page shows a text.
func (b *browser) text(want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%s)", quote(want)))
}

func quote(text string) string {
	data, _ := json.Marshal(text) // a string has no error
	return string(data)
}

// click clicks what a CSS selector finds, or a button or link by its text.
func (b *browser) click(name string) {
	b.t.Helper()
	const find = `[...document.querySelectorAll("button, a, summary, label")].find(e => e.innerText.trim() === %s)`
	if strings.ContainsAny(name, "#.[") {
		b.do(chromedp.Click(name))
		return
	}
	found := fmt.Sprintf(find, quote(name))
	b.until("Boolean(" + found + ")")
	b.eval(found + ".click()")
}

func (b *browser) eval(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any]("void ("+expression+")")); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// shot saves a screenshot in the folder that TSMON_SCREENSHOTS names, if it names one.
func (b *browser) shot(name string) {
	b.t.Helper()
	folder := os.Getenv("TSMON_SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// press types keys as a keyboard does: what a page prevents is not typed.
func (b *browser) press(keys string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	for _, r := range keys {
		b.key(r, time.Time{}, modifiers...)
	}
}

// sequence presses two keys, between which something may happen. For the page 50 ms lie
// between them, however busy the machine is.
func (b *browser) sequence(first, second rune, between func()) {
	b.t.Helper()
	now := time.Now()
	b.key(first, now)
	between()
	b.key(second, now.Add(50*time.Millisecond))
}

// key presses a key; at is when, for the page, zero for now.
func (b *browser) key(r rune, at time.Time, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	events := kb.Encode(r)
	down := events[0]
	if !at.IsZero() {
		down.Timestamp = input.TimeSinceEpoch(float64(at.UnixMilli()) / 1000)
	}
	if len(events) == 3 && len(modifiers) == 0 {
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	for _, m := range modifiers {
		down.Modifiers |= int64(m)
	}
	up := *down
	up.Type, up.Text, up.UnmodifiedText = kb.KeyUp, "", ""
	for _, event := range []input.DispatchKeyEventParams{*down, up} {
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, event); err != nil {
			b.t.Fatal(err)
		}
	}
}

// enterDemo opens the console and logs in with the demo's button.
func (b *browser) enterDemo(f *front) {
	b.t.Helper()
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.click("Open the demo")
	b.until(`document.querySelectorAll(".card .number").length > 10`)
}

// visit goes to a place in the console.
func (b *browser) visit(place string) {
	b.t.Helper()
	b.eval("location.hash = " + quote(place))
}
