package bundle

import (
	"cmp"
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

// Rules choose among the bundles of a release.
type Rules struct {
	// Types, if it lists types of a system, leaves out that system's other types.
	Types []string
	// WindowsInstaller is the type of the plain keys of Windows, nsis or msi. A
	// target that has only the other type gets that. Empty is nsis.
	WindowsInstaller string
}

// Gather collects the bundles of one version: from folders, which it searches,
// from files, whose names must include their target, and from TARGET=FILE pairs,
// which take precedence. rules may be nil.
//
// Every bundle gets the key with its type, such as windows-x86_64-nsis. The plain
// key gets what clients can install that don't name their type: an AppImage on
// Linux, on Windows the type that rules prefer. A universal macOS bundle gets the
// keys of both architectures, but for those that have a bundle of their own. Of two
// files for a key, an archive is preferred to an installer, since every updater
// installs archives, and an MSI in en-US to other languages; any other two are
// refused.
//
// What new users download comes along: the installers that updates don't need, disk
// images, and the files that also names, as FILE or KEY=FILE with a KEY as CheckDownload
// describes it. They have Also set.
//
// skipped says of every other bundle in a folder why it is left out.
func Gather(version string, paths, explicit, also []string, rules *Rules) (bundles []Bundle, skipped []string, err error) {
	g := &gatherer{version: version, rules: *cmp.Or(rules, &Rules{})}
	for _, pair := range explicit {
		if err := g.explicit(pair); err != nil {
			return nil, nil, err
		}
	}
	for _, text := range also {
		if err := g.also(text); err != nil {
			return nil, nil, err
		}
	}
	for _, path := range paths {
		if err := g.path(path); err != nil {
			return nil, nil, err
		}
	}
	if len(g.bundles) == 0 || len(also) == 0 && !slices.ContainsFunc(g.bundles, func(b Bundle) bool { return !b.Also }) {
		return nil, g.skipped, Refuse(ErrBundles, "name the bundles, or the folder that the bundler wrote them to; "+mendExplicit,
			"no bundle of version %s in %s%s", version, strings.Join(paths, ", "), g.why())
	}
	if g.bundles, err = g.assign(); err != nil {
		return nil, nil, err
	}
	distinguish(g.bundles)
	return g.bundles, g.skipped, g.readSignatures()
}

const mendExplicit = "--bundle TARGET=FILE sets a bundle's target explicitly"

type gatherer struct {
	version string
	rules   Rules
	bundles []Bundle
	skipped []string
}

func (g *gatherer) skip(format string, args ...any) {
	g.skipped = append(g.skipped, fmt.Sprintf(format, args...))
}

func (g *gatherer) why() string {
	if len(g.skipped) == 0 {
		return ""
	}
	return " (" + strings.Join(g.skipped[:min(3, len(g.skipped))], "; ") + ")"
}

func (g *gatherer) explicit(pair string) error {
	text, path, ok := strings.Cut(pair, "=")
	if !ok || path == "" {
		return Refuse(ErrBundles, "write it as --bundle windows-x86_64=FILE", "%q is not TARGET=FILE", pair)
	}
	key := manifest.Key{OS: "darwin", Arch: "universal"}
	if text != manifest.Universal {
		var err error
		if key, err = manifest.ParseKey(text); err != nil {
			return &Refusal{Cause: err, Mend: "write it as --bundle windows-x86_64=FILE"}
		}
	}
	fits, known := key.Installs(path)
	name := path
	if !known {
		name += endingOf(path)
		fits, _ = key.Installs(name)
	}
	b := Bundle{Path: path, Name: filepath.Base(path), Target: key.Target(), Type: typeOf(name, key.OS), Given: []string{text}}
	switch _, err := stat(path); {
	case err != nil:
		return err
	case !fits:
		return Refuse(ErrBundles, "give a "+key.Installable()+" file", "%s can't be installed on %s", path, text)
	case key.Type != "" && b.Type != "" && b.Type != key.Type:
		return Refuse(ErrBundles, "check the file and the key", "%s is not named like a bundle of type %s", path, key.Type)
	case b.Type == "":
		b.Type = key.Type
	}
	for i := range g.bundles {
		if same := &g.bundles[i]; samePath(same.Path, path) {
			same.Given = append(same.Given, text)
			same.Target = commonTarget(same.Target, b.Target)
			return nil
		}
	}
	return g.add(b)
}

// beginnings are the first bytes of files that updaters install, by their endings.
var beginnings = map[string]string{
	".exe": "MZ", ".msi": "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ".zip": "PK\x03\x04", ".tar.gz": "\x1f\x8b",
	".AppImage": "\x7fELF", ".deb": "!<arch>\ndebian", ".rpm": "\xed\xab\xee\xdb",
}

// endingOf returns the file name ending that fits the content of a file, or "" if the content
// is unknown.
func endingOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 16)
	n, _ := io.ReadFull(file, head) // a shorter file begins like none
	for ending, beginning := range beginnings {
		if strings.HasPrefix(string(head[:n]), beginning) {
			return ending
		}
	}
	return ""
}

