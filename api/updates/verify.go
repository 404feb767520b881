package updates

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"tsmon/api/web"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// maxRecord bounds the record of a release, in bytes.
const maxRecord = 1 << 20

// record reads the record of a release and verifies it, and raises or clears its
// alarm. The errors are the store's, or errUnverified; fs.ErrNotExist, too, for the mark
// of a release that was discarded, and for a record whose place another has taken. named is
// false if no log that is known has the version: nothing but the bundles vouches for it then.
func (h *Heads) record(ctx context.Context, key string) (d *web.Document, named bool, err error) {
	data, info, err := object.ReadAll(ctx, h.store, key, maxRecord)
	version, fault := path.Base(path.Dir(key)), err
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.alarms.clear(key)
		return nil, false, err
	case err == nil && path.Base(key) != "release.json" && discarded(data):
		h.alarms.clear(key)
		return nil, false, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	case err == nil:
		fault = checkRecord(data, version, h.keys)
	case !errors.Is(err, object.ErrTooLarge):
		return nil, false, err
	}
	if fault == nil {
		named, fault, err = h.vouched(ctx, version, library.SumOf(data))
	}
	if fault != nil {
		h.alarms.raise(key, info.ETag, kindRecord, fault)
		return nil, false, errUnverified
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		h.alarms.clear(key)
	}
	return web.NewDocument(data, info), named, err
}

// vouched compares the SHA-256 of a version's record with what the logs of channels name.
// named is false if none of those that are known has the version; fault says that the store
// lacks the record that they name; err wraps fs.ErrNotExist if another one is it.
func (h *Heads) vouched(ctx context.Context, version, sum string) (named bool, fault, err error) {
	rightful := ""
	for _, c := range *h.known.Load() {
		if log := c.believed.Load(); log != nil {
			rightful = cmp.Or(log.Record(version), rightful)
		}
		if rightful == sum {
			return true, nil, nil
		}
	}
	if rightful == "" {
		return false, nil, nil
	}
	switch _, err = (library.Library{Store: h.store}).Named(ctx, version, rightful); {
	case err == nil:
		return true, nil, fmt.Errorf("another record of %s: %w", version, fs.ErrNotExist)
	case errors.Is(err, library.ErrStored), errors.Is(err, library.ErrNoRelease), errors.Is(err, object.ErrTooLarge):
		return true, err, nil
	}
	return true, nil, err
}

// recheck verifies the records that failed before.
func (h *Heads) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	for _, key := range h.alarms.records() {
		info, err := h.store.Stat(ctx, key)
		if err == nil && h.alarms.raised(key, info.ETag) {
			continue
		}
		_, _, err = h.record(ctx, key)
		if err != nil && !errors.Is(err, errUnverified) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// discarded reports whether a record is the mark of a release that was thrown away
// before a channel showed it. The first one of a version never is.
func discarded(data []byte) bool {
	var r library.Record
	return json.Unmarshal(data, &r) == nil && r.Discarded && len(r.Bundles) == 0
}

// checkRecord returns an error unless data is the record of a version whose bundles
// are signed by trusted keys, or signed at all where no key is trusted.
func checkRecord(data []byte, version string, keys signing.Keyring) error {
	var r library.Record
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	if r.Version != version || !slices.ContainsFunc(r.Bundles, func(b library.Stored) bool { return len(b.Keys) > 0 }) {
		return fmt.Errorf("not the record of %s", version)
	}
	for _, b := range r.Bundles {
		if len(b.Keys) == 0 {
			continue // which only new users download; the log has the digest of the record
		}
		if err := checkBundle(b, version, keys); err != nil {
			return fmt.Errorf("%.200s: %w", b.Name, err)
		}
	}
	return nil
}

// checkBundle verifies a bundle's signature over the digest in the record. A legacy
// signature covers the bytes themselves: only its key is checked.
func checkBundle(b library.Stored, version string, keys signing.Keyring) error {
	sig, err := keys.Accept(b.Signature, signing.Claim{Version: version, Targets: b.Keys, AllowUnbound: true, AnyKey: len(keys) == 0})
	if err != nil || len(keys) == 0 {
		return err
	}
	raw, err := hex.DecodeString(b.BLAKE2b)
	if err != nil || len(raw) != len(signing.Digest{}) {
		return errors.New("its digest is malformed")
	}
	if err = keys.VerifyDigest(sig, signing.Digest(raw)); errors.Is(err, signing.ErrLegacy) {
		return nil
	}
	return err
}
