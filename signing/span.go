package signing

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Span is the versions of the application that a key is built into: from From on,
// and below Until, which no longer has it. An empty bound is no bound. The order is
// that of semantic versions, so 1.6.0-beta.1 is below 1.6.0, and build metadata does
// not count.
type Span struct {
	From  string
	Until string
}

// Check returns what is wrong with a span: bounds must be MAJOR.MINOR.PATCH with an optional
// pre-release and no build metadata, and From below Until. The error is a *FormatError.
func (s Span) Check() error {
	for _, bound := range []struct{ name, text string }{{"from", s.From}, {"until", s.Until}} {
		v, err := semver.StrictNewVersion(bound.text)
		if bound.text != "" && (err != nil || v.Metadata() != "") {
			return malformed(fmt.Sprintf("%s: %.40q is not MAJOR.MINOR.PATCH", bound.name, bound.text), "write a version of the application, such as "+bound.name+": 1.6.0")
		}
	}
	if s.From != "" && s.Until != "" && compareVersions(s.From, s.Until) >= 0 {
		return malformed(fmt.Sprintf("until %s is not above from %s", s.Until, s.From), "from is the first version that has the key, until the first that no longer has it")
	}
	return nil
}

// Contains reports whether a version is in the span. A text that is no version is only in the
// empty span.
func (s Span) Contains(version string) bool {
	if _, err := semver.StrictNewVersion(strings.TrimLeft(version, "v")); err != nil {
		return s == Span{}
	}
	return (s.From == "" || compareVersions(version, s.From) >= 0) && (s.Until == "" || compareVersions(version, s.Until) < 0)
}

// String describes the span: "from 1.6.0 until 2.0.0", or empty for all versions.
func (s Span) String() string {
	text := ""
	if s.From != "" {
		text = "from " + s.From
	}
	if s.Until != "" {
		text += " until " + s.Until
	}
	return strings.TrimSpace(text)
}

// compareVersions orders two semantic versions, which may have leading v's. Bounds
// that Check refuses are below everything.
func compareVersions(a, b string) int {
	v, err := semver.StrictNewVersion(strings.TrimLeft(a, "v"))
	if err != nil {
		return -1
	}
	w, err := semver.StrictNewVersion(strings.TrimLeft(b, "v"))
	if err != nil {
		return 1
	}
	return v.Compare(w)
}
