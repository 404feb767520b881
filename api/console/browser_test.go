package console_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// networkPages are the pages of a network, and what they show when they are ready.
var networkPages = []struct{ name, place, shown string }{
	{"network", "#/network", `document.querySelectorAll(".card .sparkline path").length > 10`},
	{"charts", "#/charts?v=50,52,53,20&p=24h", `document.querySelectorAll(".u-over").length === 3 && document.querySelectorAll(".legend tr").length === 4`},
	{"boards", "#/boards", `document.querySelectorAll(".u-over").length === 2 && document.querySelectorAll(".board .number").length > 10`},
	{"diagram", "#/diagrams/1", `document.querySelectorAll(".flow").length > 2`},
	{"diagram2", "#/diagrams/2", `document.querySelectorAll(".flow").length > 0`},
	{"diagrams", "#/diagrams", `document.querySelectorAll(".links a").length === 2`},
	{"editor", "#/diagrams/2/edit", `document.querySelectorAll(".objects button").length > 20`},
	{"devices", "#/devices", `document.querySelectorAll(".tree button").length === 5`},
	{"access", "#/access", `document.querySelectorAll("tbody tr").length === 11`},
}

// TestPages opens every page with the demo's data.
func TestPages(t *testing.T) {
	f := newFront(t)
	f.pumping()
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Open the demo")
	b.shot("login")
	b.enterDemo(f)
	b.until(`document.querySelectorAll(".card .sparkline path").length > 10`)
	b.shot("network")
	for _, p := range networkPages[1:] {
		b.visit(p.place)
		b.until(p.shown)
		b.shot(p.name)
	}
}

// TestOutage takes the server away and brings it back: values stay, marked as old.
func TestOutage(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	before := value[int](b, `document.querySelectorAll(".card .number").length`)
	f.away()
	b.until(`document.querySelector(".freshness.stale") !== null`)
	b.text("No new values since")
	b.text("The server can't be reached.")
	if after := value[int](b, `document.querySelectorAll(".cards.old .card .number").length`); after != before {
		t.Errorf("%d values are shown and marked as old, %d before", after, before)
	}
	b.shot("outage")
	f.back()
	b.until(`document.querySelector(".freshness.stale") === null && document.querySelector(".cards.old") === null`)
	b.text("Updated")
}

// TestHiddenTab polls nothing while it is hidden, and again when it is shown.
func TestHiddenTab(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	hide := func(hidden bool) {
		b.eval(`Object.defineProperty(document, "hidden", {configurable: true, get: () => ` + map[bool]string{true: "true", false: "false"}[hidden] + `})`)
		b.eval(`document.dispatchEvent(new Event("visibilitychange"))`)
	}
	hide(true)
	b.until("long.size === 0") // no poll is under way or to come
	polls := f.polls.Load()
	hide(true)
	if n := value[int](b, "long.size"); n != 0 {
		t.Errorf("the hidden tab has %d timers", n)
	}
	const asked = `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/multipleDataTs")).length`
	before := value[int](b, asked)
	hide(false)
	b.until(fmt.Sprintf("%s > %d", asked, before))
	if f.polls.Load() == polls {
		t.Error("the tab does not poll after it was shown again")
	}
}

// TestExpired leads back to the login with a word why when the server says 401.
func TestExpired(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/multipleDataTs") {
			r.Header.Set("Authorization", "Bearer expired")
		}
		return false
	})
	b.text("Your session has expired. Please log in again.")
	if left := value[int](b, "sessionStorage.length"); left != 0 {
		t.Error("the token is still stored")
	}
	b.shot("expired")
	f.back()
	b.click("Open the demo")
	b.until(`document.querySelectorAll(".card .number").length > 10`)
}

// TestLoginForm logs in with the four fields, and says so when they are wrong.
func TestLoginForm(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Partner application token")
	fill := func(token string) {
		for name, text := range map[string]string{"email": "demo@example.com", "tokenApp": token, "schemaName": "demo", "ts_name": "ts_demo"} {
			b.do(chromedp.SetValue("[name="+name+"]", text))
		}
		b.do(chromedp.Click("form button[type=submit]"))
	}
	fill("wrong")
	b.text("The login was refused")
	demo := readDemo(t)
	fill(demo.TokenApp)
	b.until(`document.querySelectorAll(".card .number").length > 10`)
	if address := value[string](b, "location.href"); strings.Contains(address, demo.TokenApp) || strings.Contains(address, "?") {
		t.Errorf("the address is %s", address)
	}
}

