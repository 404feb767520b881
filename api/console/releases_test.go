package console_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/store/servertest"

	"github.com/chromedp/chromedp"
)

const consoleToken = "token-of-the-releases"

// releasing is a project that publishes, and a server of its own.
type releasing struct {
	t      *testing.T
	folder string
	binary string
	env    []string
	base   string // of the server
}

// newProject returns an empty project of its own.
func newProject(t *testing.T, token string) *releasing {
	t.Helper()
	return projectIn(t, t.TempDir(), token)
}

func projectIn(t *testing.T, folder, token string) *releasing {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is slow under the race detector")
	}
	servertest.Chromium(t)
	demo, err := theDemo()
	if err != nil {
		t.Fatal(err)
	}
	r := &releasing{t: t, folder: folder, binary: filepath.Join(demo.data, "tsmon")}
	r.env = []string{"HOME=" + r.folder, "PATH=" + demo.data + ":" + os.Getenv("PATH"), "GITHUB_ACTIONS=", "TSMON_DATA=" + filepath.Join(r.folder, "data"), "TSMON_CONSOLE_TOKEN=" + token}
	r.env = append(r.env, "TAURI_SIGNING_PRIVATE_KEY=update.key", "TSMON_OPERATOR_KEY=maintainer")
	return r
}

// thePublished is the folder of the project that newReleasing copies, beside the demo's data;
// empty before its first use.
var thePublished string

// newReleasing returns a copy of a project with keys, operators and a configuration, which has
// published 1.0.0 to everybody and 1.1.0 to half of the clients of stable.
func newReleasing(t *testing.T, token string) *releasing {
	t.Helper()
	r := newProject(t, token)
	if thePublished == "" {
		folder := filepath.Join(filepath.Dir(r.binary), "published")
		publishProject(t, folder)
		thePublished = folder
	}
	r.run("cp", "-a", thePublished+"/.", r.folder)
	return r
}

func publishProject(t *testing.T, folder string) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("TSMON_TEST_REAL") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r := projectIn(t, folder, "")
	operators := ""
	for _, who := range []string{"maintainer", "ci"} {
		r.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", who)
		operators += "  " + who + ": " + string(read(t, filepath.Join(r.folder, who+".pub")))
	}
	key := filepath.Join("..", "..", "cmd", "tsmon", "testdata", "unencrypted.")
	r.write("update.key", string(read(t, key+"key")))
	r.write("update.pub", string(read(t, key+"pub")))
	r.write("tsmon.yaml", `storage: objects
public_url: https://releases.example.com/app
trusted_keys: [update.pub]
operators:
`+operators+`channels:
  stable: {targets: [linux-x86_64], guard: {failures: 2%, networks: 1}}
  beta: {prerelease: true, approvals: 2}
`)
	r.publish("stable", "1.0.0")
	r.publish("stable", "1.1.0", "--steps", "50,100", "--every", "24h", "--reason", "faster maps")
}

func (r *releasing) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command in the project and returns what it writes.
func (r *releasing) run(name string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), name, args...)
	cmd.Dir, cmd.Env = r.folder, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (r *releasing) publish(channel, version string, flags ...string) {
	r.t.Helper()
	bundles := filepath.Join(r.folder, version)
	if err := os.MkdirAll(bundles, 0o700); err != nil {
		r.t.Fatal(err)
	}
	r.write(filepath.Join(version, "App_"+version+"_amd64.AppImage"), "bytes of "+version)
	args := append([]string{"release", "publish", "--version", version, "--channel", channel, "--no-probe"}, flags...)
	r.run(r.binary, append(args, version)...)
}

// serve starts the server, which ends with the test.
func (r *releasing) serve() {
	r.t.Helper()
	cmd := exec.Command(r.binary, "serve", "--only", "updates", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = r.folder, append(r.env, "TSMON_REFRESH=100ms", "TSMON_OPERATOR_KEY=")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended; _ = cmd.Wait() })
	base := make(chan string, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if at, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
				base <- strings.TrimSuffix(at, "/")
			}
		}
	}()
	select {
	case r.base = <-base:
	case <-ended:
		r.t.Fatal("tsmon serve ended")
	}
}

// send sends a request of a client to the server and returns its status.
func (r *releasing) send(id, method, path, body string) (status int) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("X-Tsmon-Client", id)
	q.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	got.Body.Close()
	return got.StatusCode
}

// ask has a client on 1.0.0 that was installed from a bundle of a type ask for an update.
func (r *releasing) ask(id, bundleType string) (status int) {
	r.t.Helper()
	return r.send(id, "GET", "/updates/stable/linux/x86_64/1.0.0?bundle_type="+bundleType, "")
}

