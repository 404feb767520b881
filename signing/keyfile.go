package signing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jedisct1/go-minisign"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"
)

// The Tauri CLI's key derivation, as libsodium's limits and as the scrypt
// parameters that follow from them: 32 MiB of memory.
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

// A KeyFile is a private key as stored on disk. An encrypted one reveals nothing
// until it is decrypted, not even the key's id. Like a PrivateKey it prints
// nothing secret.
type KeyFile struct {
	label
	open func() minisign.PrivateKey // hidden as in PrivateKey: it may be unencrypted
}

// ParsePrivateKey reads a private key as the Tauri CLI stores it (base64 of a
// minisign secret key file), as minisign or rsign does (the two-line file,
// encrypted or not), or only the second line of that file. White space around it
// is allowed.
//
// The error is a *FormatError, which repeats nothing of text.
func ParsePrivateKey(text string) (KeyFile, error) {
	if found := inspect(text); found.what != secretKey {
		return KeyFile{}, misplaced(text, found.what, secretKey, "take the content of the private key file, as minisign or the Tauri CLI wrote it")
	}
	line, ok := minisignLine(text)
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
	kind := label("private key")
	if file.IsEncrypted() {
		kind = "encrypted private key"
	}
	return KeyFile{kind, func() minisign.PrivateKey { return file }}, nil
}

// Encrypted reports whether Decrypt needs a password. It may be the empty one.
func (f KeyFile) Encrypted() bool {
	if f.open == nil {
		return false
	}
	file := f.open()
	return file.IsEncrypted()
}

// Decrypt opens the key; the password of an unencrypted one is ignored. That
// takes 32 MiB and a tenth of a second for keys of the Tauri CLI, 1 GiB and some
// seconds for those of minisign.
//
// The error is ErrPassword, or a *FormatError if the two halves of the key do not
// belong together.
func (f KeyFile) Decrypt(password string) (PrivateKey, error) {
	if f.open == nil {
		return PrivateKey{}, errors.New("decrypt: no private key")
	}
	opened := f.open()
	defer opened.Wipe()
	// Format and limits were checked, so only the checksum can fail.
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

// Encrypt returns the key as the Tauri CLI stores it: the base64, in one line
// without a line break, of an rsign secret key file encrypted with the password,
// which may be empty. Each call returns a different text.
func (k PrivateKey) Encrypt(password string) (string, error) {
	if k.open == nil {
		return "", errors.New("encrypt: no private key")
	}
	salt := make([]byte, 32)
	_, _ = rand.Read(salt) // never fails
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

// checked returns the part of a key file that is encrypted: id, key, and the
// checksum that detects a wrong password.
func (s *secret) checked() []byte {
	plain := append(algorithmPure[:], s.id[:]...)
	plain = append(plain, s.key[:]...)
	checksum := blake2b.Sum256(plain)
	return append(plain[len(algorithmPure):], checksum[:]...)
}
