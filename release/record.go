package release

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/object"
)

const (
	root      = "releases/"
	recordEnd = "/release.json"
	maxRecord = 1 << 20
)

// Record is release.json: what a release consists of. Its presence means that
// the release is whole; it is never changed.
type Record struct {
	Version string    `json:"version"`
	Notes   string    `json:"notes"`
	PubDate time.Time `json:"pub_date"` // UTC, whole seconds
	Who     string    `json:"who"`
	manifest.Extra
	Bundles []Stored `json:"bundles"` // sorted by name
}

// Stored is a bundle in the store.
type Stored struct {
	Name      string   `json:"name"` // below the release's folder
	Keys      []string `json:"keys"` // platform keys, sorted
	Type      string   `json:"type,omitempty"`
	Size      int64    `json:"size"`      // bytes
	BLAKE2b   string   `json:"blake2b"`   // BLAKE2b-512 of the bytes, hex
	CRC64     string   `json:"crc64nvme"` // CRC-64/NVME of the bytes, hex
	Signature string   `json:"signature"` // as in the manifest
}

func folder(version string) string    { return root + version + "/" }
func recordKey(version string) string { return root + version + recordEnd }

// Keys returns the platform keys of all bundles, sorted.
func (r *Record) Keys() []string {
	var keys []string
	for _, b := range r.Bundles {
		keys = append(keys, b.Keys...)
	}
	slices.Sort(keys)
	return keys
}

// Manifest is what clients see of the release; baseURL is the address of the
// release's folder or of the place that holds its bundles.
func (r *Record) Manifest(baseURL string) manifest.Manifest {
	m := manifest.Manifest{Version: r.Version, Notes: r.Notes, PubDate: r.PubDate, Extra: r.Extra, Platforms: map[string]manifest.Platform{}}
	for _, b := range r.Bundles {
		for _, key := range b.Keys {
			m.Platforms[key] = manifest.Platform{Signature: b.Signature, URL: baseURL + "/" + url.PathEscape(b.Name)}
		}
	}
	return m
}

func (p *Publisher) manifestOf(r *Record) manifest.Manifest {
	return r.Manifest(p.PublicURL + "/" + strings.TrimSuffix(folder(r.Version), "/"))
}

func (r *Record) encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// Record reads the record of a version. A *Refusal with ErrNoRelease if the
// version was not published.
func (p *Publisher) Record(ctx context.Context, version string) (*Record, error) {
	v, err := manifest.ParseVersion(version)
	if err != nil {
		return nil, &Refusal{Cause: err, Mend: "write it like 1.4.0"}
	}
	data, err := p.readObject(ctx, recordKey(v.String()), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(ErrNoRelease, "`tsmon release list` shows what is published", "%s is not in the store", version)
	}
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.Version != version || len(r.Bundles) == 0 {
		return nil, refuse(ErrStored, "restore the object from a backup", "%s is not the record of %s", recordKey(version), version)
	}
	return &r, nil
}