// client has a client ask, take what it is offered, and report an event of it.
func (r *releasing) client(id, event string) {
	r.t.Helper()
	send := func(method, path, body string) int { return r.send(id, method, path, body) }
	switch status := r.ask(id, "appimage"); {
	case status == http.StatusNoContent || event == "":
		return
	case status != http.StatusOK:
		r.t.Fatalf("asked: %d", status)
	}
	if status := send("GET", "/updates/releases/1.1.0/App_1.1.0_amd64.AppImage", ""); status != http.StatusOK {
		r.t.Fatalf("downloaded: %d", status)
	}
	report := fmt.Sprintf(`{"channel":"stable","version":"1.1.0","target":"linux-x86_64","event":%q}`, event)
	if status := send("POST", "/updates/report", report); status != http.StatusNoContent {
		r.t.Fatalf("reported: %d", status)
	}
	if event == "started" {
		send("GET", "/updates/stable/linux/x86_64/1.1.0?bundle_type=appimage", "")
	}
}

// fleet has sixty clients ask; of those that get 1.1.0 every third fails.
func (r *releasing) fleet() {
	for i := range 60 {
		r.client(fmt.Sprint("client-", i), []string{"started", "started", "failed"}[i%3])
	}
}

// enter opens the page about releases with the token, if the server has one.
func (b *browser) enter(r *releasing, token string) {
	b.t.Helper()
	b.do(chromedp.Navigate(r.base + "/console/#/releases"))
	if token != "" {
		b.until(`Boolean(document.querySelector("input[name=token]"))`)
		b.fill("input[name=token]", token)
		b.click("Show")
	}
	b.until(`document.querySelectorAll("section.channel").length === 2`)
}

// fill types into a field.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.until("Boolean(document.querySelector(" + quote(selector) + "))")
	b.do(chromedp.Focus(selector))
	b.press(text)
}

// TestBadRelease: a release fails, its share stands above the guard's line, the rollback
// is rehearsed, and the command of the page makes it.
func TestBadRelease(t *testing.T) {
	r := newReleasing(t, consoleToken)
	r.serve()
	b := newBrowser(t, 1280, 1400)
	b.do(chromedp.Navigate(r.base + "/console/"))
	b.fill("input[name=token]", "not-the-token-of-it")
	b.click("Show")
	b.text("The token is not that of this server.")
	b.shot("releases-token")
	b.enter(r, consoleToken)
	r.fleet()
	b.text("Above the limit: failing")
	b.until(`/\d+ of 60 have it/.test(document.body.innerText)`)
	b.until(`document.body.innerText.includes("limit 2%")`)
	b.audit("overview")
	b.shot("releases-overview")
	if strings.Contains(value[string](b, "location.href"), consoleToken) {
		t.Error("the token is in the address")
	}
	b.click("stable")
	b.text("Adoption since ")
	b.fill(".rehearse input[name=reason]", "it's slow; $HOME")
	b.press("\r")
	b.text("Not reached: who has a version above 1.0.0 keeps it.")
	b.text("rollback")
	b.text("Waits for approvals") // the pause that the guard asks for
	b.audit("rehearsal")
	b.do(chromedp.EmulateViewport(1280, 1130))
	b.shot("releases-rehearsal")
	b.readmePicture()
	b.do(chromedp.EmulateViewport(1280, 1400))
	before := r.run(r.binary, "channel", "log", "stable", "--json")
	command := value[string](b, `document.querySelector(".rehearse .command pre").innerText`)
	if want := `tsmon release rollback --channel stable --reason 'it'\''s slow; $HOME'`; command != want {
		t.Errorf("the command is %s, want %s", command, want)
	}
	dry := r.run("sh", "-c", command+" --dry-run")
	if !strings.Contains(dry, "1.1.0 → 1.0.0") && !strings.Contains(dry, "would move") {
		t.Errorf("the command with --dry-run: %s", dry)
	}
	if after := r.run(r.binary, "channel", "log", "stable", "--json"); after != before {
		t.Errorf("a rehearsal moved the channel: %s", after)
	}
	r.run("sh", "-c", command+" --no-probe")
	b.text("Rollback from 1.1.0 to 1.0.0")
	b.text("it's slow; $HOME")
	b.eval(`document.querySelector(".timeline summary").click()`)
	b.text("latest.json")
	b.text("maintainer (1 of 1 signatures)")
	b.eval(`document.querySelector(".timeline").scrollIntoView()`)
	b.audit("entry")
	b.shot("releases-entry")
	b.click("Versions")
	b.text("rolled back from stable")
	b.audit("versions")
	b.shot("releases-versions")
	b.click(`a[href$="versions/1.1.0"]`)
	b.text("✓ trusted")
	b.audit("version")
	b.shot("releases-version")
}

