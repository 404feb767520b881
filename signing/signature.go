package signing

import (
	"encoding/base64"
	"strings"

	"github.com/jedisct1/go-minisign"
)

// MaxSignature bounds a signature, in bytes. The Tauri CLI's have about 400.
const MaxSignature = 8 << 10

// A Signature is a parsed signature with its comments. Until a Keyring has verified
// it, not even its trusted comment can be trusted. Signatures can be compared
// with ==.
type Signature struct {
	sig minisign.Signature // both comments with their prefixes
}

// String returns the content of a .sig file and of the signature member of a
// manifest: the base64 of File without a line break.
func (s Signature) String() string {
	return base64.StdEncoding.EncodeToString([]byte(s.File()))
}

// File returns the signature as a minisign file of four lines.
func (s Signature) File() string { return string(s.sig.Encode()) }

// KeyID returns the id of the key that the signature names, as PublicKey.ID does.
func (s Signature) KeyID() string { return formatID(s.sig.KeyId) }

// Prehashed reports whether the digest of the bundle is signed, not the bundle.
func (s Signature) Prehashed() bool { return s.sig.SignatureAlgorithm == algorithmPrehashed }

// TrustedComment returns the comment that the signature covers.
func (s Signature) TrustedComment() string {
	return strings.TrimPrefix(s.sig.TrustedComment, trustedPrefix)
}

// Version returns the version that the signature is bound to, if any.
func (s Signature) Version() (string, bool) { return s.field("version:") }

// Target returns the target that the signature is bound to, if any.
func (s Signature) Target() (string, bool) { return s.field("target:") }

// Filename returns the bundle's name when it was signed, or "".
func (s Signature) Filename() string {
	name, _ := s.field("file:")
	return name
}

// field returns the value of the first field with that prefix, as the updater does.
func (s Signature) field(prefix string) (string, bool) {
	for field := range strings.SplitSeq(s.TrustedComment(), "\t") {
		if value, found := strings.CutPrefix(field, prefix); found {
			return value, true
		}
	}
	return "", false
}
