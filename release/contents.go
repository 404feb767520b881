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

// checkPublish makes the checks that need neither the bundles nor the store.
func (p planner) checkPublish(o PublishOptions) error {
	if _, err := bundle.ParseVersion(o.Version); err != nil {
		return err
	}
	for _, b := range o.Bundles {
		if err := p.checkBundle(o, b); err != nil {
			return err
		}
	}
	return errors.Join(checkNotes(o.Notes), checkNotes(o.DefaultNotes), checkExtra(o.Version, o.Extra), checkRollout(o.Rollout))
}

func (p planner) checkBundle(o PublishOptions, b bundle.Bundle) error {
	if err := object.ValidKey(library.Folder(o.Version) + b.Name); err != nil {
		return refuse(bundle.ErrBundles, "rename the file", "%s: %v", b.Path, err)
	}
	switch {
	case b.Also:
		return nil
	case b.Signature == nil && o.Unlock == nil:
		return refuse(ErrUnsigned, "give the key in TAURI_SIGNING_PRIVATE_KEY or with --key FILE, or sign before with `tsmon release sign`",
			"%s has no .sig beside it", b.Path)
	case b.Signature == nil:
		return nil
	}
	if _, err := p.keys.Accept(b.Signature.String(), signing.Claim{Version: o.Version, Targets: b.Keys, AllowUnbound: o.AllowUnbound}); err != nil {
		return fmt.Errorf("%s.sig: %w", b.Path, err)
	}
	return nil
}

// checkExtra refuses a minimum version that the release itself is below.
func checkExtra(version string, extra manifest.Extra) error {
	if extra.MinimumVersion == "" {
		return nil
	}
	if _, err := manifest.ParseVersion(extra.MinimumVersion); err != nil {
		return &Refusal{Cause: err, Text: "--minimum-version", Mend: "write MAJOR.MINOR.PATCH, such as 1.2.0"}
	}
	if library.CompareVersions(extra.MinimumVersion, version) > 0 {
		return refuse(ErrConfig, "name a version that clients can have", "the minimum version %s is above %s", extra.MinimumVersion, version)
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
		return refuse(ErrNotes, "write them as UTF-8", "they contain characters that were lost in a conversion")
	}
	return nil
}
