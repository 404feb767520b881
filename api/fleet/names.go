package fleet

import (
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
)

// Other replaces a version, target or cohort that a channel's log does not contain, so that
// clients can't add names to the records and metrics. It is not a valid name of a channel or
// cohort.
const Other = "(other)"

// Names are the versions, targets and cohorts that a channel's log contains.
type Names struct {
	versions map[string]bool
	cohorts  map[string]bool
	targets  map[string]bool    // platforms without bundle types
	bundles  map[string]string  // platforms by version and file, such as 1.4.0/app.tar.gz
	files    library.NamedFiles // store keys of all files of releases that it names
}

// NamesOf collects the names in a log.
func NamesOf(l *channels.Log) *Names {
	n := newNames()
	n.files.Add(l)
	for _, e := range l.Entries {
		n.add(e.Render(""))
		if e.Rollout == nil {
			continue
		}
		n.add(e.Rollout.Release.Render("", 0))
		for _, cohort := range e.Rollout.Cohorts {
			n.cohorts[cohort] = true
		}
	}
	return n
}

// NamesIn collects the names in a manifest without a log.
func NamesIn(m manifest.Manifest) *Names {
	n := newNames()
	n.add(m)
	return n
}

func newNames() *Names {
	return &Names{versions: map[string]bool{}, cohorts: map[string]bool{}, targets: map[string]bool{}, bundles: map[string]string{}, files: library.NamedFiles{}}
}

// Object reports whether the channel's log names a file of a release, by its key in the store.
// A signature has the name of its bundle.
func (n *Names) Object(name string) bool { return n.files.Has(name) }

func (n *Names) add(m manifest.Manifest) {
	if n.versions[m.Version] {
		return
	}
	n.versions[m.Version] = true
	for key, platform := range m.Platforms {
		name := manifest.FileOf(platform.URL)
		k, err := manifest.ParseKey(key)
		if name == "" || err != nil {
			continue
		}
		n.targets[k.Target()] = true
		file := m.Version + "/" + name
		if target, ok := n.bundles[file]; ok && target != k.Target() {
			n.bundles[file] = Other // such as a universal one
			continue
		}
		n.bundles[file] = k.Target()
	}
}

// Version returns the version if the channel's log contains it, else Other.
func (n *Names) Version(text string) string {
	return nameIn(n.versions, strings.TrimLeft(text, "v"))
}

// Cohort returns the cohort if the channel's log contains it, else Other. Empty
// stays empty.
func (n *Names) Cohort(text string) string {
	if text == "" {
		return ""
	}
	return nameIn(n.cohorts, text)
}

// Target returns the platform, OS-ARCH, if the channel's log contains it, else
// Other.
func (n *Names) Target(text string) string { return nameIn(n.targets, text) }

func nameIn(known map[string]bool, text string) string {
	if known[text] {
		return text
	}
	return Other
}

// TargetOf returns the platform that a bundle of a version is for, Other if it is
// for several, and false if the channel never offered it.
func (n *Names) TargetOf(version, file string) (string, bool) {
	target, ok := n.bundles[version+"/"+file]
	return target, ok
}
