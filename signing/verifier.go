package signing

import (
	"bytes"
	"fmt"
	"hash"
)

// LegacyLimit bounds bundles with a legacy signature, in bytes: they are held in
// memory.
const LegacyLimit = 128 << 20

// A Verifier verifies a signature over the bundle that is written to it, in constant
// memory unless the signature is a legacy one.
type Verifier struct {
	key    PublicKey
	sig    Signature
	hash   hash.Hash
	bundle *bytes.Buffer // nil if the signature is prehashed
	err    error         // the first error of Write
}

// Verifier returns a verifier of s. The error is ErrUntrustedKey if s names no key
// of the ring.
func (k Keyring) Verifier(s Signature) (*Verifier, error) {
	key, err := k.signer(s)
	if err != nil {
		return nil, err
	}
	v := &Verifier{key: key.PublicKey, sig: s, hash: NewHash()}
	if !s.Prehashed() {
		v.bundle = new(bytes.Buffer)
	}
	return v, nil
}

// Write adds the next bytes of the bundle. The error is ErrLegacy beyond LegacyLimit.
func (v *Verifier) Write(part []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if v.bundle != nil {
		if v.bundle.Len()+len(part) > LegacyLimit {
			v.bundle = new(bytes.Buffer)
			v.err = fmt.Errorf("%w: it can't be checked for a bundle larger than %d MiB; sign the bundle again, prehashed",
				ErrLegacy, LegacyLimit>>20)
			return 0, v.err
		}
		v.bundle.Write(part)
	}
	return v.hash.Write(part)
}

// Verify checks the signature over everything written. The error is ErrSignature,
// or that of a failed Write.
func (v *Verifier) Verify() error {
	if v.err != nil {
		return v.err
	}
	if v.bundle != nil {
		return v.key.check(v.bundle.Bytes(), v.sig)
	}
	d := v.Digest()
	return v.key.check(d[:], v.sig)
}

// Digest returns the digest of what was written.
func (v *Verifier) Digest() Digest { return sum(v.hash) }
