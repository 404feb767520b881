package console_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// configure replaces a part of the project's tsmon.yaml.
func (r *releasing) configure(old, replacement string) {
	r.t.Helper()
	was := string(read(r.t, filepath.Join(r.folder, "tsmon.yaml")))
	if !strings.Contains(was, old) {
		r.t.Fatalf("tsmon.yaml lacks %s", old)
	}
	r.write("tsmon.yaml", strings.Replace(was, old, replacement, 1))
}

// rehearse works a move out on the page of a channel, and returns the command that it gives.
func (b *browser) rehearse(move string, fields map[string]string) (command string) {
	b.t.Helper()
	b.until(`Boolean(document.querySelector(".rehearse select[name=move]"))`)
	b.eval(`(e => { e.value = ` + quote(move) + `; e.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(".rehearse select[name=move]"))`)
	for name, text := range fields {
		b.until(`Boolean(document.querySelector(".rehearse [name=` + name + `]"))`)
		b.eval(`document.querySelector(".rehearse [name=` + name + `]").value = ` + quote(text))
	}
	b.click(".rehearse button[type=submit]")
	b.until(`!document.querySelector(".rehearse button[type=submit]").disabled && Boolean(document.querySelector(".rehearse .result, .rehearse .problem"))`)
	return value[string](b, `document.querySelector(".rehearse .command pre")?.innerText ?? ""`)
}

// TestRehearsedMoves: a resume and a promotion are rehearsed, and the commands of the page
// make them; the page shows what they did.
func TestRehearsedMoves(t *testing.T) {
	r := newReleasing(t, "")
	r.configure(", approvals: 2", "")
	r.run(r.binary, "channel", "pause", "stable", "--reason", "support is flooded", "--no-probe")
	r.publish("beta", "1.2.0")
	r.serve()
	b := newBrowser(t, 1280, 1100)
	b.enter(r, "")
	b.visit("#/releases/channel/stable")
	b.text("paused: nobody is offered it")
	for _, c := range []struct {
		move          string
		fields        map[string]string
		says, command string
		then          []string
	}{
		{"resume", map[string]string{"reason": "it is quiet again"}, "stable: 1.0.0 → 1.1.0 would be entry 4. 50 % of the clients", "tsmon channel resume stable --reason 'it is quiet again'", []string{"Resume of 1.1.0", "it is quiet again"}},
		{"promote", map[string]string{"from": "beta", "reason": "a good week"}, "stable: 1.0.0 → 1.2.0 would be entry 5", "tsmon release promote --from beta --to stable --reason 'a good week'", []string{"Promote 1.2.0 from beta", "a good week", "Everybody gets it."}},
	} {
		if command := b.rehearse(c.move, c.fields); command != c.command {
			t.Errorf("%s: the command is %q, want %s", c.move, command, c.command)
		}
		b.text("Who gets what")
		b.text(c.says)
		b.audit("rehearsed " + c.move)
		b.shot("rehearse-" + c.move)
		r.run("sh", "-c", c.command+" --no-probe")
		for _, text := range c.then {
			b.text(text)
		}
	}
	if value[bool](b, `document.body.innerText.includes("paused: nobody is offered it")`) {
		t.Error("the channel is still shown as paused")
	}
}

// TestCoverage: the page says which platforms and types of bundles a channel must have and
// has not, and how many clients that leaves out.
func TestCoverage(t *testing.T) {
	r := newReleasing(t, "")
	r.configure("targets: [linux-x86_64]", "targets: [linux-x86_64, windows-x86_64, linux-x86_64-rpm]")
	r.serve()
	b := newBrowser(t, 1280, 900)
	b.enter(r, "")
	for _, id := range []string{"a", "b", "c"} {
		r.ask(id, "deb")
	}
	const said = `[...document.querySelectorAll("section.channel[aria-label=stable] .coverage li")].map(e => e.innerText.replace(/\s+/g, " "))`
	b.until(said + `.some(text => text.includes("– deb (clients: 3)"))`)
	want := []string{"Linux x86_64 ✓ appimage – rpm – deb (clients: 3)", "Windows x86_64 ▲ missing"}
	if got := value[[]string](b, said); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the coverage is %q, want %q", got, want)
	}
	b.audit("coverage")
	b.shot("releases-coverage")
	b.click("es")
	b.until(said + `.some(text => text.includes("falta"))`)
}

// TestMovedOtherwise: a rehearsal ends when the channel makes another move than the one that
// was rehearsed.
func TestMovedOtherwise(t *testing.T) {
	r := newReleasing(t, "")
	r.configure(", approvals: 2", "")
	r.serve()
	b := newBrowser(t, 1280, 1100)
	b.enter(r, "")
	b.visit("#/releases/channel/stable")
	if command := b.rehearse("rollback", map[string]string{"reason": "crashes"}); command == "" {
		t.Fatal("the page gives no command")
	}
	r.run(r.binary, "channel", "pause", "stable", "--reason", "support is flooded", "--no-probe")
	b.text("The channel has moved since this was worked out. Rehearse again.")
	b.until(`document.querySelector(".rehearse .command") === null`)
	b.shot("rehearse-moved")
}
