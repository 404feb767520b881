package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func sign(t testing.TB, key signing.PrivateKey, comment signing.Comment) string {
	t.Helper()
	digest, _, err := signing.HashReader(t.Context(), strings.NewReader("bundle"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign(digest, comment)
	if err != nil {
		t.Fatal(err)
	}
	return sig.String()
}

func TestCheckTrust(t *testing.T) {
	text := goodDocument(t)
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	own := append(signingtest.Keyring(t, pub), signing.TrustedKey{PublicKey: key.Public()})
	forTarget := func(target string) string {
		return with(t, text, signingtest.Testdata(t, bound), sign(t, key, signing.Comment{Version: "1.2.3", Target: target}))
	}
	darwin, windows := "platforms.darwin-x86_64.signature", "platforms.windows-x86_64.signature"
	otherKey := "D92372BB2DC0FA42"
	distrust := func(place string, line int, text, mend string, err error) manifest.Problem {
		return manifest.Problem{Place: place, Line: line, Column: 7, Problem: text, Mend: mend, Trust: true, Err: err}
	}
	for _, c := range []struct {
		name  string
		text  string
		rules manifest.Rules
		want  []manifest.Problem
	}{
		{"trusted key", text, manifest.Rules{Keys: signingtest.Keyring(t, pub), AllowUnbound: true}, nil},
		{"one of two keys", text, manifest.Rules{Keys: signingtest.Keyring(t, otherPub, pub), AllowUnbound: true}, nil},
		{"keys are not judged", text, manifest.Rules{AllowUnbound: true}, nil},
		{"untrusted key", text, manifest.Rules{Keys: signingtest.Keyring(t, otherPub), AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, otherKey, "sign with a trusted key", signing.ErrUntrustedKey),
			distrust(windows, 12, otherKey, "sign with a trusted key", signing.ErrUntrustedKey),
		}},
		{"one untrusted signature", with(t, text, signingtest.Testdata(t, bound), signingtest.Testdata(t, otherBound)), manifest.Rules{Keys: signingtest.Keyring(t, pub), AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, "not trusted", "trusted_keys", signing.ErrUntrustedKey),
		}},
		{"unbound signature", text, manifest.Rules{}, []manifest.Problem{
			distrust(windows, 12, "bound to no version", "sign the bundle again", signing.ErrUnbound),
		}},
		{"other version", with(t, text, `"1.2.3"`, `"1.2.4"`), manifest.Rules{AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, `version "1.2.3" is signed, "1.2.4" is announced`, "sign the bundle again", signing.ErrBound),
		}},
		{"pre-release of the version", with(t, text, `"1.2.3"`, `"1.2.3-rc.1"`), manifest.Rules{AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, `"1.2.3-rc.1" is announced`, "sign the bundle again", signing.ErrBound),
		}},
		{"bad version blames no signature", with(t, text, `"1.2.3"`, `"v1.2.3"`), manifest.Rules{AllowUnbound: true}, []manifest.Problem{
			problem("version", 2, 3, "begins with a v", "MAJOR.MINOR.PATCH"),
		}},
		{"missing version blames no signature", with(t, text, `"version": "1.2.3",`, ``), manifest.Rules{}, []manifest.Problem{
			problem("version", 1, 1, "missing", "add"),
		}},
		{"version after the platforms", with(t, with(t, text, `"version": "1.2.3",`, ``), `"sequence"`, `"version": "1.2.4", "sequence"`), manifest.Rules{AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, `"1.2.4" is announced`, "sign the bundle again", signing.ErrBound),
		}},
		{"its target", forTarget("darwin-x86_64"), manifest.Rules{Keys: own, AllowUnbound: true}, nil},
		{"universal target", forTarget("darwin-universal"), manifest.Rules{Keys: own, AllowUnbound: true}, nil},
		{"other target", forTarget("darwin-aarch64"), manifest.Rules{Keys: own, AllowUnbound: true}, []manifest.Problem{
			distrust(darwin, 8, `target "darwin-aarch64" is signed, "darwin-x86_64" is asked for`, "bundle of this platform", signing.ErrBound),
		}},
		{"everything at once", with(t, text, signingtest.Testdata(t, bound), sign(t, key, signing.Comment{Version: "2.0.0", Target: "linux-x86_64"})), manifest.Rules{Keys: signingtest.Keyring(t, pub)}, []manifest.Problem{
			distrust(darwin, 8, "not trusted", "sign with a trusted key", signing.ErrUntrustedKey),
			distrust(darwin, 8, `version "2.0.0" is signed`, "sign the bundle again", signing.ErrBound),
			distrust(darwin, 8, `target "linux-x86_64" is signed`, "bundle of this platform", signing.ErrBound),
			distrust(windows, 12, "bound to no version", "sign the bundle again", signing.ErrUnbound),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := manifest.Check([]byte(c.text), c.rules)
			if len(problems) != len(c.want) {
				t.Fatalf("%d problems, want %d: %v", len(problems), len(c.want), problems)
			}
			for i, p := range problems {
				if !is(p, c.want[i]) {
					t.Errorf("problem %d is %+v, want %+v", i, p, c.want[i])
				}
				if !errors.Is(p.Err, c.want[i].Err) || c.want[i].Err != nil && !errors.Is(problems, c.want[i].Err) {
					t.Errorf("problem %d is caused by %v, want %v", i, p.Err, c.want[i].Err)
				}
				if problems.Trust() != c.want[0].Trust {
					t.Errorf("Trust() is %v", problems.Trust())
				}
			}
		})
	}
}
