package rotation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/signing/signingtest"
	"tsmon/store/object/dir"
)

// house is a publisher on a directory, with an old and a new key.
type house struct {
	*release.Publisher
	t          *testing.T
	old, fresh signing.PrivateKey
}

func newHouse(t *testing.T, policies map[string]release.Policy) *house {
	t.Helper()
	store, err := dir.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, old: signingtest.Key(t), fresh: signingtest.Key(t)}
	h.Publisher = &release.Publisher{Store: store, PublicURL: "https://releases.example.com/app", Keys: signing.Keyring{{PublicKey: h.old.Public()}},
		Who: "test", Now: time.Now, Policies: policies}
	return h
}

func stable() map[string]release.Policy { return map[string]release.Policy{"stable": {}} }

// try publishes a version that key signs. with changes the options.
func (h *house) try(version string, key signing.PrivateKey, with ...func(*release.PublishOptions)) error {
	h.t.Helper()
	folder := h.t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "App_"+version+"_amd64.AppImage"), []byte(strings.Repeat(version, 500)), 0o600); err != nil {
		h.t.Fatal(err)
	}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	o := release.PublishOptions{Options: release.Options{Channel: "stable"}, Version: version, Bundles: bundles,
		Unlock: func() (signing.PrivateKey, error) { return key, nil }}
	for _, change := range with {
		change(&o)
	}
	_, err = h.Publish(h.t.Context(), o)
	return err
}

func (h *house) publish(version string, key signing.PrivateKey, with ...func(*release.PublishOptions)) {
	h.t.Helper()
	if err := h.try(version, key, with...); err != nil {
		h.t.Fatalf("%s: %v", version, err)
	}
}

func watershed(o *release.PublishOptions) { o.Extra.Watershed = true }

func on(channel string) func(*release.PublishOptions) {
	return func(o *release.PublishOptions) { o.Channel = channel }
}

func toSome(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{10}} }

// written stands for the lines of a channel in tsmon.yaml.
func written(channel, like, follows string) string {
	return strings.TrimSuffix(channel+" like "+like+" after "+follows, " after ")
}

// plan plans the rotation, and does what it says about trusted_keys.
func (h *house) plan(bridge string) *Plan {
	h.t.Helper()
	p, err := Make(h.t.Context(), h.Publisher, h.fresh.Public(), bridge, written)
	if err != nil {
		h.t.Fatal(err)
	}
	var texts []signing.KeyText
	for _, k := range p.TrustedKeys {
		texts = append(texts, signing.KeyText{Key: k.PublicKey, From: k.From, Until: k.Until})
	}
	if h.Keys, err = signing.ParseKeyring(texts); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// log reads the log of stable.
func (h *house) log() *channels.Log {
	h.t.Helper()
	log, err := channels.Repository{Store: h.Store}.Load(h.t.Context(), "stable")
	if err != nil {
		h.t.Fatal(err)
	}
	return log
}

// with plans with other trusted keys.
func (h *house) with(keys signing.Keyring, to signing.PublicKey, bridge string) (*Plan, error) {
	return plan([]Channel{{Channel: "stable", log: h.log()}}, keys, to, bridge, written)
}

// of returns a channel of a plan.
func (h *house) of(p *Plan, name string) Channel {
	h.t.Helper()
	i := slices.IndexFunc(p.Channels, func(c Channel) bool { return c.Channel == name })
	if i < 0 {
		h.t.Fatalf("the plan lacks %s", name)
	}
	return p.Channels[i]
}

// commands lists the command lines of a plan.
func commands(p *Plan) string {
	var lines []string
	for _, s := range p.Next {
		if s.Command != "" {
			lines = append(lines, s.Command)
		}
	}
	return strings.Join(lines, "\n")
}

func (h *house) want(p *Plan, state State, lines ...string) Channel {
	h.t.Helper()
	c := h.of(p, "stable")
	if c.State != state || commands(p) != strings.Join(lines, "\n") {
		h.t.Errorf("%s: %s, to do:\n%s\nwant %s:\n%s", c.Version, c.State, commands(p), state, strings.Join(lines, "\n"))
	}
	return c
}