// TestEditor changes a diagram with mouse and keyboard, saves it and reads it again.
func TestEditor(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Prueba")
	b.drawLine(200, 200, 400, 200)
	b.until(`document.querySelectorAll(".objects button").length === 1`)
	b.do(chromedp.SendKeys(".properties [role=combobox]", "caudal estacion"))
	b.until(`document.querySelectorAll("[role=option]").length > 0`)
	b.press(kb.Enter)
	b.until(`document.querySelector(".properties [role=combobox]").value === "Caudal de la estación"`)
	b.do(chromedp.Focus(".canvas"))
	b.press("t" + kb.Enter)
	b.until(`document.querySelectorAll(".objects button").length === 2`)
	b.press("z", chromedp.ModifierCtrl)
	b.until(`document.querySelectorAll(".objects button").length === 1`)
	b.press("y", chromedp.ModifierCtrl)
	b.until(`document.querySelectorAll(".objects button").length === 2`)
	b.click(`[data-kind=lines]`)
	b.press(kb.ArrowDown + kb.ArrowDown)
	b.shot("editor-changed")
	b.press("s", chromedp.ModifierCtrl)
	b.until(`/diagrams\/\d+\/edit/.test(location.hash)`)
	id := value[string](b, `location.hash.match(/\d+/)[0]`)
	b.visit("#/diagrams/" + id)
	b.until(`document.querySelectorAll("svg.diagram [data-kind=lines] line").length >= 2`)
	b.until(`document.querySelector(".tag text").textContent.includes("l/s")`)
	if top := value[string](b, `document.querySelector("[data-kind=lines] line").getAttribute("y1")`); top != "202" {
		t.Errorf("the line lies at %s, want 200 and two steps down", top)
	}
	b.shot("editor-saved")
}

// TestDraft keeps changes that are not saved when the editor is left or the
// session ends.
func TestDraft(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Borrador")
	b.drawLine(200, 200, 400, 200)
	b.until(`document.querySelectorAll(".objects button").length === 1`)
	b.visit("#/network")
	b.until(`document.querySelectorAll(".card .number").length > 10`)
	b.click("Log out")
	b.click("Open the demo")
	b.until(`document.querySelectorAll(".card .number").length > 10`)
	b.visit("#/diagrams/new")
	b.text("not saved yet")
	b.drawLine(200, 300, 400, 300)
	b.until(`document.querySelectorAll(".objects button").length === 2`)
	b.press("zz", chromedp.ModifierCtrl)
	b.until(`document.querySelectorAll(".objects button").length === 0`)
	b.press("yy", chromedp.ModifierCtrl)
	b.until(`document.querySelectorAll(".objects button").length === 2`)
	b.click("Save")
	b.until(`/diagrams\/\d+\/edit/.test(location.hash)`)
	b.visit("#/diagrams/new")
	b.until(`document.querySelector(".canvas") !== null && document.querySelectorAll(".objects button").length === 0`)
}

// newDiagram opens the editor with an empty diagram of this title.
func (b *browser) newDiagram(title string) {
	b.t.Helper()
	b.visit("#/diagrams/new")
	b.until(`document.querySelector(".canvas") !== null`)
	b.do(chromedp.Focus(".properties input"))
	b.eval(`document.activeElement.select()`)
	b.press(title + kb.Enter)
	b.until(`document.querySelector(".editor-bar h1").innerText === ` + quote(title))
}

// drawLine drags a line with its tool; the ends are in units of the canvas.
func (b *browser) drawLine(x1, y1, x2, y2 float64) {
	b.t.Helper()
	const matrix = `(() => { const m = document.querySelector(".canvas").getScreenCTM(); return [m.a, m.e, m.f]; })()`
	b.click(`.editor-bar button[title$='(L)']`)
	m := value[[]float64](b, matrix)
	b.do(chromedp.DragAndDropXY(x1*m[0]+m[1], y1*m[0]+m[2], x2*m[0]+m[1], y2*m[0]+m[2], 5))
}

