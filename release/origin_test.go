package release

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/upkeep"
)

// TestEveryMoveNamesItsRun: the entry of every move by a CI job has the repository, the commit
// and the run.
func TestEveryMoveNamesItsRun(t *testing.T) {
	d := newDesk(t)
	d.Policies["late"] = Policy{}
	run := channels.Origin{Repository: "https://github.com/water/app", Commit: "0123abcd", Run: "https://github.com/water/app/actions/runs/77"}
	d.Origin = &run
	d.series(t, 5)
	d.part(t, "1.5.0", steps(5, 25, 100))
	stable := Options{Channel: "stable", Why: "crashes"}
	for _, move := range []func() error{
		func() error { _, err := d.Pause(t.Context(), stable); return err },
		func() error { _, err := d.Resume(t.Context(), stable); return err },
		func() error { d.later(7 * time.Hour); _, err := d.Advance(t.Context(), stable); return err },
		func() error { _, err := d.rollback(t, "stable", "", "crashes"); return err },
		func() error {
			_, err := d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "late"}, From: "stable"})
			return err
		},
		func() error { _, err := d.Keeper().Prune(t.Context(), upkeep.PruneOptions{Keep: 1}); return err },
		func() error {
			if err := os.Remove(filepath.Join(d.root, "log", "stable", "0000000001.json")); err != nil {
				return err
			}
			_, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
			return err
		},
	} {
		if err := move(); err != nil {
			t.Fatal(err)
		}
	}
	var seen []channels.Action
	for _, channel := range []string{"stable", "beta", "late"} {
		for _, e := range d.log(t, channel).Entries {
			seen = append(seen, e.Action)
			if e.Origin == nil || *e.Origin != run {
				t.Errorf("entry %d of %s (%s) is of %+v", e.Sequence, channel, e.Action, e.Origin)
			}
		}
	}
	for _, action := range []channels.Action{channels.Publish, channels.Promote, channels.Follow, channels.Rollback, channels.Advance, channels.Pause, channels.Resume, channels.Repair, channels.Prune} {
		if !slices.Contains(seen, action) {
			t.Errorf("no entry is a %s", action)
		}
	}
}
