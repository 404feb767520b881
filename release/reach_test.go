package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/gate"
	"tsmon/store/object/objecttest"
)

// reachOf finds a cell, given as "VERSION TARGET TYPE ADDRESS ROLLOUT" with - for
// empty, and returns what it gets.
func reachOf(t testing.TB, p *Plan, key string) string {
	t.Helper()
	for _, r := range p.Reach {
		fields := []string{r.Version, r.Target, r.BundleType, r.Address, r.Rollout}
		for i, f := range fields {
			if f == "" {
				fields[i] = "-"
			}
		}
		if strings.Join(fields, " ") == key {
			return strings.TrimSpace(r.Outcome + " " + r.Bundle)
		}
	}
	return "no such cell"
}

// TestReachOfTypes: a client of each type, at both addresses.
func TestReachOfTypes(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage", "App_1.0.0_amd64.deb", "App_1.0.0_x64-setup.exe"))
	report := d.publish(t, d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage", "App_1.1.0_amd64.deb", "App_1.1.0_x64-setup.exe"))
	for key, want := range map[string]string{
		"1.0.0 linux-x86_64 - dynamic -":        "offered App_1.1.0_amd64.AppImage",
		"1.0.0 linux-x86_64 appimage static -":  "offered App_1.1.0_amd64.AppImage",
		"1.0.0 linux-x86_64 deb dynamic -":      "offered App_1.1.0_amd64.deb",
		"1.0.0 linux-x86_64 deb static -":       "offered App_1.1.0_amd64.deb",
		"1.0.0 linux-x86_64 rpm dynamic -":      "unfit",
		"1.0.0 linux-x86_64 rpm static -":       "misfit App_1.1.0_amd64.AppImage",
		"1.1.0 linux-x86_64 rpm static -":       "current",
		"1.1.0 linux-x86_64 rpm dynamic -":      "current",
		"1.0.0 windows-x86_64 msi dynamic -":    "unfit",
		"1.0.0 windows-x86_64 msi static -":     "misfit App_1.1.0_x64-setup.exe",
		"1.0.0 windows-x86_64 nsis dynamic -":   "offered App_1.1.0_x64-setup.exe",
		"1.0.0 darwin-aarch64 app dynamic -":    "no such cell",
		"1.0.0 linux-x86_64 appimage dynamic -": "offered App_1.1.0_amd64.AppImage",
	} {
		if got := reachOf(t, report, key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if len(report.Warnings) > 0 {
		t.Errorf("of types that the channel never had it warns: %q", report.Warnings)
	}
}

// TestMisfits: latest.json may give a client a bundle that it can't install.
func TestMisfits(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, files []string
		allow        []string
		want         string // in the warning; empty: none
	}{
		{"AppImages alone", nil, []string{"App_V_amd64.AppImage"}, nil, "linux-x86_64 clients installed from deb or rpm App_1.1.0_amd64.AppImage, which they can't install"},
		{"one package", nil, []string{"App_V_amd64.AppImage", "App_V_amd64.deb"}, nil, ""},
		{"a package that was there", []string{"App_V_amd64.AppImage", "App_V_amd64.deb"}, []string{"App_V_amd64.AppImage"}, []string{"linux-x86_64-deb"}, "installed from deb App_1.1.0_amd64.AppImage"},
		{"one installer", nil, []string{"App_V_x64-setup.exe"}, nil, ""},
		{"an installer that was there", []string{"App_V_x64-setup.exe", "App_V_x64_en-US.msi"}, []string{"App_V_x64_en-US.msi"}, []string{"windows-x86_64-nsis"},
			"windows-x86_64 clients installed from nsis App_1.1.0_x64_en-US.msi, which they install beside their own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			named := func(version string, files []string) []string {
				named := slices.Clone(files)
				for i := range named {
					named[i] = strings.Replace(named[i], "_V_", "_"+version+"_", 1)
				}
				return named
			}
			first := c.first
			if first == nil {
				first = c.files
			}
			d.publish(t, d.options(t, "1.0.0", named("1.0.0", first)...))
			o := d.options(t, "1.1.0", named("1.1.0", c.files)...)
			o.AllowMissing = c.allow
			report := d.publish(t, o)
			warned := slices.ContainsFunc(report.Warnings, func(w string) bool { return c.want != "" && strings.Contains(w, c.want) })
			if warned != (c.want != "") || c.want == "" && len(report.Warnings) > 0 {
				t.Errorf("warnings %q, want %q", report.Warnings, c.want)
			}
		})
	}
}

