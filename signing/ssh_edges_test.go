package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// token is a FIDO authenticator with an ed25519 key.
type token struct {
	public  ssh.PublicKey
	private ed25519.PrivateKey
	flags   byte // whether somebody was there
}

func newToken(t *testing.T, application string, flags byte) token {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, application}))
	if err != nil {
		t.Fatal(err)
	}
	return token{parsed, private, flags}
}

func (k token) PublicKey() ssh.PublicKey { return k.public }

func (k token) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	said := ssh.Marshal(struct {
		Flags   byte
		Counter uint32
	}{k.flags, 7})
	app, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	return &ssh.Signature{Format: k.public.Type(), Blob: ed25519.Sign(k.private, append(append(app[:], said...), message[:]...)), Rest: said}, nil
}

// TestSSHTokens: a token signs for whoever touched it, and for nothing but SSH.
func TestSSHTokens(t *testing.T) {
	for name, c := range map[string]struct {
		application string
		flags       byte
		good        bool
	}{
		"touched":                {"ssh:", 1, true},
		"touched, with a PIN":    {"ssh:", 5, true},
		"not touched":            {"ssh:", 0, false},
		"a PIN, and no touch":    {"ssh:", 4, false},
		"of another application": {"https://example.com", 1, false},
	} {
		k := newToken(t, c.application, c.flags)
		sig, err := sshsig.Sign(strings.NewReader("an entry"), k, sshsig.HashSHA512, "tsmon-log")
		if err != nil {
			t.Fatal(err)
		}
		key, err := VerifySSH("tsmon-log", []byte("an entry"), string(sshsig.Armor(sig)))
		if c.good && (err != nil || key.String() != SSHKey{k.public}.String()) || !c.good && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSSHCertificates: a certificate is no key, whoever issued it, and signs nothing.
func TestSSHCertificates(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: plain.PublicKey(), CertType: ssh.UserCert, KeyId: "ann", ValidPrincipals: []string{"ann"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, plain); err != nil {
		t.Fatal(err)
	}
	if key, err := ParseSSHKey(string(ssh.MarshalAuthorizedKey(cert))); !errors.Is(err, ErrSSH) {
		t.Errorf("it is the key %s: %v", key, err)
	}
	signer, err := ssh.NewCertSigner(cert, plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSSHSigner(signer); !errors.Is(err, ErrSSH) {
		t.Errorf("it signs: %v", err)
	}
	sig, err := sshsig.Sign(strings.NewReader("an entry"), plain, sshsig.HashSHA512, "tsmon-log")
	if err != nil {
		t.Fatal(err)
	}
	sig.PublicKey = cert
	if key, err := VerifySSH("tsmon-log", []byte("an entry"), string(sshsig.Armor(sig))); !errors.Is(err, ErrSSH) && !errors.Is(err, ErrSignature) {
		t.Errorf("a signature of %s counts: %v", key, err)
	}
}

// TestSSHForms: both hashes of the format count, and nothing around a signature does.
func TestSSHForms(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := sshSigner(t, private)
	for _, hash := range []sshsig.HashAlgorithm{sshsig.HashSHA256, sshsig.HashSHA512} {
		sig, err := sshsig.Sign(strings.NewReader("an entry"), signer.signer, hash, "tsmon-log")
		if err != nil {
			t.Fatal(err)
		}
		good := string(sshsig.Armor(sig))
		if key, err := VerifySSH("tsmon-log", []byte("an entry"), good); err != nil || key.String() != signer.Public().String() {
			t.Errorf("%s: %s, %v", hash, key, err)
		}
		for name, text := range map[string]string{"behind it": good + "junk", "before it": "junk\n" + good, "twice": good + good, "a header": strings.Replace(good, "\n", "\nName: value\n\n", 1)} {
			if _, err := VerifySSH("tsmon-log", []byte("an entry"), text); err == nil {
				t.Errorf("%s, %s: it is accepted", hash, name)
			}
		}
	}
}