// typeOf returns the bundle type that a name shows on a system; "" if the content
// decides.
func typeOf(path, system string) string {
	if kind, ok := Recognize(path); ok {
		return kind.Type
	}
	switch ending := strings.ToLower(filepath.Ext(path)); {
	case ending == ".exe":
		return "nsis"
	case ending == ".gz" && system == "darwin":
		return "app"
	case ending == ".gz":
		return "appimage"
	}
	return ""
}

// commonTarget returns what a bundle for two targets is bound to, if anything.
func commonTarget(a, b string) string {
	switch {
	case a == b:
		return a
	case strings.HasPrefix(a, "darwin-") && strings.HasPrefix(b, "darwin-"):
		return manifest.Universal
	}
	return ""
}

func (g *gatherer) path(path string) error {
	switch info, err := stat(path); {
	case err != nil:
		return err
	case info.IsDir():
		return g.folder(path)
	case g.has(path):
		return nil
	case isFirstInstall(path):
		return Refuse(ErrBundles, "--also "+path+" stores it for new users, beside the bundles", "%s is for a first installation, updaters can't install it", path)
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
			if path != root && isContent(path) {
				return filepath.SkipDir
			}
			return nil
		}
		_, ok := Recognize(path)
		first := isFirstInstall(path)
		switch {
		case !ok && !first || g.has(path):
			return nil
		case first && strings.HasPrefix(d.Name(), "rw."): // what a build left that was interrupted
			g.skip("%s is an unfinished disk image", path)
			return nil
		case !d.Type().IsRegular():
			g.skip("%s is not a regular file", path)
			return nil
		}
		b, problem := g.recognize(path)
		if problem != "" && !b.Also {
			g.skip("%s", problem)
			return nil
		}
		return g.add(b)
	})
}

// isContent reports whether a folder is the content of a bundle.
func isContent(folder string) bool {
	if strings.HasSuffix(folder, ".app") || strings.HasSuffix(folder, ".AppDir") {
		return true
	}
	return slices.ContainsFunc([]string{".deb", ".rpm"}, func(ending string) bool {
		_, err := os.Lstat(folder + ending)
		return err == nil
	})
}

// recognize reads a file's name; problem says why the file updates nobody with this version. A
// file with a problem and Also set is for new users.
func (g *gatherer) recognize(path string) (b Bundle, problem string) {
	if why := aside(path); why != "" {
		return b, why
	}
	kind, ok := Recognize(path)
	first, mend := isFirstInstall(path), ""
	if first {
		kind, mend = recognizeOther(path), "; --also KEY=FILE says it"
	}
	if ok && kind.Type == "app" && kind.Target == "" && !kind.clash {
		if arch := machArch(path); arch != "" {
			kind.Target = "darwin-" + arch
		}
	}
	switch {
	case !ok && !first:
		return b, path + " is not named like an update bundle"
	case kind.clash:
		return b, path + " names another architecture than its folder" + mend
	case kind.Target == "":
		return b, path + " does not name its architecture" + mend
	case kind.Version != "" && kind.Version != g.version:
		return b, fmt.Sprintf("%s is named version %s", path, kind.Version)
	}
	b = Bundle{Path: path, Name: kind.storeName(), Target: kind.Target, Type: kind.Type, kind: kind}
	switch {
	case first:
		b.Name, b.Also = filepath.Base(path), true
	case g.rules.leaveOut(kind):
		b.Also = !kind.Archive
		problem = fmt.Sprintf("%s is of type %s, which bundle_types leaves out", path, kind.Type)
	}
	return b, problem
}

func (r Rules) leaveOut(kind Kind) bool {
	listed := slices.ContainsFunc(manifest.TypesOf(kind.OS), func(t string) bool { return slices.Contains(r.Types, t) })
	return listed && !slices.Contains(r.Types, kind.Type)
}

func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = Refuse(ErrNoFile, "check the path; `tauri build --target TRIPLE` writes to target/TRIPLE/release/bundle", "%s", path)
	}
	return info, err
}

func (g *gatherer) add(b Bundle) error {
	info, err := stat(b.Path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return Refuse(ErrBundles, "give the bundle itself", "%s is not a regular file", b.Path)
	case info.Size() == 0:
		return Refuse(ErrBundles, "build it again", "%s is empty", b.Path)
	case strings.HasSuffix(b.Name, ".sig"), strings.HasSuffix(b.Name, ".json"), b.Name == "staged":
		return Refuse(ErrBundles, "give the update bundle, or rename it", "%s has a name that is reserved for other objects of the release", b.Path)
	}
	b.Size = info.Size()
	g.bundles = append(g.bundles, b)
	return nil
}

func (g *gatherer) has(path string) bool {
	return slices.ContainsFunc(g.bundles, func(b Bundle) bool { return samePath(b.Path, path) })
}

func samePath(a, b string) bool {
	x, errA := filepath.Abs(a)
	y, errB := filepath.Abs(b)
	return errA == nil && errB == nil && x == y
}

func (g *gatherer) readSignatures() error {
	for i := range g.bundles {
		b := &g.bundles[i]
		if b.Also {
			continue
		}
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

// readSmall reads a regular file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
		return nil, Refuse(ErrBundles, "check what the file is", "%s is not a regular file", path)
	}
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