// TestKnownMisfits: a release that known clients could not install from latest.json is refused.
// Following each part of the hint works.
func TestKnownMisfits(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage", "App_1.0.0_x64-setup.exe"))
	d.Types = func(_ context.Context, channel string) (map[string]int, error) {
		if channel != "stable" {
			return nil, nil
		}
		return map[string]int{"linux-x86_64-deb": 4, "linux-x86_64": 7, "windows-x86_64-nsis": 2, "windows-x86_64-msi": 0}, nil
	}
	before := objecttest.Tree(t, d.Store)
	_, err := d.Publish(t.Context(), d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage", "App_1.1.0_x64-setup.exe"))
	var refusal *Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, gate.ErrGate) || !maps.Equal(before, objecttest.Tree(t, d.Store)) ||
		!strings.Contains(err.Error(), "linux-x86_64 clients installed from deb App_1.1.0_amd64.AppImage, which they can't install (such clients that tsmon serve knows: 4)") ||
		!strings.Contains(refusal.Mend, "publish linux-x86_64-deb too, or say --allow-missing linux-x86_64-deb") {
		t.Fatalf("%v", err)
	}
	// follows: publish … too, or say --allow-missing … to leave those clients as they are
	allowed := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage", "App_1.1.0_x64-setup.exe")
	allowed.AllowMissing = []string{"linux-x86_64-deb"}
	if report := d.publish(t, allowed); len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "installed from deb") {
		t.Errorf("%q", report.Warnings)
	}
	if report := d.publish(t, d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage", "App_1.2.0_amd64.deb", "App_1.2.0_x64-setup.exe")); len(report.Warnings) > 0 {
		t.Errorf("%q", report.Warnings)
	}
	// The other installer would stand beside theirs.
	other := d.options(t, "1.3.0", "App_1.3.0_amd64.AppImage", "App_1.3.0_amd64.deb", "App_1.3.0_x64_en-US.msi")
	other.AllowMissing = []string{"windows-x86_64-nsis"}
	d.publish(t, other)
}

