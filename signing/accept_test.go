package signing_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// sign signs with the zero digest.
func sign(t *testing.T, c signing.Comment) signing.Signature {
	t.Helper()
	s, err := signingtest.Key(t).Sign(signing.Digest{}, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// accept checks a signature by any key.
func accept(s signing.Signature, c signing.Claim) error {
	c.AnyKey = true
	_, err := signing.Keyring(nil).Accept(s.String(), c)
	return err
}

func TestAcceptComparesVersions(t *testing.T) {
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
		{"1.2.3", "1.2.3 ", false},
		{"1.2.3-", "v1.2.3-", false},
		{"1.2.3+", "v1.2.3+", false},
		{"18446744073709551616.0.0", "v18446744073709551616.0.0", false},
		{"18446744073709551615.0.0", "v18446744073709551615.0.0", true},
	} {
		s := sign(t, signing.Comment{Version: c.signed})
		for _, required := range []bool{false, true} {
			err := accept(s, signing.Claim{Version: c.announced, AllowUnbound: !required})
			if c.fits && err != nil || !c.fits && !errors.Is(err, signing.ErrBound) {
				t.Errorf("%q announced as %q: %v", c.signed, c.announced, err)
			}
		}
	}
}

func TestAcceptUnbound(t *testing.T) {
	s := sign(t, signing.Comment{File: "app-version:2.zip"})
	if err := accept(s, signing.Claim{Version: "9.9.9", AllowUnbound: true}); err != nil {
		t.Error(err)
	}
	if err := accept(s, signing.Claim{Version: "9.9.9"}); !errors.Is(err, signing.ErrUnbound) {
		t.Error(err)
	}
}

// The first field of a name wins, as in the updater, even if it is empty.
func TestFirstFieldWins(t *testing.T) {
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

func TestAcceptComparesTargets(t *testing.T) {
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
		err := accept(s, signing.Claim{Targets: []string{c.target}})
		if c.fits && err != nil || !c.fits && !errors.Is(err, signing.ErrBound) {
			t.Errorf("%q used for %q: %v", c.signed, c.target, err)
		}
	}
}

func TestAcceptReportsEveryFault(t *testing.T) {
	s := sign(t, signing.Comment{Version: "1.2.3", Target: "linux-x86_64"})
	other := signing.Keyring{{PublicKey: signingtest.Key(t).Public()}}
	got, err := other.Accept(s.String(), signing.Claim{Version: "1.2.4", Targets: []string{"linux-x86_64", "darwin-x86_64"}})
	var faults signing.Faults
	if !errors.As(err, &faults) || len(faults) != 3 || got != s {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, want := range []error{signing.ErrUntrustedKey, signing.ErrBound, signing.ErrBound} {
		if !errors.Is(faults[i].Err, want) || !errors.Is(err, want) || faults[i].Mend == "" {
			t.Errorf("fault %d is %+v, want %v", i, faults[i], want)
		}
	}
}

func TestAcceptWantsATrustedKey(t *testing.T) {
	s := sign(t, signing.Comment{Version: "1.2.3"})
	for name, ring := range map[string]signing.Keyring{"another key": {{PublicKey: signingtest.Key(t).Public()}}, "no key": nil} {
		if _, err := ring.Accept(s.String(), signing.Claim{Version: "1.2.3"}); !errors.Is(err, signing.ErrUntrustedKey) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ring.Accept(s.String(), signing.Claim{Version: "1.2.3", AnyKey: true}); err != nil {
			t.Errorf("%s, any allowed: %v", name, err)
		}
	}
}

func TestAcceptRefusesMalformedSignatures(t *testing.T) {
	var form *signing.FormatError
	if _, err := (signing.Keyring{}).Accept("App.sig", signing.Claim{AnyKey: true}); !errors.As(err, &form) {
		t.Error(err)
	}
}

// What a key has not made is not accepted, whatever key it names and whatever its
// comment claims.
func TestAcceptForged(t *testing.T) {
	key := signingtest.Key(t)
	ring := signing.Keyring{{PublicKey: key.Public()}}
	s, err := key.Sign(signing.Digest{1}, signing.Comment{Version: "1.2.3", Target: "linux-x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from memory
		if _, err := ring.Accept(s.String(), signing.Claim{Version: "1.2.3"}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(s.File(), "\n")
	raw, err := base64.StdEncoding.DecodeString(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	zeros := rebase64(append(raw[:10:10], make([]byte, 64)...))
	for name, file := range map[string]string{
		"another version":      strings.Replace(s.File(), "version:1.2.3", "version:6.6.6", 1),
		"no version":           strings.Replace(s.File(), "version:1.2.3", "file:x", 1),
		"another target":       strings.Replace(s.File(), "linux-x86_64", "darwin-x86_64", 1),
		"zeros":                strings.Join([]string{lines[0], zeros, lines[2], rebase64(make([]byte, 64)), ""}, "\n"),
		"a signature of zeros": strings.Join([]string{lines[0], zeros, lines[2], lines[3], ""}, "\n"),
		"a comment of zeros":   strings.Join([]string{lines[0], lines[1], lines[2], rebase64(make([]byte, 64)), ""}, "\n"),
	} {
		if _, err := ring.Accept(rebase64([]byte(file)), signing.Claim{AllowUnbound: true}); !errors.Is(err, signing.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := signing.Keyring{{PublicKey: signingtest.Key(t).Public()}}
	if _, err := other.Accept(s.String(), signing.Claim{}); !errors.Is(err, signing.ErrUntrustedKey) || errors.Is(err, signing.ErrSignature) {
		t.Errorf("another ring: %v", err)
	}
}
