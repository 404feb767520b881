package signing_test

import (
	"errors"
	"testing"

	"tsmon/signing"
)

// sign signs with the zero digest.
func sign(t *testing.T, c signing.Comment) signing.Signature {
	t.Helper()
	s, err := newKey(t).Sign(signing.Digest{}, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheckVersion(t *testing.T) {
	for _, c := range []struct {
		signed, announced string
		fits              bool
	}{
		{"1.2.3", "1.2.3", true},
		{"1.2.3", "v1.2.3", true},
		{"v1.2.3", "1.2.3", true},
		{"vv1.2.3", "v1.2.3", true},
		{"1.2.3", "1.2.4", false},
		{"1.2.3", "9.9.9", false},
		{"1.2.3", "1.2.3-rc.1", false},
		{"1.2.3-rc.1", "v1.2.3-rc.1", true},
		{"1.2.3+5", "1.2.3+5", true},
		{"1.2.3+5", "1.2.3", false},
		{"1.2.3+5", "1.2.3+6", false},
		{"1.2.3+05", "1.2.3+5", false},
		{"2024-01-01", "2024-01-01", true},
		{"2024-01-01", "v2024-01-01", false},
		{"2024-01-01", "2024-01-02", false},
		{"1.2", "v1.2", false},
		{"1.2", "1.2.0", false},
		{"01.2.3", "v01.2.3", false},
		{"1.2.3-01", "v1.2.3-01", false},
		{"V1.2.3", "1.2.3", false},
		{"1.2.3", "", false},
		{"1.2.3", "1.2.3 ", false},
		{"1.2.3-", "v1.2.3-", false},
		{"1.2.3+", "v1.2.3+", false},
		{"18446744073709551616.0.0", "v18446744073709551616.0.0", false},
		{"18446744073709551615.0.0", "v18446744073709551615.0.0", true},
	} {
		s := sign(t, signing.Comment{Version: c.signed})
		for _, required := range []bool{false, true} {
			err := signing.CheckVersion(s, c.announced, required)
			if c.fits && err != nil || !c.fits && !errors.Is(err, signing.ErrBound) {
				t.Errorf("%q announced as %q: %v", c.signed, c.announced, err)
			}
		}
	}
}

func TestCheckVersionUnbound(t *testing.T) {
	s := sign(t, signing.Comment{File: "app-version:2.zip"})
	if err := signing.CheckVersion(s, "9.9.9", false); err != nil {
		t.Error(err)
	}
	if err := signing.CheckVersion(s, "9.9.9", true); !errors.Is(err, signing.ErrUnbound) {
		t.Error(err)
	}
}

// The first field of a name counts, as in the updater, also when it is empty.
func TestFirstFieldCounts(t *testing.T) {
	for comment, want := range map[string]string{
		"version:1.0.0\tversion:2.0.0":         "1.0.0",
		"a\tversion:\tversion:2.0.0":           "",
		"file:x version:3.0.0\tversion:2.0.0":  "2.0.0",
		"Version:1.0.0\t version:1\tversion:3": "3",
	} {
		file := "untrusted comment: \n" + rebase64(append([]byte("ED"), make([]byte, 72)...)) +
			"\ntrusted comment: " + comment + "\n" + rebase64(make([]byte, 64)) + "\n"
		s, err := signing.ReadSignature(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := s.Version(); !ok || got != want {
			t.Errorf("%q is bound to %q, want %q", comment, got, want)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	for _, c := range []struct {
		signed, target string
		fits           bool
	}{
		{"", "linux-x86_64", true},
		{"linux-x86_64", "linux-x86_64", true},
		{"linux-x86_64", "linux-x86_64-deb", true},
		{"linux-x86_64-deb", "linux-x86_64-deb", true},
		{"linux-x86_64-deb", "linux-x86_64", true},
		{"linux-x86_64-deb", "linux-x86_64-rpm", false},
		{"linux-x86_64", "linux-aarch64", false},
		{"linux-x86_64", "windows-x86_64", false},
		{"linux-x86_64", "linux-x86_64x", false},
		{"linux-x86_64", "", false},
		{"linux", "linux-x86_64", false},
		{"darwin-universal", "darwin-universal", true},
		{"darwin-universal", "darwin-x86_64", true},
		{"darwin-universal", "darwin-aarch64", true},
		{"darwin-universal", "darwin-aarch64-app", true},
		{"darwin-universal-app", "darwin-aarch64", true},
		{"darwin-universal", "darwin-armv7", false},
		{"darwin-universal", "linux-x86_64", false},
		{"darwin-aarch64", "darwin-universal", false},
		{"darwin-aarch64", "darwin-x86_64", false},
		{"linux-universal", "linux-x86_64", false},
	} {
		s := sign(t, signing.Comment{Target: c.signed})
		err := signing.CheckTarget(s, c.target)
		if c.fits && err != nil || !c.fits && !errors.Is(err, signing.ErrBound) {
			t.Errorf("%q used for %q: %v", c.signed, c.target, err)
		}
	}
}
