package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsmon/manifest"
	"tsmon/signing"
)

// maxWalk bounds the files of a folder.
const maxWalk = 100_000

// Gather collects the bundles of one version: from folders, which it searches,
// from files, whose names must include their target, and from TARGET=FILE pairs.
//
// Update archives (.zip for Windows, .tar.gz for macOS and Linux) get the plain
// key of their target, a universal one both darwin keys. Other types, and a
// second archive for a target, are accepted only if types lists them, and get
// keys with the type; of several archives, the one whose type comes first in
// types gets the plain key. Other files of a folder are skipped, each with a
// reason in skipped if it looks like a bundle.
func Gather(version string, paths, explicit, types []string) (bundles []Bundle, skipped []string, err error) {
	g := &gatherer{version: version, types: types}
	for _, pair := range explicit {
		if err := g.explicit(pair); err != nil {
			return nil, nil, err
		}
	}
	for _, path := range paths {
		if err := g.path(path); err != nil {
			return nil, nil, err
		}
	}
	if len(g.bundles) == 0 {
		return nil, g.skipped, Refuse(ErrBundles, "name the bundles, or the folder that the bundler wrote them to; "+mendExplicit,
			"no bundle of version %s in %s%s", version, strings.Join(paths, ", "), g.why())
	}
	if err := g.assign(); err != nil {
		return nil, nil, err
	}
	return g.bundles, g.skipped, g.readSignatures()
}

const mendExplicit = "--bundle TARGET=FILE sets a bundle's target explicitly"

type gatherer struct {
	version string
	types   []string
	bundles []Bundle
	skipped []string
}

func (g *gatherer) why() string {
	if len(g.skipped) == 0 {
		return ""
	}
	return " (" + strings.Join(g.skipped[:min(3, len(g.skipped))], "; ") + ")"
}

func (g *gatherer) explicit(pair string) error {
	key, path, ok := strings.Cut(pair, "=")
	if !ok || path == "" {
		return Refuse(ErrBundles, "write it as --bundle windows-x86_64=FILE", "%q is not TARGET=FILE", pair)
	}
	k := manifest.Key{OS: "darwin", Arch: "universal"}
	if key != manifest.Universal {
		var err error
		if k, err = manifest.ParseKey(key); err != nil {
			return &Refusal{Cause: err, Mend: "write it as --bundle windows-x86_64=FILE"}
		}
	}
	b := Bundle{Path: path, Name: filepath.Base(path), Target: k.Target(), Type: k.Type, explicit: key}
	kind, _ := Recognize(path)
	if kind.Type != "" {
		b.Type = kind.Type
	}
	lower := strings.ToLower(path)
	b.archive = strings.HasSuffix(lower, ".tar.gz") && k.OS != "windows" || strings.HasSuffix(lower, ".zip") && k.OS == "windows"
	if !b.archive && (k.Type == "" || !slices.Contains(g.types, k.Type)) {
		return Refuse(ErrBundles, "give the .zip (Windows) or .tar.gz (macOS, Linux) archive, or allow the type under bundle_types in tsmon.yaml and write the key with its type",
			"%s is not an update archive for %s", path, key)
	}
	if !b.archive && kind.Type != k.Type {
		return Refuse(ErrBundles, "check the file and the key", "%s is not named like a bundle of type %s", path, k.Type)
	}
	return g.add(b)
}

func (g *gatherer) path(path string) error {
	info, err := stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return g.folder(path)
	}
	b, problem := g.recognize(path)
	if problem != "" {
		return Refuse(ErrBundles, mendExplicit, "%s", problem)
	}
	return g.add(b)
}

func (g *gatherer) folder(root string) error {
	seen := 0
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxWalk {
			return Refuse(ErrBundles, "name the folder of the bundles itself", "%s holds more than %d files", root, maxWalk)
		}
		if d.IsDir() {
			if path != root && strings.HasSuffix(d.Name(), ".app") {
				return filepath.SkipDir
			}
			return nil
		}
		if _, ok := Recognize(path); !ok {
			return nil
		}
		if !d.Type().IsRegular() {
			g.skipped = append(g.skipped, path+" is not a regular file")
			return nil
		}
		b, problem := g.recognize(path)
		if problem != "" {
			g.skipped = append(g.skipped, problem)
			return nil
		}
		return g.add(b)
	})
}

