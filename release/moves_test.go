package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

func (d *desk) rollback(t testing.TB, channel, to, why string) (*Plan, error) {
	t.Helper()
	return d.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: channel, Why: why}, To: to})
}

// shows is the version that a channel's manifest shows.
func (d *desk) shows(t testing.TB, channel string) string {
	t.Helper()
	data, err := d.Repository().Shown(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return m.Version
}

// TestRollbacks: a release that was rolled back never returns by itself.
func TestRollbacks(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.2.0")
	d.publish(t, d.options(t, "1.0.0"))
	d.publish(t, d.options(t, "1.1.0"))
	if _, err := d.rollback(t, "stable", "", "1.1 crashes"); err != nil || d.shows(t, "stable") != "1.0.0" {
		t.Fatalf("shows %s, %v", d.shows(t, "stable"), err)
	}
	d.publish(t, o)
	if _, err := d.rollback(t, "stable", "1.1.0", "1.2 is worse"); err != nil || d.shows(t, "stable") != "1.1.0" {
		t.Fatalf("shows %s, %v", d.shows(t, "stable"), err)
	}
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrRolledBack) {
		t.Errorf("publishing it again: %v, want ErrRolledBack", err)
	}
	promote := PromoteOptions{Options: Options{Channel: "beta"}, From: "stable", Version: "1.2.0"}
	if _, err := d.Promote(t.Context(), promote); !errors.Is(err, ErrRolledBack) {
		t.Errorf("promoting it: %v, want ErrRolledBack", err)
	}
	if _, err := d.rollback(t, "stable", "", "another reason"); !errors.Is(err, ErrRolledBack) {
		t.Errorf("a second person's rollback: %v, want ErrRolledBack", err)
	}
	if report, err := d.rollback(t, "stable", "", "1.2 is worse"); err != nil || report.Changed {
		t.Errorf("the same rollback again: %+v, %v", report, err)
	}
	if _, err := d.rollback(t, "stable", "1.0.0", "further"); err != nil || d.shows(t, "stable") != "1.0.0" {
		t.Errorf("shows %s, %v", d.shows(t, "stable"), err)
	}
	if _, err := d.rollback(t, "stable", "3.0.0", "never"); !errors.Is(err, ErrNoTarget) {
		t.Errorf("to a version that was never shown: %v", err)
	}
}

func TestRollbackOfTheFirstRelease(t *testing.T) {
	d := newDesk(t)
	if _, err := d.rollback(t, "stable", "", "crash"); !errors.Is(err, ErrNoTarget) {
		t.Errorf("an empty channel: %v", err)
	}
	d.publish(t, d.options(t, "1.0.0"))
	if _, err := d.rollback(t, "stable", "", "crash"); !errors.Is(err, ErrNoTarget) {
		t.Errorf("the first release: %v", err)
	}
	if _, err := d.rollback(t, "stable", "", " "); !errors.Is(err, ErrConfig) {
		t.Errorf("no reason: %v", err)
	}
}

// TestRollbackIsHeldToTheGate: a rollback to a release with damaged bundles, or with signatures
// that strict clients reject, is refused.
func TestRollbackIsHeldToTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, d *desk)
		want   error
	}{
		"bundle changed": {func(t *testing.T, d *desk) {
			overwrite(t, filepath.Join(d.root, "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip"))
		}, library.ErrStored},
		"record gone": {func(t *testing.T, d *desk) {
			if err := os.Remove(filepath.Join(d.root, "releases/1.0.0/release.json")); err != nil {
				t.Fatal(err)
			}
		}, library.ErrNoRelease},
		"key no longer trusted": {func(t *testing.T, d *desk) { d.Keys = signing.Keyring{{PublicKey: newDesk(t).key.Public()}} }, signing.ErrUntrustedKey},
		"platform lost": {func(t *testing.T, d *desk) {
			d.publish(t, d.options(t, "1.2.0", "App_1.2.0_x64_en-US.msi.zip", "App_1.2.0_amd64.AppImage.tar.gz", "App_universal.app.tar.gz"))
		}, gate.ErrCoverage},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.publish(t, d.options(t, "1.0.0"))
			d.publish(t, d.options(t, "1.1.0"))
			c.damage(t, d)
			before := objecttest.Tree(t, d.Store)
			if _, err := d.rollback(t, "stable", "1.0.0", "crash"); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			sameTree(t, before, objecttest.Tree(t, d.Store))
		})
	}
}

