package signing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"testing"
)

// BenchmarkSSH signs 8 KiB, as much as an entry of four bundles has, as an operator, and
// verifies that as every reader of the entry does.
func BenchmarkSSH(b *testing.B) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	signer := sshSigner(b, private)
	data := bytes.Repeat([]byte("entry 01"), 1024)
	armored, err := signer.Sign("tsmon-log", data)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := signer.Sign("tsmon-log", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := VerifySSH("tsmon-log", data, armored); err != nil {
				b.Fatal(err)
			}
		}
	})
}
