package console_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// audit fails for what makes a page hard to use: whatever axe-core finds, and a page wider
// than its window.
func (b *browser) audit(what string) {
	b.t.Helper()
	if wide := value[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 1 {
		b.t.Errorf("%s: %d pixels wider than the window", what, wide)
	}
	if !value[bool](b, `"axe" in window`) {
		source := string(read(b.t, filepath.Join("testdata", "axe", "axe.min.js")))
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](source+"\n;0")); err != nil {
			b.t.Fatal(err)
		}
	}
	b.eval(`window.audited = null, axe.run({preload: false}).then(
		r => { window.audited = r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + ": " + n.failureSummary)); },
		e => { window.audited = ["axe-core failed: " + e]; })`)
	b.until("window.audited !== null")
	if problems := value[[]string](b, "audited"); len(problems) > 0 {
		b.t.Errorf("%s: %s", what, strings.Join(problems, "\n"))
	}
}

// TestAudit finds nothing to mend on the pages of the network, by day and by night.
func TestAudit(t *testing.T) {
	f := newFront(t)
	f.pumping()
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Open the demo")
	b.audit("login")
	b.enterDemo(f)
	b.until(`document.querySelectorAll(".card .sparkline path").length > 10`)
	for _, theme := range []string{"light", "dark"} {
		b.eval(`document.documentElement.dataset.theme = ` + quote(theme))
		for _, p := range networkPages {
			b.visit(p.place)
			b.until(p.shown)
			b.audit(p.name + ", " + theme)
		}
	}
}
