package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// ring says what is wrong with the focus ring at this stop, "again" if the page was gone
// through, or nothing. What scrolls may cut off no side of the ring.
const ring = `(() => {
	const e = document.activeElement;
	if (e === document.body || e === document.documentElement) return ""; // between the last and the first
	if (stops.has(e)) return "again";
	stops.add(e);
	const what = x => x.outerHTML.slice(0, 90);
	const ringed = [...document.querySelectorAll("body, body *")].filter(x => {
		const s = getComputedStyle(x);
		return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
	});
	if (ringed.length !== 1 || ringed[0] !== e) return what(e) + " has the focus, and the ring is at " + ringed.map(what).join(" and ");
	const s = getComputedStyle(e), more = parseFloat(s.outlineWidth) + parseFloat(s.outlineOffset), r = e.getBoundingClientRect();
	const box = { left: r.left - more, top: r.top - more, right: r.right + more, bottom: r.bottom + more };
	if (r.width < 8 || r.height < 8 || box.left < -1 || box.right > innerWidth + 1 || r.bottom <= 0 || r.top >= innerHeight) return what(e) + " is not seen: " + JSON.stringify(r);
	for (let x = e.parentElement; x && x !== document.body; x = x.parentElement) {
		if (getComputedStyle(x).overflowX === "visible") continue;
		const c = x.getBoundingClientRect();
		if (box.left < c.left - 1 || box.right > c.right + 1 || (r.height < c.height && (box.top < c.top - 1 || box.bottom > c.bottom + 1)))
			return what(e) + " has its ring cut off by " + what(x);
	}
	return "";
})()`

// TestOneFocusRing goes through pages with the Tab key: at every stop one ring is seen, around
// what has the focus.
func TestOneFocusRing(t *testing.T) {
	f := newFront(t)
	f.pumping()
	b := newBrowser(t, 1280, 800)
	through := func(name string, least int) {
		t.Helper()
		b.eval(`window.stops = new Set(), document.activeElement.blur()`)
		for range 300 {
			b.press("\t")
			switch problem := value[string](b, ring); problem {
			case "":
			case "again":
				if n := value[int](b, "stops.size"); n < least {
					t.Errorf("%s has %d stops, want %d", name, n, least)
				}
				return
			default:
				t.Errorf("%s: %s", name, problem)
			}
		}
		t.Errorf("%s has no end", name)
	}
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Open the demo")
	through("login", 10)
	b.enterDemo(f)
	for _, p := range networkPages {
		b.visit(p.place)
		if p.name == "diagrams" {
			p.shown = `document.querySelectorAll(".links a").length === 2`
		}
		b.until(p.shown)
		through(p.name, 12)
	}
	b.visit("#/diagrams/2/edit")
	b.until(`document.querySelectorAll(".objects button").length > 20`)
	b.eval(`document.querySelector(".objects button").click()`)
	through("properties of an object", 12)
	b.shot("focus-ring")
}