// TestConflict shows both states when a second person has saved meanwhile, loses neither,
// and saves one over the other only when told to.
func TestConflict(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Conflicto")
	b.drawLine(200, 200, 400, 200)
	b.click("Save")
	b.until(`/diagrams\/\d+\/edit/.test(location.hash)`)
	saved := func(b *browser, objects int) {
		t.Helper()
		b.until(fmt.Sprintf(`document.querySelectorAll(".objects button").length === %d && ![...document.querySelectorAll(".objects button")].some(e => e.innerText.includes("new"))`, objects))
	}
	saved(b, 1)
	place := value[string](b, "location.hash")

	second := newBrowser(t, 1280, 800)
	second.enterDemo(f)
	second.visit(place)
	saved(second, 1)
	second.drawLine(200, 400, 600, 400)
	second.click("Save")
	saved(second, 2)

	b.drawLine(200, 300, 600, 500)
	b.click("Save")
	b.text("Somebody else has saved this diagram")
	b.until(`document.querySelectorAll("dialog svg.diagram").length === 2`)
	const lines = `[...document.querySelectorAll("dialog svg.diagram")].map(e => e.querySelectorAll("[data-kind=lines]").length)`
	if mine, theirs := value[[]int](b, lines)[0], value[[]int](b, lines)[1]; mine != 2 || theirs != 2 {
		t.Errorf("mine has %d lines, theirs %d, want two each", mine, theirs)
	}
	b.audit("conflict")
	b.shot("conflict")
	b.click("Discard yours and load theirs")
	b.until(`document.querySelector("dialog") === null`)
	saved(b, 2)

	second.drawLine(700, 200, 800, 200)
	second.click("Save")
	saved(second, 3)
	b.drawLine(200, 300, 600, 500)
	b.click("Save")
	b.click("Save yours over theirs")
	b.until(`document.querySelector("dialog") === null`)
	saved(b, 3)
	second.visit("#/network")
	second.visit(strings.TrimSuffix(place, "/edit"))
	second.until(`document.querySelectorAll("svg.diagram [data-kind=lines]").length === 3 && !document.querySelector("svg.diagram line[x1='700']")`)
}

