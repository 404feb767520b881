package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSurvey: the date of a release that no channel showed is that of its record, and a
// record that can't be read keeps no other release from being listed.
func TestSurvey(t *testing.T) {
	d := newDesk(t)
	d.Now = func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }
	d.publish(t, d.options(t, "1.0.0"))
	d.publish(t, d.options(t, "1.1.0"))
	d.publish(t, d.options(t, "1.2.0"))
	if _, err := d.rollback(t, "stable", "1.0.0", "crashes"); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(d.root, "releases", "1.0.0", "release.json"))
	if err != nil {
		t.Fatal(err)
	}
	for version, text := range map[string]string{"2.0.0": strings.NewReplacer("1.0.0", "2.0.0", "2026-11-20", "2026-11-21").Replace(string(record)), "2.1.0": "{"} {
		folder := filepath.Join(d.root, "releases", version)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "release.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := d.Library().Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		version              string
		day                  int
		channels, rolledBack []string
	}{
		{"1.0.0", 20, []string{"stable"}, nil},
		{"1.1.0", 20, nil, []string{"stable"}},
		{"1.2.0", 20, []string{"beta"}, []string{"stable"}},
		{"2.0.0", 21, nil, nil},
		{"2.1.0", 0, nil, nil},
	} {
		s := found[i]
		day := 0
		if !s.Date.IsZero() {
			day = s.Date.Day()
		}
		if s.Version.Version != want.version || day != want.day || !slices.Equal(s.Channels, want.channels) || !slices.Equal(s.RolledBack, want.rolledBack) || s.Size <= 0 {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}