func (p *Publisher) readObject(ctx context.Context, key string, limit int64) ([]byte, error) {
	body, info, err := p.Store.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	if info.Size > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", key, limit)
	}
	data, err := io.ReadAll(io.LimitReader(body, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}

// List returns the versions that are whole, in the updater's order.
func (p *Publisher) List(ctx context.Context) ([]string, error) {
	var versions []manifest.Version
	for info, err := range p.Store.List(ctx, root, "") {
		if err != nil {
			return nil, fmt.Errorf("list the releases: %w", err)
		}
		text, isRecord := strings.CutSuffix(strings.TrimPrefix(info.Key, root), recordEnd)
		if v, err := manifest.ParseVersion(text); isRecord && err == nil {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, manifest.Version.Compare)
	texts := make([]string, len(versions))
	for i, v := range versions {
		texts[i] = v.String()
	}
	return texts, nil
}

// createRecord fixes a release. It returns the record that stands: ours, or an
// equal one that was there before.
func (p *Publisher) createRecord(ctx context.Context, r *Record) (*Record, error) {
	data, err := r.encode()
	if err != nil {
		return nil, err
	}
	key := recordKey(r.Version)
	_, err = p.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), recordAttributes)
	if errors.Is(err, fs.ErrExist) {
		standing, err := p.Record(ctx, r.Version)
		if err != nil {
			return nil, err
		}
		return standing, sameBundles(r.Bundles, standing)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	return r, nil
}

// checkStore proves on the record, which never changes, that the store honours
// the conditions that everything here relies on.
func (p *Publisher) checkStore(ctx context.Context, version string) error {
	key := recordKey(version)
	data, err := p.readObject(ctx, key, maxRecord)
	if err != nil {
		return err
	}
	if err := object.CheckConditions(ctx, p.Store, key, data, recordAttributes); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// sameBundles refuses bundles that are not those of a published release: the
// same bytes for the same platforms, whatever their names.
func sameBundles(ours []Stored, standing *Record) error {
	const mend = "a version's bytes never change: publish a higher version"
	published := map[string]Stored{}
	for _, b := range standing.Bundles {
		published[strings.Join(b.Keys, ", ")] = b
	}
	for _, b := range ours {
		keys := strings.Join(b.Keys, ", ")
		other, ok := published[keys]
		switch {
		case !ok:
			return refuse(ErrOtherBytes, mend, "%s was published for %s, not for %s as %s is", standing.Version, strings.Join(standing.Keys(), ", "), keys, b.Name)
		case b.BLAKE2b != other.BLAKE2b:
			return refuse(ErrOtherBytes, mend, "%s of version %s has other bytes than the published one", b.Name, standing.Version)
		}
	}
	if len(ours) != len(standing.Bundles) {
		return refuse(ErrOtherBytes, "give all its bundles, or publish a higher version", "%s was published for %s", standing.Version, strings.Join(standing.Keys(), ", "))
	}
	return nil
}

// verifyStored compares the bundles in the store with the record and their
// signatures with the trusted keys, without fetching them where the store keeps
// a checksum.
func (p *Publisher) verifyStored(ctx context.Context, r *Record, allowUnbound bool) error {
	for _, b := range r.Bundles {
		if err := p.verifyOne(ctx, r, b, allowUnbound); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) verifyOne(ctx context.Context, r *Record, b Stored, allowUnbound bool) error {
	const mend = "put the object back from a backup, or publish a higher version"
	key := folder(r.Version) + b.Name
	info, err := p.Store.Stat(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(ErrStored, mend, "%s is gone", key)
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", key, err)
	}
	crc, err := p.Store.Checksum(ctx, key)
	if err != nil {
		return fmt.Errorf("check %s: %w", key, err)
	}
	if info.Size != b.Size || checksumText(crc) != b.CRC64 {
		return refuse(ErrStored, mend, "%s has other bytes than were published", key)
	}
	sig, err := p.checkSignature(b.Signature, r.Version, b.Keys, allowUnbound)
	if err != nil {
		return err
	}
	err = p.Keys.VerifyDigest(sig, digestOf(b.BLAKE2b))
	if errors.Is(err, signing.ErrLegacy) {
		err = p.verifyBytes(ctx, key, sig)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// verifyBytes fetches a stored bundle and verifies its signature.
func (p *Publisher) verifyBytes(ctx context.Context, key string, sig signing.Signature) error {
	verifier, err := p.Keys.Verifier(sig)
	if err != nil {
		return err
	}
	body, info, err := p.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	w := p.counted(verifier, key, info.Size)
	if _, err := io.Copy(struct{ io.Writer }{w}, body); err != nil {
		return err
	}
	return verifier.Verify()
}

// checkSignature judges a signature without the bundle: form, key, version and
// targets.
func (p *Publisher) checkSignature(line, version string, keys []string, allowUnbound bool) (signing.Signature, error) {
	return p.Keys.Accept(line, signing.Claim{Version: version, Targets: keys, AllowUnbound: allowUnbound})
}

func checksumText(crc uint64) string { return fmt.Sprintf("%016x", crc) }

// digestOf decodes a recorded digest; a malformed one gives the zero digest,
// which no signature fits.
func digestOf(text string) (d signing.Digest) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(d) {
		copy(d[:], raw)
	}
	return d
}
