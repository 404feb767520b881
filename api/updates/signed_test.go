package updates_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/record"
)

const reportSecret, olderSecret = "secret-of-this-build", "secret-of-an-older-build"

// signed returns the headers of a signed report.
func signed(secret, id, seconds, body string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(id + "\n" + seconds + "\n" + body))
	h := apitest.Insider(id)
	h.Set("X-Tsmon-Time", seconds)
	h.Set("X-Tsmon-Signature", hex.EncodeToString(mac.Sum(nil)))
	return h
}

// TestSignedReports: where the server has secrets, only what was signed with one of
// them counts for or against a release, and once.
func TestSignedReports(t *testing.T) {
	w := apitest.Embedded(t)
	w.ReportSecrets = []string{olderSecret, reportSecret}
	r := apitest.RollOut(t, w)
	for _, id := range []string{"a", "b", "c", "d"} {
		r.Check(id, "1.0.0")
	}
	seconds := func(after time.Duration) string { return fmt.Sprint(w.Now().Add(after).Unix()) }
	body := func(event string) string {
		return string(apitest.Must[[]byte](t)(json.Marshal(report(r.Channel, "1.1.0", "linux-x86_64", event))))
	}
	send := func(h http.Header, body string) apitest.Answer {
		return r.WithTB(t).Send("POST", "/updates/report", strings.NewReader(body), h)
	}
	crashed := body("crashed")
	once := signed(reportSecret, "a", seconds(0), crashed)
	other := signed(reportSecret, "a", seconds(0), crashed)
	other.Set(apitest.ClientHeader, "b")
	with := func(name, value string) http.Header {
		h := signed(reportSecret, "b", seconds(0), crashed)
		h.Set(name, value)
		return h
	}
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		status int
	}{
		{"not signed", apitest.Insider("d"), crashed, 204},
		{"signed", once, crashed, 204},
		{"again", once, crashed, 403},
		{"by an older build", signed(olderSecret, "c", seconds(-9*time.Minute), body("failed")), body("failed"), 204},
		{"with another secret", signed("secret-of-a-stranger", "b", seconds(0), crashed), crashed, 403},
		{"with no secret", signed("", "b", seconds(0), crashed), crashed, 403},
		{"for another client", other, crashed, 403},
		{"for another body", signed(reportSecret, "b", seconds(0), crashed), crashed + " ", 403},
		{"too old", signed(reportSecret, "b", seconds(-11*time.Minute), crashed), crashed, 403},
		{"too early", signed(reportSecret, "b", seconds(11*time.Minute), crashed), crashed, 403},
		{"at another time", with("X-Tsmon-Time", seconds(-time.Minute)), crashed, 403},
		{"at no time", with("X-Tsmon-Time", ""), crashed, 403},
		{"at a date", with("X-Tsmon-Time", "2026-03-05"), crashed, 403},
		{"at the end of time", signed(reportSecret, "b", "9223372036854775807", crashed), crashed, 403},
		{"at the beginning", signed(reportSecret, "b", "-9223372036854775808", crashed), crashed, 403},
		{"short", with("X-Tsmon-Signature", "00"), crashed, 403},
		{"long", with("X-Tsmon-Signature", strings.Repeat("0", 2000)), crashed, 403},
		{"no digits", with("X-Tsmon-Signature", strings.Repeat("x", 64)), crashed, 403},
	} {
		got := send(c.header, c.body)
		if got.Status != c.status {
			t.Errorf("%s: %d %s", c.name, got.Status, got.Body)
		}
		if strings.Contains(string(got.Body)+w.Logged.String(), "secret-of") {
			t.Errorf("%s: a secret is shown: %s", c.name, got.Body)
		}
	}
	r.WaitProgress(t, record.Progress{Crashed: 1, Failed: 1, Offered: 2})
	apitest.Eventually(t, "all that were taken are counted", func() bool {
		return r.Metric(fmt.Sprintf(`tsmon_updates_events_total{channel="%s",cohort="internal",event="crashed",target="linux-x86_64",version="1.1.0"}`, r.Channel)) == "2"
	})
}

