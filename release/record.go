package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

const (
	root      = "releases/"
	recordEnd = "/release.json"
	maxRecord = 1 << 20
)

// CacheControl is the header of everything in a release's folder, wherever it is
// served: it never changes.
const CacheControl = "public, max-age=31536000, immutable"

var (
	bundleAttributes    = object.Attributes{ContentType: "application/octet-stream", CacheControl: CacheControl}
	signatureAttributes = object.Attributes{ContentType: "text/plain; charset=utf-8", CacheControl: CacheControl}
	recordAttributes    = object.Attributes{ContentType: "application/json", CacheControl: CacheControl}
)

// Record is release.json: what a release consists of. Its presence means that the
// release is complete. It never changes: a release that no channel showed and that is
// added to or discarded gets another one, release-2.json and so on.
type Record struct {
	Version string    `json:"version"`
	Notes   string    `json:"notes"`
	PubDate time.Time `json:"pub_date"` // UTC, whole seconds
	Who     string    `json:"who"`
	manifest.Extra
	Bundles []Stored `json:"bundles"` // and what new users download, sorted by name

	// Discarded marks a version that was thrown away before a channel showed it. It
	// has no bundles.
	Discarded bool `json:"discarded,omitempty"`

	number int    // of the object, from 1
	sum    string // hex SHA-256 of the object; empty if there is none
}

// Stored is a bundle in the store, or a file that new users download and that updates
// nobody: that has neither keys nor, mostly, a signature.
type Stored struct {
	Name      string   `json:"name"` // below the release's folder
	Keys      []string `json:"keys"` // platform keys, sorted
	Type      string   `json:"type,omitempty"`
	Size      int64    `json:"size"`                // bytes
	BLAKE2b   string   `json:"blake2b"`             // BLAKE2b-512 of the bytes, hex
	CRC64     string   `json:"crc64nvme"`           // CRC-64/NVME of the bytes, hex
	Signature string   `json:"signature,omitempty"` // as in the manifest
	// Downloads are the keys by which new users find it, see bundle.CheckDownload.
	Downloads []string `json:"downloads,omitempty"`
}

func storedOf(c bundle.Contents) Stored {
	s := Stored{Name: c.Name, Keys: sorted(c.Keys), Downloads: c.Downloads, Type: c.Type, Size: c.Size,
		BLAKE2b: hex.EncodeToString(c.Digest[:]), CRC64: checksumText(c.CRC64)}
	if c.Signature != nil {
		s.Signature = c.Signature.String()
	}
	return s
}

// sorted returns a sorted copy that is not nil.
func sorted(keys []string) []string {
	return append([]string{}, slices.Sorted(slices.Values(keys))...)
}

// updates reports whether clients install it over an older version.
func (s *Stored) updates() bool { return len(s.Keys) > 0 }

// download reports whether new users download it.
func (s *Stored) download() bool { return len(s.Downloads) > 0 || !s.updates() }

// digest decodes the recorded digest; a malformed one gives the zero digest, which
// no signature matches.
func (s *Stored) digest() (d signing.Digest) {
	if raw, err := hex.DecodeString(s.BLAKE2b); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return d
}

// bound reports whether the signature names a version, or needs to name none.
func (s *Stored) bound() bool {
	if !s.updates() {
		return true
	}
	sig, err := signing.ParseSignature(s.Signature)
	_, bound := sig.Version()
	return err == nil && bound
}

// signer returns the id of the key that its signature names; empty without one.
func (s *Stored) signer() string {
	sig, err := signing.ParseSignature(s.Signature)
	if err != nil {
		return ""
	}
	return sig.KeyID()
}

// claim is what the record says about the bundle's signature.
func (s *Stored) claim(version string, allowUnbound bool) signing.Claim {
	return signing.Claim{Version: version, Targets: s.Keys, AllowUnbound: allowUnbound}
}

func checksumText(crc uint64) string { return fmt.Sprintf("%016x", crc) }

func folder(version string) string { return root + version + "/" }

// Keys returns the platform keys of all bundles, sorted.
func (r *Record) Keys() []string {
	var keys []string
	for _, b := range r.Bundles {
		keys = append(keys, b.Keys...)
	}
	slices.Sort(keys)
	return keys
}

// without returns the bundles of a record for the targets that others have nothing for.
func (r *Record) without(others []Stored) []Stored {
	taken := map[string]bool{}
	for _, b := range others {
		for _, key := range b.Keys {
			taken[plainKey(key)] = true
		}
	}
	var rest []Stored
	for _, b := range r.Bundles {
		updates := b.updates()
		b.Keys = slices.DeleteFunc(slices.Clone(b.Keys), func(key string) bool { return taken[plainKey(key)] })
		if b.updates() || !updates && !slices.ContainsFunc(others, b.overlaps) {
			rest = append(rest, b)
		}
	}
	return rest
}

// Manifest returns the release as clients see it; baseURL is the address of the
// folder that holds its bundles.
func (r *Record) Manifest(baseURL string) manifest.Manifest {
	m := manifest.Manifest{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, Platforms: map[string]manifest.Platform{}}
	for _, b := range r.Bundles {
		for _, key := range b.Keys {
			m.Platforms[key] = manifest.Platform{Signature: b.Signature, URL: baseURL + "/" + url.PathEscape(b.Name)}
		}
	}
	return m
}

// release returns the release as a channel's log keeps it.
func (r *Record) release() channels.Release {
	sum := r.sum
	if sum == "" {
		data, _ := r.encode() // whose error ends the upload
		sum = sumOf(data)
	}
	kept := channels.Release{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, Record: sum, Platforms: map[string]channels.Bundle{}}
	for _, b := range r.Bundles {
		if b.download() {
			kept.Files = append(kept.Files, channels.File{Path: folder(r.Version) + b.Name, Size: b.Size, BLAKE2b: b.BLAKE2b, Keys: b.Downloads})
		}
		for _, key := range b.Keys {
			kept.Platforms[key] = channels.Bundle{Signature: b.Signature, Path: folder(r.Version) + b.Name}
		}
	}
	return kept
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (r *Record) encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// sameBundles refuses bundles that are not those of a release in the store: the same
// bytes for the same platforms, whatever their names. shown says whether a channel
// showed it.
func (r *Record) sameBundles(ours []Stored, shown bool) error {
	mend := "a version's bytes never change: publish a higher version"
	if !shown {
		mend = "no channel ever showed it: `tsmon release discard " + r.Version + "` throws it away"
	}
	published := map[string]Stored{}
	for _, b := range r.Bundles {
		if b.updates() {
			published[strings.Join(b.Keys, ", ")] = b
		}
	}
	updates := 0
	all := strings.Join(r.Keys(), ", ")
	for _, b := range ours {
		if !b.updates() {
			if !r.has(b) {
				return refuse(ErrOtherBytes, mend, "version %s was published without this %s, or with another", r.Version, b.Name)
			}
			continue
		}
		updates++
		keys := strings.Join(b.Keys, ", ")
		other, ok := published[keys]
		switch {
		case !ok:
			return refuse(ErrOtherBytes, mend, "%s was published for %s, not for %s as %s is", r.Version, all, keys, b.Name)
		case b.BLAKE2b != other.BLAKE2b:
			return refuse(ErrOtherBytes, mend, "%s of version %s has other bytes than the published one", b.Name, r.Version)
		}
	}
	if updates != len(published) {
		return refuse(ErrOtherBytes, "give all its bundles; "+mend, "%s was published for %s", r.Version, all)
	}
	return nil
}
