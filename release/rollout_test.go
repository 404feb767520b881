package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/store/object/objecttest"
)

// later moves the publisher's clock.
func (d *desk) later(by time.Duration) {
	at := d.Now().Add(by)
	d.Now = func() time.Time { return at }
}

// part publishes a version to a share of the clients.
func (d *desk) part(t *testing.T, version string, r *channels.Rollout) *Plan {
	t.Helper()
	o := d.options(t, version)
	o.Rollout = r
	return d.publish(t, o)
}

func steps(percent ...int) *channels.Rollout {
	return &channels.Rollout{Steps: percent, Every: channels.Duration(6 * time.Hour)}
}

// state is the version that a channel shows to everybody, and the one that is rolled out.
func (d *desk) state(t *testing.T, channel string) (shown, part string, percent int) {
	t.Helper()
	log, err := d.Repository().Load(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Repository().Shown(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	head := log.Head()
	if m.Version != head.Version || m.Sequence != head.Sequence {
		t.Errorf("%s shows %s as entry %d, its log says %s and %d", channel, m.Version, m.Sequence, head.Version, head.Sequence)
	}
	if head.Rollout == nil {
		return m.Version, "", 0
	}
	return m.Version, head.Rollout.Version, head.Rollout.Share()
}

func (d *desk) wantState(t *testing.T, channel, shown, part string, percent int) {
	t.Helper()
	if s, r, p := d.state(t, channel); s != shown || r != part || p != percent {
		t.Errorf("%s shows %s and %d %% get %q, want %s, %d %% and %q", channel, s, p, r, shown, percent, part)
	}
}

func TestRolloutStory(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	first := d.options(t, "1.1.0")
	first.Rollout = steps(5, 25, 100)
	first.Extra = manifest.Extra{Critical: true, MinimumVersion: "1.0.0", Watershed: true}
	report := d.publish(t, first)
	if report.Rollout == nil || report.Rollout.Percent != 5 || report.Version != "1.1.0" || !report.Changed || report.Sequence != 2 {
		t.Errorf("%+v", report.Rollout)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 5)
	d.wantState(t, "beta", "1.0.0", "", 0) // it takes what everybody gets

	// The same job again, or without a share, changes nothing.
	for _, r := range []*channels.Rollout{steps(5, 25, 100), steps(1), nil} {
		again := first
		again.Rollout = r
		if report := d.publish(t, again); report.Changed || len(report.Warnings) == 0 {
			t.Errorf("again: changed %v, %q", report.Changed, report.Warnings)
		}
	}
	d.later(7 * time.Hour)
	d.wantState(t, "stable", "1.0.0", "1.1.0", 5)
	d.advance(t, "stable", 3)
	d.wantState(t, "stable", "1.0.0", "1.1.0", 25)
	if report := d.publish(t, first); report.Changed || len(report.Warnings) == 0 {
		t.Errorf("after a step: changed %v, %q", report.Changed, report.Warnings)
	}

	// A pause gives nobody the release; a resumption goes on where it was.
	if _, err := d.Pause(t.Context(), Options{Channel: "stable"}); !errors.Is(err, ErrConfig) {
		t.Errorf("without a reason: %v", err)
	}
	for _, changed := range []bool{true, false} {
		report, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes"})
		if err != nil || report.Changed != changed {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 0)
	if _, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(50)}); !errors.Is(err, channels.ErrRollout) {
		t.Errorf("a share while it is paused: %v", err)
	}
	if report := d.publish(t, first); report.Changed {
		t.Error("an old job let a paused rollout go on")
	}
	d.later(1000 * time.Hour)
	for _, changed := range []bool{true, false} {
		report, err := d.Resume(t.Context(), Options{Channel: "stable", Why: "it was the network"})
		if err != nil || report.Changed != changed {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 25)

	// Another share, and the end.
	if report, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(60)}); err != nil || !report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 60)
	if report, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(100)}); err != nil || report.Rollout != nil {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
	d.wantState(t, "beta", "1.1.0", "", 0)
	data, err := d.Repository().Shown(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := manifest.Decode(data); err != nil || m.Extra != first.Extra || m.CriticalBelow != "1.1.0" {
		t.Errorf("the manifest's members for the application are %+v, %v", m.Extra, err)
	}
	report2, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report2.Findings) > 0 {
		t.Errorf("%+v, %v", report2, err)
	}
}

