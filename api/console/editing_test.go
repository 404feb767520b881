package console_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// savedLine makes a diagram with one line, saves it and returns its place in the console.
func (b *browser) savedLine(title string) string {
	b.t.Helper()
	b.newDiagram(title)
	b.drawLine(200, 200, 400, 200)
	b.until(`document.querySelectorAll(".objects button").length === 1`)
	b.click("Save")
	b.until(`/diagrams\/\d+\/edit/.test(location.hash) && ` + isSaved(1))
	return value[string](b, "location.hash")
}

// isSaved is true when the editor has this many objects, none of them new.
func isSaved(objects int) string {
	return fmt.Sprintf(`document.querySelectorAll(".objects button").length === %d && ![...document.querySelectorAll(".objects button")].some(e => e.innerText.includes("new"))`, objects)
}

// field is the field of the properties with a label.
func field(label string) string {
	return `[...document.querySelectorAll(".properties label")].find(e => e.innerText.trim() === ` + quote(label) + `)?.querySelector("input")`
}

// typeInto types into a field of the properties and stays there.
func (b *browser) typeInto(label, text string) {
	b.t.Helper()
	b.until("Boolean(" + field(label) + ")")
	b.eval(`(e => { e.focus(); e.select(); })(` + field(label) + `)`)
	b.press(text)
}

// see opens the view of the diagram whose editor is at a place.
func (b *browser) see(place string) {
	b.t.Helper()
	b.visit("#/network")
	b.until(`document.querySelectorAll(".card").length > 0`)
	b.visit(strings.TrimSuffix(place, "/edit"))
	b.until(`document.querySelector(".diagram-frame") !== null`)
}

// TestTypedIsSaved: Ctrl+S saves what is being typed, in every kind of field, and the field
// keeps the focus.
func TestTypedIsSaved(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	place := b.savedLine("Tecleado")
	b.click(`[data-kind=lines]`)
	b.typeInto("Thickness", "9")
	b.press("s", chromedp.ModifierCtrl)
	b.text("Saved")
	if value[string](b, field("Thickness")+".value") != "9" || !value[bool](b, "document.activeElement === "+field("Thickness")) {
		t.Error("after a save from the field it is gone")
	}
	b.press("z", chromedp.ModifierCtrl) // which a save does not take away
	b.until(field("Thickness") + `.value === "5"`)
	b.press("y", chromedp.ModifierCtrl)
	b.until(field("Thickness") + `.value === "9"`)
	b.do(chromedp.Focus(".canvas"))
	b.press("t" + kb.Enter)
	b.until("document.activeElement === " + field("Text"))
	b.press("Toma norte") // a new text is ready to type into
	b.press("s", chromedp.ModifierCtrl)
	b.until(isSaved(2) + ` && document.body.innerText.includes("Saved")`)
	b.press(kb.Escape)
	b.do(chromedp.Focus(".canvas"))
	b.press(kb.Escape)
	b.typeInto("Title", "Tecleado bien")
	b.press("s", chromedp.ModifierCtrl)
	b.text("Saved")
	b.see(place)
	b.text("Tecleado bien")
	if width, text := value[string](b, `document.querySelector("[data-kind=lines] line:not(.reach)").getAttribute("stroke-width")`), value[string](b, `document.querySelector("[data-kind=texts]").textContent`); width != "9" || text != "Toma norte" {
		t.Errorf("saved are a line of %s and the text %q", width, text)
	}
	// What is typed when the editor is left is kept as a draft, which the view tells.
	b.visit(place)
	b.until(isSaved(2))
	b.do(chromedp.Focus(".canvas"))
	b.typeInto("Title", "Sin guardar")
	b.click("Leave")
	b.text("Changes of yours that are not saved are kept in this tab")
	b.shot("draft-kept")
	b.click("Log out")
	b.text("are kept in this tab as drafts")
	b.click("Open the demo")
	b.until(`document.querySelector(".draft") !== null`)
	b.click("Go on with them")
	b.text("Your draft of")
	b.until(field("Title") + `.value === "Sin guardar"`)
	b.press("z", chromedp.ModifierCtrl)
	b.until(field("Title") + `.value === "Tecleado bien"`)
	b.click("Leave")
	b.until(`document.querySelector(".diagram-frame") !== null && document.querySelector(".draft") === null`)
}

