package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// watched counts what a page asks, by path, and the batches that ask a variable twice.
type watched struct {
	mu     sync.Mutex
	asked  map[string]int
	double int
}

func (w *watched) see(_ http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[r.URL.Path]++
	if r.URL.Path != "/multipleDataTs" {
		return false
	}
	body, _ := io.ReadAll(r.Body) // what is cut is no JSON
	r.Body = io.NopCloser(bytes.NewReader(body))
	var batch []struct {
		DataTs json.RawMessage `json:"dataTs"`
	}
	seen := map[string]bool{}
	if err := json.Unmarshal(body, &batch); err != nil {
		w.double++
	}
	for _, item := range batch {
		if seen[string(item.DataTs)] {
			w.double++
		}
		seen[string(item.DataTs)] = true
	}
	return false
}

func (w *watched) take() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = map[string]int{}
	return asked
}

// polled waits for so many more polls.
func (f *front) polled(n int64) {
	f.t.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for want := f.polls.Load() + n; f.polls.Load() < want; {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("%d polls are missing", want-f.polls.Load())
		}
	}
}

// TestOneBatch: an open view asks for one batch at a time, in which each variable stands
// once, and for nothing else but the series of its charts: as many views that are open
// cost the server as many such batches.
func TestOneBatch(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	w := &watched{asked: map[string]int{}}
	f.intercept(w.see)
	for _, view := range []struct{ place, shown string }{networkPlace("network"), networkPlace("boards"), networkPlace("diagram")} {
		b.visit(view.place)
		b.until(view.shown)
		f.polled(2) // what the page loads once has come
		w.take()
		f.polled(5)
		asked := w.take()
		delete(asked, "/seriesDataTs")
		if n := asked["/multipleDataTs"]; len(asked) != 1 || n < 4 || n > 8 {
			t.Errorf("%s asks %v while it polls five times", view.place, asked)
		}
	}
	if w.double > 0 {
		t.Errorf("%d variables stand in a batch twice", w.double)
	}
}

func networkPlace(name string) struct{ place, shown string } {
	for _, p := range networkPages {
		if p.name == name {
			return struct{ place, shown string }{p.place, p.shown}
		}
	}
	panic(name)
}

// TestMemory: a page that polls for two hours, by a clock that runs faster, keeps no more
// than after the first of them.
func TestMemory(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/boards")
	b.until(`document.querySelectorAll(".u-over").length === 2 && document.querySelectorAll(".board .number").length > 10`)
	b.eval("window.moment = 10")
	used := func() (bytes float64, nodes int) {
		t.Helper()
		if _, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		heap, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		return heap.UsedSize, value[int](b, `document.getElementsByTagName("*").length`)
	}
	// What a collection leaves differs by some hundred kilobytes from one to the next: the
	// most of three is compared with the least of three an hour later.
	few := func() (least, most float64, nodes int) {
		t.Helper()
		for i := range 3 {
			f.polled(30)
			bytes, n := used()
			if i == 0 {
				least, most = bytes, bytes
			}
			least, most, nodes = min(least, bytes), max(most, bytes), max(nodes, n)
		}
		return least, most, nodes
	}
	f.polled(30) // what it caches is there, and its code is compiled
	_, before, nodes := few()
	f.polled(60) // every 30 seconds
	after, _, nodesAfter := few()
	t.Logf("%.2f MB and %d elements after an hour, %.2f MB and %d an hour later", before/1e6, nodes, after/1e6, nodesAfter)
	if after > before*1.15+200_000 || nodesAfter > nodes+20 {
		t.Errorf("%.0f bytes and %d elements became %.0f and %d", before, nodes, after, nodesAfter)
	}
}

// TestBrowserLanguage: a page speaks the language of the browser, and writes numbers and
// times as its region does.
func TestBrowserLanguage(t *testing.T) {
	f := newFront(t)
	for _, c := range []struct{ languages, lang, button, number, time string }{
		{"es-CO,es,en", "es", "Abrir la demostración", "1.234,5", `^\d{1,2}/\d{1,2}/\d{4}, \d{1,2}:\d\d:\d\d [ap]\. m\.$`},
		{"es-ES,es", "es", "Abrir la demostración", "1.234,5", `^\d{1,2} [a-z]{3,4} \d{4}, \d{1,2}:\d\d:\d\d$`},
		{"en-GB,en", "en", "Open the demo", "1,234.5", `^\d{1,2} [A-Z][a-z]{2,3} \d{4}, \d\d:\d\d:\d\d$`},
		{"de-DE,de", "en", "Open the demo", "1,234.5", `^[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d\d:\d\d [AP]M$`},
	} {
		b := newBrowser(t, 800, 600)
		if _, err := chromedp.Call(b.ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "test", AcceptLanguage: c.languages}); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.Navigate(f.URL + "/console/"))
		b.text(c.button)
		if lang := value[string](b, "document.documentElement.lang"); lang != c.lang {
			t.Errorf("%s: the page's language is %s", c.languages, lang)
		}
		b.click(c.button)
		b.until(`document.querySelectorAll(".card .number").length > 10`)
		if mark := c.number[len(c.number)-2:][:1]; !value[bool](b, fmt.Sprintf(`[...document.querySelectorAll(".card .number")].some(e => /^\d+\%s\d+$/.test(e.innerText.trim()))`, mark)) {
			t.Errorf("%s: no number has the decimal %q", c.languages, mark)
		}
		b.until(`document.querySelector("time.age") !== null`)
		if at := strings.Join(strings.Fields(value[string](b, `document.querySelector("time.age").title`)), " "); !regexp.MustCompile(c.time).MatchString(at) {
			t.Errorf("%s: a time is %q, want %s", c.languages, at, c.time)
		}
	}
}

// TestRangeHoldsValue: the range below a value holds it, also where the history does not have
// it yet.
func TestRangeHoldsValue(t *testing.T) {
	f := newFront(t)
	f.change(func(values map[string]any) { values["2"] = 987.6 })
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	const card = `[...document.querySelectorAll(".card")].find(e => e.querySelector(".number")?.innerText === "987.6")`
	b.until(`/– 987\.6$/.test(` + card + `?.querySelector(".foot").innerText.trim())`)
}
