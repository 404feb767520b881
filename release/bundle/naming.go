package bundle

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Kind is what the path of a bundle says about it.
type Kind struct {
	OS      string // linux, darwin or windows
	Target  string // OS-ARCH or darwin-universal; empty if the path doesn't contain the architecture
	Type    string // appimage, deb, rpm, app, msi or nsis
	Version string // empty if the name has none
	// Archive is set for .zip and .tar.gz, which the updaters of Tauri 1 and 2 install. Only
	// the updater of Tauri 2 installs the others.
	Archive bool

	named  bool   // the file name itself contains the architecture
	clash  bool   // name and folder contain different architectures
	locale string // of an MSI, such as en-US
	stem   string
	tail   string
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

// arches maps the architectures in file names to those of the updater, which has one name
// for all of 32-bit ARM.
var arches = map[string]string{
	"x64": "x86_64", "x86_64": "x86_64", "amd64": "x86_64",
	"aarch64": "aarch64", "arm64": "aarch64",
	"x86": "i686", "i386": "i686", "i586": "i686", "i686": "i686",
	"armhf": "armv7", "armhfp": "armv7", "armel": "armv7", "armv7": "armv7",
	"riscv64":   "riscv64",
	"universal": "universal",
}

var (
	triple     = regexp.MustCompile(`(?:^|[_.-])(x86_64|aarch64|i[3-6]86|arm(?:v[0-9][a-z0-9]*)?|riscv64|universal)[a-z0-9]*-(?:[a-z0-9]+-)?(darwin|windows|linux)`)
	localeTail = regexp.MustCompile(`_([a-z]{2,3}-[A-Za-z0-9-]+)$`)
)

// Recognize parses the path of a bundle as the Tauri bundler and tauri-action write it.
// The extension tells the system and the type, and the name tells the version. The
// architecture is in the name, or in a folder named after a Rust target such as
// aarch64-apple-darwin. ok is false for other files.
func Recognize(path string) (k Kind, ok bool) {
	base := filepath.Base(path)
	for _, t := range tails {
		at := len(base) - len(t.tail)
		if at <= 0 || strings.ToLower(base[at:]) != t.tail {
			continue
		}
		k = Kind{OS: t.os, Type: t.kind, Archive: t.archive, stem: base[:at], tail: base[at:]}
		k.Version = versionIn(k.stem, k.Type)
		if m := localeTail.FindStringSubmatch(k.stem); m != nil && k.Type == "msi" {
			k.locale = m[1]
		}
		k.setTarget(path)
		return k, true
	}
	return Kind{}, false
}

// setTarget prefers the architecture in the name to that in the folder. On macOS they must
// agree: the bundler writes no architecture into names there, so a word that looks like one
// may belong to the product's name.
func (k *Kind) setTarget(path string) {
	arch, outer := archInName(k.stem), archInFolders(path, k.OS)
	k.named = arch != ""
	k.clash = k.OS == "darwin" && arch != "" && outer != "" && arch != outer
	if arch == "" {
		arch = outer
	}
	if arch != "" && !k.clash && (arch != "universal" || k.OS == "darwin") {
		k.Target = k.OS + "-" + arch
	}
}

// archInName returns the last architecture in a name. It skips the first word, which
// belongs to the product's name.
func archInName(stem string) string {
	words := strings.FieldsFunc(strings.ToLower(stem), func(r rune) bool { return strings.ContainsRune("_.-", r) })
	for i := len(words) - 1; i > 0; i-- {
		word := words[i]
		if word == "64" && i > 1 {
			word = words[i-1] + "_64"
		}
		if arch, ok := arches[word]; ok {
			return arch
		}
	}
	return ""
}

// archInFolders returns the architecture of the innermost folder named after a Rust target
// of the system.
func archInFolders(path, system string) string {
	folders := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
	for _, folder := range slices.Backward(folders) {
		m := triple.FindStringSubmatch(folder)
		switch {
		case m == nil || m[2] != system:
		case strings.HasPrefix(m[1], "arm"):
			return "armv7"
		default:
			return arches[m[1]]
		}
	}
	return ""
}

// versionIn returns the version in a name. It stands between underscores. In the name of an
// RPM it may stand between the product and the package's own release number.
func versionIn(stem, kind string) string {
	for part := range strings.SplitSeq(stem, "_") {
		if IsVersion(part) {
			return part
		}
	}
	end := strings.LastIndexByte(stem, '-')
	if kind != "rpm" || end < 0 {
		return ""
	}
	for rest := stem[:end]; rest != ""; {
		if IsVersion(rest) {
			return rest
		}
		_, rest, _ = strings.Cut(rest, "-")
	}
	return ""
}

// storeName returns the name of a bundle in the store. The bundler gives the macOS archives
// of both architectures the same name, so storeName adds the architecture, as tauri-action
// does.
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

// Distinct inserts a mark into a bundle's name, such as the first digits of its digest.
func Distinct(name, mark string) string {
	if kind, ok := Recognize(name); ok {
		return kind.stem + "_" + mark + kind.tail
	}
	return mark + "_" + name
}

// aside returns why a file of the bundler is skipped, and "" for all other files.
func aside(path string) string {
	folder := filepath.Base(filepath.Dir(path))
	if _, ok := Recognize(path); ok && (folder == "nsis-updater" || folder == "msi-updater") {
		return path + " was packed by the bundler into the .zip of the same name"
	}
	return ""
}
