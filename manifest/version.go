package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// ErrVersion means that a text is not a version that may be published.
var ErrVersion = errors.New("not a version")

// Version is a semantic version in the order of the updater, which is that of
// Rust's semver crate: precedence first, then build metadata.
type Version struct{ v *semver.Version }

// ParseVersion parses a version that may be published: MAJOR.MINOR.PATCH with an
// optional pre-release, without a leading v and without build metadata, by which
// the updater orders and semantic versioning does not. Errors wrap ErrVersion.
func ParseVersion(text string) (Version, error) {
	if rest := strings.TrimLeft(text, "vV"); rest != text {
		if _, err := semver.StrictNewVersion(rest); err == nil {
			return Version{}, fmt.Errorf("%w: %q begins with a v; write %s", ErrVersion, text, rest)
		}
	}
	v, err := parseAny(text)
	if err != nil {
		return Version{}, err
	}
	if v.v.Metadata() != "" {
		return Version{}, fmt.Errorf("%w: %q carries build metadata, which updater and standard order differently; leave out +%s", ErrVersion, text, v.v.Metadata())
	}
	return v, nil
}

// ParseClientVersion parses a version as the updater does: a strict semantic
// version after any number of leading v's.
func ParseClientVersion(text string) (Version, error) {
	return parseAny(strings.TrimLeft(text, "v"))
}

func parseAny(text string) (Version, error) {
	if len(text) > 128 {
		return Version{}, fmt.Errorf("%w: %d characters long, at most 128 are allowed", ErrVersion, len(text))
	}
	v, err := semver.StrictNewVersion(text)
	if err != nil {
		return Version{}, fmt.Errorf("%w: %q is not MAJOR.MINOR.PATCH", ErrVersion, text)
	}
	return Version{v}, nil
}

// String returns the version as it was written.
func (v Version) String() string {
	if v.v == nil {
		return ""
	}
	return v.v.Original()
}

// Prerelease returns the part after the hyphen, empty for a plain release.
func (v Version) Prerelease() string { return v.v.Prerelease() }

// Compare returns -1, 0 or 1 in the order of Rust's semver crate.
func (v Version) Compare(w Version) int {
	return cmp.Or(
		cmp.Compare(v.v.Major(), w.v.Major()),
		cmp.Compare(v.v.Minor(), w.v.Minor()),
		cmp.Compare(v.v.Patch(), w.v.Patch()),
		comparePrerelease(v.v.Prerelease(), w.v.Prerelease()),
		compareIdentifiers(v.v.Metadata(), w.v.Metadata()),
	)
}

// comparePrerelease orders a plain release above its pre-releases.
func comparePrerelease(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	return compareIdentifiers(a, b)
}

// compareIdentifiers orders dot-separated identifiers: numeric ones by value
// (of any length) and below all others, those in ASCII order; where all are
// equal, the shorter list comes first.
func compareIdentifiers(a, b string) int {
	if a == b { // nearly always
		return 0
	}
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), compareIdentifier)
}

func compareIdentifier(a, b string) int {
	aNum, bNum := isDigits(a), isDigits(b)
	switch {
	case aNum && !bNum:
		return -1
	case !aNum && bNum:
		return 1
	case !aNum:
		return strings.Compare(a, b)
	}
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), cmp.Compare(len(a), len(b)))
}

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