// TestKnownMisfitsOfFollowers: a channel does not follow to a release that its known clients
// can't install. A promotion that allows it moves the channel.
func TestKnownMisfitsOfFollowers(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage"))
	d.Types = func(_ context.Context, channel string) (map[string]int, error) {
		if channel != "beta" {
			return nil, nil
		}
		return map[string]int{"linux-x86_64-deb": 4}, nil
	}
	report := d.publish(t, d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage"))
	if !slices.ContainsFunc(report.Warnings, func(w string) bool {
		return strings.Contains(w, "beta does not follow: ") && strings.Contains(w, "installed from deb App_1.1.0_amd64.AppImage, which they can't install (such clients that tsmon serve knows: 4)")
	}) || len(report.Followers) > 0 {
		t.Errorf("%q", report.Warnings)
	}
	if stable, beta := d.shows(t, "stable"), d.shows(t, "beta"); stable != "1.1.0" || beta != "1.0.0" {
		t.Errorf("stable shows %s, beta %s", stable, beta)
	}
	promote := PromoteOptions{Options: Options{Channel: "beta"}, From: "stable"}
	if _, err := d.Promote(t.Context(), promote); !errors.Is(err, gate.ErrGate) {
		t.Errorf("error %v, want gate.ErrGate", err)
	}
	promote.AllowMissing = []string{"linux-x86_64-deb"}
	if _, err := d.Promote(t.Context(), promote); err != nil || d.shows(t, "beta") != "1.1.0" {
		t.Errorf("beta shows %s: %v", d.shows(t, "beta"), err)
	}
	d.publish(t, d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage", "App_1.2.0_amd64.deb"))
	if beta := d.shows(t, "beta"); beta != "1.2.0" {
		t.Errorf("beta shows %s", beta)
	}
}

// TestKnownMisfitsOfRollout: if new clients appear during a rollout that can't install the
// release, no further step is taken, neither by hand nor by time, until somebody allows it.
// Later steps remember that.
func TestKnownMisfitsOfRollout(t *testing.T) {
	debs := func(context.Context, string) (map[string]int, error) {
		return map[string]int{"linux-x86_64-deb": 4}, nil
	}
	hourly := func(steps ...int) *channels.Rollout {
		return &channels.Rollout{Steps: steps, Every: channels.Duration(time.Hour)}
	}
	begin := func(t *testing.T, allow ...string) *desk {
		d := newDesk(t)
		d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage"))
		o := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage")
		o.Rollout, o.AllowMissing = hourly(10, 50, 100), allow
		d.publish(t, o)
		d.Types = debs
		return d
	}
	steps := func(t *testing.T, d *desk, until int) {
		t.Helper()
		for {
			d.later(2 * time.Hour)
			plan, err := d.Advance(t.Context(), Options{Channel: "stable"})
			if err != nil || !plan.Changed || !slices.ContainsFunc(plan.Warnings, func(w string) bool { return strings.Contains(w, "installed from deb") }) {
				t.Fatalf("%+v, %v", plan, err)
			}
			if plan.Rollout == nil {
				break
			}
		}
		if n := len(d.log(t, "stable").Entries); n != until {
			t.Errorf("%d entries, want %d", n, until)
		}
	}
	refused := func(t *testing.T, d *desk, mend string, move func() (*Plan, error)) {
		t.Helper()
		before := objecttest.Tree(t, d.Store)
		var refusal *Refusal
		if _, err := move(); !errors.As(err, &refusal) || !errors.Is(err, gate.ErrGate) || !maps.Equal(before, objecttest.Tree(t, d.Store)) || refusal.Mend != mend {
			t.Fatalf("error %v, want a refusal that changes nothing", err)
		}
	}
	t.Run("by hand", func(t *testing.T) {
		d := begin(t)
		wider := Options{Channel: "stable", Rollout: hourly(30, 60, 100)}
		refused(t, d, "say --allow-missing linux-x86_64-deb to leave those clients as they are, or publish a higher version that has linux-x86_64-deb too",
			func() (*Plan, error) { return d.Rollout(t.Context(), wider) })
		// follows: say --allow-missing … to leave those clients as they are, or publish a higher version that has
		wider.AllowMissing = []string{"linux-x86_64-deb"}
		if plan, err := d.Rollout(t.Context(), wider); err != nil || !plan.Changed || !slices.Equal(plan.Rollout.AllowMissing, wider.AllowMissing) {
			t.Fatalf("%+v, %v", plan, err)
		}
		steps(t, d, 5)
	})
	t.Run("by time", func(t *testing.T) {
		d := begin(t)
		if plan, err := d.Advance(t.Context(), Options{Channel: "stable"}); err != nil || plan.Changed {
			t.Errorf("%+v, %v: no step is due", plan, err)
		}
		d.later(2 * time.Hour)
		refused(t, d, "`tsmon channel advance stable --allow-missing linux-x86_64-deb` takes this step and those after it and leaves those clients as they are; else publish a higher version that has linux-x86_64-deb too",
			func() (*Plan, error) { return d.Advance(t.Context(), Options{Channel: "stable"}) })
		// follows: `tsmon channel advance … --allow-missing …` takes this step and those after it and leaves those clients as they are; else publish a higher version that has
		if plan, err := d.Advance(t.Context(), Options{Channel: "stable", AllowMissing: []string{"linux-x86_64-deb"}}); err != nil || plan.Rollout == nil || plan.Rollout.Percent != 50 {
			t.Fatalf("%+v, %v", plan, err)
		}
		steps(t, d, 4)
	})
	t.Run("a higher version", func(t *testing.T) {
		d := begin(t)
		o := d.options(t, "1.2.0", "App_1.2.0_amd64.AppImage", "App_1.2.0_amd64.deb")
		o.Rollout = hourly(10, 100)
		d.publish(t, o)
		d.later(2 * time.Hour)
		if plan, err := d.Advance(t.Context(), Options{Channel: "stable"}); err != nil || plan.Rollout != nil || len(plan.Warnings) > 0 {
			t.Errorf("%+v, %v", plan, err)
		}
	})
	t.Run("said when it was published", func(t *testing.T) {
		d := begin(t, "linux-x86_64-rpm", "linux-x86_64-deb")
		if kept := d.log(t, "stable").Head().Rollout.AllowMissing; !slices.Equal(kept, []string{"linux-x86_64-deb", "linux-x86_64-rpm"}) {
			t.Errorf("the entry keeps %q", kept)
		}
		steps(t, d, 4)
	})
	t.Run("a pause between", func(t *testing.T) {
		d := begin(t, "linux-x86_64-deb")
		for _, move := range []func(context.Context, Options) (*Plan, error){d.Pause, d.Resume} {
			if _, err := move(t.Context(), Options{Channel: "stable", Why: "support is flooded"}); err != nil {
				t.Fatal(err)
			}
		}
		steps(t, d, 6)
	})
}

// TestKnownMisfitsOfStanding: publishing the present release again is never refused, whatever
// clients have appeared since, because a job may run twice.
func TestKnownMisfitsOfStanding(t *testing.T) {
	for name, rollout := range map[string]*channels.Rollout{"to everybody": nil, "a rollout": {Steps: []int{10}}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage"))
			o := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage")
			o.Rollout = rollout
			d.publish(t, o)
			d.Types = func(context.Context, string) (map[string]int, error) {
				return map[string]int{"linux-x86_64-deb": 4}, nil
			}
			if plan := d.publish(t, o); plan.Changed {
				t.Errorf("%+v", plan)
			}
		})
	}
}

