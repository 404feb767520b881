package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/signing"
)

// ErrStrands means that installed applications would be offered what the keys that
// they have can't verify. They would stay on their version for good.
var ErrStrands = errors.New("installed applications could not verify the update")

// VersionRange is the versions from First to Last, both included. The zero range
// has none.
type VersionRange struct{ First, Last string }

// ParseVersionRange parses a version, or two with a hyphen between them. Errors wrap
// manifest.ErrVersion.
func ParseVersionRange(text string) (VersionRange, error) {
	var found []VersionRange
	for i := range text {
		if text[i] == '-' && isVersion(text[:i]) && isVersion(text[i+1:]) {
			found = append(found, VersionRange{text[:i], text[i+1:]})
		}
	}
	switch {
	case len(found) == 0 && isVersion(text):
		return VersionRange{text, text}, nil
	case len(found) != 1:
		return VersionRange{}, fmt.Errorf("%w: %.300q is not like 1.0.0-1.2.0", manifest.ErrVersion, text)
	case library.CompareVersions(found[0].First, found[0].Last) > 0:
		return VersionRange{}, fmt.Errorf("%w: the range %s begins above its end", manifest.ErrVersion, text)
	}
	return found[0], nil
}

func isVersion(text string) bool {
	_, err := manifest.ParseVersion(text)
	return err == nil
}

// String writes the range as ParseVersionRange reads it.
func (r VersionRange) String() string {
	if r.First == r.Last {
		return r.First
	}
	return r.First + "-" + r.Last
}

func (r VersionRange) contains(version string) bool {
	return r != VersionRange{} && library.CompareVersions(r.First, version) <= 0 && library.CompareVersions(version, r.Last) <= 0
}

// Clients counts the clients of a channel by the version that they have. A nil map
// means that nothing is known of them.
type Clients func(ctx context.Context, channel string) (map[string]int, error)

// Stranded are the versions of installed applications that can't verify what they
// are offered, in order.
type Stranded struct {
	Manifest []string `json:"latest_json"` // where they read latest.json
	Server   []string `json:"server"`      // where they ask the server, which sends them through watersheds
}

// anywhere stands for the public URL where it makes no difference.
const anywhere = "https://store.invalid"

// Lacks returns what reports whether the installed version of an offer lacks the key
// that signed it.
func Lacks(keys signing.Keyring) func(*manifest.Offer) bool {
	return func(offer *manifest.Offer) bool {
		_, err := offer.Verifier(keys, false)
		return errors.Is(err, signing.ErrNotBuiltIn)
	}
}

// Strands returns which of the installed versions the head of a log strands, once
// everybody gets it. lacks as Lacks returns it.
func Strands(log *channels.Log, versions []string, lacks func(*manifest.Offer) bool) (s Stranded, err error) {
	head := log.Head()
	if head == nil {
		return s, nil
	}
	everybody := *head
	everybody.Rollout = nil
	offers, err := channels.Compile(&channels.Log{Channel: log.Channel, Entries: append(slices.Clip(log.Entries[:len(log.Entries)-1]), everybody)}, anywhere, nil)
	if err != nil {
		return s, err
	}
	cannot := func(offer *manifest.Offer) bool { return offer != nil && lacks(offer) }
	for _, version := range versions {
		static, dynamic := false, false
		for text := range head.Release.Platforms {
			key, err := manifest.ParseKey(text)
			if err != nil {
				continue
			}
			c := manifest.Client{Version: version, Target: key.Target(), BundleType: key.Type}
			offer, _ := offers.Shown(false).OfferTo(c) // a platform that is missing strands nobody here
			static = static || cannot(offer)
			answer, _ := offers.Decide(c, false)
			dynamic = dynamic || cannot(answer.Offer)
		}
		if static {
			s.Manifest = append(s.Manifest, version)
		}
		if dynamic {
			s.Server = append(s.Server, version)
		}
	}
	return s, nil
}

// Then returns a log with a release after its head, for everybody.
func Then(log *channels.Log, next channels.Release) *channels.Log {
	return &channels.Log{Channel: log.Channel, Entries: append(slices.Clip(log.Entries), log.Next(channels.Entry{Action: channels.Publish, Release: next}))}
}

// without returns the versions that are in no set and not in the range.
func without(versions, others []string, meant VersionRange) []string {
	return slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return slices.Contains(others, v) || meant.contains(v) })
}

// Installed returns the versions that clients of a channel may have: those that its
// log has shown, and those that are known of clients.
func Installed(log *channels.Log, known map[string]int) []string {
	versions := map[string]bool{}
	for _, e := range log.Entries {
		versions[e.Version], versions[e.Newest()] = true, true
	}
	for version, n := range known {
		if _, err := manifest.ParseClientVersion(version); err == nil && n > 0 {
			versions[version] = true
		}
	}
	return slices.SortedFunc(maps.Keys(versions), library.CompareVersions)
}

