package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestBadDay: a release that fails looks like an alarm in both languages, in the page's own
// words; a rehearsal ends when its move is made; afterwards the pages still say what was
// rolled back, when, and how many have it.
func TestBadDay(t *testing.T) {
	r := newReleasing(t, "")
	r.serve()
	b := newBrowser(t, 1280, 1400)
	b.enter(r, "")
	r.fleet()
	b.until(`document.querySelector("section.channel.severe")?.innerText.includes("Above the limit:")`)
	b.audit("bad day")
	b.shot("badday-overview")
	b.click("es")
	b.click("stable")
	b.text("Sobre el límite:")
	b.text("Hay que detenerla")
	if said := value[string](b, `document.querySelector(".failing").innerText`); strings.Contains(said, "failed") || strings.Contains(said, "Halt") {
		t.Errorf("a verdict in English: %s", said)
	}
	b.shot("badday-es")
	// A refusal is quoted as the program's own words; what is code is drawn so.
	b.eval(`(e => { e.value = "rollout"; e.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(".rehearse select[name=move]"))`)
	b.fill(".rehearse input[name=steps]", "60, 20")
	b.click("Ensayar")
	b.until(`document.querySelector(".rehearse .result, .rehearse .problem") !== null`)
	if said := value[string](b, `document.querySelector(".rehearse").innerText`); strings.Contains(said, "`") || !strings.Contains(said, "La orden diría, en inglés:") {
		t.Errorf("the refusal is shown as %s", said)
	}
	b.shot("badday-refused")
	b.eval(`(e => { e.value = "rollback"; e.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(".rehearse select[name=move]"))`)
	b.click("en")
	b.fill(".rehearse input[name=reason]", "crashes")
	b.press("\r")
	b.text("Run it in the folder of tsmon.yaml.")
	b.eval(`navigator.clipboard.writeText = () => Promise.reject(new Error("denied"))`)
	b.click(".rehearse .command button")
	b.text("Selected: press Ctrl+C")
	command := value[string](b, "getSelection().toString()")
	if command != "tsmon release rollback --channel stable --reason 'crashes'" {
		t.Errorf("selected is %q", command)
	}
	r.run("sh", "-c", command+" --no-probe")
	b.text("Done: Rollback from 1.1.0 to 1.0.0 is entry 3 of the history.")
	b.until(`document.querySelector(".rehearse .command") === null`)
	b.text("1.1.0 was rolled back. Clients that still have it:")
	// The header gives the time of the move: that of the entry in the history.
	b.until(`(e => e.querySelector("time").dateTime === document.querySelector(".timeline time").dateTime)(document.querySelector("section.channel"))`)
	// Nor do they go on asking for what the move has made needless.
	b.until(`!document.body.innerText.includes("Stop it:") && !/^Waits for approvals$/m.test(document.body.innerText)`)
	b.audit("rolled back")
	b.shot("badday-after")
	b.do(chromedp.EmulateViewport(390, 844))
	b.visit("#/releases/versions/1.1.0")
	b.text("Rolled back from stable. Clients that still have it:")
	b.shot("badday-version")
}
