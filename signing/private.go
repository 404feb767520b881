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

// A PrivateKey signs. It prints only its id. The zero PrivateKey signs nothing.
type PrivateKey struct {
	label
	// fmt prints no function, not even in an unexported field of another struct,
	// where it can't call Format; behind a pointer %s would print the key.
	open func() *secret
}

// label is what a key prints as, with every verb and encoding.
type label string

func (l label) String() string {
	if l == "" {
		return "no private key"
	}
	return string(l)
}

// Format writes String for every verb.
func (l label) Format(f fmt.State, _ rune) { fmt.Fprint(f, l.String()) }

// LogValue returns String.
func (l label) LogValue() slog.Value { return slog.StringValue(l.String()) }

// MarshalText returns String, for JSON and the like.
func (l label) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

type secret struct {
	id  [8]byte
	key [ed25519.PrivateKeySize]byte // seed, then public key
}

// GenerateKey returns a new key with a random id.
func GenerateKey() (PrivateKey, error) {
	s := new(secret)
	_, _ = rand.Read(s.id[:]) // never fails
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generate key: %w", err)
	}
	copy(s.key[:], key)
	return s.hide(), nil
}

func (s *secret) hide() PrivateKey {
	return PrivateKey{label("private key " + formatID(s.id)), func() *secret { return s }}
}

// Public returns the public key that verifies this key's signatures.
func (k PrivateKey) Public() PublicKey {
	if k.open == nil {
		return PublicKey{}
	}
	s := k.open()
	return PublicKey{minisign.PublicKey{SignatureAlgorithm: algorithmPure, KeyId: s.id, PublicKey: [32]byte(s.key[ed25519.SeedSize:])}}
}

// A Comment holds the fields of a trusted comment. Empty ones are left out.
type Comment struct {
	Time    time.Time // of signing, in whole seconds
	File    string    // base name of the bundle; clients ignore it
	Version string    // the version that must be announced to clients
	Target  string    // os-arch; clients ignore it
}

// maxField bounds the value of a comment field, in bytes: four times what file
// systems allow for a name, and far below the 8 KiB that minisign reads.
const maxField = 1024

// Sign signs the digest of a bundle, with c as the trusted comment. The result
// is prehashed and has the comments that the Tauri CLI writes.
//
// A value in c must be valid UTF-8 of at most 1024 bytes without invisible
// characters and without white space at its ends. Letters of any alphabet are
// allowed: product names have them, and clients accept them.
func (k PrivateKey) Sign(d Digest, c Comment) (Signature, error) {
	if k.open == nil {
		return Signature{}, errors.New("sign: no private key")
	}
	comment, err := c.text()
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	// go-minisign's Sign accepts only ASCII in the trusted comment. Otherwise it
	// signs the same two messages.
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