// recognize reads a file's name; problem says why the file is not a bundle of
// this version.
func (g *gatherer) recognize(path string) (b Bundle, problem string) {
	kind, ok := Recognize(path)
	switch {
	case !ok:
		return b, path + " is not named like an update bundle"
	case kind.Target == "":
		return b, path + " does not name its architecture"
	case kind.Version != "" && kind.Version != g.version:
		return b, fmt.Sprintf("%s is named version %s", path, kind.Version)
	case !kind.Archive && !slices.Contains(g.types, kind.Type):
		return b, fmt.Sprintf("%s is of type %s, which bundle_types does not allow", path, kind.Type)
	}
	return Bundle{Path: path, Name: kind.storeName(), Target: kind.Target, Type: kind.Type, archive: kind.Archive}, ""
}

func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = Refuse(ErrBundles, "check the path", "%s does not exist", path)
	}
	return info, err
}

func (g *gatherer) add(b Bundle) error {
	info, err := stat(b.Path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return Refuse(ErrBundles, "give the archive itself", "%s is not a regular file", b.Path)
	case info.Size() == 0:
		return Refuse(ErrBundles, "build it again", "%s is empty", b.Path)
	}
	if strings.HasSuffix(b.Name, ".sig") || strings.HasSuffix(b.Name, ".json") || b.Name == "staged" {
		return Refuse(ErrBundles, "give the update bundle, or rename it", "%s has a name that the release keeps for its own objects", b.Path)
	}
	b.Size = info.Size()
	for _, other := range g.bundles {
		if samePath(other.Path, b.Path) {
			return nil
		}
		if strings.EqualFold(other.Name, b.Name) {
			return Refuse(ErrBundles, "rename one of them", "%s and %s would get the same name", other.Path, b.Path)
		}
	}
	g.bundles = append(g.bundles, b)
	return nil
}

func samePath(a, b string) bool {
	x, errA := filepath.Abs(a)
	y, errB := filepath.Abs(b)
	return errA == nil && errB == nil && x == y
}

// assign gives every bundle its platform keys: explicit bundles first, then in the
// order of the types.
func (g *gatherer) assign() error {
	rank := func(b Bundle) int {
		i := slices.Index(g.types, b.Type)
		switch {
		case b.explicit != "":
			return -1
		case i < 0:
			return len(g.types)
		}
		return i
	}
	slices.SortStableFunc(g.bundles, func(a, b Bundle) int { return rank(a) - rank(b) })
	taken := map[string]string{}
	for i := range g.bundles {
		b := &g.bundles[i]
		for _, target := range targetsOf(b.Target) {
			for _, key := range g.keysOf(b, target, taken) {
				if other, ok := taken[key]; ok {
					return Refuse(ErrBundles, mendExplicit+"; bundle_types in tsmon.yaml allows several types for a target",
						"%s and %s are both for %s", other, b.Path, key)
				}
				taken[key] = b.Path
				b.Keys = append(b.Keys, key)
			}
		}
	}
	return nil
}

// keysOf returns the platform keys of a bundle for one target.
func (g *gatherer) keysOf(b *Bundle, target string, taken map[string]string) []string {
	_, plainTaken := taken[target]
	allowed := slices.Contains(g.types, b.Type)
	switch {
	case b.explicit == manifest.Universal:
		return []string{target}
	case b.explicit != "":
		return []string{b.explicit}
	case !b.archive:
		return []string{target + "-" + b.Type}
	case !plainTaken && allowed && g.several(target):
		return []string{target, target + "-" + b.Type}
	case plainTaken && allowed:
		return []string{target + "-" + b.Type}
	}
	return []string{target}
}

// several reports whether more than one archive is for a target.
func (g *gatherer) several(target string) bool {
	isFor := func(b Bundle) bool { return b.archive && slices.Contains(targetsOf(b.Target), target) }
	first := slices.IndexFunc(g.bundles, isFor)
	return slices.ContainsFunc(g.bundles[first+1:], isFor)
}

func targetsOf(target string) []string {
	if target == manifest.Universal {
		return []string{"darwin-x86_64", "darwin-aarch64"}
	}
	return []string{target}
}

func (g *gatherer) readSignatures() error {
	for i := range g.bundles {
		b := &g.bundles[i]
		data, err := readSmall(b.Path+".sig", 64<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sig, err := signing.ReadSignature(string(data))
		if format := (*signing.FormatError)(nil); errors.As(err, &format) {
			return &Refusal{Cause: fmt.Errorf("%s.sig: %w", b.Path, err), Mend: format.Mend}
		} else if err != nil {
			return fmt.Errorf("%s.sig: %w", b.Path, err)
		}
		b.Signature = &sig
	}
	return nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = Refuse(ErrBundles, "check what the file is", "%s is larger than %d bytes", path, limit)
	}
	return data, err
}
