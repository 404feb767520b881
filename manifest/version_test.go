package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"tsmon/manifest"
)

// ascending holds versions as the semver crate 1.0.28 orders them, each lower
// than the next.
var ascending = strings.Fields(`
0.0.0-0
0.0.0-0.0
0.0.0-1
0.0.0-2
0.0.0-10
0.0.0-99999999999999999999
0.0.0-100000000000000000000
0.0.0--
0.0.0--.0
0.0.0---
0.0.0--1
0.0.0-0a
0.0.0-1-1
0.0.0-A
0.0.0-Z
0.0.0-a
0.0.0-a.1
0.0.0-a.1.0
0.0.0-a.2
0.0.0-a.10
0.0.0-a.-
0.0.0-a.a
0.0.0-a-
0.0.0-a1
0.0.0-alpha
0.0.0-z
0.0.0
0.0.0+0
0.0.0+0.0
0.0.0+0.a
0.0.0+00
0.0.0+000
0.0.0+1
0.0.0+1.0
0.0.0+01
0.0.0+001
0.0.0+2
0.0.0+02
0.0.0+10
0.0.0+010
0.0.0+99999999999999999999
0.0.0+-
0.0.0+00a
0.0.0+0a
0.0.0+A
0.0.0+a
0.0.0+a.0
0.0.0+a.00
0.0.0+a-
0.0.0+a1
0.0.1-alpha
0.0.1-alpha+0
0.0.1-alpha+a
0.0.1-alpha.0
0.0.1-alpha.beta
0.0.1-beta
0.0.1-beta.2
0.0.1-beta.11
0.0.1-rc.1
0.0.1-rc.1+1
0.0.1-rc.2
0.0.1
0.0.9
0.0.10
0.1.0-0
0.1.0
0.9.0
0.10.0
1.0.0-alpha
1.0.0-alpha.1
1.0.0-alpha.beta
1.0.0-beta
1.0.0-beta.2
1.0.0-beta.11
1.0.0-rc.1
1.0.0
2.0.0
10.0.0
18446744073709551614.0.0
18446744073709551615.0.0
18446744073709551615.18446744073709551615.18446744073709551615
`)

func TestVersionOrder(t *testing.T) {
	var versions []manifest.Version
	for _, text := range ascending {
		versions = append(versions, version(t, text))
	}
	for i, a := range versions {
		for j, b := range versions {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s against %s is %d, want %d", a, b, got, want)
			}
		}
	}
	if got := version(t, "v1.0.0").Compare(version(t, "1.0.0")); got != 0 {
		t.Errorf("a leading v makes a difference of %d", got)
	}
}

func TestParseVersion(t *testing.T) {
	for text, prerelease := range map[string]string{
		"0.0.0": "", "1.2.3": "", "10.20.30": "", "18446744073709551615.0.0": "",
		"1.2.3-rc.1": "rc.1", "1.2.3--": "-", "1.2.3-0a.-1": "0a.-1", "1.2.3-v1": "v1", "1.0.0-99999999999999999999": "99999999999999999999",
		"1.0.0-" + strings.Repeat("a", 122): strings.Repeat("a", 122),
	} {
		v, err := manifest.ParseVersion(text)
		if err != nil || v.String() != text || v.Prerelease() != prerelease {
			t.Errorf("ParseVersion(%q) = %q, %v", text, v, err)
		}
	}
	for text, says := range map[string]string{
		"v1.2.3": "begins with a v; write 1.2.3", "VV1.2.3-a": "begins with a v; write 1.2.3-a", "v1.2": `"v1.2" is not MAJOR.MINOR.PATCH`, "v": "is not",
		"1.2.3+b": "leave out +b", "1.2.3-a+b.01": "leave out +b.01", "v1.2.3+b": "begins with a v",
		"": "is not", "1": "is not", "1.2": "is not", "1.2.3.4": "is not", "1.2.x": "is not", "*": "is not", "1.2.-3": "is not", "1.2.+3": "is not",
		"01.2.3": "is not", "1.2.3-01": "is not", "1.2.3-": "is not", "1.2.3+": "is not", "1.2.3-a..b": "is not", "1.2.3+a..b": "is not", "1.2.3-é": "is not",
		"1.2.3-a_b": "is not", "1.2.3+a+b": "is not", " 1.2.3": "is not", "1.2.3\n": "is not", "1.2.3\x00": "is not", "１.2.3": "is not", "18446744073709551616.0.0": "is not",
		"1.0.0-" + strings.Repeat("a", 123): "129 characters long, at most 128",
	} {
		if v, err := manifest.ParseVersion(text); !errors.Is(err, manifest.ErrVersion) || !strings.Contains(err.Error(), says) || v.String() != "" {
			t.Errorf("ParseVersion(%q) = %q, %v; want an error that says %q", text, v, err, says)
		}
	}
}
