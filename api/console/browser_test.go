package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPages opens every page with the demo's data.
func TestPages(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Open the demo")
	b.shot("login")
	b.enterDemo(f)
	b.until(`document.querySelectorAll(".card .sparkline path").length > 10`)
	b.shot("network")
	for _, p := range []struct{ name, place, shown string }{
		{"charts", "#/charts?v=50,52,53,20&p=24h", `document.querySelectorAll(".u-over").length === 3 && document.querySelectorAll(".legend tr").length === 4`},
		{"boards", "#/boards", `document.querySelectorAll(".u-over").length === 2 && document.querySelectorAll(".board .number").length > 10`},
		{"diagram", "#/diagrams/1", `document.querySelectorAll(".flow").length > 2`},
		{"diagram2", "#/diagrams/2", `document.querySelectorAll(".flow").length > 0`},
		{"diagrams", "#/diagrams", `document.querySelectorAll(".links a").length === 2`},
		{"editor", "#/diagrams/2/edit", `document.querySelectorAll(".objects button").length > 20`},
		{"devices", "#/devices", `document.querySelectorAll(".tree button").length === 5`},
		{"access", "#/access", `document.querySelectorAll("tbody tr").length === 9`},
	} {
		b.visit(p.place)
		b.until(p.shown)
		b.shot(p.name)
	}
}
