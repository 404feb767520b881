package signing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A TrustedKey is a public key and the versions of the application that have it
// built in. Its signatures of earlier times stay good when its span has ended.
type TrustedKey struct {
	PublicKey
	Span
}

// Name is the key's id and its span.
func (k TrustedKey) Name() string { return strings.TrimSpace(k.ID() + " " + k.Span.String()) }

// A Keyring is the set of public keys whose signatures are trusted.
type Keyring []TrustedKey

// A KeyText is a trusted key as it is configured.
type KeyText struct{ Key, From, Until string }

// ParseKeyring parses keys with ParsePublicKey and drops duplicates. It refuses two different
// keys with the same id, since signatures name their key by id only, and two spans of one key.
//
// The error gives the key's number, from 1, and wraps a *FormatError.
func ParseKeyring(keys []KeyText) (Keyring, error) {
	var ring Keyring
	for i, text := range keys {
		longer, err := ring.with(text)
		if err != nil {
			return nil, fmt.Errorf("trusted key %d: %w", i+1, err)
		}
		ring = longer
	}
	return ring, nil
}

// with returns the ring with a key, which it may have already.
func (k Keyring) with(text KeyText) (Keyring, error) {
	key, err := ParsePublicKey(text.Key)
	if err != nil {
		return nil, err
	}
	trusted := TrustedKey{key, Span{text.From, text.Until}}
	if err := trusted.Check(); err != nil {
		return nil, err
	}
	switch same, found := k.Find(key.ID()); {
	case !found:
		return append(k, trusted), nil
	case same.PublicKey != key:
		return nil, malformed("another trusted key has the id "+key.ID(), "one of the two is damaged or forged: remove it")
	case same != trusted:
		return nil, malformed("key "+key.ID()+" is listed twice, for different versions", "write it once, with the first version that has it and the first that no longer has it")
	}
	return k, nil
}

// Find returns the key with that id.
func (k Keyring) Find(id string) (TrustedKey, bool) {
	for _, key := range k {
		if key.ID() == id {
			return key, true
		}
	}
	return TrustedKey{}, false
}

// Trusts reports whether a key is in the ring, for any range of versions.
func (k Keyring) Trusts(key PublicKey) bool {
	same, found := k.Find(key.ID())
	return found && same.PublicKey == key
}

// Spanned reports whether some version of the application lacks one of the keys.
func (k Keyring) Spanned() bool {
	return slices.ContainsFunc(k, func(key TrustedKey) bool { return key.Span != Span{} })
}

// BuiltInto returns the keys that a version of the application has.
func (k Keyring) BuiltInto(version string) Keyring {
	return slices.DeleteFunc(slices.Clone(k), func(key TrustedKey) bool { return !key.Contains(version) })
}

// IDs lists the ids of the keys, "none" if there are none.
func (k Keyring) IDs() string {
	ids := make([]string, len(k))
	for i, key := range k {
		ids[i] = key.ID()
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
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
func (k Keyring) signer(s Signature) (TrustedKey, error) {
	if key, found := k.Find(s.KeyID()); found {
		return key, nil
	}
	return TrustedKey{}, fmt.Errorf("%w: it names key %s; trusted: %s", ErrUntrustedKey, s.KeyID(), k.IDs())
}

// check verifies s over message. The error says what to suspect.
func (k PublicKey) check(message []byte, s Signature) error {
	if k.verify(message, s) {
		return nil
	}
	// The global signature covers the signature and its comment but not the
	// bundle, so it shows which of the two was changed.
	if k.madeComment(s) {
		return fmt.Errorf("%w: key %s signed other bytes than these: the bundle was changed after it was signed"+
			" (code-signed, notarised, packed again), or this signature is another bundle's", ErrSignature, k.ID())
	}
	return k.notMine()
}

func (k PublicKey) notMine() error {
	return fmt.Errorf("%w: key %s did not make it in this form: the signature or its trusted comment was changed", ErrSignature, k.ID())
}
