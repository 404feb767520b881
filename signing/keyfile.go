package signing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jedisct1/go-minisign"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"
)

// The key derivation that the Tauri CLI asks for, as libsodium's limits and as
// the scrypt parameters that follow from them: 32 MiB of memory.
const (
	tauriOps = 1048576
	tauriMem = 33554432
	tauriN   = 1 << 15
	tauriR   = 8
	tauriP   = 1
)

// The largest limits that a key file may ask for: those of minisign's own keys.
// Any pair up to them derives in at most 1 GiB of memory.
const (
	maxOps = 0x2000000
	maxMem = 1 << 30
)

// secretComment is the untrusted comment of the Tauri CLI's keys.
const secretComment = "rsign encrypted secret key"

// Key derivation functions of minisign.
var (
	kdfNone   = [2]byte{}
	kdfScrypt = [2]byte{'S', 'c'}
)

// A KeyFile is a private key as it lies on disk. Of an encrypted one nothing is
// known before it is opened, not even the key's id. Like a PrivateKey it prints
// nothing of itself.
type KeyFile struct {
	open func() minisign.PrivateKey // hidden as in PrivateKey, for it may be unencrypted
}

// ParsePrivateKey reads a private key in any of the shapes it is kept in: the
// base64 of a minisign secret key file (Tauri), that two-line file (minisign or
// rsign, encrypted or not), or its second line alone. White space around it is
// allowed.
//
// The error is a *FormatError, which shows nothing of text.
func ParsePrivateKey(text string) (KeyFile, error) {
	if found := inspect(text); found.what != secretKey {
		return KeyFile{}, notPrivateKey(text, found)
	}
	line, ok := minisignLine(text)
	if ok {
		_, ok = decodeStrictly(line)
	}
	file, err := minisign.NewPrivateKey(line)
	switch {
	case !ok || err != nil:
		return KeyFile{}, malformed("private key is damaged", "copy it again, whole, from the key file")
	case file.KDFAlgorithm != kdfNone && file.KDFAlgorithm != kdfScrypt:
		return KeyFile{}, malformed("private key is encrypted in an unknown way",
			"only scrypt is known, which minisign and the Tauri CLI use")
	case file.IsEncrypted() && (file.KDFOpsLimit > maxOps || file.KDFMemLimit > maxMem):
		return KeyFile{}, malformed("private key asks for more work or memory than any minisign key",
			"the file is damaged or hostile: use the key that minisign or the Tauri CLI made")
	}
	return KeyFile{func() minisign.PrivateKey { return file }}, nil
}

func notPrivateKey(text string, found finding) *FormatError {
	const mend = "take the content of the private key file, as minisign or the Tauri CLI wrote it"
	switch {
	case found.what == publicKey:
		return malformed("a public key stands where a private key belongs", mend)
	case found.what == signature:
		return malformed("a signature stands where a private key belongs", mend)
	case isBlank(text):
		return malformed("private key is empty", mend)
	}
	return malformed("text is not a minisign private key", mend)
}

// Encrypted says whether Decrypt needs a password. A key that was encrypted
// with the empty password is encrypted.
func (f KeyFile) Encrypted() bool {
	if f.open == nil {
		return false
	}
	file := f.open()
	return file.IsEncrypted()
}

// Decrypt opens the key; the password of an unencrypted one is ignored. The
// work is what the file asks for: 32 MiB and a tenth of a second for keys of the
// Tauri CLI, 1 GiB and some seconds for those of minisign.
//
// The error is ErrPassword if the password is wrong, and a *FormatError if the
// two halves of the key do not belong together.
func (f KeyFile) Decrypt(password string) (PrivateKey, error) {
	if f.open == nil {
		return PrivateKey{}, errors.New("decrypt: no private key")
	}
	opened := f.open()
	defer opened.Wipe()
	// Format and limits are checked: what is left to fail is the checksum.
	if err := opened.Decrypt(password); err != nil {
		return PrivateKey{}, fmt.Errorf("%w (or the key file is damaged)", ErrPassword)
	}
	whole := ed25519.NewKeyFromSeed(opened.SecretKey[:ed25519.SeedSize])
	if !bytes.Equal(whole, opened.SecretKey[:]) {
		return PrivateKey{}, malformed("private key is damaged: its public half belongs to another key",
			"use a backup of the key file")
	}
	return (&secret{id: opened.KeyId, key: opened.SecretKey}).hide(), nil
}

// String says only what kind of key it is.
func (f KeyFile) String() string {
	if f.Encrypted() {
		return "encrypted private key"
	}
	return "private key"
}

// Format writes String, whatever the verb.
func (f KeyFile) Format(s fmt.State, _ rune) { fmt.Fprint(s, f.String()) }

// LogValue is String.
func (f KeyFile) LogValue() slog.Value { return slog.StringValue(f.String()) }

// MarshalText is String, for JSON and its like.
func (f KeyFile) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Encrypt returns the key as the Tauri CLI keeps it: the base64, in one line
// without a line break, of an rsign secret key file that is encrypted with the
// password, also when that is empty. Each call gives another text.
func (k PrivateKey) Encrypt(password string) (string, error) {
	if k.open == nil {
		return "", errors.New("encrypt: no private key")
	}
	salt := make([]byte, 32)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	sealed := k.open().checked()
	stream, err := scrypt.Key([]byte(password), salt, tauriN, tauriR, tauriP, len(sealed))
	if err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	for i := range sealed {
		sealed[i] ^= stream[i]
	}
	clear(stream)

	raw := make([]byte, 0, secretKeySize)
	raw = append(raw, "EdScB2"...)
	raw = append(raw, salt...)
	raw = binary.LittleEndian.AppendUint64(raw, tauriOps)
	raw = binary.LittleEndian.AppendUint64(raw, tauriMem)
	raw = append(raw, sealed...)
	file := untrustedPrefix + secretComment + "\n" + base64.StdEncoding.EncodeToString(raw) + "\n"
	return base64.StdEncoding.EncodeToString([]byte(file)), nil
}

// checked returns what is encrypted in a key file: id, key, and the checksum by
// which a wrong password is known.
func (s *secret) checked() []byte {
	plain := append(algorithmPure[:], s.id[:]...)
	plain = append(plain, s.key[:]...)
	checksum := blake2b.Sum256(plain)
	return append(plain[len(algorithmPure):], checksum[:]...)
}
