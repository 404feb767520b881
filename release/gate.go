package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// gate judges a change of a channel by what it does to installed applications.
type gate struct {
	keys      signing.Keyring
	policy    Policy
	log       *channels.Log
	before    *manifest.Response // what clients see now; nil: nothing
	sequence  uint64             // of the entry
	publicURL string
	fleet     map[string]int // clients by version, nil if nothing is known of them
	types     map[string]int // clients by platform key, likewise
	// unchanged says that clients get already what they are to get.
	unchanged bool
	view      view // all channels
	// part says that the release is what one job of a build matrix brings.
	part bool
	change
}

// covers refuses a manifest that lacks a platform which the channel requires or
// had.
func (g gate) covers() error {
	missing := slices.DeleteFunc(g.missing(), func(key string) bool { return slices.Contains(g.allowMissing, key) })
	if len(missing) == 0 {
		return nil
	}
	cause := ErrMissing
	if g.before != nil && slices.ContainsFunc(missing, func(key string) bool { _, had := g.before.Platforms[key]; return had }) {
		cause = ErrCoverage
	}
	return refuse(cause, g.mendMissing(missing), "%s would have no %s", g.log.Channel, strings.Join(missing, ", "))
}

// mendMissing says what to do about missing platforms. A machine that builds for one
// of several is told to stage; only who publishes what all have staged may leave the
// others out.
func (g gate) mendMissing(missing []string) string {
	keys, version := strings.Join(missing, ","), g.manifest.Version
	switch {
	case g.action == channels.Rollback:
		if other := g.covering(missing); other != "" {
			return "say --to " + other + " instead, which has that, or --allow-missing " + keys + " to leave those clients without updates until a release has that again"
		}
		return "say --allow-missing " + keys + " to leave those clients without updates until a release has that again"
	case g.action != channels.Publish:
		return "publish a higher version that has that, or say --allow-missing " + keys + " to leave those clients without updates"
	case g.staged && slices.ContainsFunc(missing, g.requires):
		return "stage the rest with `tsmon release stage --version " + version + " DIR`; take what is no longer built out of targets in tsmon.yaml"
	case g.staged:
		return "stage the rest with `tsmon release stage --version " + version + " DIR`, or say --allow-missing " + keys + " to leave those clients without updates"
	case !slices.ContainsFunc(missing, g.lacksTarget):
		for key := range g.manifest.Platforms {
			if plain := library.PlainKey(key); strings.HasPrefix(plain, "linux-") && slices.Contains(missing, plain) {
				return fmt.Sprintf("build an AppImage, list %s under targets instead of %s, or say --allow-missing %s", key, plain, keys)
			}
		}
	}
	mend := "add the bundles; if other machines build them, run `tsmon release stage --version " + version + " DIR` on each machine, then `tsmon release publish --version " + version + " --channel " + g.log.Channel + "` without bundles"
	if has := g.plainKeys(); len(has) > 0 && g.onlyRequired(missing) {
		return mend + "; if nobody builds them, name under targets in tsmon.yaml what is built, " + g.log.Channel + ": {targets: [" + strings.Join(has, ", ") + "]}, as `tsmon init --targets " + strings.Join(has, ",") + "` writes it"
	}
	return mend
}

// plainKeys returns the platform keys of the manifest without a bundle type, sorted.
func (g gate) plainKeys() []string {
	return slices.DeleteFunc(g.manifest.Keys(), func(key string) bool { return library.PlainKey(key) != key })
}

// onlyRequired reports whether the configuration alone asks for some platform keys: no
// client has had them.
func (g gate) onlyRequired(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		if g.before != nil && g.before.Platforms[key] != (manifest.Platform{}) {
			return true
		}
		return !g.requires(key)
	})
}

// covering returns the newest version below the one that clients see now which the
// channel showed with some platform keys and was not rolled back from; empty if there
// is none.
func (g gate) covering(keys []string) string {
	for _, e := range slices.Backward(g.log.Entries) {
		version, err := manifest.ParseVersion(e.Version)
		lacks := func(key string) bool { return !slices.Contains(e.Targets, key) }
		if err == nil && g.before != nil && version.Compare(g.before.Version) < 0 && g.log.RolledBack(e.Version) == nil && !slices.ContainsFunc(keys, lacks) {
			return e.Version
		}
	}
	return ""
}

// requires reports whether the channel's policy names a platform key, or a type of it.
func (g gate) requires(key string) bool {
	return slices.ContainsFunc(g.policy.Targets, func(target string) bool { return key == target || key == library.PlainKey(target) })
}

// lacksTarget reports whether a manifest has nothing for the target of a platform
// key, of whatever type.
func (g gate) lacksTarget(key string) bool {
	for other := range g.manifest.Platforms {
		if library.PlainKey(other) == library.PlainKey(key) {
			return false
		}
	}
	return true
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
		return library.PlainKey(key) != key && slices.Contains(missing, library.PlainKey(key))
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

// sound refuses a manifest that breaks the strict rules.
func (g gate) sound() error {
	g.manifest.Sequence = g.sequence
	data, err := g.manifest.Encode()
	if err != nil {
		return err
	}
	if _, problems := manifest.Check(data, manifest.Rules{Keys: g.keys, AllowUnbound: g.allowUnbound}); len(problems) > 0 {
		return &Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, problems), Mend: problems[0].Mend}
	}
	return nil
}

// checkContents judges the bundles, notes and members of a release that are to be
// published.
func (p planner) checkContents(o PublishOptions) error {
	for _, b := range o.Bundles {
		if err := p.checkBundle(o, b); err != nil {
			return err
		}
	}
	return errors.Join(checkNotes(o.Notes), checkNotes(o.DefaultNotes), checkExtra(o.Version, o.Extra))
}

func (p planner) checkBundle(o PublishOptions, b bundle.Bundle) error {
	if err := object.ValidKey(library.Folder(o.Version) + b.Name); err != nil {
		return refuse(ErrBundles, "rename the file", "%s: %v", b.Path, err)
	}
	if b.Also {
		return nil
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
	if p.keys.Trusts(public) {
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

// showsUnbound reports whether a channel, or the one that it follows, may show signatures
// that name no version for good, not only for one move. Servers go by the same rule.
func showsUnbound(policies map[string]Policy, channel string) bool {
	policy := policies[channel]
	return policy.AllowUnbound || policies[policy.Follows].AllowUnbound
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
