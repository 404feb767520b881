package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// work returns how long the page's thread has worked, in seconds of its own clock, which
// stands still while other programs run: all of it, and scripts alone.
func (b *browser) work() (all, scripts float64) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		b.t.Fatal(err)
	}
	got, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range got.Metrics {
		switch m.Name {
		case "TaskDuration":
			all = m.Value
		case "ScriptDuration":
			scripts = m.Value
		}
	}
	return all, scripts
}

// TestFirstContent: the first content of a page comes from a few small files, waits for no
// data, and takes its thread less than a second. The second by the clock is Lighthouse's to
// measure; what it is made of does not depend on how busy the machine is.
func TestFirstContent(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.work() // counts from now on
	for _, place := range []string{"#/network", "#/charts?v=50,52,53,20&p=24h", "#/boards", "#/diagrams/1", "#/devices", "#/releases"} {
		held := make(chan struct{})
		f.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/console") {
				select {
				case <-held:
				case <-r.Context().Done():
				}
			}
			return false
		})
		b.visit(place)
		b.do(chromedp.Reload())
		b.until(`performance.getEntriesByName("first-contentful-paint").length === 1 && document.querySelector("nav") !== null && document.querySelector("main").children.length > 0`)
		worked, _ := b.work() // since the page was loaded anew
		const files = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter(e => new URL(e.name).pathname.startsWith("/console"))]`
		n, size := value[int](b, files+".length"), value[int](b, files+".reduce((sum, e) => sum + e.encodedBodySize, 0)")
		t.Logf("%s: %d files of %d bytes, %.0f ms of work", place, n, size, worked*1000)
		if n < 3 || n > 15 || size < 10_000 || size > 100_000 {
			t.Errorf("%s: its first content takes %d files of %d bytes", place, n, size)
		}
		if worked <= 0 || worked > 1 {
			t.Errorf("%s: its first content takes %.2f s of work", place, worked)
		}
		close(held)
	}
}

// bigDiagram saves a diagram of 500 lines, each bound to a variable, and returns its number.
func bigDiagram(t *testing.T, f *front) (id int) {
	t.Helper()
	demo, err := theDemo()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, token string, body []byte, data any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, f.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		answer := struct{ Data any }{data}
		if err := json.NewDecoder(got.Body).Decode(&answer); err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v", path, got.StatusCode, err)
		}
	}
	var token string
	ask("POST", "/loginPartner", "", read(t, filepath.Join(demo.data, "data", "demo.json")), &token)
	var vars []struct{ ID any }
	ask("GET", "/getVarsTs", token, nil, &vars)
	if len(vars) == 0 {
		t.Fatal("the demo has no variables")
	}
	type point struct{ Left, Top int }
	var lines []string
	for i := range 500 {
		from := point{20 + i%25*40, 20 + i/25*28}
		lines = append(lines, fmt.Sprintf(`{"status":1,"points":{"start":{"left":%d,"top":%d},"end":{"left":%d,"top":%d}},"strokeWidth":2,"stroke":"#1f2428","id_tsvars":"%v"}`,
			from.Left, from.Top, from.Left+30, from.Top, vars[i%len(vars)].ID))
	}
	var saved struct{ ID int }
	ask("POST", "/saveDiagram", token, []byte(`{"diagram":{"title":"500 lines","status":1,"width":1100,"height":620,"backgroundColor":"","backgroundImg":""},"lines":[`+
		strings.Join(lines, ",")+`],"images":[],"texts":[],"polylines":[],"deleted":{"lines":[],"images":[],"texts":[],"polylines":[]}}`), &saved)
	return saved.ID
}

// TestFiveHundredLines: a diagram of 500 lines is there at once, and dragging one of its
// lines touches that line alone, with scripts that take less than 8 ms a move.
func TestFiveHundredLines(t *testing.T) {
	f := newFront(t)
	id := bigDiagram(t, f)
	b := newBrowser(t, 1350, 940)
	b.enterDemo(f)
	b.eval(`window.seen = [], new MutationObserver(() => {
		const n = document.querySelectorAll("svg.diagram [data-kind=lines]").length;
		if (n > 0 && n !== seen.at(-1)) seen.push(n);
	}).observe(document.body, {childList: true, subtree: true})`)
	b.visit(fmt.Sprintf("#/diagrams/%d", id))
	b.until(`document.querySelectorAll("svg.diagram [data-kind=lines]").length === 500`)
	if seen := fmt.Sprint(value[[]int](b, "seen")); seen != "[500]" {
		t.Errorf("the lines came as %s", seen)
	}
	b.until(`document.querySelectorAll(".tag text").length > 0`)
	b.shot("diagram-500")

	b.visit(fmt.Sprintf("#/diagrams/%d/edit", id))
	b.until(`document.querySelectorAll(".canvas [data-kind=lines]").length === 500`)
	at := value[[]float64](b, `(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelectorAll(".canvas [data-kind=lines]")[260].getBoundingClientRect())`)
	b.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[1], chromedp.ButtonLeft))
	b.until(`document.querySelector(".handles") !== null`)
	b.eval(`window.touched = new Set(), new MutationObserver(records => {
		for (const r of records) for (const e of [r.target, ...r.addedNodes, ...r.removedNodes]) {
			const of = (e.nodeType === 1 ? e : e.parentElement)?.closest("[data-kind]");
			if (of) touched.add(of.dataset.id);
		}
	}).observe(document.querySelector(".canvas"), {childList: true, attributes: true, characterData: true, subtree: true})`)
	const moves = 100
	_, before := b.work()
	for i := range moves {
		b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0]+float64(i)*1.5, at[1]+float64(i%20)*3, chromedp.ButtonLeft))
	}
	_, after := b.work()
	b.do(chromedp.MouseEvent(chromedp.MouseReleased, at[0]+150, at[1], chromedp.ButtonLeft))
	if touched := value[[]string](b, "[...touched]"); len(touched) != 1 {
		t.Errorf("dragging one line touches %d", len(touched))
	}
	each := (after - before) * 1000 / moves
	t.Logf("%.2f ms of scripts a move", each)
	if each <= 0 || each > 8 {
		t.Errorf("%.2f ms of scripts a move", each)
	}
}
