package channels

import (
	"errors"
	"math"
	"testing"
	"time"

	"tsmon/manifest"
)

func TestGuardHalts(t *testing.T) {
	for _, c := range []struct {
		guard         Guard
		failed, tried int
		want          bool
	}{
		{DefaultGuard, 0, 0, false}, {DefaultGuard, 49, 49, false}, {DefaultGuard, 1, 50, false}, // 2 % is not more than 2 %
		{DefaultGuard, 2, 50, true}, {DefaultGuard, 2, 100, false}, {DefaultGuard, 3, 100, true}, {DefaultGuard, 50, 50, true},
		{Guard{Failures: 0, Clients: 1}, 0, 1, false}, {Guard{Failures: 0, Clients: 1}, 1, 1000, true},
		{Guard{Failures: 100, Clients: 1}, 10, 10, false}, {Guard{Failures: 0.5, Clients: 1}, 1, 199, true}, {Guard{Failures: 0.5, Clients: 1}, 1, 200, false},
	} {
		if got := c.guard.Halts(c.failed, c.tried); got != c.want {
			t.Errorf("%+v with %d of %d failed: %v", c.guard, c.failed, c.tried, got)
		}
	}
}

func TestGuardCheck(t *testing.T) {
	if err := DefaultGuard.Check(); err != nil {
		t.Error(err)
	}
	for name, g := range map[string]Guard{
		"below zero": {-1, 50, time.Hour}, "above all": {100.1, 50, time.Hour}, "no number": {math.NaN(), 50, time.Hour},
		"no clients": {2, 0, time.Hour}, "no time": {2, 50, 0}, "too long": {2, 50, 169 * time.Hour},
	} {
		if err := g.Check(); !errors.Is(err, ErrGuard) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNames: what a client says of itself has a name only if the log has it.
func TestNames(t *testing.T) {
	platform := func(file string) manifest.Platform {
		return manifest.Platform{URL: "https://example.com/releases/1.0.0/" + file, Signature: "c2ln"}
	}
	all := manifest.Manifest{Version: "1.0.0", PubDate: time.Unix(0, 0).UTC(), Sequence: 1, Platforms: map[string]manifest.Platform{
		"linux-x86_64": platform("app%20.AppImage.tar.gz"), "linux-x86_64-appimage": platform("app%20.AppImage.tar.gz"),
		"darwin-x86_64": platform("app.app.tar.gz"), "darwin-aarch64": platform("app.app.tar.gz"),
	}}
	next := all
	next.Version = "1.1.0"
	log := &Log{Entries: []Entry{{Version: "1.0.0", Manifest: all, Rollout: &Rollout{Version: "1.1.0", Steps: []int{5}, Cohorts: []string{"internal"}, Manifest: next}}}}
	o, err := Compile(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"1.0.0": "1.0.0", "v1.1.0": "1.1.0", "1.2.0": Other, "1.0.0+build": Other, "": Other, Other: Other} {
		if got := o.Version(text); got != want {
			t.Errorf("version %q is called %q", text, got)
		}
	}
	for text, want := range map[string]string{"": "", "internal": "internal", "vip": Other} {
		if got := o.Cohort(text); got != want {
			t.Errorf("cohort %q is called %q", text, got)
		}
	}
	for text, want := range map[string]string{"linux-x86_64": "linux-x86_64", "darwin-aarch64": "darwin-aarch64", "linux-aarch64": Other, "": Other, "linux-x86_64-appimage": Other} {
		if got := o.Target(text); got != want {
			t.Errorf("platform %q is called %q", text, got)
		}
	}
	for file, want := range map[string]string{"app .AppImage.tar.gz": "linux-x86_64", "app.app.tar.gz": Other, "other.zip": ""} {
		if got, ok := o.TargetOf("1.0.0", file); got != want || ok != (want != "") {
			t.Errorf("%s is for %q, %v", file, got, ok)
		}
	}
	if _, ok := o.TargetOf("9.9.9", "app.app.tar.gz"); ok {
		t.Error("a version that nobody published has bundles")
	}
	if o.Newest() != "1.1.0" || o.Rolling() != "1.1.0" {
		t.Errorf("newest %s, rolling %s", o.Newest(), o.Rolling())
	}
}
