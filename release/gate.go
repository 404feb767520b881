package release

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// Reach is what one kind of client gets from a channel's new state.
type Reach struct {
	Version    string `json:"version"`               // installed
	Target     string `json:"target"`                // OS-ARCH
	BundleType string `json:"bundle_type,omitempty"` // empty: the application does not name it
	// Outcome is "offered" (it gets Offered), "current" (it is up to date), "ahead"
	// (it has a higher version and keeps it), "dropped" (its platform was left out
	// on purpose), or "broken" (Error says why).
	Outcome string `json:"outcome"`
	Offered string `json:"offered,omitempty"` // version
	Bundle  string `json:"bundle,omitempty"`  // file name of the download
	Error   string `json:"error,omitempty"`
}

// gate judges a change of a channel by what it does to installed applications.
type gate struct {
	keys     signing.Keyring
	policy   Policy
	log      *channels.Log
	before   *manifest.Response // what clients see now; nil: nothing
	sequence uint64             // of the entry
	change
}

// covers refuses a manifest that lacks a platform which the channel requires or
// had.
func (g gate) covers() error {
	missing := slices.DeleteFunc(g.missing(), func(key string) bool { return slices.Contains(g.allowMissing, key) })
	if len(missing) == 0 {
		return nil
	}
	mend := "add the bundles, or say --allow-missing " + strings.Join(missing, ",") + " to leave those clients without updates"
	for key := range g.manifest.Platforms {
		if plain := plainKey(key); strings.HasPrefix(plain, "linux-") && slices.Contains(missing, plain) {
			mend = fmt.Sprintf("build an AppImage, list %s under targets instead of %s, or say --allow-missing %s", key, plain, strings.Join(missing, ","))
		}
	}
	return refuse(ErrCoverage, mend, "%s would have no %s", g.log.Channel, strings.Join(missing, ", "))
}

// plainKey returns a platform key without its bundle type.
func plainKey(text string) string {
	key, err := manifest.ParseKey(text)
	if err != nil {
		return text
	}
	return key.Target()
}

// missing returns the platform keys that clients rely on and the manifest lacks,
// sorted; without those that include a bundle type if the plain key is missing too.
func (g gate) missing() []string {
	missing := slices.DeleteFunc(g.required(), func(key string) bool {
		_, ok := g.manifest.Platforms[key]
		return ok
	})
	slices.Sort(missing)
	missing = slices.Compact(missing)
	return slices.DeleteFunc(slices.Clone(missing), func(key string) bool {
		return plainKey(key) != key && slices.Contains(missing, plainKey(key))
	})
}

// required returns the platform keys that clients of the channel rely on.
func (g gate) required() []string {
	keys := slices.Clone(g.policy.Targets)
	if g.before != nil {
		for key := range g.before.Platforms {
			keys = append(keys, key)
		}
	}
	return keys
}

// replay runs the updater of every client that the channel knows against the new
// manifest.
func (g gate) replay() ([]Reach, error) {
	g.manifest.Sequence = g.sequence
	data, err := g.manifest.Encode()
	if err != nil {
		return nil, err
	}
	if _, problems := manifest.Check(data, manifest.Rules{Keys: g.keys, AllowUnbound: g.allowUnbound}); len(problems) > 0 {
		return nil, &Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, problems), Mend: problems[0].Mend}
	}
	outcomes := manifest.Replay(data, g.clients(), g.keys, !g.allowUnbound)
	table := make([]Reach, len(outcomes))
	for i, o := range outcomes {
		table[i] = g.reach(o)
		if o.Err != nil && g.tolerated(o) {
			table[i].Outcome, table[i].Error = "dropped", ""
		} else if o.Err != nil {
			return table, &Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, o.Err), Mend: "publish a bundle that these clients can install",
				Text: fmt.Sprintf("%s on %s", o.Client.Version, o.Client.Target)}
		}
	}
	return table, nil
}

// tolerated reports whether a client was left without updates on purpose.
func (g gate) tolerated(o manifest.Outcome) bool {
	if !errors.Is(o.Err, manifest.ErrTarget) {
		return false
	}
	return slices.Contains(g.allowMissing, o.Client.Target) || !slices.Contains(g.required(), o.Client.Target)
}

func (g gate) reach(o manifest.Outcome) Reach {
	r := Reach{Version: o.Client.Version, Target: o.Client.Target, BundleType: o.Client.BundleType}
	installed, err := manifest.ParseVersion(o.Client.Version)
	announced, err2 := manifest.ParseVersion(g.manifest.Version)
	switch {
	case o.Err != nil:
		r.Outcome, r.Error = "broken", o.Err.Error()
	case o.Offer != nil:
		r.Outcome, r.Offered, r.Bundle = "offered", o.Offer.Version, fileOf(o.Offer.URL)
	case err == nil && err2 == nil && installed.Compare(announced) > 0:
		r.Outcome = "ahead"
	default:
		r.Outcome = "current"
	}
	return r
}

