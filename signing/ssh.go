package signing

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// SSHKey is an OpenSSH public key whose owner signs moves of a channel.
type SSHKey struct{ key ssh.PublicKey }

// ErrSSH means that a text is not an OpenSSH key or signature, or of a kind that is not accepted.
var ErrSSH = errors.New("not a usable OpenSSH key or signature")

// sshKinds are the kinds of keys that may sign. Those with sk- are on hardware tokens, which
// must be touched for each signature.
var sshKinds = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// maxSSH bounds keys and signatures, in bytes.
const maxSSH = 4096

// ParseSSHKey reads a public key as OpenSSH writes it in one line: type, base64 and, if
// there is one, a comment, which is dropped. Errors wrap ErrSSH.
func ParseSSHKey(text string) (SSHKey, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxSSH || strings.ContainsAny(text, "\n\r") {
		return SSHKey{}, fmt.Errorf("%w: it is not one line of at most %d bytes", ErrSSH, maxSSH)
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(text))
	switch {
	case err != nil || len(options) > 0:
		return SSHKey{}, fmt.Errorf("%w: it does not look like ssh-ed25519 AAAA…", ErrSSH)
	case !slices.Contains(sshKinds, key.Type()):
		return SSHKey{}, fmt.Errorf("%w: its type is %.40s, not one of %s", ErrSSH, key.Type(), strings.Join(sshKinds, ", "))
	}
	return SSHKey{key}, nil
}

// String returns the key as OpenSSH writes it, without a comment. It is the same for
// equal keys.
func (k SSHKey) String() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.key)))
}

// Fingerprint returns what `ssh-keygen -l` prints of the key.
func (k SSHKey) Fingerprint() string { return ssh.FingerprintSHA256(k.key) }

// VerifySSH verifies an armored signature, as `ssh-keygen -Y sign` makes it, and returns the key
// that made it, which need not be trusted. Errors wrap ErrSSH or ErrSignature.
func VerifySSH(namespace string, data []byte, armored string) (SSHKey, error) {
	if len(armored) > maxSSH {
		return SSHKey{}, fmt.Errorf("%w: the signature has more than %d bytes", ErrSSH, maxSSH)
	}
	if !sshArmored(armored) {
		return SSHKey{}, fmt.Errorf("%w: it is not a single signature, as ssh-keygen -Y sign writes it", ErrSSH)
	}
	sig, err := sshsig.Unarmor([]byte(armored))
	if err != nil {
		return SSHKey{}, fmt.Errorf("%w: the signature can't be read: %w", ErrSSH, err)
	}
	if !slices.Contains(sshKinds, sig.PublicKey.Type()) {
		return SSHKey{}, fmt.Errorf("%w: the signature is of a key of type %.40s", ErrSSH, sig.PublicKey.Type())
	}
	if err := sshsig.Verify(bytes.NewReader(data), sig, sig.PublicKey, sig.HashAlgorithm, namespace); err != nil {
		return SSHKey{}, fmt.Errorf("%w: by %s: %w", ErrSignature, ssh.FingerprintSHA256(sig.PublicKey), err)
	}
	return SSHKey{sig.PublicKey}, nil
}

// sshArmored reports whether a text is one armored block and nothing else: text around a block,
// and headers in it, are not signed.
func sshArmored(text string) bool {
	text, begins := strings.CutPrefix(strings.TrimSpace(text), "-----BEGIN SSH SIGNATURE-----")
	text, ends := strings.CutSuffix(text, "-----END SSH SIGNATURE-----")
	return begins && ends && !strings.ContainsAny(text, "-:")
}

// SSHSigner signs with a key in memory, or in an agent.
type SSHSigner struct{ signer ssh.Signer }

// NewSSHSigner returns a signer with a key of an agent. Errors wrap ErrSSH.
func NewSSHSigner(signer ssh.Signer) (SSHSigner, error) {
	if _, err := ParseSSHKey(SSHKey{signer.PublicKey()}.String()); err != nil {
		return SSHSigner{}, err
	}
	return SSHSigner{signer}, nil
}

// ParseSSHSigner reads a private key as OpenSSH writes it, without a passphrase. Errors
// wrap ErrSSH and show nothing of the text.
func ParseSSHSigner(text string) (SSHSigner, error) {
	signer, err := ssh.ParsePrivateKey([]byte(text))
	if errors.As(err, new(*ssh.PassphraseMissingError)) {
		return SSHSigner{}, fmt.Errorf("%w: it has a passphrase: add it to an agent with ssh-add", ErrSSH)
	}
	if err != nil {
		return SSHSigner{}, fmt.Errorf("%w: it is not a private key", ErrSSH)
	}
	return NewSSHSigner(signer)
}

// Public returns the public key.
func (s SSHSigner) Public() SSHKey { return SSHKey{s.signer.PublicKey()} }

// Sign returns an armored signature, which `ssh-keygen -Y verify` accepts.
func (s SSHSigner) Sign(namespace string, data []byte) (string, error) {
	sig, err := sshsig.Sign(bytes.NewReader(data), s.signer, sshsig.HashSHA512, namespace)
	if err != nil {
		return "", fmt.Errorf("sign as %s: %w", ssh.FingerprintSHA256(s.signer.PublicKey()), err)
	}
	return string(sshsig.Armor(sig)), nil
}
