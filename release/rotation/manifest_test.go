package rotation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tsmon/release"
)

// TestManifest: where applications read latest.json, another channel takes what the
// new key signs.
func TestManifest(t *testing.T) {
	for channel, successor := range map[string]string{"stable": "stable-2", "stable-9": "stable-10", "v3": "v4", "abcdefghijklmnopqrstuvwxyz123456": "abcdefghijklmnopqrstuvwxyz123457", "abcdefghijklmnopqrstuvwxyz-abcde": "next"} {
		h := newHouse(t, map[string]release.Policy{channel: {ReadsManifest: true}})
		h.publish("1.0.0", h.old, on(channel))
		p := h.plan("")
		if got := p.Channels[0].successor; got != successor {
			t.Errorf("%s is followed by %s, want %s", channel, got, successor)
		}
		if c := p.Channels[0]; c.State != Bridge || !c.ReadsManifest || fmt.Sprint(c.AfterBridge.Manifest) != "[1.0.0]" {
			t.Errorf("%+v", c)
		}
		h.publish("1.1.0", h.old, on(channel), watershed)
		h.Policies[successor] = release.Policy{ReadsManifest: true}
		p = h.plan("")
		want := "tsmon release promote --from " + channel + " --to " + successor + " 1.1.0\n" +
			"tsmon release publish --channel " + successor + " --version 1.1.1 DIR\n" +
			"tsmon release publish --channel " + channel + " --version 1.1.1 --strand 1.0.0 DIR"
		if commands(p) != want {
			t.Errorf("%s\nwant\n%s", commands(p), want)
		}
	}
}

// TestManifestFollowers: a channel that follows one that stays at the bridge stays there,
// too. The plan says so until another channel follows the successor.
func TestManifestFollowers(t *testing.T) {
	follows := func(leader string) release.Policy {
		return release.Policy{ReadsManifest: true, Prerelease: true, Follows: leader}
	}
	h := newHouse(t, map[string]release.Policy{"stable": {ReadsManifest: true}, "beta": follows("stable")})
	h.publish("1.0.0", h.old)
	told := func() (texts []string) {
		t.Helper()
		for _, s := range h.plan("").Next {
			if s.Channel == "beta" {
				texts = append(texts, s.Text, s.Write)
			}
		}
		return texts
	}
	want := []string{"add a channel that follows stable-2 to tsmon.yaml, such as beta-2, with the other settings of beta, which stays at the bridge because it follows stable; have the bridge read beta-2/latest.json where it read beta/latest.json; if clients read the bucket itself, let everybody read beta-2/ there", "beta-2 like beta after stable-2"}
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	h.Policies["stable-2"] = release.Policy{ReadsManifest: true}
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("with stable-2 alone: %q, want %q", got, want)
	}
	h.Policies["beta-2"] = follows("stable-2")
	if got := told(); got != nil {
		t.Errorf("%q, want nothing more for beta", got)
	}
	h.publish("1.1.0", h.old, watershed)
	if _, err := h.Promote(t.Context(), release.PromoteOptions{Options: release.Options{Channel: "stable-2"}, From: "stable"}); err != nil {
		t.Fatal(err)
	}
	late := h.Policies["beta-2"] // which is added last, when stable-2 shows something already
	delete(h.Policies, "beta-2")
	h.publish("1.1.1", h.fresh, on("stable-2"))
	h.Policies["beta-3"] = late
	if got := commands(h.plan("")); !strings.Contains(got, "tsmon release promote --from stable-2 --to beta-3") {
		t.Errorf("a follower that shows nothing: %s", got)
	}
	if _, err := h.Promote(t.Context(), release.PromoteOptions{Options: release.Options{Channel: "beta-3"}, From: "stable-2"}); err != nil {
		t.Fatal(err)
	}
	h.Policies["beta-2"] = late
	h.publish("1.1.2", h.fresh, on("stable-2"))
	p := h.plan("")
	for channel, version := range map[string]string{"stable": "1.1.0", "beta": "1.1.0", "stable-2": "1.1.2", "beta-2": "1.1.2", "beta-3": "1.1.2"} {
		if got := h.of(p, channel).Version; got != version {
			t.Errorf("%s shows %s, want %s", channel, got, version)
		}
	}
}

// TestRotationOfRings: the bridge asks for its ring of the next channel.
func TestRotationOfRings(t *testing.T) {
	h := newHouse(t, map[string]release.Policy{"stable": {ReadsManifest: true, Rings: true}, "beta": {ReadsManifest: true, Rings: true, Follows: "stable"}})
	h.publish("1.0.0", h.old)
	var texts []string
	for _, s := range h.plan("").Next {
		texts = append(texts, s.Text)
	}
	for _, want := range []string{
		"and reading stable-2/rings/NN/latest.json instead of stable/rings/NN/latest.json, and stable-2/latest.json where it read stable/latest.json",
		"have the bridge read beta-2/rings/NN/latest.json where it read beta/rings/NN/latest.json, and beta-2/latest.json where it read beta/latest.json",
	} {
		if !strings.Contains(strings.Join(texts, "\n"), want) {
			t.Errorf("no step says %q: %q", want, texts)
		}
	}
}
