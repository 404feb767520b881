package gate

import (
	"errors"
	"testing"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// TestReachRefuses: what breaks clients that get the release is refused.
func TestReachRefuses(t *testing.T) {
	theirs, other := signingtest.Key(t), signingtest.Key(t)
	entry := func(sequence uint64, version string) channels.Entry {
		sig, err := theirs.Sign(signing.Digest{}, signing.Comment{Version: version, File: "App.AppImage"})
		if err != nil {
			t.Fatal(err)
		}
		r := channels.Release{Version: version, Platforms: map[string]channels.Bundle{"linux-x86_64": {Signature: sig.String(), Path: "releases/" + version + "/App.AppImage"}}}
		return channels.Entry{Channel: "stable", Sequence: sequence, Action: channels.Publish, Version: version, Targets: []string{"linux-x86_64"}, Release: r}
	}
	next := entry(2, "1.1.0")
	m := Move{Action: channels.Publish, Release: next.Release, Manifest: next.Render("https://example.com"), PublicURL: "https://example.com",
		Log: &channels.Log{Channel: "stable", Entries: []channels.Entry{entry(1, "1.0.0")}}}
	for i, key := range []signing.PrivateKey{theirs, other} {
		trusted := i == 0
		m.Keys = signing.Keyring{{PublicKey: key.Public()}}
		reach, err := m.replay(&next)
		switch {
		case trusted:
			if err != nil || len(reach) == 0 || reach[0].Outcome != "offered" || reach[0].Offered != "1.1.0" {
				t.Errorf("%+v, %v", reach, err)
			}
		case !errors.As(err, new(*bundle.Refusal)) || !errors.Is(err, ErrGate) || !errors.Is(err, signing.ErrUntrustedKey):
			t.Errorf("a key that clients don't have: %v", err)
		}
		past, err := m.Past(&next)
		if want := map[bool]string{true: "offered", false: "broken"}[trusted]; err != nil || len(past) == 0 || past[0].Outcome != want {
			t.Errorf("told of the past: %+v, %v", past, err)
		}
	}
}
