package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"testing"
	"unicode/utf8"

	"tsmon/manifest"
)

// What Decode accepts every client reads alike, and its canonical form stands
// for it.
func FuzzDecode(f *testing.F) {
	text := goodDocument(f)
	f.Add([]byte(text))
	f.Add([]byte(with(f, text, "10:00:00Z", "10:00:00.123456789Z")))
	f.Add([]byte(with(f, text, "Fixes.", `\ud83d\ude00 \u2028 <b> \"`)))
	f.Add([]byte(with(f, text, "https://releases.example.com/App_x64.msi.zip", "http://münchen.example:80/a?b#c")))
	f.Add([]byte(with(f, text, `"windows-x86_64"`, `"linux-armv7-deb"`)))
	f.Add([]byte(staticForm))
	f.Add([]byte(dynamicForm))
	f.Add([]byte(`{"a": [[[{"": 1e999}]]], "version": "\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, problems := manifest.Check(data, manifest.Rules{AllowUnbound: true, AnyFile: true})
		m, err := manifest.Decode(data)
		if (err == nil) != (len(problems) == 0) || (m == nil) == (err == nil) {
			t.Fatalf("Check finds %v, Decode %v", problems, err)
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Column > len(data)+1 || p.Problem == "" || p.Mend == "" {
				t.Errorf("in %d lines of %d bytes: %+v", lines, len(data), p)
			}
		}
		if err != nil {
			return
		}
		read, err := manifest.ParseResponse(data)
		if err != nil {
			t.Fatalf("the updater refuses it: %v", err)
		}
		if read.Version.String() != m.Version || read.Notes != m.Notes || read.Sequence != m.Sequence || !maps.Equal(read.Platforms, m.Platforms) || !reflect.DeepEqual(m, &doc.Manifest) {
			t.Fatalf("the updater reads %+v, Decode %+v, Check %+v", read, m, doc.Manifest)
		}
		encoded := encode(t, m)
		again, err := manifest.Decode([]byte(encoded))
		if err != nil || !reflect.DeepEqual(again, m) || encode(t, again) != encoded {
			t.Fatalf("%+v is encoded as %s and decoded as %+v, %v", m, encoded, again, err)
		}
	})
}

// An answer is a release or it has one of two faults; a release can be offered
// to any client without a panic.
func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(goodDocument(f)))
	for _, body := range []string{staticForm, dynamicForm, `{"name":"vv1.0.0+01","platforms":null,"url":"https:\\\\h:1","signature":"","pub_date":"2026-11-21t10:00:00.5-23:59"}`,
		`[1e308,"\ud83d\ude00",-0]`, `{"version":"1.0.0","platforms":{"a":{"url":"https://[::1]:0/","signature":"\u0000"}},"x":"\ud800"}`,
		`{"version":"1.0.0","platforms":{"a":{"url":"http://xn--mnchen-3ya.0x1","signature":"s"}}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := manifest.ParseResponse(body)
		if notJSON, shape := errors.Is(err, manifest.ErrNotJSON), errors.Is(err, manifest.ErrShape); (r == nil) != (err != nil) || err != nil && notJSON == shape {
			t.Fatalf("got %+v, %v", r, err)
		}
		if !json.Valid(body) && !errors.Is(err, manifest.ErrNotJSON) {
			t.Fatalf("text that is no JSON is read with %v", err)
		}
		if err != nil {
			return
		}
		if !utf8.Valid(body) {
			t.Fatal("an answer that is not UTF-8 is accepted")
		}
		for _, c := range []manifest.Client{{Version: "0.0.0", Target: "a"}, {Version: "1.0.0", Target: "linux-x86_64", BundleType: "deb"}} {
			offer, err := r.OfferTo(c)
			if err != nil && !errors.Is(err, manifest.ErrTarget) || err != nil && r.Platforms == nil {
				t.Fatalf("offered %+v, %v", offer, err)
			}
			if offer != nil && (offer.URL == "" || offer.Version != r.Version.String()) {
				t.Fatalf("offered %+v of %+v", offer, r)
			}
		}
	})
}

// The order of versions is total, and a published version is read by clients as
// what it says.
func FuzzVersion(f *testing.F) {
	for i := range len(ascending) - 2 {
		f.Add(ascending[i], ascending[i+1], ascending[(i*7)%len(ascending)])
	}
	f.Add("v1.0.0", "1.0.0+b", "1.0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var versions []manifest.Version
		for _, text := range []string{a, b, c} {
			published, err := manifest.ParseVersion(text)
			r, clientErr := manifest.ParseResponse([]byte(`{"version":` + quote(text) + `,"platforms":{}}`))
			if err == nil && (clientErr != nil || r.Version.String() != text || published.Compare(r.Version) != 0) {
				t.Fatalf("%q may be published, and clients read %+v, %v", text, r, clientErr)
			}
			if clientErr == nil {
				versions = append(versions, r.Version)
			}
		}
		for _, x := range versions {
			if x.Compare(x) != 0 {
				t.Errorf("%s is not equal to itself", x)
			}
			for _, y := range versions {
				if x.Compare(y) != -y.Compare(x) || x.Compare(y) == 0 && x.String() != y.String() {
					t.Errorf("%s and %s: %d, %d", x, y, x.Compare(y), y.Compare(x))
				}
				for _, z := range versions {
					if x.Compare(y) <= 0 && y.Compare(z) <= 0 && x.Compare(z) > 0 {
						t.Errorf("%s ≤ %s ≤ %s, but not the first and the last", x, y, z)
					}
				}
			}
		}
	})
}
