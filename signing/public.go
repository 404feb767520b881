package signing

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/jedisct1/go-minisign"
)

// A PublicKey is a minisign public key: an Ed25519 key and its id. Keys can be
// compared with ==. The zero PublicKey verifies nothing.
type PublicKey struct{ key minisign.PublicKey }

// ParsePublicKey parses a public key as the Tauri CLI stores it (base64 of a .pub
// file), as minisign does (the two-line .pub file), or the second line of that
// file alone ("RW…"). White space around it is allowed.
//
// The error is a *FormatError.
func ParsePublicKey(text string) (PublicKey, error) {
	if found := inspect(text); found.what != publicKey {
		return PublicKey{}, misplaced(text, found.what, publicKey, "take the content of the .pub file beside the private key")
	}
	line, ok := minisignLine(text)
	parsed, err := minisign.NewPublicKey(line)
	if !ok || err != nil || parsed.SignatureAlgorithm != algorithmPure {
		return PublicKey{}, malformed("public key is damaged", "copy it again, whole, from the .pub file")
	}
	return PublicKey{parsed}, nil
}

// ID returns the key's id as minisign prints it, in 16 upper-case hexadecimal
// digits.
func (k PublicKey) ID() string { return formatID(k.key.KeyId) }

func formatID(id [8]byte) string {
	return fmt.Sprintf("%016X", binary.LittleEndian.Uint64(id[:]))
}

// String returns the key in one line ("RW…"), the second of a .pub file.
func (k PublicKey) String() string {
	raw := make([]byte, 0, publicKeySize)
	raw = append(raw, algorithmPure[:]...)
	raw = append(raw, k.key.KeyId[:]...)
	raw = append(raw, k.key.PublicKey[:]...)
	return base64.StdEncoding.EncodeToString(raw)
}

// File returns the key as a two-line .pub file, with the Tauri CLI's comment.
func (k PublicKey) File() string {
	return untrustedPrefix + "minisign public key: " + k.ID() + "\n" + k.String() + "\n"
}

// Tauri returns the base64 of File without a line break: the Tauri CLI's .pub file,
// and the value of plugins.updater.pubkey in tauri.conf.json.
func (k PublicKey) Tauri() string {
	return base64.StdEncoding.EncodeToString([]byte(k.File()))
}

// verify checks s over message: the digest if s is prehashed, else the bundle.
func (k PublicKey) verify(message []byte, s Signature) bool {
	// The signature does not cover the algorithm: a prehashed signature is a pure
	// one over the digest.
	sig := s.sig
	sig.SignatureAlgorithm = algorithmPure
	valid, err := k.key.Verify(message, sig)
	return valid && err == nil
}
