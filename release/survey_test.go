package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/release/upkeep"
)

// TestSurvey: a release that no channel showed has the date of its record. A record that can't
// be read doesn't stop other releases from being listed.
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

// TestSurveyPruned: a release is pruned until all its bundles are back.
func TestSurveyPruned(t *testing.T) {
	d := newDesk(t)
	first := d.options(t, "1.0.0")
	d.publish(t, first)
	for _, version := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		d.publish(t, d.options(t, version))
	}
	want := func(when, versions string) {
		t.Helper()
		found, err := d.Library().Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var pruned []string
		for _, s := range found {
			if s.Pruned {
				pruned = append(pruned, s.Version.Version)
			}
		}
		if got := strings.Join(pruned, " "); got != versions {
			t.Errorf("%s %q are pruned, want %q", when, got, versions)
		}
	}
	want("before", "")
	d.prunes(t, upkeep.PruneOptions{Keep: 1})
	want("after prune", "1.0.0")
	for i, b := range first.Bundles {
		want("before a bundle is put back", "1.0.0")
		if _, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: []string{b.Path}}); err != nil {
			t.Fatalf("bundle %d: %v", i, err)
		}
	}
	want("with all bundles", "")
	d.sound(t, "stable")
}
