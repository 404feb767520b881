// Package signing creates and verifies the detached signatures of update
// bundles, in the formats that the Tauri CLI writes and the Tauri updater reads.
//
// # Objects
//
// A PrivateKey is an Ed25519 key with a random 64-bit id. On disk it is a KeyFile:
// a minisign secret key file, encrypted with a password by scrypt. The Tauri CLI
// stores the base64 of that file.
//
// A PublicKey is its counterpart. Applications have one built in, as the base64 of
// a .pub file in plugins.updater.pubkey of tauri.conf.json. A Keyring is the set of
// keys that are trusted, each with the Span of versions that have it built in; there
// is more than one once a key was replaced.
//
// A Signature is a minisign signature file of four lines:
//
//	untrusted comment: TEXT
//	base64(algorithm[2] ‖ key id[8] ‖ Ed25519(message)[64])
//	trusted comment: TEXT
//	base64(Ed25519(the 64 bytes above ‖ trusted TEXT)[64])
//
// The message is the BLAKE2b-512 Digest of the bundle (algorithm "ED", prehashed)
// or the bundle itself (the legacy "Ed"). A .sig file, and the signature member of
// a manifest, is the base64 of those four lines, without a line break.
//
// The trusted comment is signed. It holds name:value fields separated by tabs:
// timestamp, file and version as the Tauri CLI writes them, and target, which is
// ours and ignored by clients.
//
// # Promises
//
//   - Verification is go-minisign's, under the updater's rules: key id, then
//     signature, then global signature, legacy allowed.
//   - A signature that parses here parses in the updater (Rust's base64 STANDARD
//     engine, minisign-verify's Signature::decode). Three things that the updater
//     would accept are refused: control characters in a comment, a first line that
//     is no untrusted comment, and a fifth line.
//   - Bundles are hashed as streams in constant memory. Only a legacy signature
//     needs the bundle in memory, up to LegacyLimit.
//   - No error and no printed value contains key material or any other part of a
//     text that could not be parsed.
//   - Opening a hostile key file costs no more than opening a minisign key.
//
// The package reads no files, environment or network and asks for no password. A
// valid signature alone says nothing about version and target: Keyring.Accept
// compares both with the Claim that the caller makes.
//
// Formats: https://jedisct1.github.io/minisign/ and the crates minisign,
// minisign-verify and tauri-plugin-updater.
package signing

import (
	"errors"
	"strings"
)

var (
	// ErrUntrustedKey is returned for a signature by a key outside the keyring.
	ErrUntrustedKey = errors.New("signed by a key that is not trusted")

	// ErrNotBuiltIn means that a signature is by a trusted key that the installed
	// version of the application does not have.
	ErrNotBuiltIn = errors.New("signed by a key that the installed version does not have")

	// ErrSignature means that bundle, signature or trusted comment was changed
	// after signing.
	ErrSignature = errors.New("signature is not valid")

	// ErrLegacy means that a signature is not prehashed, and only the digest is known
	// or the bundle is larger than LegacyLimit.
	ErrLegacy = errors.New("signature is of the legacy kind")

	// ErrPassword means that a password does not open a private key.
	ErrPassword = errors.New("wrong password for the private key")

	// ErrUnbound means that a signature names no version where one is required.
	ErrUnbound = errors.New("signature is bound to no version")

	// ErrBound means that a signature names another version or target.
	ErrBound = errors.New("signature is bound to something else")
)

// A FormatError says why a text is not a key or signature. It repeats no part of
// that text, which may be secret.
type FormatError struct {
	Problem string
	Mend    string // a hint; may be empty
}

func (e *FormatError) Error() string { return e.Problem }

func malformed(problem, mend string) *FormatError {
	return &FormatError{Problem: problem, Mend: mend}
}

const (
	untrustedPrefix = "untrusted comment: "
	trustedPrefix   = "trusted comment: "
	bom             = "\ufeff"
)

// lines splits text as Rust's str::lines does, at "\n" or "\r\n".
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if l, ended := strings.CutSuffix(line, "\n"); ended {
			line = strings.TrimSuffix(l, "\r")
		}
		all = append(all, line)
	}
	return all
}