// TestNothingToSave: Ctrl+S without changes overwrites nobody and shows what somebody else
// has saved meanwhile.
func TestNothingToSave(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	place := b.savedLine("Sin cambios")
	b.press("s", chromedp.ModifierCtrl)
	b.text("Nothing to save")
	second := newBrowser(t, 1280, 800)
	second.enterDemo(f)
	second.visit(place)
	second.until(isSaved(1))
	second.drawLine(200, 400, 600, 400)
	second.click("Save")
	second.until(isSaved(2))
	b.press("s", chromedp.ModifierCtrl)
	b.text("Somebody else has saved: this is what they saved.")
	b.until(isSaved(2) + ` && document.querySelector("dialog") === null`)
}

// TestPickerSeen: the list of variables is seen whole, wherever its field stands.
func TestPickerSeen(t *testing.T) {
	f := newFront(t)
	for _, screen := range [][2]int64{{1400, 757}, {390, 844}} {
		b := newBrowser(t, screen[0], screen[1])
		b.enterDemo(f)
		b.newDiagram("Lista")
		b.do(chromedp.Focus(".canvas"))
		b.press("i" + kb.Enter)
		b.until(`document.querySelector(".properties [role=combobox]") !== null`)
		b.do(chromedp.SendKeys(".properties [role=combobox]", "caudal"))
		b.until(`document.querySelectorAll("[role=option]").length > 4`)
		b.shot(fmt.Sprint("picker-", screen[0]))
		// What covers the corners of the list is the list itself.
		const seen = `(() => {
			const list = document.querySelector("[role=listbox]:not([hidden])"), r = list.getBoundingClientRect();
			return r.height >= 180 && r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight &&
				[[r.left + 9, r.top + 9], [r.right - 20, r.bottom - 9]].every(([x, y]) => list.contains(document.elementFromPoint(x, y)));
		})()`
		b.until(seen)
		b.press(kb.ArrowDown + kb.ArrowDown + kb.ArrowDown + kb.ArrowDown + kb.Enter)
		b.until(`document.querySelectorAll(".properties .bound li").length === 1`)
	}
}

// TestConflictOfSettings: a conflict says who saved, counts and shows the settings of the
// diagram, marks the objects, and what was discarded can be had back.
func TestConflictOfSettings(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	place := b.savedLine("Ajustes")
	second := newBrowser(t, 1280, 800)
	second.enterDemo(f)
	second.visit(place)
	second.until(isSaved(1))
	second.typeInto("Title", "Ajustes de otra")
	second.press("s", chromedp.ModifierCtrl)
	second.text("Saved")

	b.click(`[data-kind=lines]`)
	b.typeInto("Thickness", "9")
	b.press("s", chromedp.ModifierCtrl)
	b.text("Somebody else has saved this diagram")
	b.text("demo@example.com saved it at")
	b.text("Objects that differ: 1; settings of the diagram: 1.")
	said := value[string](b, `document.querySelector("dialog").innerText`)
	for _, want := range []string{"Title · Line 1", "Title: Ajustes\n", "Title: Ajustes de otra", "tsmon tenant diagrams demo restore "} {
		if !strings.Contains(said, want) && !(want == "Title · Line 1" && strings.Contains(said, "Title · Line ")) {
			t.Errorf("the dialog lacks %q: %s", want, said)
		}
	}
	if n := value[int](b, `document.querySelectorAll("dialog .differs").length`); n != 2 {
		t.Errorf("%d frames around the line that differs, want one in each drawing", n)
	}
	if value[string](b, `document.querySelector("dialog .primary").innerText`) != "Back to editing" {
		t.Error("the first choice is not the one that changes nothing")
	}
	b.shot("conflict-settings")
	b.click("Back to editing")
	b.until(`document.querySelector("dialog") === null && document.activeElement.matches(".canvas, input")`)
	b.click("Save")
	b.click("Discard yours and load theirs")
	b.text("Theirs is loaded. Undo brings yours back.")
	b.until(`document.querySelector(".editor-bar h1").innerText === "Ajustes de otra"`)
	b.do(chromedp.Focus(".canvas"))
	b.press("z", chromedp.ModifierCtrl)
	b.until(`document.querySelector(".editor-bar h1").innerText === "Ajustes" && document.querySelector(".canvas [data-kind=lines] line:not(.reach)").getAttribute("stroke-width") === "9"`)
	b.click("Save") // on top of theirs
	b.text("Saved")
	b.see(place)
	b.until(`document.querySelector("h1").innerText === "Ajustes"`)
	// What the dialog says brings theirs back.
	_, restore, _ := strings.Cut(said, "tsmon tenant diagrams ")
	restore, _, _ = strings.Cut(restore, "\n")
	s, err := theDemo()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), s.cmd.Path, append([]string{"tenant", "diagrams"}, strings.Fields(restore)...)...)
	cmd.Env = []string{"HOME=" + s.data, "TSMON_DATA=" + filepath.Join(s.data, "data")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", restore, err, out)
	}
	b.see(place)
	b.until(`document.querySelector("h1").innerText === "Ajustes de otra"`)
}

