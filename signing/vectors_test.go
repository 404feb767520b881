package signing_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// A vector is a signature of testdata with what it belongs to.
type vector struct {
	bundle, sig, pub string // files below testdata
	version          string // "" if the signature is bound to none
}

var vectors = []vector{
	{"tauri-password/App_1.2.3_x64.app.tar.gz", "tauri-password/App_1.2.3_x64.app.tar.gz.sig", "tauri-password/tauri.key.pub", "1.2.3"},
	{"tauri-password/App_1.2.3_x64_en-US.msi.zip", "tauri-password/App_1.2.3_x64_en-US.msi.zip.sig", "tauri-password/tauri.key.pub", ""},
	{"tauri-empty-password/App_1.2.3_x64.app.tar.gz", "tauri-empty-password/App_1.2.3_x64.app.tar.gz.sig", "tauri-empty-password/tauri.key.pub", "1.2.3"},
	{"tauri-empty-password/App_1.2.3_x64_en-US.msi.zip", "tauri-empty-password/App_1.2.3_x64_en-US.msi.zip.sig", "tauri-empty-password/tauri.key.pub", ""},
	{"minisign/bundle.tar.gz", "minisign/bundle.tar.gz.minisig", "minisign/minisign.pub", "1.2.3"},
	{"minisign/bundle.tar.gz", "minisign/bundle.tar.gz.legacy.minisig", "minisign/minisign.pub", ""},
	{"minisign/bundle.tar.gz", "minisign/bundle.tar.gz.unencrypted.minisig", "minisign/unencrypted.pub", ""},
}

