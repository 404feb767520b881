package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// TestLaterVersions follows what is said of members that name a version above the
// manifest's own.
func TestLaterVersions(t *testing.T) {
	mend := func(member, version string) string {
		t.Helper()
		data := fmt.Sprintf(`{"version": "1.1.0", "notes": "", "pub_date": "2026-11-21T10:00:00Z", %q: %q, "platforms": {}}`, member, version)
		_, problems := Check([]byte(data), Rules{})
		for _, p := range problems {
			if p.Place == member {
				return p.Mend
			}
		}
		return ""
	}
	// follows: no client could have it: lower it, or publish that version
	if got := mend("minimum_version", "1.2.0"); !strings.HasPrefix(got, "no client could have it") {
		t.Errorf("minimum_version: %q", got)
	}
	// follows: write the newest version up to this one that is critical
	if got := mend("critical_below", "1.2.0"); !strings.HasPrefix(got, "write the newest version") {
		t.Errorf("critical_below: %q", got)
	}
	for _, member := range []string{"minimum_version", "critical_below"} {
		if got := mend(member, "1.1.0"); got != "" {
			t.Errorf("%s, lowered: %q", member, got)
		}
	}
}