// TestWaitingApproval: a move that waits is shown with who may sign it; the command of the
// page signs it.
func TestWaitingApproval(t *testing.T) {
	r := newReleasing(t, "")
	r.publish("beta", "1.2.0-beta.1", "--reason", "for the testers")
	r.serve()
	b := newBrowser(t, 1280, 900)
	b.enter(r, "")
	b.visit("#/releases/channel/beta")
	b.text("Waits for approvals")
	b.text("It can be signed by: ci.")
	b.text("1 of 2 signatures")
	b.text("Shows nothing yet: its first release waits for approvals.")
	b.audit("approval")
	b.shot("releases-approval")
	command := value[string](b, `document.querySelector(".waits .command pre").innerText`)
	if !strings.HasPrefix(command, "tsmon plan approve ") {
		t.Fatalf("the command is %s", command)
	}
	r.run("sh", "-c", "TSMON_OPERATOR_KEY=ci "+command+" --no-probe")
	b.until(`!document.body.innerText.includes("Waits for approvals") && document.body.innerText.includes("Everybody gets it.")`)
}

// TestReleasesAlarm: what somebody wrote over the manifest is not shown, and the page says
// so first; in Spanish, on a telephone, in the dark.
func TestReleasesAlarm(t *testing.T) {
	r := newReleasing(t, "")
	r.serve()
	b := newBrowser(t, 390, 844)
	b.enter(r, "")
	r.write("objects/stable/latest.json", `{"version":"9.9.9"}`)
	b.until(`document.querySelector(".alarms")?.innerText.includes("stable/latest.json")`)
	if value[bool](b, `document.body.innerText.includes("9.9.9")`) {
		t.Error("what does not verify is shown")
	}
	b.audit("alarm")
	b.shot("releases-alarm")
	b.click("es")
	b.text("no se verifica y no se muestra")
	b.eval(`document.documentElement.dataset.theme = "dark"`)
	b.visit("#/releases/channel/stable")
	b.text("Historia")
	b.audit("alarm in the dark")
	b.shot("releases-alarm-es")
}

// TestReleasesKeyboard: from the first page to a rehearsed pause without a pointer.
func TestReleasesKeyboard(t *testing.T) {
	r := newReleasing(t, "")
	r.serve()
	b := newBrowser(t, 1280, 900)
	b.enter(r, "")
	tabTo := func(what string) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for !value[bool](b, "Boolean(document.activeElement?.matches("+quote(what)+"))") {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not reached", what)
			}
			b.press("\t")
		}
		if value[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "none"`) {
			t.Errorf("the focus on %s is not seen", what)
		}
	}
	tabTo(`section.channel a[href$="channel/stable"]`)
	b.press("\r")
	b.until(`Boolean(document.querySelector(".rehearse"))`)
	b.press("/")
	tabTo(".rehearse select[name=move]")
	b.press("p") // a select takes the first letters
	b.until(`document.querySelector(".rehearse select[name=move]").value === "pause"`)
	tabTo(".rehearse input[name=reason]")
	b.press("support is flooded\r")
	b.text("tsmon channel pause stable --reason 'support is flooded'")
	tabTo(".command button")
	b.press("gr")
	b.until(`location.hash === "#/releases"`)
}

// TestRehearsals: the page works out each kind of move, says what it would refuse, and
// gives commands that do with --dry-run what it said.
func TestRehearsals(t *testing.T) {
	r := newReleasing(t, "")
	r.publish("beta", "1.2.0-beta.1") // which waits for a second signature
	r.serve()
	b := newBrowser(t, 1280, 1100)
	b.enter(r, "")
	b.visit("#/releases/channel/stable")
	before := r.run(r.binary, "channel", "log", "stable", "--json")
	for _, c := range []struct {
		move    string
		fields  map[string]string
		command string
	}{
		{"rollout", map[string]string{"steps": "75", "reason": "slower"}, "tsmon channel rollout stable --percent 75 --reason 'slower'"},
		{"pause", map[string]string{"reason": "support is flooded"}, "tsmon channel pause stable --reason 'support is flooded'"},
		{"rollback", map[string]string{"to": "1.0.0", "reason": "crashes"}, "tsmon release rollback --channel stable --to 1.0.0 --reason 'crashes'"},
	} {
		command := b.rehearse(c.move, c.fields)
		b.text("Who gets what")
		if command != c.command {
			t.Errorf("%s: the command is %s, want %s", c.move, command, c.command)
		}
		r.run("sh", "-c", command+" --dry-run")
		b.shot("rehearse-" + c.move)
	}
	refused := b.rehearse("promote", map[string]string{"from": "beta", "reason": "good"})
	b.text("beta")
	b.shot("rehearse-refused")
	if said := value[string](b, `document.querySelector(".rehearse .result, .rehearse .problem").innerText`); strings.Contains(said, "would be entry") || refused != "" {
		t.Errorf("a promotion from a channel that shows nothing: %s", said)
	}
	if after := r.run(r.binary, "channel", "log", "stable", "--json"); after != before {
		t.Errorf("rehearsals moved the channel: %s", after)
	}
}
