package manifest_test

import (
	"strings"
	"testing"

	"tsmon/manifest"
	"tsmon/signing/signingtest"
)

// fourPlatforms is a manifest as releases have it.
func fourPlatforms(b *testing.B) []byte {
	m, err := manifest.Decode([]byte(goodDocument(b)))
	if err != nil {
		b.Fatal(err)
	}
	m.Notes = strings.Repeat("One of the fixes.\n", 20)
	for _, key := range []string{"darwin-aarch64", "darwin-x86_64-app"} {
		m.Platforms[key] = m.Platforms["darwin-x86_64"]
	}
	return []byte(encode(b, m))
}

func BenchmarkCheck(b *testing.B) {
	data := fourPlatforms(b)
	rules := manifest.Rules{Keys: signingtest.Keyring(b, pub), AllowUnbound: true}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if doc, problems := manifest.Check(data, rules); len(problems) > 0 || len(doc.Platforms) != 4 {
			b.Fatal(problems)
		}
	}
}

func BenchmarkParseResponse(b *testing.B) {
	data := fourPlatforms(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := manifest.ParseResponse(data); err != nil || len(r.Platforms) != 4 {
			b.Fatal(err)
		}
	}
}
