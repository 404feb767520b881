package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tsmon/manifest"
)

// ErrDownload says that a text is not a key by which new users find a file.
var ErrDownload = errors.New("not a key of downloads")

// downloadType is what CheckDownload accepts behind a target.
var downloadType = regexp.MustCompile(`^[a-z0-9]{1,16}(\.[a-z0-9]{1,16})?$`)

// CheckDownload reports why a text is not a key by which new users find a file:
// OS-ARCH as in a platform key, alone or followed by a type, such as
// darwin-aarch64-dmg, linux-x86_64-tar.gz or windows-x86_64. Errors wrap ErrDownload.
func CheckDownload(key string) error {
	if _, _, ok := splitDownload(key); !ok {
		return fmt.Errorf("%w: %.100q; write OS-ARCH or OS-ARCH-TYPE, such as windows-x86_64 or darwin-aarch64-dmg", ErrDownload, key)
	}
	return nil
}

// splitDownload returns the target and the type of a key, which may be darwin-universal.
func splitDownload(key string) (target, kind string, ok bool) {
	system, rest, _ := strings.Cut(key, "-")
	arch, kind, typed := strings.Cut(rest, "-")
	target = system + "-" + arch
	_, err := manifest.ParseKey(target)
	known := err == nil || target == manifest.Universal
	return target, kind, known && (!typed || downloadType.MatchString(kind))
}

// firstInstalls are the systems of files that install an application and can't update
// it, by their endings.
var firstInstalls = map[string]string{
	".dmg": "darwin", ".pkg": "darwin", ".msix": "windows", ".appx": "windows", ".snap": "linux", ".flatpak": "linux",
}

// isFirstInstall reports whether a file installs an application and can't update it.
func isFirstInstall(path string) bool {
	return firstInstalls[strings.ToLower(filepath.Ext(path))] != ""
}

// recognizeOther guesses the kind of a file that is no update bundle from its path.
func recognizeOther(path string) Kind {
	base := filepath.Base(path)
	ending := strings.ToLower(filepath.Ext(base))
	stem := base[:len(base)-len(ending)]
	if inner := strings.ToLower(filepath.Ext(stem)); inner == ".tar" {
		stem, ending = stem[:len(stem)-len(inner)], inner+ending
	}
	k := Kind{OS: cmp.Or(firstInstalls[ending], systemIn(stem)), stem: stem, tail: base[len(stem):], Version: versionIn(stem, "")}
	if kind := strings.TrimPrefix(ending, "."); downloadType.MatchString(kind) {
		k.Type = kind
	}
	if k.OS != "" {
		k.setTarget(path)
	}
	return k
}

// systemIn returns the system that a name contains.
func systemIn(stem string) string {
	words := strings.FieldsFunc(strings.ToLower(stem), func(r rune) bool { return strings.ContainsRune("_.- ", r) })
	for _, word := range words {
		switch word {
		case "windows", "win", "win32", "win64":
			return "windows"
		case "macos", "darwin", "osx":
			return "darwin"
		case "linux":
			return "linux"
		}
	}
	return ""
}

// also adds a file that --also names.
func (g *gatherer) also(text string) error {
	key, path, keyed := strings.Cut(text, "=")
	if _, _, ok := splitDownload(key); !keyed || !ok {
		key, path = "", text
	}
	if g.has(path) {
		return Refuse(ErrBundles, "name each file once", "%s is named twice", path)
	}
	kind, ok := Recognize(path)
	if !ok {
		kind = recognizeOther(path)
	}
	b := Bundle{Path: path, Name: filepath.Base(path), Target: kind.Target, Type: kind.Type, Also: true, kind: kind}
	if key != "" {
		target, given, _ := splitDownload(key)
		b.Target, b.Type, b.Given = target, cmp.Or(given, b.Type), []string{key}
	}
	return g.add(b)
}

// installs reports whether a bundle installs an application that is not there yet.
func installs(name string) bool {
	return slices.Contains([]string{".exe", ".msi", ".deb", ".rpm", ".appimage"}, strings.ToLower(filepath.Ext(name)))
}

// preference is the order in which types serve a target's plain key.
var preference = []string{"dmg", "pkg", "nsis", "msi", "msix", "appimage", "deb", "rpm"}

// assignDownloads gives the files that new users download their keys. A key has one
// file: the one that was given it, else a native one before a universal one, one that
// also updates before one that doesn't, and en-US before other languages; among equals
// the first name. The plain key of a target gets the type that its updates have, if
// there is such a file, else the first of preference.
func assignDownloads(files []Bundle) {
	byKey := map[string]*Bundle{}
	ordered := make([]*Bundle, 0, len(files))
	for i := range files {
		ordered = append(ordered, &files[i])
	}
	slices.SortStableFunc(ordered, func(a, b *Bundle) int {
		return cmp.Or(rank(a.Target == manifest.Universal, b.Target == manifest.Universal), rank(a.Also, b.Also),
			rank(a.kind.locale != "en-US", b.kind.locale != "en-US"), cmp.Compare(a.Name, b.Name))
	})
	take := func(key string, b *Bundle) {
		if target, kind, ok := splitDownload(key); ok {
			for _, each := range targetsOf(target) {
				if kind != "" {
					each += "-" + kind
				}
				if byKey[each] == nil {
					byKey[each] = b
				}
			}
		}
	}
	for _, b := range ordered {
		for _, key := range b.Given {
			if b.Also {
				take(key, b)
			}
		}
	}
	for _, b := range ordered {
		if b.Target != "" && b.Type != "" && (b.Also || installs(b.Name)) {
			take(b.Target+"-"+b.Type, b)
		}
	}
	updates := map[string]string{} // type of what updates a target's plain key
	for i := range files {
		for _, key := range files[i].Keys {
			updates[key] = files[i].Type
		}
	}
	// place returns the place of a key among those of its target, the one that serves the plain
	// key best first.
	place := func(key string) int {
		target, kind, _ := splitDownload(key)
		types := append([]string{updates[target]}, preference...)
		if i := slices.Index(types, kind); i >= 0 {
			return i
		}
		return len(types)
	}
	for _, key := range slices.SortedFunc(maps.Keys(byKey), func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) }) {
		if target, kind, _ := splitDownload(key); kind != "" {
			take(target, byKey[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		byKey[key].Downloads = append(byKey[key].Downloads, key)
	}
}

// rank orders false before true.
func rank(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
