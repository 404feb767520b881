// Package signing makes and checks the detached signatures of update bundles,
// in the formats that the Tauri CLI writes and the Tauri updater reads.
//
// # Objects
//
// A PrivateKey is an Ed25519 key with a random 64-bit id. At rest it is a
// KeyFile: a minisign secret key file, encrypted with a password by scrypt. The
// Tauri CLI keeps it as the base64 of that file; minisign keeps the file.
//
// A PublicKey is its counterpart. The application carries it, as the base64 of
// a whole .pub file, in plugins.updater.pubkey of tauri.conf.json.
//
// A Signature is a minisign signature file of four lines:
//
//	untrusted comment: TEXT
//	base64(algorithm[2] ‖ key id[8] ‖ Ed25519(message)[64])
//	trusted comment: TEXT
//	base64(Ed25519(the 64 bytes above ‖ trusted TEXT)[64])
//
// The message is the BLAKE2b-512 Digest of the bundle (algorithm "ED",
// prehashed) or, in the legacy algorithm "Ed", the bundle itself. A .sig file,
// and the signature member of a manifest, is the base64 of those four lines, in
// one line without a line break.
//
// The trusted comment is signed. It holds fields separated by tabs, of the form
// name:value; timestamp, file and version are the Tauri CLI's, target is ours
// and ignored by clients.
//
// A Keyring is the set of public keys that an application trusts; there is more
// than one while a key is being replaced.
//
// # Promises
//
//   - Verification is by go-minisign, under the updater's rules: key id, then
//     signature, then global signature, legacy allowed.
//   - What is parsed as a signature the updater parses alike (Rust's base64
//     STANDARD engine, minisign-verify's Signature::decode). Three things that it
//     would let pass are refused: control characters in a comment, a first line
//     that is no untrusted comment, and a fifth line.
//   - A bundle is hashed as a stream in constant memory. Only a legacy signature
//     needs the bundle in memory, up to LegacyLimit.
//   - No error and no printed value shows private key material or any other
//     part of a text that could not be parsed.
//   - A hostile key file costs at most 1 GiB of memory and the work of a
//     minisign key to open.
//
// # Not done here
//
// Nothing is read from files, the environment or the network, and passwords are
// not asked for. A valid signature alone says nothing about version and target:
// the caller states both in the Claim that it gives to Keyring.Accept.
//
// Formats: https://jedisct1.github.io/minisign/ and the crates minisign,
// minisign-verify and tauri-plugin-updater.
package signing

import (
	"errors"
	"strings"
)

var (
	// ErrUntrustedKey says that a signature was made by a key that is not in
	// the keyring.
	ErrUntrustedKey = errors.New("signed by a key that is not trusted")

	// ErrSignature says that a signature does not fit what it is beside: the
	// bundle, the signature or its trusted comment was changed.
	ErrSignature = errors.New("signature is not valid")

	// ErrLegacy says that a signature is of the legacy, not prehashed kind,
	// and that this is in the way: only its digest is known, or the bundle is
	// larger than LegacyLimit.
	ErrLegacy = errors.New("signature is of the legacy kind")

	// ErrPassword says that a password does not open a private key.
	ErrPassword = errors.New("wrong password for the private key")

	// ErrUnbound says that a signature names no version where one is required.
	ErrUnbound = errors.New("signature is bound to no version")

	// ErrBound says that a signature names another version or target than the
	// one it is used for.
	ErrBound = errors.New("signature is bound to something else")
)

// A FormatError says why a text is not the key or signature that it should be.
// Neither of its sentences repeats any part of that text, which may be secret.
type FormatError struct {
	Problem string // what is wrong, as an error text
	Mend    string // what to do about it, as a hint; may be empty
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

// lines splits text as Rust's str::lines does: at "\n" or "\r\n", and a line
// break at the end opens no further line.
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