// TestSignedElsewhere: a signed report that is sent again to another server, which has not
// seen it, changes nothing.
func TestSignedElsewhere(t *testing.T) {
	w := apitest.Embedded(t)
	w.ReportSecrets = []string{reportSecret}
	r := apitest.RollOut(t, w)
	other := w.ServeUpdates(t)
	apitest.Eventually(t, "the channel", func() bool { return other.Get("/updates/"+r.Channel+"/latest.json").Status == http.StatusOK })
	send := func(to *apitest.Updates, id, event string, ago time.Duration) {
		t.Helper()
		body := string(apitest.Must[[]byte](t)(json.Marshal(report(r.Channel, "1.1.0", "linux-x86_64", event))))
		if got := to.Send("POST", "/updates/report", strings.NewReader(body), signed(reportSecret, id, fmt.Sprint(w.Now().Add(-ago).Unix()), body)); got.Status != http.StatusNoContent {
			t.Errorf("%s: %d %s", event, got.Status, got.Body)
		}
	}
	r.Check("a", "1.0.0")
	r.Check("b", "1.0.0")
	r.WaitProgress(t, record.Progress{Offered: 2})
	send(r.Updates, "a", "failed", 2*time.Minute)
	send(r.Updates, "a", "started", time.Minute)
	r.WaitProgress(t, record.Progress{Running: 1, Offered: 1})
	send(other, "a", "failed", 2*time.Minute) // again
	send(other, "b", "crashed", 0)
	r.WaitProgress(t, record.Progress{Running: 1, Crashed: 1})
}

// readmeLine returns the line of a guide that begins so.
func readmeLine(t *testing.T, guide, begin string) string {
	t.Helper()
	text := apitest.Must[[]byte](t)(os.ReadFile(guide))
	line := regexp.MustCompile(`(?m)^    (` + regexp.QuoteMeta(begin) + `.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatalf("the guide has no line that begins with %q", begin)
	}
	return string(line[1])
}

const signedBody = `{"channel":"stable","version":"1.6.0","target":"linux-x86_64","event":"crashed","ñ":"\n"}`

// demandSignature compares what a program prints with the signature.
func demandSignature(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stderr = os.Stderr
	out := apitest.Must[[]byte](t)(c.Output())
	if got, want := strings.TrimSpace(string(out)), signed(reportSecret, "id ñ", "1772712000", signedBody).Get("X-Tsmon-Signature"); got != want {
		t.Errorf("it prints %q, want %q", got, want)
	}
}

// TestGuideInJavaScript runs the guide's line.
func TestGuideInJavaScript(t *testing.T) {
	node := program(t, "node")
	args := apitest.Must[[]byte](t)(json.Marshal([]string{reportSecret, "id ñ", "1772712000", signedBody}))
	demandSignature(t, exec.CommandContext(t.Context(), node, "--input-type=module", "-e", readmeLine(t, "README.md", "const sign")+"\nconsole.log(await sign(..."+string(args)+"))"))
}

// TestGuideInRust compiles and runs the guide's line.
func TestGuideInRust(t *testing.T) {
	cargo := program(t, "cargo")
	folder := t.TempDir()
	write := func(name, text string) {
		apitest.Must[any](t)(nil, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		apitest.Must[any](t)(nil, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("Cargo.toml", "[package]\nname = \"guide\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\nhmac = \"0.12\"\nsha2 = \"0.10\"\nhex = \"0.4\"\n")
	write("src/main.rs", "use hmac::Mac;\n"+readmeLine(t, "README.md", "fn sign")+fmt.Sprintf("\nfn main() { println!(\"{}\", sign(%q, \"id ñ\", 1772712000, r#\"%s\"#)) }\n", reportSecret, signedBody))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, cargo, "run", "--quiet")
	c.Dir = folder
	demandSignature(t, c)
}

// program finds a program that make test has; elsewhere the test is skipped.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case os.Getenv("TSMON_TEST_REAL") == "1" && err != nil:
		t.Fatal(err)
	case os.Getenv("TSMON_TEST_REAL") != "1":
		t.Skip("TSMON_TEST_REAL is not set")
	}
	return path
}
