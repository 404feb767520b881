package gate

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// VersionRange is the versions from First to Last, both included. The zero range has none.
type VersionRange struct{ First, Last string }

// ParseVersionRange parses a version, or two with a hyphen between them. Errors wrap
// manifest.ErrVersion.
func ParseVersionRange(text string) (VersionRange, error) {
	var found []VersionRange
	for i := range text {
		if text[i] == '-' && bundle.IsVersion(text[:i]) && bundle.IsVersion(text[i+1:]) {
			found = append(found, VersionRange{text[:i], text[i+1:]})
		}
	}
	switch {
	case len(found) == 0 && bundle.IsVersion(text):
		return VersionRange{text, text}, nil
	case len(found) != 1:
		return VersionRange{}, fmt.Errorf("%w: %.300q is not like 1.0.0-1.2.0", manifest.ErrVersion, text)
	case library.CompareVersions(found[0].First, found[0].Last) > 0:
		return VersionRange{}, fmt.Errorf("%w: the range %s begins above its end", manifest.ErrVersion, text)
	}
	return found[0], nil
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

// Stranded are the versions of installed applications that can't verify their offers, in order.
type Stranded struct {
	Manifest []string `json:"latest_json"` // where they read latest.json
	Server   []string `json:"server"`      // where they ask the server, which sends them through watersheds
}

// anywhere takes the place of the public URL where the address does not matter.
const anywhere = "https://store.invalid"

// Lacks returns a function that reports whether the installed version of an offer lacks the key
// that signed it.
func Lacks(keys signing.Keyring) func(*manifest.Offer) bool {
	return func(offer *manifest.Offer) bool {
		_, err := offer.Verifier(keys, false)
		return errors.Is(err, signing.ErrNotBuiltIn)
	}
}

// Strands returns which of the installed versions a release would strand if it followed a log, once
// everybody gets it, without those that are stranded already. lacks is a result of Lacks.
func Strands(log *channels.Log, next channels.Release, versions []string, lacks func(*manifest.Offer) bool) (Stranded, error) {
	after, err := strandedIn(Then(log, next), versions, lacks)
	if err != nil || len(after.Manifest)+len(after.Server) == 0 {
		return after, err
	}
	before, err := strandedIn(log, versions, lacks)
	return Stranded{without(after.Manifest, before.Manifest), without(after.Server, before.Server)}, err
}

// strandedIn returns which of the installed versions the newest entry of a log strands, once
// everybody gets it.
func strandedIn(log *channels.Log, versions []string, lacks func(*manifest.Offer) bool) (Stranded, error) {
	s := Stranded{Manifest: []string{}, Server: []string{}}
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
	for _, version := range versions {
		static, dynamic := false, false
		for text := range head.Release.Platforms {
			key, err := manifest.ParseKey(text)
			if err != nil {
				continue
			}
			c := manifest.Client{Version: version, Target: key.Target(), BundleType: key.Type}
			offer, _ := offers.Shown(false).OfferTo(c) // a platform that is missing strands nobody here
			static = static || offer != nil && lacks(offer)
			answer, _ := offers.Decide(c, false)
			dynamic = dynamic || answer.Offer != nil && lacks(answer.Offer)
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

// Then returns a log with another entry, which offers a release to everybody.
func Then(log *channels.Log, next channels.Release) *channels.Log {
	return &channels.Log{Channel: log.Channel, Entries: append(slices.Clip(log.Entries), log.Next(channels.Entry{Action: channels.Publish, Release: next}))}
}

// without returns the versions that are not among others.
func without(versions, others []string) []string {
	return slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return slices.Contains(others, v) })
}

// Installed returns the versions that clients of a channel may have, by its log and by counts of
// known clients.
func Installed(log *channels.Log, known map[string]int) []string {
	versions := library.VersionsOf(log)
	for version, n := range known {
		if _, err := manifest.ParseClientVersion(version); err == nil && n > 0 && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	slices.SortFunc(versions, library.CompareVersions)
	return versions
}

// LeavesBehind refuses a move that offers installed applications an update that they can't
// verify, if they could verify updates so far. It only warns of versions that no client has any
// more, of those that Strand names, and of clients that read latest.json if watersheds lead all
// others over and the channel is not known to have such clients.
func (m Move) LeavesBehind() (warnings []string, err error) {
	if !m.Keys.Spanned() || m.StrandAll || m.Unchanged {
		return nil, nil
	}
	versions := Installed(m.Log, m.Fleet)
	stranded, err := Strands(m.Log, m.Release, versions, Lacks(m.Keys))
	if err != nil {
		return nil, err
	}
	if left := m.unmeant(stranded.Server); len(left) > 0 && (m.Fleet == nil || m.count(left) > 0) {
		return nil, m.refuseStranding(left, versions, "")
	}
	if left := m.unmeant(stranded.Manifest); len(left) > 0 && m.readsManifests() {
		where := " from latest.json, where watersheds don't hold"
		if m.Rings {
			where = " from latest.json or a ring, where watersheds don't hold"
		}
		return nil, m.refuseStranding(left, versions, where)
	}
	warn := func(versions []string, where string) {
		if len(versions) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s, which is signed by %s, can't be installed by %s%s%s", m.Manifest.Version, m.signers(), Spread(versions), where, m.counted(versions, where)))
		}
	}
	warn(stranded.Server, "")
	warn(without(stranded.Manifest, stranded.Server), " from "+channels.ManifestKey(m.Log.Channel))
	return warnings, nil
}

// readsManifests reports whether clients are known to read latest.json or a ring, where
// watersheds don't hold.
func (m Move) readsManifests() bool { return m.ReadsManifest || m.Rings }

// unmeant returns the versions that Strand does not name.
func (m Move) unmeant(versions []string) []string {
	return slices.DeleteFunc(slices.Clone(versions), m.Strand.contains)
}

// refuseStranding refuses to strand clients: it names them, and says how to avoid it.
func (m Move) refuseStranding(left, versions []string, where string) error {
	mend := "publish a bridge release first, which `tsmon keys rotate --to FILE` plans for the new public key; or add --strand " +
		VersionRange{left[0], left[len(left)-1]}.String() + " to leave them behind"
	if key := m.signable(versions); key != "" {
		switch {
		case m.Part:
			mend = "give this job the private key of " + key + ", which they have, in TAURI_SIGNING_PRIVATE_KEY, or sign with that key by `tsmon release sign`, and stage it again; or " + mend
		case m.Staged && strings.Contains(m.signers(), " and "):
			mend = "stage those bundles again, signed with the private key of " + key + ", which they have; or " + mend
		default:
			mend = "sign it with the private key of " + key + ", which they have; or " + mend
		}
	}
	if next := m.Successor(); next != "" {
		mend = "publish it with --channel " + next + ", whose applications have that key; or " + mend
	}
	return bundle.Refuse(ErrStrands, mend, "%s is signed by %s, and %s, which have %s, could not install it%s%s", m.Manifest.Version, m.signers(), Spread(left), m.have(left), where, m.counted(left, where))
}

// Successor returns another channel to which the release can be published without stranding
// clients, as after a key rotation; empty if there is none.
func (m Move) Successor() string {
	for _, other := range m.Others {
		if m.Action != channels.Publish || other.Log.Head() == nil || other.Log.Head().Action == channels.Follow {
			continue
		}
		after, err := strandedIn(Then(other.Log, m.Release), Installed(other.Log, other.Fleet), Lacks(m.Keys))
		if err == nil && len(after.Manifest)+len(after.Server) == 0 && library.CompareVersions(m.Manifest.Version, other.Log.Head().Newest()) > 0 {
			return other.Log.Channel
		}
	}
	return ""
}

// signable returns the id of a trusted key whose signature of the release strands nobody; empty if
// there is none.
func (m Move) signable(versions []string) string {
	signed := Lacks(m.Keys)
	for _, key := range m.Keys {
		stranded, err := Strands(m.Log, m.Release, versions, func(offer *manifest.Offer) bool {
			if offer.Version == m.Release.Version {
				return !key.Contains(offer.Current)
			}
			return signed(offer)
		})
		if err == nil && len(stranded.Server) == 0 && (len(stranded.Manifest) == 0 || !m.readsManifests()) {
			return key.ID()
		}
	}
	return ""
}

// signers names the keys of the new manifest's signatures. If there are several, or the
// release is one job's part, it says which bundles each has signed.
func (m Move) signers() string {
	bundles := map[string][]string{}
	for _, b := range m.Release.Platforms {
		if s, err := signing.ParseSignature(b.Signature); err == nil && !slices.Contains(bundles[s.KeyID()], path.Base(b.Path)) {
			bundles[s.KeyID()] = append(bundles[s.KeyID()], path.Base(b.Path))
		}
	}
	ids := slices.Sorted(maps.Keys(bundles))
	for i, id := range ids {
		if len(bundles) > 1 || m.Part {
			slices.Sort(bundles[id])
			ids[i] = id + " (" + strings.Join(bundles[id], ", ") + ")"
		}
	}
	return strings.Join(ids, " and ")
}

// have names the keys that any of some versions have.
func (m Move) have(versions []string) string {
	var keys signing.Keyring
	for _, key := range m.Keys {
		if slices.ContainsFunc(versions, key.Contains) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return "no trusted key"
	}
	return keys.IDs()
}

func (m Move) count(versions []string) int {
	n := 0
	for _, v := range versions {
		n += m.Fleet[v]
	}
	return n
}

// counted describes how many clients have some versions. where, if set, says which manifest other
// clients may read; tsmon serve counts only those that ask it.
func (m Move) counted(versions []string, where string) string {
	switch {
	case m.Fleet == nil:
		return fmt.Sprintf(" (known versions: %d; how many clients have them is not known here)", len(versions))
	case where != "":
		return fmt.Sprintf(" (clients of these versions that tsmon serve knows: %d; it knows none that only read manifests)", m.count(versions))
	}
	return fmt.Sprintf(" (known clients: %d)", m.count(versions))
}

// Spread describes versions that are in order, at least one.
func Spread(versions []string) string {
	if len(versions) == 1 {
		return versions[0]
	}
	return versions[0] + " – " + versions[len(versions)-1]
}
