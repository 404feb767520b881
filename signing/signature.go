package signing

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/jedisct1/go-minisign"
)

// MaxSignature is the longest signature that is read, in bytes. Those of the
// Tauri CLI have about 400.
const MaxSignature = 8 << 10

// A Signature is a detached signature with its comments. Parsed does not mean
// valid: see Keyring. Until it is verified, its trusted comment is not to be
// trusted either. Equal signatures are equal with ==.
type Signature struct {
	sig minisign.Signature // both comments with their prefixes
}

// String returns the signature as the Tauri CLI writes it to a .sig file, and
// as the signature member of a manifest holds it: the base64 of File, in one
// line without a line break.
func (s Signature) String() string {
	return base64.StdEncoding.EncodeToString([]byte(s.File()))
}

// File returns the signature as a minisign file of four lines.
func (s Signature) File() string { return string(s.sig.Encode()) }

// KeyID returns the id of the key that claims to have signed, as PublicKey.ID.
func (s Signature) KeyID() string { return formatID(s.sig.KeyId) }

// Prehashed says whether the digest of the bundle is signed, not the bundle.
func (s Signature) Prehashed() bool { return s.sig.SignatureAlgorithm == algorithmPrehashed }

// TrustedComment returns the comment that the signature covers.
func (s Signature) TrustedComment() string {
	return strings.TrimPrefix(s.sig.TrustedComment, trustedPrefix)
}

// UntrustedComment returns the comment that nothing covers.
func (s Signature) UntrustedComment() string {
	return strings.TrimPrefix(s.sig.UntrustedComment, untrustedPrefix)
}

// Version returns the version that the signature is bound to, if any.
func (s Signature) Version() (string, bool) { return s.field("version:") }

// Target returns the target that the signature is bound to, if any.
func (s Signature) Target() (string, bool) { return s.field("target:") }

// Filename returns the name that the bundle had when it was signed, or "".
func (s Signature) Filename() string {
	name, _ := s.field("file:")
	return name
}

// maxUnix is the last second of the year 9999, beyond which a time can't be
// written as RFC 3339.
const maxUnix = 253402300799

// Time returns when the signature was made, by the signer's clock, if it says.
func (s Signature) Time() (time.Time, bool) {
	text, _ := s.field("timestamp:")
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seconds > maxUnix {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}

// field returns the rest of the first tab-separated field of the trusted
// comment that begins with prefix, as the updater looks for it.
func (s Signature) field(prefix string) (string, bool) {
	for field := range strings.SplitSeq(s.TrustedComment(), "\t") {
		if value, found := strings.CutPrefix(field, prefix); found {
			return value, true
		}
	}
	return "", false
}
