package manifest_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func platforms(keys ...string) string {
	var members []string
	for _, key := range keys {
		members = append(members, fmt.Sprintf(`%q:{"signature":"sig of %s","url":"https://h/%s"}`, key, key, key))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name               string
		keys               []string
		target, bundleType string
		want               string // key; empty: none
		says               string
	}{
		{"plain", []string{"linux-x86_64", "linux-x86_64-deb"}, "linux-x86_64", "", "linux-x86_64", ""},
		{"type unknown to the client", []string{"linux-x86_64", "linux-x86_64-unknown"}, "linux-x86_64", "unknown", "linux-x86_64", ""},
		{"type first", []string{"linux-x86_64", "linux-x86_64-deb"}, "linux-x86_64", "deb", "linux-x86_64-deb", ""},
		{"type only", []string{"linux-x86_64-deb"}, "linux-x86_64", "deb", "linux-x86_64-deb", ""},
		{"fallback", []string{"linux-x86_64", "linux-x86_64-deb"}, "linux-x86_64", "rpm", "linux-x86_64", ""},
		{"no fallback to another type", []string{"linux-x86_64-deb"}, "linux-x86_64", "rpm", "", "no linux-x86_64-rpm and no linux-x86_64"},
		{"no fallback from plain to a type", []string{"linux-x86_64-deb"}, "linux-x86_64", "", "", "no linux-x86_64"},
		{"no fallback to another architecture", []string{"darwin-x86_64"}, "darwin-aarch64", "app", "", "no darwin-aarch64-app and no darwin-aarch64"},
		{"universal is nobody's", []string{"darwin-universal"}, "darwin-aarch64", "app", "", "no darwin-aarch64"},
		{"letters count", []string{"Linux-x86_64"}, "linux-x86_64", "", "", "no linux-x86_64"},
		{"nothing", nil, "linux-x86_64", "", "", "no linux-x86_64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := response(t, `{"version":"1.2.3","platforms":`+platforms(c.keys...)+`}`)
			key, p, err := r.Lookup(manifest.Client{Target: c.target, BundleType: c.bundleType})
			if c.want == "" {
				if !errors.Is(err, manifest.ErrTarget) || !strings.HasSuffix(err.Error(), c.says) || key != "" || p != (manifest.Platform{}) {
					t.Errorf("found %q, %v; want an error that ends in %q", key, err, c.says)
				}
				return
			}
			if want := (manifest.Platform{Signature: "sig of " + c.want, URL: "https://h/" + c.want}); err != nil || key != c.want || p != want {
				t.Errorf("found %q %+v, %v; want %q", key, p, err, c.want)
			}
		})
	}
	key, p, err := response(t, dynamicForm).Lookup(manifest.Client{Target: "any-thing", BundleType: "at all"})
	if want := (manifest.Platform{Signature: "s", URL: "https://h/l"}); err != nil || key != "" || p != want {
		t.Errorf("the dynamic form gives %q %+v, %v", key, p, err)
	}
}