// strands refuses a change that offers installed applications what they can't verify
// and could verify so far. Applications that are known to be gone, and those that are
// meant, are warned of; so are those that read latest.json if watersheds lead the
// others over and nothing says that this channel has such applications.
func (g gate) strands() (warnings []string, err error) {
	if !g.keys.Spanned() {
		return nil, nil
	}
	versions := Installed(g.log, g.fleet)
	after, err := Strands(Then(g.log, g.release), versions, Lacks(g.keys))
	if err != nil || len(after.Manifest)+len(after.Server) == 0 {
		return nil, err
	}
	before, err := Strands(g.log, versions, Lacks(g.keys))
	if err != nil {
		return nil, err
	}
	static, server := without(after.Manifest, before.Manifest, VersionRange{}), without(after.Server, before.Server, VersionRange{})
	if g.strandAll || g.unchanged {
		return nil, nil
	}
	if left := without(server, nil, g.strand); len(left) > 0 && (g.fleet == nil || g.count(left) > 0) {
		return nil, g.refuseStranding(left, versions, "")
	}
	if left := without(static, nil, g.strand); len(left) > 0 && (g.policy.ReadsManifest || g.policy.Rings) {
		where := " from latest.json, where watersheds don't hold"
		if g.policy.Rings {
			where = " from latest.json or a ring, where watersheds don't hold"
		}
		return nil, g.refuseStranding(left, versions, where)
	}
	for _, w := range []struct {
		versions []string
		where    string
	}{{server, ""}, {without(static, server, VersionRange{}), " from " + channels.ManifestKey(g.log.Channel)}} {
		if len(w.versions) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s, which is signed by %s, can't be installed by %s%s%s", g.manifest.Version, g.signers(), spread(w.versions), w.where, g.counted(w.versions, w.where)))
		}
	}
	return warnings, nil
}

// refuseStranding says who would be stranded, and what leads out.
func (g gate) refuseStranding(left, versions []string, where string) error {
	mend := "lead them over with a bridge release, which `tsmon keys rotate --to FILE` plans for the new public key; or say --strand " +
		VersionRange{left[0], left[len(left)-1]}.String() + " to leave them behind"
	if key := g.signable(versions); key != "" {
		switch {
		case g.part:
			mend = "give this job the private key of " + key + ", which they have, in TAURI_SIGNING_PRIVATE_KEY, or sign with that by `tsmon release sign`, and stage it again; or " + mend
		case g.staged && strings.Contains(g.signers(), " and "):
			mend = "stage what another key signed again, signed with the private key of " + key + ", which they have; or " + mend
		default:
			mend = "sign it with the private key of " + key + ", which they have; or " + mend
		}
	}
	if next := g.successor(); next != "" {
		mend = "publish it with --channel " + next + ", whose applications have that key; or " + mend
	}
	return refuse(ErrStrands, mend, "%s is signed by %s, and %s, which have %s, could not install it%s%s", g.manifest.Version, g.signers(), spread(left), g.have(left), where, g.counted(left, where))
}

// successor returns another channel that a release may be published to without stranding
// anybody, as is there after a rotation. Empty if there is none.
func (g gate) successor() string {
	for _, name := range slices.Sorted(maps.Keys(g.view)) {
		other := g.view[name]
		if g.action != channels.Publish || name == g.log.Channel || other.err != nil || other.log.Head() == nil || other.log.Head().Action == channels.Follow {
			continue
		}
		after, err := Strands(Then(other.log, g.release), Installed(other.log, other.clients), Lacks(g.keys))
		if err == nil && len(after.Manifest)+len(after.Server) == 0 && library.CompareVersions(g.manifest.Version, other.log.Head().Newest()) > 0 {
			return name
		}
	}
	return ""
}

// signable returns the id of a trusted key whose signature of the new release strands
// nobody. Empty if there is none.
func (g gate) signable(versions []string) string {
	before, err := Strands(g.log, versions, Lacks(g.keys))
	if err != nil {
		return ""
	}
	for _, key := range g.keys {
		signed := Lacks(g.keys)
		after, err := Strands(Then(g.log, g.release), versions, func(offer *manifest.Offer) bool {
			if offer.Version == g.release.Version {
				return !key.Contains(offer.Current)
			}
			return signed(offer)
		})
		if err != nil || len(without(after.Server, before.Server, VersionRange{})) > 0 {
			continue
		}
		if !g.policy.ReadsManifest && !g.policy.Rings || len(without(after.Manifest, before.Manifest, VersionRange{})) == 0 {
			return key.ID()
		}
	}
	return ""
}

// signers names the keys of the new manifest's signatures. If there are several, or the
// release is one job's part, it says which bundles each has signed.
func (g gate) signers() string {
	bundles := map[string][]string{}
	for _, b := range g.release.Platforms {
		if s, err := signing.ParseSignature(b.Signature); err == nil && !slices.Contains(bundles[s.KeyID()], path.Base(b.Path)) {
			bundles[s.KeyID()] = append(bundles[s.KeyID()], path.Base(b.Path))
		}
	}
	ids := slices.Sorted(maps.Keys(bundles))
	for i, id := range ids {
		if len(bundles) > 1 || g.part {
			slices.Sort(bundles[id])
			ids[i] = id + " (" + strings.Join(bundles[id], ", ") + ")"
		}
	}
	return strings.Join(ids, " and ")
}

// have names the keys that any of some versions have.
func (g gate) have(versions []string) string {
	var keys signing.Keyring
	for _, key := range g.keys {
		if slices.ContainsFunc(versions, key.Contains) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return "no trusted key"
	}
	return keys.IDs()
}

func (g gate) count(versions []string) int {
	n := 0
	for _, v := range versions {
		n += g.fleet[v]
	}
	return n
}

// counted says how many clients have some versions. Those that read a manifest, which where
// says unless it is empty, are not known to be among them: tsmon serve knows who asks it.
func (g gate) counted(versions []string, where string) string {
	switch {
	case g.fleet == nil:
		return fmt.Sprintf(" (known versions: %d; how many clients have them is not known here)", len(versions))
	case where != "":
		return fmt.Sprintf(" (clients of these versions that tsmon serve knows: %d; it knows none that only read manifests)", g.count(versions))
	}
	return fmt.Sprintf(" (known clients: %d)", g.count(versions))
}

// spread describes versions that are in order.
func spread(versions []string) string {
	if len(versions) == 1 {
		return versions[0]
	}
	return versions[0] + " – " + versions[len(versions)-1]
}
