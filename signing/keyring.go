package signing

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"strings"
)

// A Keyring is the set of public keys whose signatures are trusted.
type Keyring []PublicKey

// ParseKeyring parses keys with ParsePublicKey and drops duplicates. Two different
// keys with the same id are refused, since signatures name their key by id only.
//
// The error gives the key's number, from 1, and wraps a *FormatError.
func ParseKeyring(keys []string) (Keyring, error) {
	var ring Keyring
	for i, text := range keys {
		key, err := ParsePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("trusted key %d: %w", i+1, err)
		}
		switch same, found := ring.Find(key.ID()); {
		case !found:
			ring = append(ring, key)
		case same != key:
			return nil, fmt.Errorf("trusted key %d: %w", i+1,
				malformed("another trusted key has the id "+key.ID(), "one of the two is damaged or forged: remove it"))
		}
	}
	return ring, nil
}

// Find returns the key with that id.
func (k Keyring) Find(id string) (PublicKey, bool) {
	for _, key := range k {
		if key.ID() == id {
			return key, true
		}
	}
	return PublicKey{}, false
}

// VerifyDigest verifies a prehashed signature over the digest of a bundle.
//
// The error is ErrUntrustedKey, ErrSignature, or ErrLegacy if s is not prehashed:
// verify that with a Verifier.
func (k Keyring) VerifyDigest(s Signature, d Digest) error {
	key, err := k.signer(s)
	if err != nil {
		return err
	}
	if !s.Prehashed() {
		return fmt.Errorf("%w: it can't be checked by the bundle's digest, only by the bundle", ErrLegacy)
	}
	return key.check(d[:], s)
}

// signer returns the trusted key that s names.
func (k Keyring) signer(s Signature) (PublicKey, error) {
	if key, found := k.Find(s.KeyID()); found {
		return key, nil
	}
	ids := make([]string, len(k))
	for i, key := range k {
		ids[i] = key.ID()
	}
	return PublicKey{}, fmt.Errorf("%w: it names key %s; trusted: %s", ErrUntrustedKey, s.KeyID(), cmp.Or(strings.Join(ids, ", "), "none"))
}

// check verifies s over message. The error says what to suspect.
func (k PublicKey) check(message []byte, s Signature) error {
	if k.verify(message, s) {
		return nil
	}
	// The global signature covers the signature and its comment but not the
	// bundle, so it shows which of the two was changed.
	if ed25519.Verify(k.key.PublicKey[:], globalMessage(s.sig), s.sig.GlobalSignature[:]) {
		return fmt.Errorf("%w: key %s signed other bytes than these: the bundle was changed after it was signed"+
			" (code-signed, notarised, packed again), or this signature is another bundle's", ErrSignature, k.ID())
	}
	return fmt.Errorf("%w: key %s did not make it in this form: the signature or its trusted comment was changed",
		ErrSignature, k.ID())
}