// advance takes the step that is due, and checks the number of the channel's newest entry.
func (d *desk) advance(t *testing.T, channel string, sequence uint64) *Plan {
	t.Helper()
	before, err := d.Repository().Load(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Advance(t.Context(), Options{Channel: channel})
	if err != nil || report.Sequence != sequence || report.Changed != (sequence > before.Head().Sequence) {
		t.Fatalf("changed %v, entry %d, want %d: %v", report.Changed, report.Sequence, sequence, err)
	}
	return report
}

// TestAdvance takes the steps of a rollout one at a time, each as an entry of its own. A step
// that is taken late still lasts its whole time. The last step gives the release to everybody,
// and to the channels that follow.
func TestAdvance(t *testing.T) {
	d := newDesk(t)
	if _, err := d.Advance(t.Context(), Options{Channel: "stable"}); !errors.Is(err, library.ErrNoRelease) {
		t.Errorf("an empty channel: %v", err)
	}
	d.publish(t, d.options(t, "1.0.0"))
	d.advance(t, "stable", 1)
	d.part(t, "1.1.0", steps(5, 25, 50, 100))
	d.later(6*time.Hour - 2*time.Second)
	d.advance(t, "stable", 2)
	d.later(1000 * time.Hour)
	if report := d.advance(t, "stable", 3); report.Rollout.Percent != 25 || report.Action != channels.Advance || report.Entry.Why != "step 2 of 4" {
		t.Errorf("%+v %+v", report.Entry, report.Rollout)
	}
	d.advance(t, "stable", 3)
	d.later(6 * time.Hour)
	if dry, err := d.Advance(t.Context(), Options{Channel: "stable", DryRun: true}); err != nil || !dry.Changed || dry.Rollout.Percent != 50 {
		t.Errorf("%+v, %v", dry, err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 25)
	d.advance(t, "stable", 4)
	d.wantState(t, "stable", "1.0.0", "1.1.0", 50)
	if _, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "a look"}); err != nil {
		t.Fatal(err)
	}
	d.later(1000 * time.Hour)
	d.advance(t, "stable", 5)
	if _, err := d.Resume(t.Context(), Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	d.later(6*time.Hour - 2*time.Second)
	d.advance(t, "stable", 6)
	d.later(2 * time.Second)
	d.wantState(t, "beta", "1.0.0", "", 0)
	if report := d.advance(t, "stable", 7); report.Rollout != nil || len(report.Followers) != 1 {
		t.Errorf("%+v", report)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
	d.wantState(t, "beta", "1.1.0", "", 0)
	d.advance(t, "stable", 7)
}

// TestAdvanceRace: if several servers and a command try to take a step, exactly one does.
func TestAdvanceRace(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(5, 25, 100))
	d.later(100 * time.Hour)
	results := make(chan error, 6)
	for i := range cap(results) {
		go func() {
			server := *d.Publisher
			server.Who = fmt.Sprint("server ", i)
			_, err := server.Advance(t.Context(), Options{Channel: "stable"})
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil && !errors.As(err, new(*channels.ConflictError)) {
			t.Error(err)
		}
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 25)
	d.advance(t, "stable", 3)
}

// TestAdvanceOfADamagedRelease: a release that no longer verifies is not rolled out further.
func TestAdvanceOfADamagedRelease(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(5, 100))
	d.later(6 * time.Hour)
	overwrite(t, filepath.Join(d.root, "releases/1.1.0/App_1.1.0_amd64.AppImage.tar.gz"))
	if _, err := d.Advance(t.Context(), Options{Channel: "stable"}); !errors.Is(err, library.ErrStored) {
		t.Errorf("error %v, want ErrStored", err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 5)
}

func TestRolloutTakenBack(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	bad := d.options(t, "1.1.0")
	bad.Rollout = steps(10)
	d.publish(t, bad)
	report, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}})
	if err != nil || !report.Changed || report.Version != "1.0.0" {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.0.0", "", 0)
	if _, err := d.Publish(t.Context(), bad); !errors.Is(err, ErrRolledBack) {
		t.Errorf("an old job after the rollback: %v", err)
	}
	d.publish(t, d.options(t, "1.1.1"))
	d.wantState(t, "stable", "1.1.1", "", 0)
}

func TestRolloutOvertaken(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.2.0", steps(10))
	if _, err := d.Publish(t.Context(), d.options(t, "1.1.0")); !errors.Is(err, ErrBelowHead) {
		t.Errorf("below what some have: %v", err)
	}
	report := d.part(t, "1.3.0", steps(20))
	if !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.Contains(w, "1.2.0 ends") }) {
		t.Errorf("%q", report.Warnings)
	}
	d.wantState(t, "stable", "1.0.0", "1.3.0", 20)
	d.publish(t, d.options(t, "1.4.0"))
	d.wantState(t, "stable", "1.4.0", "", 0)
}

func TestRolloutRefused(t *testing.T) {
	d := newDesk(t)
	first := d.options(t, "1.0.0")
	first.Rollout = steps(10)
	if _, err := d.Publish(t.Context(), first); !errors.Is(err, channels.ErrRollout) {
		t.Errorf("a first release in part: %v", err)
	}
	if _, err := d.Store.Stat(t.Context(), "releases/1.0.0/release.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was sent: %v", err)
	}
	d.publish(t, d.options(t, "1.0.0"))
	for name, call := range map[string]func() error{
		"steps that fall": func() error {
			o := d.options(t, "1.1.0")
			o.Rollout = steps(10, 5)
			_, err := d.Publish(t.Context(), o)
			return err
		},
		"no rollout": func() error {
			_, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(10)})
			return err
		},
		"a promotion": func() error {
			_, err := d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "stable", Rollout: steps(101)}, From: "beta"})
			return err
		},
	} {
		if err := call(); !errors.Is(err, channels.ErrRollout) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := d.options(t, "1.1.0")
	o.Extra.MinimumVersion = "1.2.0"
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrConfig) {
		t.Errorf("a minimum above the release: %v", err)
	}
	d.wantState(t, "stable", "1.0.0", "", 0)
}