// TestEditorKeyboard: from the login to a placed and moved object without a pointer; the
// focus is where a person goes on.
func TestEditorKeyboard(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.Navigate(f.URL + "/console/"))
	b.text("Open the demo")
	focus := func(on string) {
		t.Helper()
		b.until(`document.activeElement.matches(` + quote(on) + `)`)
	}
	tabTo := func(on string) {
		t.Helper()
		for range 60 {
			if value[bool](b, `document.activeElement.matches(`+quote(on)+`)`) {
				return
			}
			b.press("\t")
		}
		t.Fatal(on, "is not reached")
	}
	tabTo(".login section button")
	b.press(kb.Enter)
	focus("#main")
	b.visit("#/diagrams/2")
	b.until(`document.querySelector(".diagram-frame .tag") !== null`)
	b.press("e")
	focus(".canvas")
	b.text("Choose a tool, then press Enter to place an object; arrow keys move it.")
	before := value[int](b, `document.querySelectorAll(".objects button").length`)
	b.eval(`document.querySelector(".editor-bar button[title$='(L)']").focus()`)
	b.press(kb.Enter)
	focus(".canvas.tool-line")
	b.shot("editor-tool")
	b.press(kb.Enter + kb.ArrowRight)
	b.until(fmt.Sprintf(`document.querySelectorAll(".objects button").length === %d`, before+1))
	b.press(kb.Delete)
	b.until(fmt.Sprintf(`document.querySelectorAll(".objects button").length === %d`, before))
	focus(".canvas")
	b.eval(`document.querySelector(".objects button").focus()`)
	b.press(kb.ArrowDown + kb.ArrowDown + kb.ArrowUp + kb.Enter)
	b.until(`document.querySelectorAll(".objects button")[1].ariaPressed === "true" && document.activeElement === document.querySelectorAll(".objects button")[1]`)
	b.press(kb.Escape)
	b.press("?")
	b.text("by 10 units")
	b.shot("editor-help")
	b.press(kb.Escape)
	b.until(`document.querySelector("dialog") === null`)
	b.press("z", chromedp.ModifierCtrl)
	b.press("z", chromedp.ModifierCtrl)
	b.press("z", chromedp.ModifierCtrl)
	b.until(`document.querySelector(".editor-bar .saving").innerText === ""`)
}

// TestHalfTyped: a number that is being typed when the browser goes back is kept in the draft.
func TestHalfTyped(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	place := b.savedLine("A medias")
	b.see(place)
	b.visit(place)
	b.until(isSaved(1))
	b.eval(`document.querySelector(".objects button").click()`)
	b.typeInto("Thickness", "13")
	b.eval("history.back()")
	b.until(`document.querySelector(".draft") !== null`)
	b.click("Go on with them")
	b.until(isSaved(1))
	b.eval(`document.querySelector(".objects button").click()`)
	b.until(field("Thickness") + `?.value === "13"`)
}

// TestUndoOverFirstSave: what was done to a new diagram can be undone after it was saved, and
// the next new diagram is empty.
func TestUndoOverFirstSave(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.newDiagram("Primero")
	b.drawLine(200, 200, 400, 200)
	b.drawLine(200, 300, 400, 300)
	b.until(`document.querySelectorAll(".objects button").length === 2`)
	b.click("Save")
	b.until(`/diagrams\/\d+\/edit/.test(location.hash) && ` + isSaved(2))
	b.do(chromedp.Focus(".canvas"))
	b.press("z", chromedp.ModifierCtrl)
	b.until(isSaved(1))
	b.click("Save")
	b.text("Saved")
	place := value[string](b, "location.hash")
	b.press("zz", chromedp.ModifierCtrl) // the first line, and the title
	b.until(isSaved(0) + ` && document.querySelector(".editor-bar h1").innerText === "New diagram"`)
	b.press("y", chromedp.ModifierCtrl)
	b.visit("#/diagrams/new")
	b.until(`document.querySelector(".canvas") !== null && document.querySelectorAll(".objects button").length === 0 && document.querySelector(".editor-bar h1").innerText === "New diagram"`)
	b.see(place)
	b.until(`document.querySelectorAll("svg.diagram [data-kind=lines]").length === 1`)
}
