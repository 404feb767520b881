// Package signingtest has operators for tests.
package signingtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"tsmon/signing"
)

// Operator is somebody with a key.
func Operator(t testing.TB) signing.SSHSigner {
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
	return signer
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
