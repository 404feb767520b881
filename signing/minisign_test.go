package signing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// minisign runs the real program in dir. Where it is missing the test is
// skipped, or fails if TSMON_TEST_REAL=1 forbids that.
func minisign(t *testing.T, dir, stdin string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("minisign")
	switch {
	case err != nil && os.Getenv("TSMON_TEST_REAL") == "1":
		t.Fatalf("minisign is needed here (apt-get install minisign): %v", err)
	case err != nil:
		t.Skip("minisign is not installed; TSMON_TEST_REAL=1 makes this a failure")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("minisign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMinisignVerifiesOurs(t *testing.T) {
	dir, key := t.TempDir(), signingtest.Key(t)
	for _, name := range []string{"App_1.2.3_x64.app.tar.gz", "Wächter 水道.msi.zip"} {
		bundle := strings.Repeat(name, 1000)
		s, err := key.Sign(digest(t, bundle), signing.Comment{Time: time.Now(), File: name, Version: "1.2.3", Target: "darwin-x86_64"})
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, bundle)
		write(t, dir, name+".minisig", s.File())
		write(t, dir, "key.pub", key.Public().File())
		minisign(t, dir, "", "-V", "-H", "-p", "key.pub", "-m", name)
		minisign(t, dir, "", "-V", "-P", key.Public().String(), "-m", name)
	}
}

// The decoded form of a key as Encrypt writes it is a minisign key file.
func TestMinisignSignsWithOurs(t *testing.T) {
	dir, key := t.TempDir(), signingtest.Key(t)
	text, err := key.Encrypt("pass word")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "our.key", string(unbase64(t, text)))
	write(t, dir, "bundle", "content")
	for _, kind := range []string{"-H", "-l"} {
		minisign(t, dir, "pass word\n", "-S", kind, "-s", "our.key", "-m", "bundle", "-x", "sig"+kind)
		sig, err := os.ReadFile(filepath.Join(dir, "sig"+kind))
		if err != nil {
			t.Fatal(err)
		}
		s, err := signing.ReadSignature(string(sig))
		if err != nil {
			t.Fatal(err)
		}
		if s.Prehashed() != (kind == "-H") {
			t.Errorf("%s: Prehashed is %v", kind, s.Prehashed())
		}
		if err := verify(signing.Keyring{{PublicKey: key.Public()}}, s, "content"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
