package release

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// checkContents judges the bundles, notes and members of a release that is to be published.
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
		return refuse(bundle.ErrBundles, "rename the file", "%s: %v", b.Path, err)
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

// showsUnbound reports whether a channel, or its leader, accepts signatures without a version
// permanently, and not only for one move. Servers apply the same rule.
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
