package serving

import (
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tsmon/store/servertest"
)

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
	servertest.Certificate(t, c.files.Cert, c.files.Key)
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	first := serial()
	servertest.Certificate(t, c.files.Cert, c.files.Key)
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(c.files.Cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != first {
		t.Errorf("files were looked at again at once: serial %s", got)
	}
	c.looked = time.Now().Add(-lookAgain)
	second := serial()
	if second == first {
		t.Errorf("serial %s after the renewal, as before", second)
	}
	if err := os.WriteFile(c.files.Cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.looked = time.Now().Add(-lookAgain)
	if got := serial(); got != second {
		t.Errorf("serial %s with half a file, want %s", got, second)
	}
}
