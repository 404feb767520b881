package releasing

import (
	"bytes"
	"strings"
	"testing"

	"tsmon/release"
	"tsmon/release/gate"
)

// TestReachIsGrouped: versions that get the same share a row.
func TestReachIsGrouped(t *testing.T) {
	plan := &release.Plan{Channel: "stable", Version: "1.40.0"}
	for i := range 40 {
		for _, target := range []string{"darwin-aarch64", "linux-x86_64"} {
			plan.Reach = append(plan.Reach, gate.Reach{Version: "1." + string(rune('0'+i/10)) + string(rune('0'+i%10)) + ".0", Target: target, Outcome: "offered", Offered: "1.40.0", Bundle: target + ".tar.gz"})
		}
	}
	plan.Reach = append(plan.Reach, gate.Reach{Version: "1.40.0", Target: "linux-x86_64", Outcome: "current"})
	for verbose, lines := range map[bool]int{false: 4, true: 82} {
		out := new(bytes.Buffer)
		printReach(out, plan, verbose)
		if n := strings.Count(out.String(), "\n"); n != lines {
			t.Errorf("verbose %v: %d lines, want %d:\n%s", verbose, n, lines, out)
		}
		if grouped := strings.Contains(out.String(), "1.00.0 – 1.39.0 (40)  1.40.0, linux-x86_64.tar.gz"); grouped == verbose {
			t.Errorf("verbose %v:\n%s", verbose, out)
		}
	}
}
