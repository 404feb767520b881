package rotation

import (
	"cmp"
	"slices"

	"github.com/Masterminds/semver/v3"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/signing"
)

// rotation is a plan in the making.
type rotation struct {
	channels []Channel
	shown    map[string]bool // versions that any channel shows or showed
	to       signing.PublicKey
	bridge   *semver.Version
	from     signing.Keyring // keys that have signed so far
	keys     signing.Keyring // what trusted_keys has to say

	configure Configure // lines of tsmon.yaml
}

// plan works out a rotation. It reads and writes nothing.
func plan(all []Channel, trusted signing.Keyring, to signing.PublicKey, bridge string, configure Configure) (*Plan, error) {
	r := &rotation{channels: all, shown: map[string]bool{}, to: to, configure: configure}
	for i := range all {
		if head := all[i].log.Head(); head != nil {
			all[i].Version, all[i].SignedBy = head.Version, signers(&head.Release)
		}
	}
	if err := r.findKeys(trusted); err != nil {
		return nil, err
	}
	if err := r.findBridge(trusted, bridge); err != nil {
		return nil, err
	}
	if err := r.span(trusted); err != nil {
		return nil, err
	}
	for i := range all {
		if err := r.judge(&all[i]); err != nil {
			return nil, err
		}
		r.findSuccessor(&all[i])
	}
	p := &Plan{To: to.ID(), Pubkey: to.Tauri(), Bridge: r.bridge.String(), Configured: slices.Equal(r.keys, trusted), Channels: all}
	for _, k := range r.from {
		p.From = append(p.From, k.ID())
	}
	for _, k := range r.keys {
		p.TrustedKeys = append(p.TrustedKeys, Key{k.ID(), k.PublicKey.String(), k.From, k.Until})
	}
	p.Next = r.steps(p.Configured)
	return p, nil
}

