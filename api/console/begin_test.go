package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLoginAtOnce: the login is there with the page, and with it the demo's button; neither
// waits for another answer.
func TestLoginAtOnce(t *testing.T) {
	f := newFront(t)
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/console/") && r.URL.Path != "/console/demo" {
			return false
		}
		t.Errorf("the login page asks %s", r.URL)
		return false
	})
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.until(`document.querySelectorAll(".login form input").length === 4 && document.querySelector(".login section button").innerText === "Open the demo"`)
}

// TestDiagramsOfMenus: who opens the diagrams for the first time finds those that menu items
// lead to, and needs to know no number.
func TestDiagramsOfMenus(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/diagrams")
	b.until(`document.querySelectorAll(".links a").length === 2`)
	b.shot("diagrams-first")
	b.do(chromedp.Click(".links a"))
	b.until(`document.querySelectorAll(".diagram-frame .tag").length > 2`)
	b.visit("#/diagrams")
	b.until(`document.querySelectorAll(".links a").length === 2`) // the one that was opened is not there twice
}