// TestBadNotesDoNotUseUpTheVersion: a release that the gate would refuse is refused before
// anything immutable is written.
func TestBadNotesDoNotUseUpTheVersion(t *testing.T) {
	d := newDesk(t)
	o := d.options(t, "1.0.0")
	for _, notes := range []string{"bad \xff", "lost \uFFFD", strings.Repeat("x", MaxNotes+1)} {
		o.Notes = notes
		if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrNotes) {
			t.Errorf("%.10q: %v, want ErrNotes", notes, err)
		}
	}
	if tree := objecttest.Tree(t, d.Store); len(tree) > 0 {
		t.Errorf("%d objects were written", len(tree))
	}
	o.Notes = strings.Repeat("\x01", MaxNotes) // six bytes each in JSON
	d.publish(t, o)
}

// swapping is a store that calls a function before it swaps.
type swapping struct {
	object.Store
	before func(key string)
}

func (s *swapping) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	s.before(key)
	return s.Store.Swap(ctx, key, etag, data, attrs)
}

// TestFollowersDoNotFollowARelease: followers don't take a release that was rolled back while
// its publisher was about to move them.
func TestFollowersDoNotFollowARelease(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	operator := *d.Publisher
	done := false
	d.Store = &swapping{d.Store, func(key string) {
		if key == "stable/latest.json" && !done {
			done = true
			o := RollbackOptions{Options: Options{Channel: "stable", Why: "crash"}}
			if _, err := operator.Rollback(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
	}}
	report := d.publish(t, d.options(t, "1.1.0"))
	if !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.Contains(w, "moved on to 1.0.0") }) {
		t.Errorf("warnings %q", report.Warnings)
	}
	if stable, beta := d.shows(t, "stable"), d.shows(t, "beta"); stable != "1.0.0" || beta != "1.0.0" {
		t.Errorf("stable shows %s, beta %s, want 1.0.0 on both", stable, beta)
	}
}

// TestFollowersKeepTheirPlatforms: a platform that one channel may lose can still be required
// by another.
func TestFollowersKeepTheirPlatforms(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	o := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage.tar.gz")
	o.AllowMissing = []string{"windows-x86_64"}
	report := d.publish(t, o)
	if beta := d.shows(t, "beta"); beta != "1.0.0" {
		t.Errorf("beta shows %s without windows", beta)
	}
	if !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.Contains(w, "beta does not follow") }) {
		t.Errorf("warnings %q", report.Warnings)
	}
	i := slices.IndexFunc(report.Reach, func(r gate.Reach) bool { return r.Target == "windows-x86_64" })
	if report.Reach[i].Outcome != "dropped" {
		t.Errorf("windows clients: %+v", report.Reach[i])
	}
}

func TestFollowing(t *testing.T) {
	d := newDesk(t)
	beta := d.options(t, "1.2.0-beta.1")
	beta.Channel = "beta"
	d.publish(t, d.options(t, "1.1.0"))
	d.publish(t, beta)
	d.publish(t, d.options(t, "1.1.1")) // an older hotfix
	if stable, beta := d.shows(t, "stable"), d.shows(t, "beta"); stable != "1.1.1" || beta != "1.2.0-beta.1" {
		t.Errorf("stable shows %s, beta %s", stable, beta)
	}
	report := d.publish(t, d.options(t, "1.2.0"))
	if len(report.Followers) != 1 || report.Followers[0].Channel != "beta" || d.shows(t, "beta") != "1.2.0" {
		t.Errorf("beta shows %s, %+v", d.shows(t, "beta"), report)
	}
	pre := PromoteOptions{Options: Options{Channel: "stable"}, From: "beta", Version: "1.2.0-beta.1"}
	if _, err := d.Promote(t.Context(), pre); !errors.Is(err, ErrPrerelease) {
		t.Errorf("promoting a pre-release: %v", err)
	}
}