// signers returns the ids of the keys that signed a release.
func signers(r *channels.Release) []string {
	ids := []string{}
	for _, b := range r.Platforms {
		if s, err := signing.ParseSignature(b.Signature); err == nil {
			ids = append(ids, s.KeyID())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// findKeys finds the keys to rotate from: those of the signatures that channels show,
// or, once the new key has signed all of them, those that end where it begins.
func (r *rotation) findKeys(trusted signing.Keyring) error {
	own, found := trusted.Find(r.to.ID())
	switch {
	case found && own.PublicKey != r.to:
		return bundle.Refuse(ErrKey, "generate another with `tsmon keys generate --output FILE`", "another trusted key has the id %s", r.to.ID())
	case found && own.Until != "":
		return bundle.Refuse(ErrKey, "generate a new one with `tsmon keys generate --output FILE`", "%s is trusted %s, and was replaced before", r.to.ID(), own.Span)
	}
	others := slices.DeleteFunc(slices.Clone(trusted), func(k signing.TrustedKey) bool { return k.PublicKey == r.to })
	if len(others) == 0 {
		return bundle.Refuse(ErrNothing, "generate a new pair with `tsmon keys generate --output FILE`, then run `tsmon keys rotate --to FILE.pub`", "%s is the only trusted key", r.to.ID())
	}
	if !slices.ContainsFunc(r.channels, func(c Channel) bool { return c.Version != "" }) {
		return bundle.Refuse(ErrNothing, "set trusted_keys (TSMON_TRUSTED_KEYS) to "+r.to.String()+" alone, and build the first release with it", "no channel shows a release yet, so that no application has a key")
	}
	for _, k := range others {
		if slices.ContainsFunc(r.channels, func(c Channel) bool { return slices.Contains(c.SignedBy, k.ID()) }) || own.From != "" && k.Until == own.From {
			r.from = append(r.from, k)
		}
	}
	if len(r.from) == 0 {
		r.from = others
	}
	return nil
}

// findBridge decides on the version of the bridge.
func (r *rotation) findBridge(trusted signing.Keyring, wanted string) error {
	newest := semver.New(0, 0, 0, "", "")
	for _, c := range r.channels {
		for _, e := range c.log.Entries {
			r.shown[e.Version], r.shown[e.Newest()] = true, true
			if v, err := semver.StrictNewVersion(e.Newest()); err == nil && v.GreaterThan(newest) {
				newest = v
			}
		}
	}
	own, _ := trusted.Find(r.to.ID())
	signed := slices.ContainsFunc(r.channels, func(c Channel) bool { return slices.Contains(c.SignedBy, r.to.ID()) })
	switch {
	case own.From != "" && wanted != "" && wanted != own.From:
		return bundle.Refuse(ErrBridge, "leave out --bridge, or write from: "+wanted+" there", "trusted_keys says that applications have %s from %s on, not from %s", r.to.ID(), own.From, wanted)
	case own.From == "" && wanted == "" && signed:
		return bundle.Refuse(ErrBridge, "give --bridge VERSION with the first version that was built with it", "%s signs already, and trusted_keys does not say which versions have it", r.to.ID())
	}
	following := newest.IncMinor()
	if newest.Prerelease() != "" {
		following = newest.IncPatch() // which it precedes
	}
	text := cmp.Or(own.From, wanted, following.String())
	if _, err := manifest.ParseVersion(text); err != nil {
		return &release.Refusal{Cause: err, Text: "--bridge", Mend: "write MAJOR.MINOR.PATCH, such as " + following.String()}
	}
	var err error
	if r.bridge, err = semver.StrictNewVersion(text); err == nil && own.From == "" && !r.shown[text] && !r.bridge.GreaterThan(newest) {
		err = bundle.Refuse(ErrBridge, "leave out --bridge, or name a version above "+newest.String()+", or one that was published as the bridge", "%s is not above %s, which is shown already", text, newest)
	}
	return err
}

// span says which versions have which key.
func (r *rotation) span(trusted signing.Keyring) error {
	added := false
	for _, k := range trusted {
		switch {
		case k.PublicKey == r.to:
			k.From, added = r.bridge.String(), true
		case k.Until == "" && slices.Contains(r.from, k):
			k.Until = r.bridge.String()
			if k.Check() != nil {
				return bundle.Refuse(ErrBridge, "give --bridge with a version above "+k.From, "trusted_keys says that applications have %s from %s on, so that the bridge can't be %s", k.ID(), k.From, r.bridge)
			}
		}
		r.keys = append(r.keys, k)
	}
	if !added {
		r.keys = append(r.keys, signing.TrustedKey{PublicKey: r.to, Span: signing.Span{From: r.bridge.String()}})
	}
	return nil
}

// judge finds out how far a channel is, and whom the new key would strand.
func (r *rotation) judge(c *Channel) error {
	head := c.log.Head()
	c.Clients = count(c.known, nil)
	if head == nil {
		c.State = Empty
		return nil
	}
	left, err := r.strands(c, false)
	if err != nil {
		return err
	}
	c.Stranded = left
	crossed := r.reaches(head.Version)
	switch {
	case slices.Contains(c.SignedBy, r.to.ID()):
		c.State = Done
	case !crossed && head.Rollout != nil && r.reaches(head.Rollout.Version):
		c.State = Rolling
	case !crossed:
		c.State = Bridge
		after, err := r.strands(c, true)
		if err != nil {
			return err
		}
		c.AfterBridge = &after
	case c.refuses(left):
		c.State = Waiting
	default:
		c.State = Ready
	}
	return nil
}

// reaches reports whether a version is the bridge or above it.
func (r *rotation) reaches(version string) bool {
	v, err := semver.StrictNewVersion(version)
	return err == nil && !v.LessThan(r.bridge)
}

// refuses reports whether a publish that strands some would be refused.
func (c *Channel) refuses(l Lost) bool {
	return len(l.Server) > 0 && (l.Clients == nil || *l.Clients > 0) || c.ReadsManifest && len(l.Manifest) > 0
}

// strands returns whom the new key would strand, besides those who are lost already,
// if it signed the next release of a channel: as it is, or after the bridge.
func (r *rotation) strands(c *Channel, bridged bool) (Lost, error) {
	log, planned := c.log, c.log.Head().Release
	if bridged {
		planned.Version, planned.Watershed = r.bridge.String(), true
		log = gate.Then(log, planned)
	}
	planned.Version, planned.Watershed = r.after(c), false
	lost, err := gate.Strands(log, planned, gate.Installed(c.log, c.known), r.lacks(planned.Version))
	return Lost{lost, count(c.known, lost.Server)}, err
}

// lacks reports whether the installed version of an offer lacks the key of it. The old
// keys will sign the bridge if nobody has yet; the new key the release next.
func (r *rotation) lacks(next string) func(*manifest.Offer) bool {
	signed := gate.Lacks(r.keys)
	return func(o *manifest.Offer) bool {
		has := r.keys.BuiltInto(o.Current)
		switch {
		case o.Version == next:
			return !has.Trusts(r.to)
		case o.Version == r.bridge.String() && !r.shown[o.Version]:
			return !slices.ContainsFunc(r.from, func(k signing.TrustedKey) bool { return has.Trusts(k.PublicKey) })
		}
		return signed(o)
	}
}

// after returns a version that follows what a channel shows, and the bridge.
func (r *rotation) after(c *Channel) string {
	newest := r.bridge
	if v, err := semver.StrictNewVersion(c.log.Head().Newest()); err == nil && v.GreaterThan(newest) {
		newest = v
	}
	return r.standing(semver.New(newest.Major(), newest.Minor(), newest.Patch()+1, "", ""))
}

// standing returns a version, or the first patch after it, that no channel was rolled back
// from: nobody can publish that again.
func (r *rotation) standing(v *semver.Version) string {
	for slices.ContainsFunc(r.channels, func(c Channel) bool { return c.log.RolledBack(v.String()) != nil }) {
		v = semver.New(v.Major(), v.Minor(), v.Patch()+1, "", "")
	}
	return v.String()
}

// count counts the known clients of some versions, or all if versions is nil. It
// returns nil if nothing is known of them.
func count(known map[string]int, versions []string) *int {
	if known == nil {
		return nil
	}
	n := 0
	for version, clients := range known {
		if versions == nil || slices.Contains(versions, version) {
			n += clients
		}
	}
	return &n
}
