package bundle

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tsmon/manifest"
)

// Kind is what can be read from the name of a bundle.
type Kind struct {
	OS      string // linux, darwin or windows
	Target  string // OS-ARCH or darwin-universal; empty if neither name nor folder names the architecture
	Type    string // appimage, deb, rpm, app, msi or nsis
	Version string // empty if the name has none
	// Archive marks update archives, .zip and .tar.gz, which every updater
	// accepts; the others are plain installers.
	Archive bool

	named bool // the file name itself contains the architecture
	stem  string
	tail  string
}

// tails are the endings of the Tauri bundler's files, longest first.
var tails = []struct {
	tail, os, kind string
	archive        bool
}{
	{".appimage.tar.gz", "linux", "appimage", true},
	{".app.tar.gz", "darwin", "app", true},
	{".nsis.zip", "windows", "nsis", true},
	{".msi.zip", "windows", "msi", true},
	{".exe.zip", "windows", "nsis", true},
	{".appimage", "linux", "appimage", false},
	{".deb", "linux", "deb", false},
	{".rpm", "linux", "rpm", false},
	{".msi", "windows", "msi", false},
	{"-setup.exe", "windows", "nsis", false},
}

var arches = map[string]string{
	"x64": "x86_64", "x86_64": "x86_64", "amd64": "x86_64",
	"aarch64": "aarch64", "arm64": "aarch64",
	"x86": "i686", "i386": "i686", "i686": "i686",
	"armhf": "armv7", "armv7": "armv7",
	"riscv64":   "riscv64",
	"universal": "universal",
}

var (
	archInName   = regexp.MustCompile(`(?i)(?:^|[_.-])(x86_64|x64|amd64|aarch64|arm64|x86|i386|i686|armhf|armv7|riscv64|universal)(?:[_.-]|$)`)
	archInFolder = regexp.MustCompile(`^(x86_64|aarch64|i686|armv7|riscv64|universal)[a-z0-9]*-(apple-darwin|pc-windows|unknown-linux)`)
)

// Recognize reads a bundle's name as the Tauri bundler and tauri-action write it:
// the ending gives the system and the type, the name the version, and the name or
// the folder of the build target (such as aarch64-apple-darwin) the architecture.
// ok is false for other files.
func Recognize(path string) (k Kind, ok bool) {
	base := filepath.Base(path)
	lower := strings.ToLower(base)
	for _, t := range tails {
		if !strings.HasSuffix(lower, t.tail) || len(lower) == len(t.tail) {
			continue
		}
		at := len(base) - len(t.tail)
		k = Kind{OS: t.os, Type: t.kind, Archive: t.archive, stem: base[:at], tail: base[at:]}
		k.Version = versionIn(k.stem)
		k.setTarget(path)
		return k, true
	}
	return Kind{}, false
}

func (k *Kind) setTarget(path string) {
	arch := ""
	if m := archInName.FindAllStringSubmatch(k.stem, -1); m != nil {
		arch, k.named = arches[strings.ToLower(m[len(m)-1][1])], true
	} else {
		folders := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
		slices.Reverse(folders)
		for _, folder := range folders {
			if m := archInFolder.FindStringSubmatch(folder); m != nil {
				arch = m[1]
				break
			}
		}
	}
	if arch != "" && (arch != "universal" || k.OS == "darwin") {
		k.Target = k.OS + "-" + arch
	}
}

// versionIn returns the first version between underscores.
func versionIn(stem string) string {
	for part := range strings.SplitSeq(stem, "_") {
		if _, err := manifest.ParseVersion(part); err == nil {
			return part
		}
	}
	return ""
}

// storeName is the name of a bundle's object. The bundler gives the macOS archives
// of both architectures the same name; like tauri-action, storeName adds the
// architecture.
func (k Kind) storeName() string {
	if k.OS != "darwin" || k.named || k.Target == "" {
		return k.stem + k.tail
	}
	arch := strings.TrimPrefix(k.Target, "darwin-")
	if arch == "x86_64" {
		arch = "x64"
	}
	return k.stem + "_" + arch + k.tail
}

// Distinct returns a bundle's name with the beginning of its hex digest in it.
func Distinct(name, digest string) string {
	if kind, ok := Recognize(name); ok {
		return kind.stem + "_" + digest[:8] + kind.tail
	}
	return digest[:8] + "_" + name
}
