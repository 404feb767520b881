// Package signingtest makes keys and operators for tests.
package signingtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"tsmon/signing"
)

// Key returns a new private key.
func Key(t testing.TB) signing.PrivateKey {
	t.Helper()
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Testdata returns the text of a file below testdata.
func Testdata(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Keyring trusts the public keys in files below testdata.
func Keyring(t testing.TB, files ...string) signing.Keyring {
	t.Helper()
	var texts []signing.KeyText
	for _, f := range files {
		texts = append(texts, signing.KeyText{Key: Testdata(t, f)})
	}
	ring, err := signing.ParseKeyring(texts)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Operator is somebody with a key.
func Operator(t testing.TB) signing.SSHSigner {
	t.Helper()
	_, signer := OperatorKey(t)
	return signer
}

// OperatorKey is Operator, with the private key, as an agent takes it.
func OperatorKey(t testing.TB) (ed25519.PrivateKey, signing.SSHSigner) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signing.NewSSHSigner(plain)
	if err != nil {
		t.Fatal(err)
	}
	return private, signer
}

// Sign returns the public key of an operator, and what signs in a namespace where that key
// is asked for, as approval.Sign.
func Sign(t testing.TB, namespace string) (public string, sign func(ctx context.Context, keys []string, data []byte) (string, error)) {
	t.Helper()
	signer := Operator(t)
	public = signer.Public().String()
	return public, func(_ context.Context, keys []string, data []byte) (string, error) {
		if !slices.Contains(keys, public) {
			return "", nil
		}
		return signer.Sign(namespace, data)
	}
}
