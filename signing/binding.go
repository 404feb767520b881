package signing

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// CheckVersion holds a signature to the version that is announced with it, by
// the updater's own rule (verify_signed_version): both as semantic versions, with
// any leading v left out and build metadata counted, or if one of them is none,
// letter by letter. required is the client's requireSignedVersion.
//
// The error is ErrUnbound if the signature names no version and required is set,
// ErrBound if it names another one. s must have been verified.
func CheckVersion(s Signature, announced string, required bool) error {
	signed, bound := s.Version()
	switch {
	case !bound && required:
		return fmt.Errorf("%w, and version %q is announced: sign the bundle again with its version", ErrUnbound, announced)
	case bound && !sameVersion(signed, announced):
		return fmt.Errorf("%w: version %q is signed, %q is announced", ErrBound, signed, announced)
	}
	return nil
}

func sameVersion(signed, announced string) bool {
	a, err := semver.StrictNewVersion(strings.TrimLeft(signed, "v"))
	if err != nil {
		return signed == announced
	}
	b, err := semver.StrictNewVersion(strings.TrimLeft(announced, "v"))
	if err != nil {
		return signed == announced
	}
	return a.Equal(b) && a.Metadata() == b.Metadata()
}

// CheckTarget holds a signature to the platform key under which its bundle is
// offered. Clients do not check it. A signature without a target fits every key.
//
// A key is os-arch or os-arch-installer; a signature for os-arch fits the keys
// of all installers, and one for an installer fits the general key, which has to
// name some installer. A signature for darwin-universal fits both darwin
// architectures.
//
// The error is ErrBound. s must have been verified.
func CheckTarget(s Signature, target string) error {
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

// splitTarget parts os-arch-installer behind the architecture.
func splitTarget(target string) (platform, installer string) {
	parts := strings.SplitN(target, "-", 3)
	if len(parts) < 3 {
		return target, ""
	}
	return parts[0] + "-" + parts[1], parts[2]
}
