// Package recorded verifies the record of a release by the signatures of its bundles, because
// anybody who can write to the store may have written the record.
package recorded

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tsmon/release/library"
	"tsmon/signing"
)

// Discarded reports whether a record marks a release that was discarded before a channel showed
// it. The first record of a version never does.
func Discarded(data []byte) bool {
	var r library.Record
	return json.Unmarshal(data, &r) == nil && r.Discarded && len(r.Bundles) == 0
}

// Check returns an error unless data is the record of a version whose bundles are signed by
// trusted keys, or by any keys if none is trusted.
func Check(data []byte, version string, keys signing.Keyring) error {
	var r library.Record
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("not a record: %w", err)
	}
	if r.Version != version || !slices.ContainsFunc(r.Bundles, func(b library.Stored) bool { return len(b.Keys) > 0 }) {
		return fmt.Errorf("not the record of %s", version)
	}
	for _, b := range r.Bundles {
		if len(b.Keys) == 0 {
			continue // only new users download it; the log has the digest of the record
		}
		if err := CheckBundle(b, version, keys); err != nil {
			return fmt.Errorf("%.200s: %w", b.Name, err)
		}
	}
	return nil
}

// CheckBundle verifies a bundle's signature over the digest in the record. Of a legacy signature,
// which covers the bytes themselves, it checks the key only.
func CheckBundle(b library.Stored, version string, keys signing.Keyring) error {
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
