package signing

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// A Claim is what a manifest or a release record says about a signed bundle.
type Claim struct {
	Version string   // announced to clients; empty if unknown, and then not checked
	Targets []string // platform keys that the bundle is offered under
	// AllowUnbound accepts a signature that names no version, which clients with
	// requireSignedVersion refuse.
	AllowUnbound bool
	// AnyKey accepts keys outside the keyring.
	AnyKey bool
	// Installed is the version of the application that is to install the bundle: the
	// key must be one that this version has. Empty: any key of the ring is good, as
	// for records and logs, which outlive the keys.
	Installed string
}

// A Fault is one reason not to accept a signature. Err wraps ErrUntrustedKey,
// ErrSignature, ErrNotBuiltIn, ErrUnbound or ErrBound.
type Fault struct {
	Err  error
	Mend string // what to do about it
}

// Faults are all the reasons not to accept a signature.
type Faults []Fault

func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.Is find each cause.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f.Err
	}
	return errs
}

// Accept parses the signature of a manifest or record and checks all but the bundle, which
// VerifyDigest or a Verifier checks: that the key is trusted and signed the trusted comment,
// and that its version and targets match the claim.
//
// The error is a *FormatError, or Faults together with the signature.
func (k Keyring) Accept(text string, c Claim) (Signature, error) {
	s, err := ParseSignature(text)
	if err != nil {
		return Signature{}, err
	}
	var faults Faults
	add := func(err error, mend string) {
		if err != nil {
			faults = append(faults, Fault{err, mend})
		}
	}
	if !c.AnyKey {
		key, err := k.signer(s)
		add(err, "sign with a trusted key, or add the key to trusted_keys")
		if err == nil && !key.madeComment(s) {
			add(key.notMine(), "take the signature as it was made, or sign the bundle again")
		}
		if err == nil && c.Installed != "" && !key.Contains(c.Installed) {
			add(fmt.Errorf("%w: it is by key %s, and version %s has %s", ErrNotBuiltIn, key.ID(), c.Installed, k.BuiltInto(c.Installed).IDs()),
				"sign with a key that the installed version has")
		}
	}
	if c.Version != "" {
		add(checkVersion(s, c.Version, !c.AllowUnbound), "sign the bundle again for this version")
	}
	for _, target := range c.Targets {
		add(checkTarget(s, target), "put the bundle of this platform here")
	}
	if faults != nil {
		return s, faults
	}
	return s, nil
}

// checkVersion compares the version in a signature with the announced one as the
// updater's verify_signed_version does: as semantic versions without leading v's,
// build metadata included, or literally if either is not one. required is the
// client's requireSignedVersion.
func checkVersion(s Signature, announced string, required bool) error {
	signed, bound := s.Version()
	switch {
	case !bound && required:
		return fmt.Errorf("%w, and version %q is announced", ErrUnbound, announced)
	case bound && !sameVersion(signed, announced):
		return fmt.Errorf("%w: version %q is signed, %q is announced", ErrBound, signed, announced)
	}
	return nil
}

func sameVersion(signed, announced string) bool {
	bare := strings.TrimLeft(signed, "v")
	if _, err := semver.StrictNewVersion(bare); err != nil {
		return signed == announced
	}
	return bare == strings.TrimLeft(announced, "v")
}

// checkTarget compares the target in a signature with a platform key, which
// clients don't. A signature without a target fits every key; one for os-arch
// fits the keys of all installers, and one for an installer the plain key.
func checkTarget(s Signature, target string) error {
	signed, bound := s.Target()
	if !bound || fitsTarget(signed, target) {
		return nil
	}
	return fmt.Errorf("%w: target %q is signed, %q is asked for", ErrBound, signed, target)
}

func fitsTarget(signed, target string) bool {
	signedPlatform, signedInstaller := splitTarget(signed)
	platform, installer := splitTarget(target)
	if installer != signedInstaller && installer != "" && signedInstaller != "" {
		return false
	}
	if signedPlatform == "darwin-universal" && (platform == "darwin-x86_64" || platform == "darwin-aarch64") {
		return true
	}
	return platform == signedPlatform
}

// splitTarget splits os-arch-installer after the architecture.
func splitTarget(target string) (platform, installer string) {
	parts := strings.SplitN(target, "-", 3)
	if len(parts) < 3 {
		return target, ""
	}
	return parts[0] + "-" + parts[1], parts[2]
}