// clients returns every version × target × bundle type that the channel's log or
// the new manifest has.
func (g gate) clients() []manifest.Client {
	versions := map[string]bool{g.manifest.Version: true}
	kinds := map[manifest.Client]bool{}
	addKinds(kinds, g.manifest.Platforms)
	for _, e := range g.log.Entries {
		versions[e.Version] = true
		addKinds(kinds, e.Manifest.Platforms)
		if e.Rollout != nil { // some clients have it
			versions[e.Rollout.Version] = true
			addKinds(kinds, e.Rollout.Manifest.Platforms)
		}
	}
	if g.before != nil {
		versions[g.before.Version.String()] = true
		addKinds(kinds, g.before.Platforms)
	}
	var clients []manifest.Client
	for version := range versions {
		for kind := range kinds {
			kind.Version = version
			clients = append(clients, kind)
		}
	}
	slices.SortFunc(clients, compareClients)
	return clients
}

// addKinds adds the targets of a manifest, each as a client that does not name its
// bundle type and as one that was installed from the bundle that is offered there.
func addKinds(kinds map[manifest.Client]bool, platforms map[string]manifest.Platform) {
	for text, p := range platforms {
		key, err := manifest.ParseKey(text)
		if err != nil {
			continue
		}
		if key.Type == "" {
			kinds[manifest.Client{Target: key.Target()}] = true
			kind, _ := bundle.Recognize(fileOf(p.URL))
			key.Type = kind.Type
		}
		if key.Type != "" {
			kinds[manifest.Client{Target: key.Target(), BundleType: key.Type}] = true
		}
	}
}

func compareClients(a, b manifest.Client) int {
	v, errA := manifest.ParseVersion(a.Version)
	w, errB := manifest.ParseVersion(b.Version)
	if errA == nil && errB == nil {
		if c := v.Compare(w); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Version+" "+a.Target+" "+a.BundleType, b.Version+" "+b.Target+" "+b.BundleType)
}

// fileOf returns the file name in a bundle's address.
func fileOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return path.Base(u.Path)
}

// crossings warns of clients that would install another type of bundle over their
// own, such as an MSI over an NSIS installation.
func crossings(table []Reach) []string {
	var warnings []string
	for _, r := range table {
		kind, ok := bundle.Recognize(r.Bundle)
		if r.Outcome != "offered" || r.BundleType == "" || !ok || kind.Type == r.BundleType {
			continue
		}
		warning := fmt.Sprintf("%s clients that were installed from %s get %s, which is %s", r.Target, r.BundleType, r.Bundle, kind.Type)
		if !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

// checkContents judges the bundles, notes and members of a release that are to be
// published.
func (p planner) checkContents(o PublishOptions) error {
	for _, b := range o.Bundles {
		if err := p.checkBundle(o, b); err != nil {
			return err
		}
	}
	return errors.Join(checkNotes(o.Notes), checkExtra(o.Version, o.Extra))
}

func (p planner) checkBundle(o PublishOptions, b bundle.Bundle) error {
	if err := object.ValidKey(folder(o.Version) + b.Name); err != nil {
		return refuse(ErrBundles, "rename the file", "%s: %v", b.Path, err)
	}
	if b.Signature == nil && o.Unlock == nil {
		return refuse(ErrUnsigned, "give the key in TAURI_SIGNING_PRIVATE_KEY or with --key FILE, or sign before with `tsmon release sign`",
			"%s has no .sig beside it", b.Path)
	}
	if b.Signature == nil {
		return nil
	}
	if _, err := p.keys.Accept(b.Signature.String(), signing.Claim{Version: o.Version, Targets: b.Keys, AllowUnbound: o.AllowUnbound}); err != nil {
		return fmt.Errorf("%s.sig: %w", b.Path, err)
	}
	return nil
}

// trusted refuses a private key whose signatures clients would refuse.
func (p planner) trusted(key signing.PrivateKey) error {
	public := key.Public()
	if trusted, ok := p.keys.Find(public.ID()); ok && trusted == public {
		return nil
	}
	return &Refusal{Cause: signing.ErrUntrustedKey, Text: "the private key " + public.ID() + " is not among trusted_keys",
		Mend: "sign with a key that installed applications trust, or add its public key to trusted_keys"}
}

// checkExtra refuses a minimum version that the release itself is below.
func checkExtra(version string, extra manifest.Extra) error {
	if extra.MinimumVersion == "" {
		return nil
	}
	minimum, err := manifest.ParseVersion(extra.MinimumVersion)
	if err != nil {
		return &Refusal{Cause: err, Text: "--minimum-version", Mend: "write MAJOR.MINOR.PATCH, such as 1.2.0"}
	}
	if v, err := manifest.ParseVersion(version); err == nil && minimum.Compare(v) > 0 {
		return refuse(ErrConfig, "name a version that clients can have", "the minimum version %s is above %s", minimum, version)
	}
	return nil
}

// MaxNotes bounds release notes, in bytes, so that the manifest stays small.
const MaxNotes = 128 << 10

func checkNotes(notes string) error {
	switch {
	case len(notes) > MaxNotes:
		return refuse(ErrNotes, "shorten them, and link to the rest", "%d bytes long, at most %d are allowed", len(notes), MaxNotes)
	case !utf8.ValidString(notes) || strings.ContainsRune(notes, utf8.RuneError):
		return refuse(ErrNotes, "write them as UTF-8", "they hold characters that were lost")
	}
	return nil
}