// TestReachOfRollout: clients in the rollout get the release, all others the previous one.
func TestReachOfRollout(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	o := d.options(t, "1.1.0")
	o.Rollout = &channels.Rollout{Steps: []int{10}}
	report := d.publish(t, o)
	for key, want := range map[string]string{
		"1.0.0 linux-x86_64 appimage dynamic in":  "offered App_1.1.0_amd64.AppImage.tar.gz",
		"1.0.0 linux-x86_64 appimage static in":   "offered App_1.1.0_amd64.AppImage.tar.gz",
		"1.0.0 linux-x86_64 appimage dynamic out": "current",
		"1.0.0 linux-x86_64 appimage static out":  "current",
		"1.1.0 linux-x86_64 appimage dynamic in":  "current",
		"1.1.0 linux-x86_64 appimage dynamic out": "ahead",
	} {
		if got := reachOf(t, report, key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// TestReachThroughWatersheds: clients of a server go through a watershed, those of latest.json
// don't. Clients on a platform that the watershed lacks skip it.
func TestReachThroughWatersheds(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	o := d.options(t, "1.1.0", "App_1.1.0_amd64.AppImage.tar.gz")
	o.Extra.Watershed, o.AllowMissing = true, []string{"windows-x86_64"}
	d.publish(t, o)
	report := d.publish(t, d.options(t, "1.2.0"))
	for key, want := range map[string]string{
		"1.0.0 linux-x86_64 appimage dynamic -": "offered App_1.1.0_amd64.AppImage.tar.gz",
		"1.0.0 linux-x86_64 appimage static -":  "offered App_1.2.0_amd64.AppImage.tar.gz",
		"1.1.0 linux-x86_64 appimage dynamic -": "offered App_1.2.0_amd64.AppImage.tar.gz",
		"1.0.0 windows-x86_64 - dynamic -":      "offered App_1.2.0_x64_en-US.msi.zip",
	} {
		if got := reachOf(t, report, key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// TestReachOfDowngrades: clients with allowDowngrades go back with the channel.
func TestReachOfDowngrades(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{AllowDowngrades: true}
	d.publish(t, d.options(t, "1.0.0"))
	d.publish(t, d.options(t, "1.1.0"))
	report, err := d.rollback(t, "stable", "", "crashes")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range report.Reach {
		if r.Version == "1.1.0" && r.Target == "linux-x86_64" && r.BundleType == "appimage" {
			count[fmt.Sprint(r.Address, r.Downgrades, " ", r.Outcome, r.Offered)]++
		}
	}
	if want := map[string]int{"dynamicfalse ahead": 1, "dynamictrue offered1.0.0": 1, "staticfalse ahead": 1, "statictrue offered1.0.0": 1}; !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
}

// TestReachOfStrangers: clients with versions that the channel never showed, with build
// metadata or a leading v, some of them without a bundle of their type to go back to.
func TestReachOfStrangers(t *testing.T) {
	d := newDesk(t)
	d.Policies["stable"] = Policy{AllowDowngrades: true}
	d.Keys[0].Until = "9.0.0" // clients are counted only where keys differ
	d.Clients = func(context.Context, string) (map[string]int, error) {
		return map[string]int{"2.0.0+build.7": 1, "v0.9.0": 1}, nil
	}
	report := d.publish(t, d.options(t, "1.0.0", "App_1.0.0_amd64.AppImage"))
	outcomes := map[string]string{}
	for _, r := range report.Reach {
		outcomes[fmt.Sprint(r.Version, " ", r.BundleType, " ", r.Address, " ", r.Downgrades)] = r.Outcome
	}
	for cell, want := range map[string]string{
		"2.0.0+build.7 appimage dynamic false": "ahead",
		"2.0.0+build.7 appimage static false":  "ahead",
		"2.0.0+build.7 appimage dynamic true":  "offered",
		"2.0.0+build.7 deb dynamic false":      "ahead",
		"2.0.0+build.7 deb dynamic true":       "unfit",
		"v0.9.0 appimage dynamic false":        "offered",
	} {
		if outcomes[cell] != want {
			t.Errorf("%s: %s, want %s", cell, outcomes[cell], want)
		}
	}
}

// TestReachOfUnboundWatershed: a fault of an existing watershed is shown, but no move is refused
// for it.
func TestReachOfUnboundWatershed(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	unbound := d.signUnbound(t, d.options(t, "1.1.0"), d.key)
	unbound.AllowUnbound, unbound.Extra.Watershed = true, true
	d.publish(t, unbound)
	report := d.publish(t, d.options(t, "1.2.0"))
	if got := reachOf(t, report, "1.0.0 linux-x86_64 appimage dynamic -"); !strings.HasPrefix(got, "broken") {
		t.Errorf("an unbound watershed: %s", got)
	}
}

func (d *desk) log(t testing.TB, channel string) *channels.Log {
	t.Helper()
	log, err := d.Repository().Load(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
