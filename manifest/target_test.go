package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"tsmon/manifest"
)

func TestParseKey(t *testing.T) {
	types := map[string][]string{"linux": {"appimage", "deb", "rpm"}, "darwin": {"app"}, "windows": {"msi", "nsis"}}
	accepted := 0
	for os, kinds := range types {
		for _, arch := range []string{"x86_64", "i686", "aarch64", "armv7", "riscv64"} {
			for _, kind := range append(kinds, "") {
				want := manifest.Key{OS: os, Arch: arch, Type: kind}
				text := strings.TrimSuffix(os+"-"+arch+"-"+kind, "-")
				got, err := manifest.ParseKey(text)
				if err != nil || got != want || got.Target() != os+"-"+arch {
					t.Errorf("ParseKey(%q) = %+v, %v", text, got, err)
				}
				accepted++
			}
		}
	}
	if accepted != 45 {
		t.Errorf("%d keys were tried, want 45", accepted)
	}
	for text, says := range map[string]string{
		"":                       "keys are OS-ARCH",
		"-":                      "keys are OS-ARCH",
		"windows":                "keys are OS-ARCH",
		"windows-":               "keys are OS-ARCH",
		"-x86_64":                "keys are OS-ARCH",
		"macos-x86_64":           "keys are OS-ARCH",
		"windows-amd64":          "keys are OS-ARCH",
		"windows-arm64":          "keys are OS-ARCH",
		"Windows-x86_64":         "keys are OS-ARCH",
		"windows_x86_64":         "keys are OS-ARCH",
		" windows-x86_64":        "keys are OS-ARCH",
		"windows-x86_64 ":        "keys are OS-ARCH",
		"android-aarch64":        "keys are OS-ARCH",
		"darwin-universal":       "darwin-x86_64 and darwin-aarch64",
		"darwin-universal-app":   "keys are OS-ARCH",
		"windows-x86_64-":        "the bundle types of windows are msi, nsis",
		"windows-x86_64-MSI":     "the bundle types of windows are msi, nsis",
		"windows-x86_64-unknown": "the bundle types of windows are msi, nsis",
		"linux-x86_64-msi":       "the bundle types of linux are appimage, deb, rpm",
		"darwin-x86_64-dmg":      "the bundle types of darwin are app",
		"linux-x86_64-deb-rpm":   "the bundle types of linux are appimage, deb, rpm",
	} {
		if key, err := manifest.ParseKey(text); !errors.Is(err, manifest.ErrKey) || !strings.Contains(err.Error(), says) || key != (manifest.Key{}) {
			t.Errorf("ParseKey(%q) = %+v, %v; want an error that says %q", text, key, err, says)
		}
	}
}
