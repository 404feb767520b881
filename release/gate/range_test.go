package gate

import (
	"errors"
	"strings"
	"testing"

	"tsmon/manifest"
)

func TestVersionRange(t *testing.T) {
	for text, want := range map[string]VersionRange{
		"1.0.0": {"1.0.0", "1.0.0"}, "1.0.0-1.2.0": {"1.0.0", "1.2.0"}, "1.0.0-1.0.0": {"1.0.0", "1.0.0"}, "1.0.0-rc.1": {"1.0.0-rc.1", "1.0.0-rc.1"},
		"1.0.0-rc.1-1.0.0": {"1.0.0-rc.1", "1.0.0"}, "1.0.0-a-b-1.2.0-x-1": {"1.0.0-a-b", "1.2.0-x-1"}, "1.9.0-1.10.0": {"1.9.0", "1.10.0"},
	} {
		if got, err := ParseVersionRange(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "1.0", "1.0.0-", "-1.0.0", "1.0.0–1.2.0", "1.0.0 - 1.2.0", "v1.0.0-1.2.0", "1.2.0-1.0.0", "1.0.0-1.0.0-rc.1", "1.0.0-1.1.0-1.2.0", "1.0.0,1.2.0", "1.0.0+1-1.2.0", strings.Repeat("1.0.0-", 1000)} {
		if got, err := ParseVersionRange(text); !errors.Is(err, manifest.ErrVersion) || len(err.Error()) > 400 {
			t.Errorf("%.50s: %v, %v", text, got, err)
		}
	}
	all := VersionRange{"1.0.0-rc.2", "1.2.0"}
	for version, want := range map[string]bool{"1.0.0-rc.1": false, "1.0.0-rc.2": true, "1.0.0-rc.10": true, "1.1.9": true, "1.2.0": true, "1.2.1": false} {
		if all.contains(version) != want || (VersionRange{}).contains(version) {
			t.Errorf("%s in %s is %v", version, all, !want)
		}
	}
}

func FuzzVersionRange(f *testing.F) {
	for _, seed := range []string{"1.0.0", "1.0.0-1.2.0", "1.0.0-rc.1-1.2.0-rc.2", "1.0.0-1.1.0-1.2.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseVersionRange(text)
		if err != nil {
			return
		}
		if again, err := ParseVersionRange(r.String()); err != nil || again != r || !r.contains(r.First) || !r.contains(r.Last) {
			t.Errorf("%q reads as %v, which reads as %v, %v", text, r, again, err)
		}
	})
}
