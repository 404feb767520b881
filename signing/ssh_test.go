package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// sshSigner returns a signer with a private key.
func sshSigner(t testing.TB, key any) SSHSigner {
	t.Helper()
	plain, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSSHSigner(plain)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestSSHKeygenVerifies: OpenSSH's own program accepts our signatures, and we accept its.
func TestSSHKeygenVerifies(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if os.Getenv("TSMON_TEST_REAL") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const namespace, text = "tsmon-log", "an entry\n"
	for _, kind := range []string{"ed25519", "ecdsa"} {
		t.Run(kind, func(t *testing.T) {
			folder := t.TempDir()
			at := func(name string) string { return filepath.Join(folder, name) }
			run := func(stdin string, args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), keygen, args...)
				cmd.Stdin = strings.NewReader(stdin)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("ssh-keygen %q: %v\n%s", args, err, out)
				}
			}
			read := func(name string) string {
				t.Helper()
				data, err := os.ReadFile(at(name))
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			write := func(name, content string) {
				t.Helper()
				if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run("", "-q", "-t", kind, "-N", "", "-C", "somebody", "-f", at("key"))
			signer, err := ParseSSHSigner(read("key"))
			if err != nil {
				t.Fatal(err)
			}
			public, err := ParseSSHKey(read("key.pub"))
			if err != nil || public.String() != signer.Public().String() {
				t.Fatalf("public key %s, want %s: %v", public, signer.Public(), err)
			}
			armored, err := signer.Sign(namespace, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			write("ours.sig", armored)
			write("allowed", "ann "+public.String()+"\n")
			run(text, "-Y", "verify", "-f", at("allowed"), "-I", "ann", "-n", namespace, "-s", at("ours.sig"))

			write("text", text)
			run("", "-q", "-Y", "sign", "-f", at("key"), "-n", namespace, at("text"))
			if key, err := VerifySSH(namespace, []byte(text), read("text.sig")); err != nil || key.String() != public.String() {
				t.Errorf("its signature is of %s: %v", key, err)
			}
		})
	}
}

// TestSSHRefused: signatures of other bytes, for other uses and of weak kinds of keys.
func TestSSHRefused(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := sshSigner(t, private)
	good, err := signer.Sign("tsmon-log", []byte("an entry"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := signer.Sign("git", []byte("an entry"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, armored string }{
		"other bytes": {"another entry", good},
		"another use": {"an entry", elsewhere},
		"nothing":     {"an entry", ""},
		"no armor":    {"an entry", "U1NIU0lH"},
		"cut off":     {"an entry", good[:len(good)/2]},
		"changed":     {"an entry", strings.Replace(good, good[100:104], "AAAA", 1)},
		"endless":     {"an entry", good + strings.Repeat("\n", maxSSH)},
	} {
		if key, err := VerifySSH("tsmon-log", []byte(c.text), c.armored); !errors.Is(err, ErrSSH) && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: accepted as of %s: %v", name, key, err)
		}
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.NewSignerFromKey(weak)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSSHSigner(plain); !errors.Is(err, ErrSSH) {
		t.Errorf("RSA is accepted: %v", err)
	}
	for _, text := range []string{"", "ssh-ed25519", "ssh-ed25519 AAAA", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(plain.PublicKey()))),
		`command="ls" ` + signer.Public().String(), signer.Public().String() + "\n" + signer.Public().String(), strings.Repeat("a", maxSSH+1)} {
		if key, err := ParseSSHKey(text); !errors.Is(err, ErrSSH) {
			t.Errorf("%.40q is the key %s: %v", text, key, err)
		}
	}
	for _, text := range []string{"", "-----BEGIN OPENSSH PRIVATE KEY-----\n", signer.Public().String()} {
		if _, err := ParseSSHSigner(text); !errors.Is(err, ErrSSH) {
			t.Errorf("%.40q is a private key: %v", text, err)
		}
	}
}

// FuzzVerifySSH: whatever is sent, no key is found that did not sign.
func FuzzVerifySSH(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	signer := sshSigner(f, key)
	good, err := signer.Sign("tsmon-log", []byte("an entry"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n")
	f.Fuzz(func(t *testing.T, armored string) {
		if key, err := VerifySSH("tsmon-log", []byte("another entry"), armored); err == nil && key.String() == signer.Public().String() {
			t.Errorf("accepted: %q", armored)
		}
	})
}
