package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSpanish switches the language, and shows the words of the interface.
func TestSpanish(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 390, 844)
	b.enterDemo(f)
	b.click("es")
	b.text("Actualizado")
	b.until(`["Encendido", "Apagado"].some(word => document.body.innerText.includes(word))`)
	if lang := value[string](b, "document.documentElement.lang"); lang != "es" {
		t.Errorf("the page's language is %s", lang)
	}
	b.shot("phone-network")
	for _, p := range []struct{ name, place, shown string }{
		{"phone-charts", "#/charts?v=50,52&p=24h", `document.querySelectorAll(".u-over").length === 2`},
		{"phone-boards", "#/boards", `document.querySelectorAll(".board .number").length > 10`},
		{"phone-diagram", "#/diagrams/1", `document.querySelectorAll(".flow").length > 2`},
		{"phone-devices", "#/devices", `document.querySelectorAll(".tree button").length === 5`},
	} {
		b.visit(p.place)
		b.until(p.shown)
		if wide := value[int](b, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d pixels wide", p.name, wide)
		}
		b.shot(p.name)
	}
}

// TestSpanishWords: each thing has one word of its own, and no English is left on pages that
// an operator has.
func TestSpanishWords(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.click("es")
	b.visit("#/diagrams")
	b.until(`document.querySelectorAll(".links a").length === 2`)
	b.text("Número del diagrama")
	b.visit("#/diagrams/2/edit")
	b.until(`document.querySelectorAll(".objects button").length > 20`)
	for _, word := range []string{"Cerrar sesión", "Dejar de editar", "Seleccionar", "Deshacer", "Guardar", "Elija una herramienta y pulse Intro"} {
		b.text(word)
	}
	if value[bool](b, `/\bSalir\b/.test(document.body.innerText)`) {
		t.Error("the editor and the session end with the same word")
	}
	b.press("s", chromedp.ModifierCtrl)
	b.text("No hay nada que guardar")
	b.drawLine(200, 200, 400, 200)
	b.text("Línea (nueva)")
	b.text("Sin guardar")
	b.click("Dejar de editar")
	b.text("Sus cambios sin guardar quedan en esta pestaña, desde")
	b.click("Descartarlos")
	b.click("Cerrar sesión")
	b.text("Ha cerrado la sesión.")
	b.text("Abrir la demostración")
	if value[bool](b, `/\bEntrar\b/.test(document.body.innerText)`) {
		t.Error("the login has two words")
	}
}

// TestPhoneHeader: on a telephone everything in the header is in reach, in both languages: the
// settings in one row, the pages in another that scrolls.
func TestPhoneHeader(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 360, 740)
	b.enterDemo(f)
	for _, language := range []string{"en", "es"} {
		b.click(language)
		b.until(`document.documentElement.lang === ` + quote(language))
		const cut = `[...document.querySelectorAll(".settings button")].filter(e => { const r = e.getBoundingClientRect(); return r.left < 0 || r.right > innerWidth || r.height < 24 || r.width < 24; }).map(e => e.innerText)`
		if out := value[[]string](b, cut); len(out) > 0 {
			t.Errorf("%s: %q can't be reached", language, out)
		}
		if value[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("%s: the page is wider than the screen", language)
		}
		if value[bool](b, `document.querySelector(".settings").getBoundingClientRect().bottom > document.querySelector(".bar nav").getBoundingClientRect().top + 1`) {
			t.Errorf("%s: the settings and the pages share a row", language)
		}
		if height := value[int](b, `document.querySelector(".bar").offsetHeight`); height > 120 {
			t.Errorf("%s: the header is %d pixels high", language, height)
		}
		b.eval(`document.activeElement.blur(), document.querySelector(".bar nav a:last-child").focus()`)
		b.until(`(r => r.left >= 0 && r.right <= innerWidth - 32)(document.querySelector(".bar nav a:last-child").getBoundingClientRect())`) // not where the row fades
	}
	for _, page := range []string{"diagrams", "access", "network"} {
		b.visit("#/" + page)
		b.until(`document.querySelector(".bar nav [aria-current]").hash === "#/` + page + `"`)
		b.until(`(r => r.left >= 0 && r.right <= innerWidth - 32)(document.querySelector(".bar nav [aria-current]").getBoundingClientRect())`)
	}
	b.shot("phone-header")
}
