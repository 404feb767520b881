package channels

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsmon/manifest"
	"tsmon/store/object"
)

// Release is a release as the log keeps it: what a manifest says, with the paths of
// the bundles in the store instead of their addresses. A store that moved to another
// address keeps its log byte for byte.
type Release struct {
	Version   string            `json:"version"`
	Notes     string            `json:"notes"`
	PubDate   time.Time         `json:"pub_date"`
	Platforms map[string]Bundle `json:"platforms"` // by platform key
	manifest.Extra
	CriticalBelow string `json:"critical_below,omitempty"` // as in the manifest
	// Record is the hex SHA-256 of the release's record. A record in the store with another
	// hash is not this release's.
	Record string `json:"record"`
	// Files are what new users download, sorted by path.
	Files []File `json:"files,omitempty"`
}

// File is a file of a release that new users download.
type File struct {
	Path    string   `json:"path"`    // key in the store
	Size    int64    `json:"size"`    // bytes
	BLAKE2b string   `json:"blake2b"` // BLAKE2b-512 of the bytes, hex
	Keys    []string `json:"keys"`    // OS-ARCH or OS-ARCH-TYPE, sorted; may be none
}

// Equal reports whether two files are the same to new users and to the store.
func (f File) Equal(other File) bool {
	return f.Path == other.Path && f.Size == other.Size && f.BLAKE2b == other.BLAKE2b && slices.Equal(f.Keys, other.Keys)
}

// Bundle is what the clients of one platform key download.
type Bundle struct {
	Signature string `json:"signature"` // as in the manifest
	Path      string `json:"path"`      // key in the store
}

// Render returns the manifest of a release as a log entry shows it; publicURL is the
// address of the store, without a slash at the end.
func (r *Release) Render(publicURL string, sequence uint64) manifest.Manifest {
	m := manifest.Manifest{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, CriticalBelow: r.CriticalBelow, Sequence: sequence,
		Platforms: make(map[string]manifest.Platform, len(r.Platforms))}
	for key, b := range r.Platforms {
		m.Platforms[key] = manifest.Platform{Signature: b.Signature, URL: publicURL + escaped(b.Path)}
	}
	return m
}

// Carry returns a release as the channel shows it next. What the earlier releases that
// stand ask of clients goes on: the highest of their minimum versions, and the newest
// version that was critical.
func (l *Log) Carry(r Release) Release {
	if r.Critical {
		r.CriticalBelow = r.Version
	}
	for version, earlier := range l.passed(true) {
		if below(r.Version, version) {
			continue
		}
		r.MinimumVersion = higher(r.MinimumVersion, earlier.MinimumVersion)
		r.CriticalBelow = higher(r.CriticalBelow, earlier.CriticalBelow)
	}
	return r
}

// higher returns the higher of two versions, either of which may be empty.
func higher(a, b string) string {
	if a == "" || below(a, b) {
		return b
	}
	return a
}

// Equal reports whether two releases are the same to clients and to the store.
func (r *Release) Equal(other *Release) bool {
	return r.Version == other.Version && r.Notes == other.Notes && r.PubDate.Equal(other.PubDate) && r.Extra == other.Extra &&
		r.CriticalBelow == other.CriticalBelow && r.Record == other.Record && maps.Equal(r.Platforms, other.Platforms) &&
		slices.EqualFunc(r.Files, other.Files, File.Equal)
}

// base returns the public URL that a manifest of the release was rendered with.
func (r *Release) base(m *manifest.Manifest) (publicURL string, ok bool) {
	if r.Version != m.Version || len(r.Platforms) != len(m.Platforms) {
		return "", false
	}
	for key, b := range r.Platforms {
		base, ends := strings.CutSuffix(m.Platforms[key].URL, escaped(b.Path))
		if !ends || ok && base != publicURL {
			return "", false
		}
		publicURL, ok = base, true
	}
	return publicURL, ok
}

// escaped returns the path of a key in a URL, with a slash before it.
func escaped(key string) string {
	var path strings.Builder
	for segment := range strings.SplitSeq(key, "/") {
		path.WriteString("/" + url.PathEscape(segment))
	}
	return path.String()
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// anywhere takes the place of the public URL where the address does not matter.
const anywhere = "https://store.invalid"

// check returns an error unless clients can read the release's manifest.
func (r *Release) check(sequence uint64) error {
	for key, b := range r.Platforms {
		if err := object.ValidKey(b.Path); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, f := range r.Files {
		if err := object.ValidKey(f.Path); err != nil {
			return err
		}
	}
	if !digest.MatchString(r.Record) {
		return fmt.Errorf("the record of %s is named by %.70q, which is no SHA-256", r.Version, r.Record)
	}
	_, err := checked(r.Render(anywhere, sequence), nil)
	return err
}

// Render returns the manifest that an entry shows; publicURL as in Release.Render.
func (e *Entry) Render(publicURL string) manifest.Manifest {
	return e.Release.Render(publicURL, e.Sequence)
}

// Base returns the public URL that a manifest of the channel was rendered with;
// false if it is of no entry.
func (l *Log) Base(m *manifest.Manifest) (publicURL string, ok bool) {
	for i := len(l.Entries) - 1; i >= 0 && !ok; i-- {
		publicURL, ok = l.Entries[i].Release.base(m)
	}
	return publicURL, ok
}

// Record returns the SHA-256 of a version's record as the channel's log names it,
// empty for a version that was never offered.
func (l *Log) Record(version string) string {
	if r := l.Release(version); r != nil {
		return r.Record
	}
	return ""
}

// Release returns a version as the channel first offered it, nil if it never did.
func (l *Log) Release(version string) *Release {
	for i := range l.Entries {
		if r := l.Entries[i].offered(version); r != nil {
			return r
		}
	}
	return nil
}