func TestOfferTo(t *testing.T) {
	linux := func(version string) string {
		return `{"version":"` + version + `","notes":"n","pub_date":"2026-11-21T11:00:00+01:00","platforms":` + platforms("linux-x86_64") + `}`
	}
	for _, c := range []struct {
		name, body      string
		current, target string
		offered         bool
		err             error
	}{
		{"older client", linux("1.2.3"), "1.2.2", "linux-x86_64", true, nil},
		{"same", linux("1.2.3"), "1.2.3", "linux-x86_64", false, nil},
		{"newer client", linux("1.2.3"), "1.3.0", "linux-x86_64", false, nil},
		{"from a pre-release", linux("1.2.3"), "1.2.3-rc.1", "linux-x86_64", true, nil},
		{"to a pre-release", linux("1.2.3-rc.1"), "1.2.3", "linux-x86_64", false, nil},
		{"to the next pre-release", linux("1.2.3-rc.10"), "1.2.3-rc.9", "linux-x86_64", true, nil},
		{"build metadata counts", linux("1.2.3+2"), "1.2.3+1", "linux-x86_64", true, nil},
		{"build metadata above none", linux("1.2.3+1"), "1.2.3", "linux-x86_64", true, nil},
		{"leading v's", linux("v1.2.3"), "vv1.2.2", "linux-x86_64", true, nil},
		{"dynamic", dynamicForm, "1.2.2", "amiga", true, nil},
		{"dynamic, up to date", dynamicForm, "1.2.3", "amiga", false, nil},
		{"missing platform", linux("1.2.3"), "1.2.2", "darwin-x86_64", false, manifest.ErrTarget},
		{"missing platform of an up-to-date client", linux("1.2.3"), "1.2.3", "darwin-x86_64", false, nil},
		{"missing platform of a newer client", linux("1.2.3"), "9.0.0", "darwin-x86_64", false, nil},
		{"client without a version", linux("1.2.3"), "", "linux-x86_64", false, manifest.ErrVersion},
		{"client with a bad version", linux("1.2.3"), "1.2", "linux-x86_64", false, manifest.ErrVersion},
	} {
		t.Run(c.name, func(t *testing.T) {
			offer, err := response(t, c.body).OfferTo(manifest.Client{Version: c.current, Target: c.target})
			if !errors.Is(err, c.err) || (offer != nil) != c.offered {
				t.Errorf("offered %+v, %v; want an offer %v, %v", offer, err, c.offered, c.err)
			}
		})
	}
	offer, err := response(t, linux("v1.2.3")).OfferTo(manifest.Client{Version: "v1.2.2", Target: "linux-x86_64", BundleType: "appimage"})
	want := &manifest.Offer{Version: "1.2.3", Current: "v1.2.2", Key: "linux-x86_64", Notes: "n", PubDate: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Platform: manifest.Platform{Signature: "sig of linux-x86_64", URL: "https://h/linux-x86_64"}}
	if err != nil || !offer.PubDate.Equal(want.PubDate) {
		t.Fatalf("offered %+v, %v", offer, err)
	}
	offer.PubDate = want.PubDate // the zone aside
	if !reflect.DeepEqual(offer, want) {
		t.Errorf("offered %+v, want %+v", offer, want)
	}
}

func TestOfferVerifier(t *testing.T) {
	boundSig, unboundSig := signingtest.Testdata(t, bound), signingtest.Testdata(t, unbound)
	var form *signing.FormatError
	for _, c := range []struct {
		name, version, signature string
		keys                     signing.Keyring
		require                  bool
		err                      error // nil: accepted, unless form
		form                     bool
	}{
		{"bound", "1.2.3", boundSig, signingtest.Keyring(t, pub), true, nil, false},
		{"bound, one of two keys", "1.2.3", boundSig, signingtest.Keyring(t, otherPub, pub), true, nil, false},
		{"unbound where that is allowed", "1.2.4", unboundSig, signingtest.Keyring(t, pub), false, nil, false},
		{"unbound where a version is required", "1.2.3", unboundSig, signingtest.Keyring(t, pub), true, signing.ErrUnbound, false},
		{"other version", "1.2.4", boundSig, signingtest.Keyring(t, pub), false, signing.ErrBound, false},
		{"build metadata counts", "1.2.3+1", boundSig, signingtest.Keyring(t, pub), false, signing.ErrBound, false},
		{"other key", "1.2.3", boundSig, signingtest.Keyring(t, otherPub), true, signing.ErrUntrustedKey, false},
		{"no key", "1.2.3", boundSig, nil, true, signing.ErrUntrustedKey, false},
		{"other key, other version: the comment of a stranger says nothing", "9.9.9", boundSig, signingtest.Keyring(t, otherPub), true, signing.ErrUntrustedKey, false},
		{"line break", "1.2.3", boundSig + "\n", signingtest.Keyring(t, pub), true, nil, true},
		{"path", "1.2.3", "App.sig", signingtest.Keyring(t, pub), true, nil, true},
		{"empty", "1.2.3", "", signingtest.Keyring(t, pub), true, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			offer := manifest.Offer{Version: c.version, Platform: manifest.Platform{Signature: c.signature}}
			verifier, err := offer.Verifier(c.keys, c.require)
			accepted := c.err == nil && !c.form
			if c.err != nil && !errors.Is(err, c.err) || errors.As(err, &form) != c.form || (verifier != nil) != accepted || (err == nil) != accepted {
				t.Errorf("got %v, %v", verifier, err)
			}
		})
	}
}