// TestProbe: after a move the publisher fetches what clients get. If that fails, the result
// still says that the channel has moved.
func TestProbe(t *testing.T) {
	d := newDesk(t)
	var probed []string
	d.Probe = func(_ context.Context, address string, want manifest.Manifest, _ bool) error {
		probed = append(probed, address+" "+want.Version)
		if strings.Contains(address, "/beta/") {
			return errors.New("stale")
		}
		return nil
	}
	report, err := d.Publish(t.Context(), d.options(t, "1.0.0"))
	if !errors.Is(err, ErrProbe) || !strings.Contains(err.Error(), "beta has moved to 1.0.0") {
		t.Errorf("error %v", err)
	}
	if !report.Probed || len(report.Followers) != 1 || report.Followers[0].Probed {
		t.Errorf("%+v", report)
	}
	want := []string{d.PublicURL + "/stable/latest.json 1.0.0", d.PublicURL + "/beta/latest.json 1.0.0"}
	if !slices.Equal(probed, want) {
		t.Errorf("probed %q, want %q", probed, want)
	}
}

// TestProbeRings: the probe also fetches rings in and out of a rollout. It fetches bundles only
// if a channel moved.
func TestProbeRings(t *testing.T) {
	d := newDesk(t)
	d.Policies = map[string]Policy{"stable": {Rings: true}}
	d.publish(t, d.options(t, "1.0.0"))
	var probed []string
	d.Probe = func(_ context.Context, address string, want manifest.Manifest, bundles bool) error {
		ring := strings.Contains(address, "/stable/rings/")
		probed = append(probed, fmt.Sprint(want.Version, " ", want.Sequence, " ", ring, " ", bundles))
		return nil
	}
	for _, c := range []struct {
		move func() (*Plan, error)
		want []string
	}{
		{func() (*Plan, error) {
			o := d.options(t, "1.1.0")
			o.Rollout = &channels.Rollout{Steps: []int{5, 100}, Every: channels.Duration(time.Hour)}
			return d.Publish(t.Context(), o)
		}, []string{"1.0.0 2 false true", "1.0.0 1 true true", "1.1.0 2 true true"}},
		{func() (*Plan, error) { return d.Advance(t.Context(), Options{Channel: "stable"}) },
			[]string{"1.0.0 2 false false", "1.0.0 1 true false", "1.1.0 2 true false"}},
		{func() (*Plan, error) {
			d.later(2 * time.Hour)
			return d.Advance(t.Context(), Options{Channel: "stable"})
		},
			[]string{"1.1.0 3 false true", "1.1.0 3 true true"}},
	} {
		probed = nil
		if _, err := c.move(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(probed, c.want) {
			t.Errorf("probed %q, want %q", probed, c.want)
		}
	}
	d.Probe = func(_ context.Context, address string, _ manifest.Manifest, _ bool) error {
		if strings.Contains(address, "/rings/") {
			return errors.New("status 404")
		}
		return nil
	}
	plan, err := d.Advance(t.Context(), Options{Channel: "stable"})
	if !errors.Is(err, ErrProbe) || plan == nil || plan.Probed {
		t.Errorf("no ring is served: %+v, %v", plan, err)
	}
}

// TestProbeThatSeesNothing: a move does not fail because a cache still has the old manifest.
func TestProbeThatSeesNothing(t *testing.T) {
	d := newDesk(t)
	d.Probe = func(context.Context, string, manifest.Manifest, bool) error {
		return fmt.Errorf("%w: an older manifest is served", ErrUnseen)
	}
	plan := d.publish(t, d.options(t, "1.0.0"))
	if plan.Probed || !plan.Changed || len(plan.Warnings) != 2 || !strings.Contains(plan.Warnings[0], "stable has moved to 1.0.0 (entry 1), but") {
		t.Errorf("%+v", plan)
	}
}

// TestStoreWithoutConditionsStaysRefused: a store without conditional writes is refused every
// time.
func TestStoreWithoutConditionsStaysRefused(t *testing.T) {
	d := newDesk(t)
	d.Store = &careless{d.Store}
	o := d.options(t, "1.0.0")
	for range 2 {
		if _, err := d.Publish(t.Context(), o); !errors.Is(err, object.ErrUnconditional) {
			t.Errorf("error %v, want ErrUnconditional", err)
		}
	}
}

// TestVerifyFindsDamage: Verify checks each object of a channel.
func TestVerifyFindsDamage(t *testing.T) {
	for name, damage := range map[string]string{
		"manifest": "stable/latest.json", "entry": "log/stable/0000000001.json", "record": "releases/1.0.0/release.json",
		"bundle": "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip", "signature": "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip.sig",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.publish(t, d.options(t, "1.0.0"))
			if report, err := d.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) > 0 {
				t.Fatalf("before: %+v, %v", report, err)
			}
			overwrite(t, filepath.Join(d.root, damage))
			report, err := d.Keeper().Verify(t.Context(), "stable")
			if err != nil || len(report.Findings) == 0 || report.Findings[0].Mend == "" || report.Findings.Err() == nil {
				t.Errorf("%+v, %v", report, err)
			}
			if err := os.Remove(filepath.Join(d.root, damage)); err != nil {
				t.Fatal(err)
			}
			report, err = d.Keeper().Verify(t.Context(), "stable")
			if err != nil || len(report.Findings) == 0 || report.Findings[0].Mend == "" {
				t.Errorf("without it: %+v, %v", report, err)
			}
		})
	}
}

