package servertest

import (
	"os"
	"os/exec"
	"testing"
)

// Chromium returns the path of the browser. Without one it skips the test, or fails it where
// TSMON_TEST_REAL is 1.
func Chromium(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const hint = "there is no chromium: install it"
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
	return ""
}
