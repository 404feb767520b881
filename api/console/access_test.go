package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestAccess: the page says who sees which menu item, and why: what is granted to the user
// counts before what is denied to the profile.
func TestAccess(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/access")
	const result = `[...document.querySelectorAll("tbody tr")].filter(e => !e.lastElementChild.innerText.includes("✓")).map(e => e.firstElementChild.innerText.trim())`
	b.until(`document.querySelectorAll("tbody tr").length === 11`)
	if hidden := value[[]string](b, result); len(hidden) > 0 {
		t.Errorf("the user does not see %q", hidden)
	}
	b.do(chromedp.SetValue("input[name=user]", ""), chromedp.Focus("input[name=profile]"))
	b.press(kb.Enter)
	b.until(`document.querySelectorAll("thead th").length === 4`) // the profile alone
	b.until(`document.querySelectorAll("tbody tr").length === 11`)
	if hidden := strings.Join(value[[]string](b, result), ", "); hidden != "Editor de diagramas, Configuración de equipos, Permisos" {
		t.Errorf("the profile does not see %s", hidden)
	}
	b.shot("access-profile")
}