func readSignature(t testing.TB, file string) signing.Signature {
	t.Helper()
	s, err := signing.ReadSignature(signingtest.Testdata(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func privateKey(t testing.TB, file, password string) signing.PrivateKey {
	t.Helper()
	sealed, err := signing.ParsePrivateKey(signingtest.Testdata(t, file))
	if err != nil {
		t.Fatal(err)
	}
	key, err := sealed.Decrypt(password)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func digest(t testing.TB, bundle string) signing.Digest {
	t.Helper()
	d, _, err := signing.HashReader(t.Context(), strings.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func verify(ring signing.Keyring, s signing.Signature, bundle string) error {
	v, err := ring.Verifier(s)
	if err != nil {
		return err
	}
	if _, err := v.Write([]byte(bundle)); err != nil {
		return err
	}
	return v.Verify()
}

func TestVectorsVerify(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.sig, func(t *testing.T) {
			ring, s, bundle := signingtest.Keyring(t, v.pub), readSignature(t, v.sig), signingtest.Testdata(t, v.bundle)
			if err := verify(ring, s, bundle); err != nil {
				t.Errorf("Verifier: %v", err)
			}
			err := ring.VerifyDigest(s, digest(t, bundle))
			if s.Prehashed() && err != nil || !s.Prehashed() && !errors.Is(err, signing.ErrLegacy) {
				t.Errorf("VerifyDigest: %v", err)
			}
			if version, _ := s.Version(); version != v.version {
				t.Errorf("bound to version %q, want %q", version, v.version)
			}
			if s.Filename() != filepath.Base(v.bundle) {
				t.Errorf("file name %q", s.Filename())
			}
			if again, err := signing.ParseSignature(s.String()); err != nil || again != s {
				t.Errorf("String does not parse back: %v", err)
			}
			text := signingtest.Testdata(t, v.sig)
			if strings.HasSuffix(v.sig, ".sig") && s.String() != text || strings.HasSuffix(v.sig, ".minisig") && s.File() != text {
				t.Error("the signature is not written as it was read")
			}
		})
	}
}

// All but the two random-looking 64-byte values is written as the Tauri CLI
// writes it. Those differ because the CLI mixes noise into its nonces.
func TestSignsAsTauriDoes(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"tauri-password", "tauri-empty-password"} {
		password := ""
		if folder == "tauri-password" {
			password = signingtest.Testdata(t, folder+"/password.txt")
		}
		key := privateKey(t, folder+"/tauri.key", password)
		if key.Public().Tauri() != signingtest.Testdata(t, folder+"/tauri.key.pub") {
			t.Errorf("%s: public key is not written as Tauri writes it", folder)
		}
		for _, v := range vectors {
			if !strings.HasPrefix(v.sig, folder+"/") {
				continue
			}
			s, err := key.Sign(digest(t, signingtest.Testdata(t, v.bundle)), signing.Comment{
				Time: time.Unix(1795254609, 0), File: filepath.Base(v.bundle), Version: v.version,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := shape(t, s.String()), shape(t, signingtest.Testdata(t, v.sig)); got != want {
				t.Errorf("%s: written as\n%q\nwant\n%q", v.sig, got, want)
			}
		}
	}
}

// shape is a .sig file decoded, with the two Ed25519 values left out.
func shape(t *testing.T, line string) string {
	t.Helper()
	parts := strings.Split(string(unbase64(t, line)), "\n")
	parts[1] = string(unbase64(t, parts[1])[:10])
	parts[3] = fmt.Sprint(len(unbase64(t, parts[3])))
	return strings.Join(parts, "\n")
}

func TestChangedBundleDoesNotVerify(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		ring, s, bundle := signingtest.Keyring(t, v.pub), readSignature(t, v.sig), signingtest.Testdata(t, v.bundle)
		for i := range bundle {
			changed := []byte(bundle)
			changed[i] ^= 1
			if err := verify(ring, s, string(changed)); !errors.Is(err, signing.ErrSignature) {
				t.Fatalf("%s: byte %d changed: %v", v.bundle, i, err)
			}
		}
		for _, changed := range []string{"", bundle[1:], bundle[:len(bundle)-1], bundle + "\x00"} {
			err := verify(ring, s, changed)
			if !errors.Is(err, signing.ErrSignature) || !strings.Contains(err.Error(), "bundle was changed") {
				t.Fatalf("%s with another length: %v", v.bundle, err)
			}
		}
	}
}

func TestChangedSignatureDoesNotVerify(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		ring, bundle := signingtest.Keyring(t, v.pub), signingtest.Testdata(t, v.bundle)
		file := readSignature(t, v.sig).File()
		covered := strings.Index(file, "\n") // the first line is covered by nothing
		for i := range file {
			changed := []byte(file)
			changed[i] ^= 1 << (i % 8)
			s, err := signing.ReadSignature(string(changed))
			if err == nil {
				err = verify(ring, s, bundle)
			}
			if i >= covered && err == nil {
				t.Fatalf("%s: byte %d changed to %q, and it verifies", v.sig, i, changed[i])
			}
		}
	}
}

func TestChangedLineDoesNotVerify(t *testing.T) {
	v := vectors[0]
	ring, bundle, line := signingtest.Keyring(t, v.pub), signingtest.Testdata(t, v.bundle), signingtest.Testdata(t, v.sig)
	first := len("untrusted comment: signature from tauri secret key\n")
	for i := range line {
		changed := []byte(line)
		changed[i] ^= 1
		s, err := signing.ParseSignature(string(changed))
		if err == nil {
			err = verify(ring, s, bundle)
		}
		if i > (first+2)/3*4 && err == nil {
			t.Fatalf("character %d changed, and it verifies", i)
		}
	}
}

func TestErrorDistinguishesCommentFromBundle(t *testing.T) {
	v := vectors[0]
	file := strings.Replace(readSignature(t, v.sig).File(), "version:1.2.3", "version:9.2.3", 1)
	s, err := signing.ReadSignature(file)
	if err != nil {
		t.Fatal(err)
	}
	err = verify(signingtest.Keyring(t, v.pub), s, signingtest.Testdata(t, v.bundle))
	if !errors.Is(err, signing.ErrSignature) || !strings.Contains(err.Error(), "trusted comment was changed") {
		t.Error(err)
	}
}

func TestSignatureOfAnotherKey(t *testing.T) {
	v := vectors[0]
	ring := signingtest.Keyring(t, "minisign/minisign.pub", "tauri-empty-password/tauri.key.pub")
	s := readSignature(t, v.sig)
	for _, err := range []error{
		verify(ring, s, signingtest.Testdata(t, v.bundle)),
		ring.VerifyDigest(s, digest(t, signingtest.Testdata(t, v.bundle))),
	} {
		if !errors.Is(err, signing.ErrUntrustedKey) {
			t.Fatal(err)
		}
		for _, id := range []string{"D92372BB2DC0FA42", "13796053AC30B9E3", "65375B406D7B1A31"} {
			if !strings.Contains(err.Error(), id) {
				t.Errorf("%v: does not name key %s", err, id)
			}
		}
	}
	if err := verify(nil, s, ""); !errors.Is(err, signing.ErrUntrustedKey) {
		t.Errorf("empty keyring: %v", err)
	}
	if err := verify(ring, signing.Signature{}, ""); !errors.Is(err, signing.ErrUntrustedKey) {
		t.Errorf("zero signature: %v", err)
	}
	if err := verify(signing.Keyring{{}}, signing.Signature{}, ""); err == nil {
		t.Error("a zero signature by a zero key verifies")
	}
}

// A key with the id of a trusted one is not that one.
func TestForgedKeyID(t *testing.T) {
	v := vectors[0]
	forger := signingtest.Key(t)
	bundle := signingtest.Testdata(t, v.bundle)
	s, err := forger.Sign(digest(t, bundle), signing.Comment{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	ring := signingtest.Keyring(t, v.pub)
	forged, err := signing.ReadSignature(withKeyID(t, s.File(), readSignature(t, v.sig)))
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(ring, forged, bundle); !errors.Is(err, signing.ErrSignature) {
		t.Error(err)
	}
}

func TestVerifierWritesInParts(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		bundle := signingtest.Testdata(t, v.bundle)
		verifier, err := signingtest.Keyring(t, v.pub).Verifier(readSignature(t, v.sig))
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(bundle) {
			if err := verifier.Verify(); err == nil {
				t.Fatalf("verifies after %d bytes", i)
			}
			if n, err := verifier.Write([]byte(bundle[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := verifier.Verify(); err != nil {
			t.Error(err)
		}
		if verifier.Digest() != digest(t, bundle) {
			t.Error("digest differs")
		}
	}
}

func TestLegacyLimit(t *testing.T) {
	ring := signingtest.Keyring(t, "minisign/minisign.pub")
	large := make([]byte, signing.LegacyLimit)

	legacy, err := ring.Verifier(readSignature(t, "minisign/bundle.tar.gz.legacy.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := legacy.Write(large[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := legacy.Write(large); !errors.Is(err, signing.ErrLegacy) {
		t.Errorf("past the limit: %v", err)
	}
	if _, err := legacy.Write(nil); !errors.Is(err, signing.ErrLegacy) {
		t.Errorf("after the limit: %v", err)
	}
	if err := legacy.Verify(); !errors.Is(err, signing.ErrLegacy) {
		t.Errorf("verified after the limit: %v", err)
	}

	prehashed, err := ring.Verifier(readSignature(t, "minisign/bundle.tar.gz.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{large[:1], large} {
		if _, err := prehashed.Write(part); err != nil {
			t.Errorf("prehashed: %v", err)
		}
	}
	if err := prehashed.Verify(); !errors.Is(err, signing.ErrSignature) {
		t.Error(err)
	}
}

// withKeyID gives a signature file the key id of another signature.
func withKeyID(t *testing.T, file string, other signing.Signature) string {
	t.Helper()
	lines, donor := strings.Split(file, "\n"), strings.Split(other.File(), "\n")
	raw, id := unbase64(t, lines[1]), unbase64(t, donor[1])[2:10]
	lines[1] = rebase64(bytes.Join([][]byte{raw[:2], id, raw[10:]}, nil))
	return strings.Join(lines, "\n")
}
