package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedisct1/go-minisign"
)

// Signature algorithms of minisign.
var (
	algorithmPure      = [2]byte{'E', 'd'} // over the bundle itself, and that of every key
	algorithmPrehashed = [2]byte{'E', 'D'} // over the digest of the bundle
)

// tauriComment is the untrusted comment of the Tauri CLI's signatures.
const tauriComment = "signature from tauri secret key"

// A PrivateKey signs. It prints as its id only, by every means. The zero
// PrivateKey signs nothing.
type PrivateKey struct {
	// A function stays unseen even where fmt can't call Format, in an
	// unexported field of another struct; behind a pointer %s would print it.
	open func() *secret
}

type secret struct {
	id  [8]byte
	key [ed25519.PrivateKeySize]byte // seed, then public key
}

// GenerateKey makes a new key with a random id.
func GenerateKey() (PrivateKey, error) {
	s := new(secret)
	if _, err := rand.Read(s.id[:]); err != nil {
		return PrivateKey{}, fmt.Errorf("generate key id: %w", err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generate key: %w", err)
	}
	copy(s.key[:], key)
	return s.hide(), nil
}

func (s *secret) hide() PrivateKey { return PrivateKey{func() *secret { return s }} }

// Public returns the public key that verifies this key's signatures.
func (k PrivateKey) Public() PublicKey {
	if k.open == nil {
		return PublicKey{}
	}
	s := k.open()
	return PublicKey{id: s.id, key: [32]byte(s.key[ed25519.SeedSize:])}
}

// String names the key without showing it.
func (k PrivateKey) String() string {
	if k.open == nil {
		return "no private key"
	}
	return "private key " + k.Public().ID()
}

// Format writes String, whatever the verb.
func (k PrivateKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// LogValue is String.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText is String, for JSON and its like.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Comment holds the fields of a trusted comment. Those that are empty or zero
// are left out.
type Comment struct {
	Time    time.Time // when it was signed, kept in whole seconds
	File    string    // base name of the bundle; clients compare it with nothing
	Version string    // the version that clients must be announced
	Target  string    // the os-arch it is built for; clients ignore it
}

// maxField is the longest value of a comment field in bytes: four times what
// file systems allow for a name, and far below the 8 KiB that minisign reads.
const maxField = 1024

// Sign signs the digest of a bundle, with c as the trusted comment. The result
// is prehashed and has the comments that the Tauri CLI writes.
//
// A value in c must be valid UTF-8 of at most 1024 bytes without control or
// other invisible characters and without white space at its ends. Letters of
// any alphabet are allowed: bundles are named after products, the Tauri CLI
// writes such names as they are, and clients accept them.
func (k PrivateKey) Sign(d Digest, c Comment) (Signature, error) {
	if k.open == nil {
		return Signature{}, errors.New("sign: no private key")
	}
	comment, err := c.text()
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	// go-minisign's own Sign is not used since it refuses all but ASCII in
	// the trusted comment; what it signs otherwise are these two messages.
	sig := minisign.Signature{
		UntrustedComment:   untrustedPrefix + tauriComment,
		SignatureAlgorithm: algorithmPrehashed,
		KeyId:              k.open().id,
		TrustedComment:     trustedPrefix + comment,
	}
	key := ed25519.PrivateKey(k.open().key[:])
	copy(sig.Signature[:], ed25519.Sign(key, d[:]))
	copy(sig.GlobalSignature[:], ed25519.Sign(key, globalMessage(sig)))
	s := Signature{sig}
	if !k.Public().verify(d[:], s) {
		return Signature{}, errors.New("sign: the new signature does not verify: the private key is damaged")
	}
	return s, nil
}

// globalMessage is what the global signature signs.
func globalMessage(sig minisign.Signature) []byte {
	return append(sig.Signature[:], strings.TrimPrefix(sig.TrustedComment, trustedPrefix)...)
}

func (c Comment) text() (string, error) {
	var fields []string
	if !c.Time.IsZero() {
		fields = append(fields, fmt.Sprintf("timestamp:%d", c.Time.Unix()))
	}
	for _, f := range []struct{ name, value string }{
		{"file", c.File}, {"version", c.Version}, {"target", c.Target},
	} {
		if f.value == "" {
			continue
		}
		if err := checkField(f.value); err != nil {
			return "", fmt.Errorf("%s %q: %w", f.name, f.value, err)
		}
		fields = append(fields, f.name+":"+f.value)
	}
	return strings.Join(fields, "\t"), nil
}

func checkField(value string) error {
	switch {
	case len(value) > maxField:
		return fmt.Errorf("longer than %d bytes", maxField)
	case !utf8.ValidString(value):
		return errors.New("not valid UTF-8")
	case strings.TrimSpace(value) != value:
		return errors.New("white space at an end")
	}
	for _, r := range value {
		if !unicode.IsGraphic(r) {
			return fmt.Errorf("character %U is not printable", r)
		}
	}
	return nil
}
