package token_test

import (
	"path/filepath"
	"testing"
)

func BenchmarkIssue(b *testing.B) {
	k := open(b, filepath.Join(b.TempDir(), "keys.json"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Issue(ana()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	k := open(b, filepath.Join(b.TempDir(), "keys.json"))
	text := issue(b, k)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Verify(text); err != nil {
			b.Fatal(err)
		}
	}
}
