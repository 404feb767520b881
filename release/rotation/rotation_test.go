package rotation

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/gate"
	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func TestRotation(t *testing.T) {
	h := newHouse(t, map[string]release.Policy{"stable": {}, "beta": {Follows: "stable", Prerelease: true}})
	known := map[string]int{"1.0.0": 4, "1.5.0": 3, "(other)": 2}
	h.Clients = func(_ context.Context, channel string) (map[string]int, error) {
		if channel != "stable" {
			return nil, nil
		}
		return known, nil
	}
	h.publish("1.0.0", h.old)
	h.publish("1.5.0", h.old)
	h.publish("1.6.0-beta.2", h.old, on("beta"))

	p := h.plan("")
	c := h.want(p, Bridge, "tsmon release publish --channel stable --version 1.6.0 --watershed DIR", "tsmon release publish --channel stable --version 1.6.1 DIR")
	if p.Configured || !slices.Equal(p.From, []string{h.old.Public().ID()}) || p.To != h.fresh.Public().ID() || p.Pubkey != h.fresh.Public().Tauri() {
		t.Errorf("%+v", p)
	}
	if *c.Clients != 9 || fmt.Sprint(c.Stranded.Server) != "[1.0.0 1.5.0]" || *c.Stranded.Clients != 7 || len(c.AfterBridge.Server) != 0 || *c.AfterBridge.Clients != 0 || len(c.AfterBridge.Manifest) != 2 {
		t.Errorf("%+v, %+v, after it %+v", c, c.Stranded, c.AfterBridge)
	}
	if beta := h.of(p, "beta"); beta.State != Bridge || beta.Clients != nil || beta.Stranded.Clients != nil || fmt.Sprint(beta.Stranded.Server) != "[1.0.0 1.5.0 1.6.0-beta.2]" {
		t.Errorf("%+v", beta)
	}
	if !strings.Contains(p.Next[2].Text, "beta moves along") {
		t.Errorf("%+v", p.Next)
	}
	if p = h.plan(""); !p.Configured || p.Next[0].Write != `"pubkey": "`+h.fresh.Public().Tauri()+`"` {
		t.Errorf("%+v", p.Next)
	}

	h.publish("1.6.0", h.old, watershed, toSome)
	h.want(h.plan(""), Rolling, "tsmon channel rollout stable --percent 100", "tsmon release publish --channel stable --version 1.6.1 DIR")
	if _, err := h.Pause(t.Context(), release.Options{Channel: "stable", Why: "a test"}); err != nil {
		t.Fatal(err)
	}
	h.want(h.plan(""), Rolling, "tsmon channel resume stable", "tsmon release publish --channel stable --version 1.6.1 DIR")
	if _, err := h.Resume(t.Context(), release.Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Rollout(t.Context(), release.Options{Channel: "stable", Rollout: &channels.Rollout{Steps: []int{100}}}); err != nil {
		t.Fatal(err)
	}
	p = h.plan("")
	h.want(p, Ready, "tsmon release publish --channel stable --version 1.6.1 DIR")
	if beta := h.of(p, "beta"); beta.State != Ready || beta.Version != "1.6.0" {
		t.Errorf("%+v", beta)
	}
	h.publish("1.6.1", h.fresh)
	p = h.plan("")
	h.want(p, Done)
	if !p.Configured || !strings.HasSuffix(p.Next[0].Text, "(known clients: 7)") || !slices.Equal(p.From, []string{h.old.Public().ID()}) {
		t.Errorf("%+v", p)
	}
}

// TestWithoutWatershed: a bridge that leads nobody over has to stay until nobody is
// left below it.
func TestWithoutWatershed(t *testing.T) {
	h := newHouse(t, stable())
	var known map[string]int
	h.Clients = func(context.Context, string) (map[string]int, error) { return known, nil }
	h.publish("1.0.0", h.old)
	h.plan("2.0.0")
	h.publish("2.0.0", h.old)
	p := h.plan("")
	h.want(p, Waiting, "tsmon release publish --channel stable --version 2.0.1 --strand 1.0.0 DIR")
	if text := p.Next[0].Text; !strings.Contains(text, "no watershed") || !strings.Contains(text, "would strand 1.0.0 (their number is not known here)") {
		t.Error(text)
	}
	known = map[string]int{"1.0.0": 2, "2.0.0": 5}
	if p = h.plan(""); !strings.Contains(p.Next[0].Text, "(known clients: 2)") {
		t.Errorf("%+v", p.Next)
	}
	known = map[string]int{"2.0.0": 7}
	h.want(h.plan(""), Ready, "tsmon release publish --channel stable --version 2.0.1 DIR")
	h.publish("2.0.1", h.fresh)
}

// TestOtherChannels: a channel that is fed from another gets the bridge from there.
func TestOtherChannels(t *testing.T) {
	h := newHouse(t, map[string]release.Policy{"stable": {}, "late": {}, "unused": {}, "beta": {Follows: "stable", Prerelease: true}})
	h.publish("1.0.0", h.old)
	promote := release.PromoteOptions{Options: release.Options{Channel: "late"}, From: "stable"}
	if _, err := h.Promote(t.Context(), promote); err != nil {
		t.Fatal(err)
	}
	p := h.plan("")
	if got := commands(p); got != `tsmon release publish --channel stable --version 1.1.0 --watershed DIR
tsmon release promote --from stable --to late 1.1.0
tsmon release publish --channel stable --version 1.1.1 DIR
tsmon release promote --from stable --to late` {
		t.Error(got)
	}
	h.publish("1.1.0", h.old, watershed)
	p = h.plan("")
	if got := commands(p); got != `tsmon release promote --from stable --to late 1.1.0
tsmon release publish --channel stable --version 1.1.1 DIR
tsmon release promote --from stable --to late` {
		t.Error(got)
	}
	if c := h.of(p, "unused"); c.State != Empty || c.Version != "" || len(c.SignedBy) != 0 {
		t.Errorf("%+v", c)
	}
	h.publish("1.1.1", h.fresh)
	if _, err := h.Promote(t.Context(), promote); !errors.Is(err, gate.ErrStrands) {
		t.Errorf("past the bridge: %v", err)
	}
	bridge := promote
	bridge.Version = "1.1.0"
	for _, o := range []release.PromoteOptions{bridge, promote} {
		if _, err := h.Promote(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"stable", "late", "beta"} {
		if c := h.of(h.plan(""), name); c.State != Done {
			t.Errorf("%+v", c)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := newHouse(t, stable())
	other := signingtest.Key(t)
	both := func(a, b signing.Span) signing.Keyring {
		return signing.Keyring{{PublicKey: h.old.Public(), Span: a}, {PublicKey: h.fresh.Public(), Span: b}}
	}
	refused := func(name string, keys signing.Keyring, bridge string, is error, mend string) {
		t.Helper()
		p := *h.Publisher
		p.Keys = keys
		_, err := Make(t.Context(), &p, h.fresh.Public(), bridge, written)
		var refusal *release.Refusal
		if !errors.Is(err, is) || !errors.As(err, &refusal) || !strings.Contains(refusal.Mend, mend) {
			t.Errorf("%s: %v (%+v), want %v: %s", name, err, refusal, is, mend)
		}
	}
	none := signing.Span{}
	refused("no keys", nil, "", release.ErrConfig, "set trusted_keys")
	refused("no releases", h.Keys, "", ErrNothing, "set trusted_keys (TSMON_TRUSTED_KEYS) to "+h.fresh.Public().String()+" alone")
	h.publish("1.5.0", h.old)
	refused("the only key", both(none, none)[1:], "", ErrNothing, "`tsmon keys generate --output FILE`")
	// follows: generate another with `tsmon keys generate --output FILE`
	line, err := base64.StdEncoding.DecodeString(h.old.Public().String())
	if err != nil {
		t.Fatal(err)
	}
	line[len(line)-1] ^= 1
	forged, err := signing.ParsePublicKey(base64.StdEncoding.EncodeToString(line))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.with(h.Keys, forged, ""); !errors.Is(err, ErrKey) {
		t.Errorf("another key of the same id: %v", err)
	}
	if p, err := h.with(h.Keys, h.fresh.Public(), ""); err != nil || p.To != h.fresh.Public().ID() {
		t.Errorf("%+v, %v", p, err)
	}
	// follows: generate a new one with `tsmon keys generate --output FILE`
	if p, err := h.with(both(none, signing.Span{Until: "1.0.0"}), other.Public(), ""); err != nil || p.To != other.Public().ID() {
		t.Errorf("%+v, %v", p, err)
	}
	refused("left before", both(none, signing.Span{Until: "1.0.0"}), "", ErrKey, "`tsmon keys generate --output FILE`")
	refused("no version", h.Keys, "2.0", manifest.ErrVersion, "such as 1.6.0")
	// follows: write MAJOR.MINOR.PATCH, such as
	if p, err := h.with(h.Keys, h.fresh.Public(), "2.0.0"); err != nil || p.Bridge != "2.0.0" {
		t.Errorf("%+v, %v", p, err)
	}
	refused("below", h.Keys, "1.4.0", ErrBridge, "leave out --bridge, or name a version above 1.5.0")
	refused("another than configured", both(none, signing.Span{From: "1.6.0"}), "1.7.0", ErrBridge, "write from: 1.7.0")
	// follows: leave out --bridge, or write from: … there
	for keys, bridge := range map[string]string{"1.6.0": "", "1.7.0": "1.7.0"} {
		if p, err := h.with(both(none, signing.Span{From: keys}), h.fresh.Public(), bridge); err != nil || p.Bridge != keys {
			t.Errorf("%+v, %v", p, err)
		}
	}
	// follows: give --bridge with a version above
	if p, err := h.with(both(signing.Span{From: "1.7.0"}, none), h.fresh.Public(), "1.8.0"); err != nil || p.TrustedKeys[0].Until != "1.8.0" {
		t.Errorf("%+v, %v", p, err)
	}
	refused("upside down", both(signing.Span{From: "1.7.0"}, none), "1.6.0", ErrBridge, "give --bridge with a version above 1.7.0")
	h.Keys = both(none, none)
	h.publish("1.6.0", h.fresh)
	refused("signs already", h.Keys, "", ErrBridge, "--bridge VERSION")
	// Each way out leads out.
	// follows: give --bridge VERSION with the first version that was built with it
	// follows: leave out --bridge, or name a version above …, or one that was published as the bridge
	for _, bridge := range []string{"1.6.0", "1.5.0", "2.0.0"} {
		p := *h.Publisher
		if plan, err := Make(t.Context(), &p, h.fresh.Public(), bridge, written); err != nil || plan.Bridge != bridge || plan.Channels[0].State != Done {
			t.Errorf("%+v, %v", plan, err)
		}
	}
	down := errors.New("the records are down")
	h.Clients = func(context.Context, string) (map[string]int, error) { return nil, down }
	if _, err := Make(t.Context(), h.Publisher, other.Public(), "", written); !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}

// TestAgreesWithThePublisher: in generated histories, a publish by the new key is
// accepted where the plan says that it may sign, and refused where it says not yet;
// and a bridge that it asks for is accepted.
func TestAgreesWithThePublisher(t *testing.T) {
	seen := map[State]int{}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHouse(t, map[string]release.Policy{"stable": {ReadsManifest: random.IntN(3) == 0}})
		known := map[string]int{}
		h.Clients = func(context.Context, string) (map[string]int, error) {
			if seed%2 == 0 {
				return nil, nil
			}
			return known, nil
		}
		for minor := range 1 + random.IntN(3) {
			version := fmt.Sprintf("1.%d.0", minor)
			known[version] = random.IntN(3)
			h.publish(version, h.old)
		}
		for range 4 {
			p := h.plan("")
			c := h.of(p, "stable")
			seen[c.State]++
			next := fmt.Sprintf("1.%d.%d", 50+len(c.log.Entries), seed)
			err := h.try(next, h.fresh, func(o *release.PublishOptions) { o.DryRun = true })
			switch c.State {
			case Bridge, Waiting:
				if c.refuses(c.Stranded) != errors.Is(err, gate.ErrStrands) {
					t.Fatalf("seed %d: %s, would strand %+v, and %s is answered %v", seed, c.State, c.Stranded, next, err)
				}
			case Ready, Done:
				if err != nil {
					t.Fatalf("seed %d: %s, and %s is answered %v", seed, c.State, next, err)
				}
			}
			switch {
			case c.State == Bridge:
				with := []func(*release.PublishOptions){watershed}
				if random.IntN(4) == 0 {
					with = nil
				}
				h.publish(p.Bridge, h.old, with...)
			case c.State == Waiting && random.IntN(2) == 0:
				all := gate.VersionRange{First: c.Stranded.Manifest[0], Last: c.Stranded.Manifest[len(c.Stranded.Manifest)-1]}
				h.publish(next, h.fresh, func(o *release.PublishOptions) { o.Strand = all })
			case c.State != Waiting:
				h.publish(next, h.fresh)
			}
		}
	}
	for _, state := range []State{Bridge, Waiting, Ready, Done} {
		if seen[state] < 4 {
			t.Errorf("%s was seen %d times", state, seen[state])
		}
	}
}

// TestRolledBackIsNotProposed: no step publishes a version that was rolled back, be it the
// bridge or what comes next, and what the steps say instead leads over.
func TestRolledBackIsNotProposed(t *testing.T) {
	h := newHouse(t, stable())
	back := func(to string) {
		t.Helper()
		if _, err := h.Rollback(t.Context(), release.RollbackOptions{Options: release.Options{Channel: "stable", Why: "crashes"}, To: to}); err != nil {
			t.Fatal(err)
		}
	}
	h.publish("1.0.0", h.old)
	h.plan("")
	h.publish("1.1.0", h.old, watershed)
	back("1.0.0")
	p := h.plan("")
	if got := commands(p); !p.Configured || p.Bridge != "1.1.0" || !strings.Contains(got, "--version 1.1.1 --watershed --strand 1.1.0 DIR") || strings.Contains(got, "--version 1.1.0 ") {
		t.Errorf("bridge %s, configured %t:\n%s", p.Bridge, p.Configured, got)
	}
	h.publish("1.1.1", h.old, watershed, func(o *release.PublishOptions) {
		o.Strand = gate.VersionRange{First: "1.1.0", Last: "1.1.0"}
	})
	h.publish("1.1.2", h.fresh)
	back("1.1.1")
	p = h.plan("")
	if got := commands(p); !strings.Contains(got, "--version 1.1.3 DIR") {
		t.Errorf("after a second rollback:\n%s", got)
	}
	h.publish("1.1.3", h.fresh)
}
