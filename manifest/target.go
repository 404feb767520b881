package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrKey means that a text is not a platform key.
var ErrKey = errors.New("not a platform key")

// Universal is the target of a macOS bundle for both architectures. It is not a
// platform key: a manifest lists such a bundle under both.
const Universal = "darwin-universal"

var (
	arches      = []string{"x86_64", "i686", "aarch64", "armv7", "riscv64"}
	bundleTypes = map[string][]string{
		"linux":   {"appimage", "deb", "rpm"},
		"darwin":  {"app"},
		"windows": {"msi", "nsis"},
	}
)

// BundleTypes returns the bundle types of all platforms, sorted.
func BundleTypes() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(bundleTypes))...)))
}

// TypesOf returns the bundle types of linux, darwin or windows.
func TypesOf(os string) []string { return slices.Clone(bundleTypes[os]) }

// Key is a platform key of a manifest: OS-ARCH or OS-ARCH-TYPE. OS is linux,
// darwin or windows; ARCH is x86_64, i686, aarch64, armv7 or riscv64; TYPE is
// appimage, deb or rpm on Linux, app on macOS, msi or nsis on Windows.
type Key struct {
	OS, Arch string
	Type     string // empty in a plain key, which serves every bundle type
}

// ParseKey parses a platform key. Errors wrap ErrKey.
func ParseKey(text string) (Key, error) {
	if text == Universal {
		return Key{}, fmt.Errorf("%w: %q is unknown to the updater; a universal bundle is written under darwin-x86_64 and darwin-aarch64", ErrKey, text)
	}
	os, rest, _ := strings.Cut(text, "-")
	arch, kind, typed := strings.Cut(rest, "-")
	k := Key{OS: os, Arch: arch, Type: kind}
	types, known := bundleTypes[os]
	switch {
	case !known || !slices.Contains(arches, arch):
		return Key{}, fmt.Errorf("%w: %q; keys are OS-ARCH, such as windows-x86_64, darwin-aarch64 or linux-x86_64", ErrKey, text)
	case typed && !slices.Contains(types, kind):
		return Key{}, fmt.Errorf("%w: %q; the bundle types of %s are %s", ErrKey, text, os, strings.Join(types, ", "))
	}
	return k, nil
}

// bundleFiles are the endings of bundles, longest first. Each has the platforms whose updater
// installs it, as OS-TYPE, or OS- for plain keys, and the type that it installs, which is
// empty if the ending fits several.
var bundleFiles = []struct{ ending, platforms, kind string }{
	{".appimage.tar.gz", "linux- linux-appimage", "appimage"},
	{".app.tar.gz", "darwin- darwin-app", "app"},
	{".tar.gz", "darwin- darwin-app linux- linux-appimage", ""},
	{".appimage", "linux- linux-appimage", "appimage"},
	{".deb", "linux- linux-deb", "deb"},
	{".rpm", "linux- linux-rpm", "rpm"},
	{".msi.zip", "windows- windows-msi windows-nsis", "msi"},
	{".nsis.zip", "windows- windows-msi windows-nsis", "nsis"},
	{".exe.zip", "windows- windows-msi windows-nsis", "nsis"},
	{".zip", "windows- windows-msi windows-nsis", ""},
	{".msi", "windows- windows-msi windows-nsis", "msi"},
	{".exe", "windows- windows-msi windows-nsis", "nsis"},
	{".dmg", "", ""}, {".pkg", "", ""}, {".sig", "", ""},
}

// installable names the files that the updater of a system installs.
var installable = map[string]string{
	"linux":   ".AppImage, .AppImage.tar.gz, .deb or .rpm",
	"darwin":  ".app.tar.gz",
	"windows": ".msi, .exe or .zip",
}

// Installable names the files that clients of the key can install.
func (k Key) Installable() string {
	switch k.Type {
	case "deb", "rpm":
		return "." + k.Type
	case "appimage":
		return ".AppImage or .AppImage.tar.gz"
	}
	return installable[k.OS]
}

// Installs reports whether a client of the key can install a file of that name;
// known is false if the name has no known ending. On Windows the updater looks at
// the content, so it installs either type.
func (k Key) Installs(name string) (fits, known bool) {
	platforms, _, known := fileKind(name)
	return slices.Contains(strings.Fields(platforms), k.OS+"-"+k.Type), known
}

// fileKind returns the platforms of bundleFiles for a file, and the type that it
// installs.
func fileKind(name string) (platforms, kind string, known bool) {
	name = strings.ToLower(name)
	for _, f := range bundleFiles {
		if stem, ok := strings.CutSuffix(name, f.ending); ok && stem != "" {
			return f.platforms, f.kind, true
		}
	}
	return "", "", false
}

// Target returns the key without its bundle type, OS-ARCH.
func (k Key) Target() string { return k.OS + "-" + k.Arch }
