package console_test

import (
	"fmt"
	"testing"
)

// TestOwnPeriod: a chart shows the period that was typed, its address holds that, and whoever
// opens the address sees the same. It was typed with the end first.
func TestOwnPeriod(t *testing.T) {
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	b.visit("#/charts?v=50,52&p=24h")
	b.until(`document.querySelectorAll(".u-over").length === 2`)
	b.press("5")
	b.until(`document.querySelectorAll("form.own input").length === 2`)
	// Half a day, from this time yesterday, as the browser's fields hold local times.
	b.eval(`(() => {
		const local = ms => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
		const begin = Math.floor(Date.now() / 60000) * 60000 - 24 * 3600000;
		[...document.querySelectorAll("form.own input")].forEach((e, i) => { e.value = local(begin + (1 - i) * 12 * 3600000); });
		window.begin = begin;
	})()`)
	b.click("form.own button")
	const chosen = `(([, from, to]) => [from - begin, to - begin])(location.hash.match(/from=(\d+)&to=(\d+)/) ?? [0, 0, 0])`
	b.until(fmt.Sprintf(`(([from, to]) => from === 0 && to === %d)(%s)`, 12*3600000, chosen))
	b.until(`document.querySelectorAll(".u-over").length === 2`)
	place := value[string](b, "location.hash")
	b.shot("charts-own")
	b.visit("#/network")
	b.until(`document.querySelectorAll(".card").length > 10`)
	b.visit(place)
	b.until(`document.querySelectorAll(".u-over").length === 2 && document.querySelector(".tools [aria-pressed=true]").innerText === "Own…"`)
}
