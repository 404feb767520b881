package fleet

import (
	"testing"
	"time"

	"tsmon/channels"
)

// TestNames: a version that a client sends is recorded under its name only if the log contains it.
func TestNames(t *testing.T) {
	platform := func(file string) channels.Bundle {
		return channels.Bundle{Path: "releases/1.0.0/" + file, Signature: "c2ln"}
	}
	all := channels.Release{Version: "1.0.0", PubDate: time.Unix(0, 0).UTC(), Platforms: map[string]channels.Bundle{
		"linux-x86_64": platform("app .AppImage.tar.gz"), "linux-x86_64-appimage": platform("app .AppImage.tar.gz"),
		"darwin-x86_64": platform("app.app.tar.gz"), "darwin-aarch64": platform("app.app.tar.gz"),
	}}
	next := all
	next.Version = "1.1.0"
	log := &channels.Log{Entries: []channels.Entry{{Version: "1.0.0", Release: all, Rollout: &channels.Rollout{Version: "1.1.0", Steps: []int{5}, Cohorts: []string{"internal"}, Release: next}}}}
	offers, err := channels.Compile(log, "https://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := Channel{Offers: offers, Names: NamesOf(log)}
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