// TestForbidden says that a save needs a grant, and keeps the changes.
func TestForbidden(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Prohibido")
	b.drawLine(200, 200, 400, 200)
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/saveDiagram" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error1":{"message":"you may not save diagrams"}}`)) // a browser that went away
		return true
	})
	b.click("Save")
	b.text("You may not save diagrams")
	b.until(`document.querySelectorAll(".objects button").length === 1`)
}

// TestDevices sends a configuration and shows its receipt.
func TestDevices(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/devices")
	b.until(`document.querySelectorAll(".tree button").length === 5`)
	b.do(chromedp.Click(".tree button"))
	b.until(`document.querySelector(".message pre") !== null`)
	b.do(chromedp.Click(".message input[type=checkbox]"))
	b.text("changed")
	b.click("Send")
	b.text("The broker took the message for demo/")
	b.shot("devices-sent")
	b.do(chromedp.SetValue(".message label:nth-of-type(1) input:not([type=checkbox])", "otro/config"))
	b.eval(`document.querySelector(".message > label input").dispatchEvent(new Event("input", {bubbles: true}))`)
	b.click("Send")
	b.text("Not sent:")
}

// TestKeyboard goes through the console without a mouse.
func TestKeyboard(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	press := func(keys ...string) { b.press(strings.Join(keys, "")) }
	sequence := func(first, second rune) { b.sequence(first, second, func() {}) }
	press("/", "potencia bomba")
	b.until(`document.activeElement.type === "search" && document.querySelectorAll(".card").length === 4`)
	press(kb.Escape, "?")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.shot("keys")
	press(kb.Escape)
	b.until(`document.querySelector("dialog") === null`)
	sequence('g', 'c')
	b.until(`document.querySelector("[role=combobox]") !== null`)
	press("/")
	b.until(`location.hash.startsWith("#/charts") && document.activeElement.getAttribute("role") === "combobox"`)
	press("nivel embalse", kb.Enter)
	b.until(`document.querySelectorAll(".u-over").length === 1`)
	press(kb.Escape)
	b.eval("document.activeElement.blur()")
	press("3")
	b.until(`location.hash.includes("p=7d")`)
	sequence('g', 'b')
	b.until(`location.hash === "#/boards"`)
	sequence('g', 'd')
	b.until(`location.hash === "#/diagrams"`)
	// The page is drawn anew between the two keys.
	b.sequence('g', 'c', func() {
		b.visit("#/boards")
		b.until(`document.querySelectorAll(".board .number").length > 10`)
	})
	b.until(`location.hash.startsWith("#/charts")`)
}

// TestDark draws the pages on a dark ground.
func TestDark(t *testing.T) {
	f := newFront(t)
	f.pumping()
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.eval(`localStorage.setItem("tsmon.theme", "dark")`)
	b.enterDemo(f)
	b.until(`document.querySelectorAll(".card .sparkline path").length > 10`)
	b.shot("dark-network")
	b.visit("#/charts?v=50,60,70,52&p=7d")
	b.until(`document.querySelectorAll(".u-over").length === 2`)
	b.shot("dark-charts")
	b.visit("#/diagrams/2")
	b.until(`document.querySelectorAll(".flow").length > 0`)
	b.shot("dark-diagram")
}

// TestExport zooms into a chart and saves it as CSV and as a picture.
func TestExport(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/charts?v=50,52&p=24h")
	b.until(`document.querySelectorAll(".u-over").length === 2`)
	b.eval(`window.saved = []`)
	b.eval(`URL.createObjectURL = (real => blob => { saved.push(blob); return real.call(URL, blob); })(URL.createObjectURL)`)
	b.click("CSV")
	b.until(`saved.length === 1`)
	b.eval(`saved[0].text().then(text => { window.csv = text; })`)
	b.until(`Boolean(window.csv)`)
	lines := strings.Split(value[string](b, "csv"), "\r\n")
	if len(lines) < 500 || strings.TrimPrefix(lines[0], "\ufeff") != "time,Nivel del tanque norte (m),Entrada al tanque norte (l/s)" || strings.Count(lines[1], ",") != 2 {
		t.Errorf("%d lines, which begin with %q", len(lines), lines[:2])
	}
	b.click("PNG")
	b.until(`saved.length === 2 && saved[1].type === "image/png" && saved[1].size > 10000`)
	place := value[[]float64](b, `(r => [r.left, r.top, r.width, r.height])(document.querySelector(".u-over").getBoundingClientRect())`)
	x, y := place[0]+place[2]/2, place[1]+place[3]/2
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	b.until(`!document.body.innerText.includes("Drag to zoom in") && [...document.querySelectorAll(".u-cursor-x")].every(e => !e.style.transform.includes("-10px"))`) // one crosshair for both
	b.do(chromedp.DragAndDropXY(x, y, x+200, y, 5))
	b.until(`/from=\d+&to=\d+/.test(location.hash) && document.querySelectorAll(".u-over").length === 2`)
	const hours = `(([, from, to]) => (to - from) / 3600000)(location.hash.match(/from=(\d+)&to=(\d+)/))`
	if n, want := value[float64](b, hours), 24*200/place[2]; math.Abs(n-want) > .1 {
		t.Errorf("the chart shows %.2f h, want %.2f", n, want)
	}
	b.shot("charts-zoomed")
	b.do(chromedp.DoubleClick(".u-over"))
	b.until(`location.hash.includes("p=24h")`)
}

// TestUpload puts a picture into a diagram that was uploaded from the editor.
func TestUpload(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Imagen")
	demo := readDemo(t)
	picture := filepath.Join(t.TempDir(), "plano.png")
	if err := os.WriteFile(picture, onePixel, 0o600); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Focus(".canvas"))
	b.press("i" + kb.Enter)
	b.until(`document.querySelector(".properties details") !== null`)
	b.do(chromedp.Click(".properties summary"), chromedp.SetUploadFiles("[name=file]", []string{picture}),
		chromedp.SetValue("[name=access]", demo.Access), chromedp.SetValue("[name=secret]", demo.Secret),
		chromedp.Click(".properties details button"))
	b.until(`/\/uploads\/[0-9a-f]{32}\.png$/.test(document.querySelector(".canvas image")?.getAttribute("href"))`)
}

// onePixel is a PNG.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82")

// demoFile is what demo.json says.
type demoFile struct {
	TokenApp string `json:"tokenApp"`
	Access   string `json:"accesskey"`
	Secret   string `json:"secretkey"`
}

func readDemo(t *testing.T) (d demoFile) {
	t.Helper()
	s, err := theDemo()
	if err == nil {
		err = json.Unmarshal(read(t, filepath.Join(s.data, "data", "demo.json")), &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAbnormal shows first, and in colour, what is out of the limits that the
// tenant's charts draw, and says Sin datos where there is no value.
func TestAbnormal(t *testing.T) {
	f := newFront(t)
	f.change(func(values map[string]any) {
		values["12"], values["54"], values["11"] = 9.2, 1, nil // discharge pressure, overflow, suction
	})
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.click("es")
	b.text("fuera de límites")
	names := value[[]string](b, `[...document.querySelectorAll(".card.severe h2")].map(e => e.innerText)`)
	if strings.Join(names, ", ") != "Presión de descarga, Rebose del tanque norte" {
		t.Errorf("out of limits are %q", names)
	}
	b.until(`[...document.querySelectorAll(".card")].find(e => e.innerText.startsWith("Presión de succión")).innerText.includes("Sin datos")`)
	b.shot("abnormal-network")
	b.visit("#/boards")
	b.until(`document.querySelectorAll(".state-tile.severe").length === 1 && document.querySelector(".gauge.severe") !== null`)
	b.shot("abnormal-boards")
	b.visit("#/diagrams/2")
	b.until(`document.querySelectorAll(".tag text.severe").length === 1 && document.querySelectorAll(".tag text.missing").length === 1`)
	b.shot("abnormal-diagram")
}
