package servertest

import (
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
	Missing(tb, "there is no chromium: install it")
	return ""
}