// TestRolloutDryRun: a dry run writes nothing, and reports who would get the release.
func TestRolloutDryRun(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(10))
	before := objecttest.Tree(t, d.Store)
	report, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(50), DryRun: true})
	if err != nil || !report.Changed || report.Rollout.Percent != 50 || !report.DryRun {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "x", DryRun: true}); err != nil || !report.Rollout.Paused {
		t.Errorf("%+v, %v", report, err)
	}
	if after := objecttest.Tree(t, d.Store); len(after) != len(before) {
		t.Errorf("%d objects, %d before", len(after), len(before))
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 10)
}

// TestFinishAfterACrash: if a crash left an entry without its manifest and its followers'
// entries, the next command writes them.
func TestFinishAfterACrash(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(10, 100))
	d.later(6 * time.Hour)
	log, err := d.Repository().Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	head := log.Head()
	if _, err := d.Repository().Append(t.Context(), log, channels.Entry{Action: channels.Advance, Version: "1.1.0", Release: head.Rollout.Release, Who: "test", When: d.Now()}); err != nil {
		t.Fatal(err)
	}
	if report, err := d.Finish(t.Context(), "stable"); err != nil || !report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
	d.wantState(t, "beta", "1.1.0", "", 0)
}

// TestOldJobAfterARollback: a release whose rollout was replaced by a rollback to a lower
// version counts as rolled back.
func TestOldJobAfterARollback(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.publish(t, d.options(t, "1.1.0"))
	old := d.options(t, "1.2.0")
	old.Rollout = steps(10)
	d.publish(t, old)
	if _, err := d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: "crashes"}, To: "1.1.0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Publish(t.Context(), old); !errors.Is(err, ErrRolledBack) {
		t.Errorf("an old job after the rollback: %v", err)
	}
	// Whoever wants to pause what is gone by now is told, and nothing good is held back.
	if _, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "1.2.0 crashes"}); !errors.Is(err, ErrRolledBack) {
		t.Errorf("a pause after the rollback: %v", err)
	}
	d.wantState(t, "stable", "1.1.0", "", 0)
}

// TestRolloutOfFewerPlatforms: platforms that were left out at the publish are not required
// again by later steps, and a pause is never refused.
func TestRolloutOfFewerPlatforms(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	o := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage.tar.gz")
	o.AllowMissing, o.Rollout = []string{"windows-x86_64"}, steps(5, 100)
	o.Rollout.Cohorts = []string{"qa"}
	d.publish(t, o)
	d.Policies["stable"] = Policy{Targets: []string{"darwin-aarch64"}} // which nothing has
	if _, err := d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Resume(t.Context(), Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	report, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(25)})
	if err != nil || len(report.Rollout.Cohorts) != 1 {
		t.Fatalf("the cohort that was in: %+v, %v", report, err)
	}
	if _, err := d.Rollout(t.Context(), Options{Channel: "stable", Rollout: steps(100)}); err != nil {
		t.Fatal(err)
	}
	report, err = d.Pause(t.Context(), Options{Channel: "stable", Why: "crashes"})
	if err != nil || !report.Changed {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 0)
}

// TestVerifyOfARollout: Verify also checks the release that only some clients get.
func TestVerifyOfARollout(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(10))
	bundle := filepath.Join(d.root, "releases", "1.1.0", "App_1.1.0_amd64.AppImage.tar.gz")
	if err := os.WriteFile(bundle, []byte("other bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil || len(report.Findings) != 1 || !slices.Contains(report.Releases, "1.1.0") {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestPromoteInPart(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	o := d.options(t, "1.1.0")
	o.Channel = "beta"
	d.publish(t, o)
	if report, err := d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "stable", Rollout: steps(10)}, From: "beta"}); err != nil || report.Rollout == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	d.wantState(t, "stable", "1.0.0", "1.1.0", 10)
}

// TestRolloutReachesNobody: a rollout on a channel that is read from latest.json gives a warning,
// because such clients are in no share.
func TestRolloutReachesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		share  *channels.Rollout
		warned bool
	}{
		"steps":         {Policy{ReadsManifest: true}, steps(5, 100), true},
		"everybody":     {Policy{ReadsManifest: true}, steps(100), false},
		"no rollout":    {Policy{ReadsManifest: true}, nil, false},
		"rings":         {Policy{ReadsManifest: true, Rings: true}, steps(5, 100), false},
		"server, maybe": {Policy{}, steps(5, 100), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.Policies["stable"] = c.policy
			d.publish(t, d.options(t, "1.0.0"))
			report := d.part(t, "1.1.0", c.share)
			warned := slices.ContainsFunc(report.Warnings, func(w string) bool {
				return strings.HasPrefix(w, "clients that read stable/latest.json get nothing of 1.1.0 before 100 %: set rings: true for stable")
			})
			if warned != c.warned {
				t.Errorf("%q", report.Warnings)
			}
		})
	}
}
