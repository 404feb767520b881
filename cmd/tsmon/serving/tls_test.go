package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certify writes a certificate for this machine and its key.
func certify(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificate takes up files that were renewed, and keeps what it has while
// they are half-written.
func TestCertificate(t *testing.T) {
	folder := t.TempDir()
	c := &certificate{log: slog.New(slog.DiscardHandler)}
	c.files.Cert, c.files.Key = filepath.Join(folder, "c"), filepath.Join(folder, "k")
	serial := func() string {
		t.Helper()
		leaf, err := x509.ParseCertificate(c.get().Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.String()
	}
	certify(t, c.files.Cert, c.files.Key, 1)
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	certify(t, c.files.Cert, c.files.Key, 2)
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(c.files.Cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != "1" {
		t.Errorf("files were looked at again at once: serial %s", got)
	}
	c.looked = time.Now().Add(-lookAgain)
	if got := serial(); got != "2" {
		t.Errorf("serial %s after the renewal, want 2", got)
	}
	if err := os.WriteFile(c.files.Cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.looked = time.Now().Add(-lookAgain)
	if got := serial(); got != "2" {
		t.Errorf("serial %s with half a file, want 2", got)
	}
}
