package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/object"
)

// Bundle is an update bundle on disk.
type Bundle struct {
	Path   string
	Name   string   // object name, unique within the release
	Target string   // OS-ARCH or darwin-universal, which the signature may be bound to
	Type   string   // bundle type, empty if unknown
	Keys   []string // platform keys of the manifest, filled by Gather
	Size   int64    // bytes
	// Signature is what BUNDLE.sig holds, nil where there is none.
	Signature *signing.Signature

	archive  bool
	explicit string // the platform key that was given, if any
}

// maxWalk bounds the files of a folder that are looked at.
const maxWalk = 100_000

// Gather collects the bundles of one version from folders, which are searched,
// and files, whose names must tell their target, and from explicit TARGET=FILE
// pairs. Update archives (.zip for Windows, .tar.gz for macOS and Linux) stand
// under the plain key of their target, a universal one under both darwin keys.
// Other types, and a second archive for a target, are taken only where types
// allows them, and stand under suffixed keys; of several archives the plain key
// names the one whose type comes first in types. Files in folders that are no
// bundle of this version are left aside and returned as skipped, with a reason.
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
		return nil, g.skipped, refuse(ErrBundles, "name the bundles, or the folder that the bundler wrote them to; "+mendExplicit,
			"no bundle of version %s in %s%s", version, strings.Join(paths, ", "), g.why())
	}
	if err := g.assign(); err != nil {
		return nil, nil, err
	}
	return g.bundles, g.skipped, g.readSignatures()
}

const mendExplicit = "--bundle TARGET=FILE names a bundle's target explicitly"

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
		return refuse(ErrBundles, "write it as --bundle windows-x86_64=FILE", "%q is no TARGET=FILE", pair)
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
		return refuse(ErrBundles, "give the .zip (Windows) or .tar.gz (macOS, Linux) archive, or allow the type under bundle_types in tsmon.yaml and write the key with its type",
			"%s is no update archive for %s", path, key)
	}
	if !b.archive && kind.Type != k.Type {
		return refuse(ErrBundles, "check the file and the key", "%s is not named like a bundle of type %s", path, k.Type)
	}
	return g.add(b)
}

func (g *gatherer) path(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(ErrBundles, "check the path", "%s does not exist", path)
	case err != nil:
		return err
	case info.IsDir():
		return g.folder(path)
	}
	b, problem := g.recognize(path)
	if problem != "" {
		return refuse(ErrBundles, mendExplicit, "%s", problem)
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
			return refuse(ErrBundles, "name the folder of the bundles itself", "%s holds more than %d files", root, maxWalk)
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

// recognize reads a file's name; problem says why it is no bundle for this
// release.
func (g *gatherer) recognize(path string) (b Bundle, problem string) {
	kind, ok := Recognize(path)
	switch {
	case !ok:
		return b, path + " is not named like an update bundle"
	case kind.Target == "":
		return b, path + " does not tell its architecture"
	case kind.Version != "" && kind.Version != g.version:
		return b, fmt.Sprintf("%s is named version %s", path, kind.Version)
	case !kind.Archive && !slices.Contains(g.types, kind.Type):
		return b, fmt.Sprintf("%s is of type %s, which bundle_types does not allow", path, kind.Type)
	}
	return Bundle{Path: path, Name: kind.storeName(), Target: kind.Target, Type: kind.Type, archive: kind.Archive}, ""
}

func (g *gatherer) add(b Bundle) error {
	info, err := os.Stat(b.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(ErrBundles, "check the path", "%s does not exist", b.Path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return refuse(ErrBundles, "give the archive itself", "%s is not a regular file", b.Path)
	case info.Size() == 0:
		return refuse(ErrBundles, "build it again", "%s is empty", b.Path)
	}
	if strings.HasSuffix(b.Name, ".sig") || strings.HasSuffix(b.Name, ".json") || b.Name == "staged" {
		return refuse(ErrBundles, "give the update bundle, or rename it", "%s would stand in the way of the release's own objects", b.Path)
	}
	if err := object.ValidKey(b.Name); err != nil {
		return refuse(ErrBundles, "rename the file", "%s: %v", b.Path, err)
	}
	b.Size = info.Size()
	for _, other := range g.bundles {
		if samePath(other.Path, b.Path) {
			return nil
		}
		if strings.EqualFold(other.Name, b.Name) {
			return refuse(ErrBundles, "rename one of them", "%s and %s would have one name", other.Path, b.Path)
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

// assign gives every bundle its platform keys.
func (g *gatherer) assign() error {
	taken := map[string]string{}
	take := func(b *Bundle, key string) error {
		if other, ok := taken[key]; ok {
			return refuse(ErrBundles, mendExplicit+"; bundle_types in tsmon.yaml lets types stand side by side",
				"%s and %s are both for %s", other, b.Path, key)
		}
		taken[key] = b.Path
		b.Keys = append(b.Keys, key)
		return nil
	}
	order := g.byPreference()
	for _, b := range order {
		for _, target := range targetsOf(b.Target) {
			for _, key := range g.keysOf(b, target, taken) {
				if err := take(b, key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// byPreference orders explicit bundles first, then by the order of the types.
func (g *gatherer) byPreference() []*Bundle {
	order := make([]*Bundle, len(g.bundles))
	for i := range g.bundles {
		order[i] = &g.bundles[i]
	}
	rank := func(b *Bundle) int {
		if b.explicit != "" {
			return -1
		}
		if i := slices.Index(g.types, b.Type); i >= 0 {
			return i
		}
		return len(g.types)
	}
	slices.SortStableFunc(order, func(a, b *Bundle) int { return rank(a) - rank(b) })
	return order
}

// keysOf says under which keys a bundle stands for one target.
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
	n := 0
	for _, b := range g.bundles {
		if b.archive && slices.Contains(targetsOf(b.Target), target) {
			n++
		}
	}
	return n > 1
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
