package channels

import (
	"net/url"
	"path"
	"strings"

	"tsmon/manifest"
)

// Other stands for what a channel has no name for, so that clients can't make up
// names. No channel and no cohort can be called so.
const Other = "(other)"

// names are what a channel's log has a name for.
type names struct {
	versions map[string]bool
	cohorts  map[string]bool
	targets  map[string]bool   // platforms without bundle types
	bundles  map[string]string // platforms by version and file, such as 1.4.0/app.tar.gz
}

func namesOf(l *Log) names {
	n := names{versions: map[string]bool{}, cohorts: map[string]bool{}, targets: map[string]bool{}, bundles: map[string]string{}}
	for _, e := range l.Entries {
		n.add(e.Manifest)
		if e.Rollout == nil {
			continue
		}
		n.add(e.Rollout.Manifest)
		for _, cohort := range e.Rollout.Cohorts {
			n.cohorts[cohort] = true
		}
	}
	return n
}

func (n names) add(m manifest.Manifest) {
	if n.versions[m.Version] {
		return
	}
	n.versions[m.Version] = true
	for key, platform := range m.Platforms {
		u, err := url.Parse(platform.URL)
		k, err2 := manifest.ParseKey(key)
		if err != nil || err2 != nil {
			continue
		}
		n.targets[k.Target()] = true
		file := m.Version + "/" + path.Base(u.Path)
		if target, ok := n.bundles[file]; ok && target != k.Target() {
			n.bundles[file] = Other // such as a universal one
			continue
		}
		n.bundles[file] = k.Target()
	}
}

// Version returns the name of a version that a client says it has: the version
// itself if the channel's log knows it, else Other.
func (o *Offers) Version(text string) string {
	text = strings.TrimLeft(text, "v")
	if o.names.versions[text] {
		return text
	}
	return Other
}

// Cohort likewise returns the name of a cohort. Clients without one have none.
func (o *Offers) Cohort(text string) string {
	if text == "" || o.names.cohorts[text] {
		return text
	}
	return Other
}

// Target likewise returns the name of a platform, OS-ARCH.
func (o *Offers) Target(text string) string {
	if o.names.targets[text] {
		return text
	}
	return Other
}

// TargetOf returns the platform that a bundle of a version is for, Other if it is
// for several, and false if the channel never offered it.
func (o *Offers) TargetOf(version, file string) (string, bool) {
	target, ok := o.names.bundles[version+"/"+file]
	return target, ok
}
