package signing_test

import (
	"errors"
	"strings"
	"testing"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func TestSpanContains(t *testing.T) {
	all, from, until := signing.Span{}, signing.Span{From: "1.6.0"}, signing.Span{Until: "1.6.0"}
	both := signing.Span{From: "1.6.0-beta.2", Until: "2.0.0-0"}
	for _, c := range []struct {
		span signing.Span
		in   string
		out  string
	}{
		{all, "0.0.0 1.6.0 99.0.0 1.0.0-x 1.0.0+5 v1.0.0 nonsense", ""},
		{from, "1.6.0 1.6.1 1.10.0 2.0.0-alpha v1.6.0 1.6.0+1 1.6.1-0", "1.5.9 1.6.0-rc.9 1.5.99+7 0.0.0 nonsense 1.6"},
		{until, "1.5.99 1.6.0-rc.9 1.6.0-0 0.0.0 vv1.0.0 1.5.9+9", "1.6.0 1.6.0+1 1.6.1-0 2.0.0 nonsense"},
		{both, "1.6.0-beta.2 1.6.0-beta.10 1.6.0-rc 1.6.0 1.99.0", "1.6.0-beta.1 1.6.0-beta 1.6.0-alpha.9 2.0.0-0 2.0.0-alpha 2.0.0"},
		{signing.Span{From: "nonsense", Until: "2.0.0"}, "1.0.0", "2.0.0"},
		{signing.Span{From: "1.0.0", Until: "nonsense"}, "", "1.0.0 2.0.0"},
	} {
		for version := range strings.FieldsSeq(c.in) {
			if !c.span.Contains(version) {
				t.Errorf("%s is not in %q", version, c.span)
			}
		}
		for version := range strings.FieldsSeq(c.out) {
			if c.span.Contains(version) {
				t.Errorf("%s is in %q", version, c.span)
			}
		}
	}
}

func TestSpanCheck(t *testing.T) {
	for _, s := range []signing.Span{{}, {From: "1.6.0"}, {Until: "1.6.0"}, {From: "1.6.0-beta.1", Until: "1.6.0"}, {From: "0.9.9", Until: "0.10.0"}} {
		if err := s.Check(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []signing.Span{
		{From: "1.6"}, {From: "v1.6.0"}, {From: "1.6.0+5"}, {Until: "latest"}, {Until: "1.6.0 "}, {From: "01.6.0"},
		{From: "1.6.0", Until: "1.6.0"}, {From: "1.10.0", Until: "1.9.0"}, {From: "1.6.0", Until: "1.6.0-rc.1"},
		{From: strings.Repeat("9", 100)},
	} {
		var format *signing.FormatError
		if err := s.Check(); !errors.As(err, &format) || format.Mend == "" || len(format.Problem) > 100 {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestRotation tells the story of a key that the applications of 1.6.0 replaced, with
// the real keys and signatures of the Tauri CLI.
func TestRotation(t *testing.T) {
	before, after := "tauri-password", "tauri-empty-password"
	const bundle = "/App_1.2.3_x64.app.tar.gz"
	ring := func(until, from string) signing.Keyring {
		keys, err := signing.ParseKeyring([]signing.KeyText{
			{Key: signingtest.Testdata(t, before+"/tauri.key.pub"), Until: until}, {Key: signingtest.Testdata(t, after+"/tauri.key.pub"), From: from}})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	for _, c := range []struct {
		name, until, from string
		installed         string
		old, next         bool // signatures that this version can verify
	}{
		{"meeting", "1.6.0", "1.6.0", "1.5.9", true, false},
		{"meeting", "1.6.0", "1.6.0", "1.6.0-rc.1", true, false},
		{"meeting", "1.6.0", "1.6.0", "1.6.0", false, true},
		{"meeting", "1.6.0", "1.6.0", "1.6.0+5", false, true},
		{"overlapping", "1.8.0", "1.6.0", "1.7.0", true, true},
		{"overlapping", "1.8.0", "1.6.0", "1.8.0", false, true},
		{"with a gap", "1.5.0", "1.6.0", "1.5.5", false, false},
		{"never ending", "", "1.6.0", "9.0.0", true, true},
		{"whatever is installed", "1.6.0", "1.6.0", "", true, true},
	} {
		keys := ring(c.until, c.from)
		for folder, good := range map[string]bool{before: c.old, after: c.next} {
			text := signingtest.Testdata(t, folder+bundle+".sig")
			s, err := keys.Accept(text, signing.Claim{AllowUnbound: true, Installed: c.installed})
			if good && err != nil || !good && !errors.Is(err, signing.ErrNotBuiltIn) || errors.Is(err, signing.ErrUntrustedKey) {
				t.Errorf("spans %s, %s takes what %s signed: %v", c.name, c.installed, folder, err)
			}
			// Whether the key made it does not depend on the span.
			if err := verify(keys, s, signingtest.Testdata(t, folder+bundle)); err != nil {
				t.Errorf("spans %s: %v", c.name, err)
			}
		}
		if got := len(keys.BuiltInto(c.installed)); c.installed != "" && (got == 2) != (c.old && c.next) {
			t.Errorf("%s has %d keys", c.installed, got)
		}
	}
}

func TestAcceptNamesTheKeyThatAVersionHas(t *testing.T) {
	old, next := signingtest.Key(t), signingtest.Key(t)
	ring := signing.Keyring{{PublicKey: old.Public(), Span: signing.Span{Until: "1.6.0"}}, {PublicKey: next.Public(), Span: signing.Span{From: "1.6.0"}}}
	s, err := next.Sign(signing.Digest{}, signing.Comment{Version: "1.7.0"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ring.Accept(s.String(), signing.Claim{Version: "1.7.0", Installed: "1.5.0"})
	want := "signed by a key that the installed version does not have: it is by key " + next.Public().ID() + ", and version 1.5.0 has " + old.Public().ID()
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestParseKeyringSpans(t *testing.T) {
	a, b := signingtest.Key(t).Public(), signingtest.Key(t).Public()
	ring, err := signing.ParseKeyring([]signing.KeyText{{Key: a.Tauri(), Until: "1.6.0"}, {Key: a.String(), Until: "1.6.0"}, {Key: b.String(), From: "1.6.0"}})
	if err != nil || len(ring) != 2 || ring[0].Name() != a.ID()+" until 1.6.0" || ring[1].Name() != b.ID()+" from 1.6.0" || !ring.Trusts(a) || ring.Trusts(signingtest.Key(t).Public()) {
		t.Errorf("%v, %v", ring, err)
	}
	for want, keys := range map[string][]signing.KeyText{
		"trusted key 2: key " + a.ID() + " is listed twice, for different versions": {{Key: a.String(), Until: "1.6.0"}, {Key: a.String()}},
		`trusted key 1: from: "1.6" is not MAJOR.MINOR.PATCH`:                       {{Key: a.String(), From: "1.6"}},
		"trusted key 1: until 1.0.0 is not above from 2.0.0":                        {{Key: a.String(), From: "2.0.0", Until: "1.0.0"}},
	} {
		if _, err := signing.ParseKeyring(keys); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
