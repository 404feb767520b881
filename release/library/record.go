// Package library holds the releases of a store: their records, their bundles, and what is
// staged of them.
//
//	releases/1.4.0/<bundle>        an update bundle, immutable
//	releases/1.4.0/<bundle>.sig    its signature as clients read it, immutable
//	releases/1.4.0/release.json    the Record, written last: the release is complete
//	staged/1.4.0/<target>/…        what one job of a build matrix brought
//
// A record is decided by the log of a channel that names it; the library reads logs and
// never writes one. Bytes get a final name only once their digests match.
// Stored bundles are compared with their records here, for every move and for
// `tsmon channel verify`.
package library

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
	// Root is the folder of all releases.
	Root      = "releases/"
	recordEnd = "/release.json"
	// MaxRecord bounds a record, in bytes.
	MaxRecord = 1 << 20
)

// CacheControl is the header of everything in a release's folder, wherever it is
// served: it never changes.
const CacheControl = "public, max-age=31536000, immutable"

// How objects of a release are stored.
var (
	BundleAttributes    = object.Attributes{ContentType: "application/octet-stream", CacheControl: CacheControl}
	SignatureAttributes = object.Attributes{ContentType: "text/plain; charset=utf-8", CacheControl: CacheControl}
	RecordAttributes    = object.Attributes{ContentType: "application/json", CacheControl: CacheControl}
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

	Number int    `json:"-"` // of the object, from 1
	Sum    string `json:"-"` // hex SHA-256 of the object; empty if there is none
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

// StoredOf describes a bundle as its record does.
func StoredOf(c bundle.Contents) Stored {
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

// Updates reports whether clients install it over an older version.
func (s *Stored) Updates() bool { return len(s.Keys) > 0 }

// download reports whether new users download it.
func (s *Stored) download() bool { return len(s.Downloads) > 0 || !s.Updates() }

// Digest decodes the recorded digest; a malformed one gives the zero digest, which
// no signature matches.
func (s *Stored) Digest() (d signing.Digest) {
	if raw, err := hex.DecodeString(s.BLAKE2b); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return d
}

// Bound reports whether the signature names a version, or needs to name none.
func (s *Stored) Bound() bool {
	if !s.Updates() {
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

// accept returns the signature if it is valid for the digest. The error wraps signing.ErrLegacy
// if only the bytes can tell.
func (s *Stored) accept(keys signing.Keyring, version string, allowUnbound bool) (signing.Signature, error) {
	sig, err := keys.Accept(s.Signature, signing.Claim{Version: version, Targets: s.Keys, AllowUnbound: allowUnbound})
	if err == nil {
		err = keys.VerifyDigest(sig, s.Digest())
	}
	return sig, err
}

// signedAlike reports whether another signature of the bundle is as good as its own, and by the
// same key.
func (s *Stored) signedAlike(keys signing.Keyring, version, other string, allowUnbound bool) bool {
	alike := *s
	alike.Signature = other
	sig, err := alike.accept(keys, version, allowUnbound && !s.Bound())
	return err == nil && sig.KeyID() == s.signer()
}

func checksumText(crc uint64) string { return fmt.Sprintf("%016x", crc) }

// Folder returns the prefix of the keys of a version's objects. It ends with a slash.
func Folder(version string) string { return Root + version + "/" }

// Keys returns the platform keys of all bundles, sorted.
func (r *Record) Keys() []string {
	var keys []string
	for _, b := range r.Bundles {
		keys = append(keys, b.Keys...)
	}
	slices.Sort(keys)
	return keys
}

// Without returns the bundles of a record for the targets that others have nothing for.
func (r *Record) Without(others []Stored) []Stored {
	taken := map[string]bool{}
	for _, b := range others {
		for _, key := range b.Keys {
			taken[PlainKey(key)] = true
		}
	}
	var rest []Stored
	for _, b := range r.Bundles {
		updates := b.Updates()
		b.Keys = slices.DeleteFunc(slices.Clone(b.Keys), func(key string) bool { return taken[PlainKey(key)] })
		if b.Updates() || !updates && !slices.ContainsFunc(others, b.Overlaps) {
			rest = append(rest, b)
		}
	}
	return rest
}

// Manifest returns the release as clients see it. baseURL is the address of the folder with its
// bundles.
func (r *Record) Manifest(baseURL string) manifest.Manifest {
	m := manifest.Manifest{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, Platforms: map[string]manifest.Platform{}}
	for _, b := range r.Bundles {
		for _, key := range b.Keys {
			m.Platforms[key] = manifest.Platform{Signature: b.Signature, URL: baseURL + "/" + url.PathEscape(b.Name)}
		}
	}
	return m
}

// Release returns the release as a channel's log keeps it.
func (r *Record) Release() channels.Release {
	sum := r.Sum
	if sum == "" {
		data, _ := r.Encode() // whose error ends the upload
		sum = SumOf(data)
	}
	kept := channels.Release{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, Record: sum, Platforms: map[string]channels.Bundle{}}
	for _, b := range r.Bundles {
		if b.download() {
			kept.Files = append(kept.Files, channels.File{Path: BundleKey(r.Version, b.Name), Size: b.Size, BLAKE2b: b.BLAKE2b, Keys: b.Downloads})
		}
		for _, key := range b.Keys {
			kept.Platforms[key] = channels.Bundle{Signature: b.Signature, Path: BundleKey(r.Version, b.Name)}
		}
	}
	return kept
}

// SumOf returns the SHA-256 by which logs name a record with these bytes, hex.
func SumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Encode returns the bytes of the record's object.
func (r *Record) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// SameBundles refuses bundles that differ from those of the release in the store. They must
// have the same bytes for the same platforms; their names don't matter. shown says whether a
// channel showed the release.
func (r *Record) SameBundles(ours []Stored, shown bool) error {
	mend := "a version's bytes never change: publish a higher version"
	if !shown {
		mend = "no channel ever showed it: `tsmon release discard " + r.Version + "` deletes it"
	}
	published := map[string]Stored{}
	for _, b := range r.Bundles {
		if b.Updates() {
			published[strings.Join(b.Keys, ", ")] = b
		}
	}
	updates := 0
	all := strings.Join(r.Keys(), ", ")
	for _, b := range ours {
		if !b.Updates() {
			if !r.Has(b) {
				return bundle.Refuse(ErrOtherBytes, mend, "version %s was published without this %s, or with another", r.Version, b.Name)
			}
			continue
		}
		updates++
		keys := strings.Join(b.Keys, ", ")
		other, ok := published[keys]
		switch {
		case !ok:
			return bundle.Refuse(ErrOtherBytes, mend, "%s was published for %s, not for %s as %s is", r.Version, all, keys, b.Name)
		case b.BLAKE2b != other.BLAKE2b:
			return bundle.Refuse(ErrOtherBytes, mend, "%s of version %s has other bytes than the published one", b.Name, r.Version)
		}
	}
	if updates != len(published) {
		return bundle.Refuse(ErrOtherBytes, "give all its bundles; "+mend, "%s was published for %s", r.Version, all)
	}
	return nil
}

// PlainKey returns a platform key without its bundle type.
func PlainKey(text string) string {
	key, err := manifest.ParseKey(text)
	if err != nil {
		return text
	}
	return key.Target()
}

// Overlaps reports whether two bundles are for the same platform key, or two downloads
// for the same new users.
func (s *Stored) Overlaps(other Stored) bool {
	if !s.Updates() && !other.Updates() {
		return s.Name == other.Name || slices.ContainsFunc(s.Downloads, func(key string) bool { return slices.Contains(other.Downloads, key) })
	}
	return slices.ContainsFunc(s.Keys, func(key string) bool { return slices.Contains(other.Keys, key) })
}

// Label names a bundle by its platforms, or a download by its name.
func (s *Stored) Label() string {
	if s.Updates() {
		return strings.Join(s.Keys, ", ")
	}
	return s.Name
}