// TestHandWrittenPredecessor: the version of a manifest without a log counts as installed.
func TestHandWrittenPredecessor(t *testing.T) {
	d := newDesk(t)
	put(t, d.Store, "stable/latest.json", `{"version":"v1.5.0","platforms":{"darwin-aarch64":{"signature":"x","url":"https://example.com/a"}}}`)
	if _, err := d.Publish(t.Context(), d.options(t, "1.4.0")); !errors.Is(err, ErrBelowHead) {
		t.Errorf("below it: %v", err)
	}
	if _, err := d.Publish(t.Context(), d.options(t, "1.6.0")); !errors.Is(err, gate.ErrCoverage) {
		t.Errorf("without its platform: %v", err)
	}
	report := d.publish(t, d.options(t, "1.6.0", "App_aarch64.app.tar.gz"))
	if report.Previous != "1.5.0" || d.shows(t, "stable") != "1.6.0" {
		t.Errorf("%+v", report)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":"1.0.0","bundles":[{"name":"a","keys":["linux-x86_64"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDesk(t)
		put(t, d.Store, "releases/1.0.0/release.json", string(data))
		r, err := d.Library().Record(t.Context(), "1.0.0")
		if err == nil && (r.Version != "1.0.0" || len(r.Bundles) == 0) {
			t.Errorf("accepted %+v", r)
		}
		if err == nil {
			if err := d.Library().VerifyStored(t.Context(), r, false); err == nil {
				t.Error("verified a release that has no bundles in the store")
			}
		}
	})
}

// TestChannelHidden: a channel is not moved if clients may not read its folder. If the store
// answers 403 for missing objects too, this can't be checked before the first release, and the
// channel moves.
func TestChannelHidden(t *testing.T) {
	for name, c := range map[string]struct {
		hidden string // folder that clients may not read
		strict bool   // what is missing is answered with 403, too
		first  error  // of the first release
		second error
	}{
		"all is read":          {"", false, nil, nil},
		"all is read, strict":  {"", true, nil, nil},
		"the channel":          {"/stable/", false, ErrHidden, ErrHidden},
		"the channel, strict":  {"/stable/", true, nil, ErrHidden},
		"the releases":         {"/releases/", false, ErrHidden, ErrHidden},
		"the releases, strict": {"/releases/", true, ErrHidden, ErrHidden},
		"another":              {"/beta/", false, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			look := func(ctx context.Context, address string) error {
				path := strings.TrimPrefix(address, d.PublicURL)
				_, missing := d.Store.Stat(ctx, path[1:])
				if c.hidden != "" && strings.HasPrefix(path, c.hidden) || c.strict && missing != nil {
					return errors.New("status 403")
				}
				return nil
			}
			for _, move := range []struct {
				version string
				want    error
			}{{"1.0.0", c.first}, {"1.1.0", c.second}} {
				o := d.options(t, move.version)
				d.Readable = look
				if _, err := d.Publish(t.Context(), o); !errors.Is(err, move.want) {
					t.Fatalf("%s: %v, want %v", move.version, err, move.want)
				}
				d.Readable = nil
				d.publish(t, o) // or nothing is left to do
			}
		})
	}
}
