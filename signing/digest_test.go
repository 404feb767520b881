package signing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"golang.org/x/crypto/blake2b"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func TestHashReader(t *testing.T) {
	content := make([]byte, 3<<20+17)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	for _, size := range []int{0, 1, 127, 128, 129, 512<<10 - 1, 512 << 10, 512<<10 + 1, 1 << 20, len(content)} {
		want := signing.Digest(blake2b.Sum512(content[:size]))
		for name, r := range map[string]io.Reader{
			"whole":      bytes.NewReader(content[:size]),
			"halves":     iotest.HalfReader(bytes.NewReader(content[:size])),
			"end early":  iotest.DataErrReader(bytes.NewReader(content[:size])),
			"with gaps":  &gaps{r: bytes.NewReader(content[:size])},
			"small ones": io.MultiReader(bytes.NewReader(content[:size/3]), bytes.NewReader(content[size/3:size])),
		} {
			d, n, err := signing.HashReader(t.Context(), r)
			if err != nil || d != want || n != int64(size) {
				t.Errorf("%s of %d bytes: %d, %v", name, size, n, err)
			}
		}
	}
}

// gaps returns nothing every other time.
type gaps struct {
	r    io.Reader
	turn bool
}

func (g *gaps) Read(p []byte) (int, error) {
	if g.turn = !g.turn; g.turn {
		return 0, nil
	}
	return g.r.Read(p)
}

func TestHashReaderFails(t *testing.T) {
	broken := errors.New("disk on fire")
	_, n, err := signing.HashReader(t.Context(), io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || n != 1<<20 {
		t.Errorf("after %d bytes: %v", n, err)
	}
	if _, _, err := signing.HashReader(t.Context(), iotest.TimeoutReader(bytes.NewReader(make([]byte, 1<<20)))); !errors.Is(err, iotest.ErrTimeout) {
		t.Error(err)
	}
	if _, _, err := signing.HashReader(t.Context(), stuck{}); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// An endless reader is not read after the context has ended.
func TestHashReaderIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	endless := &counter{cancelAt: 5, cancel: cancel}
	if _, _, err := signing.HashReader(ctx, endless); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if endless.reads != 5 {
		t.Errorf("%d reads", endless.reads)
	}
	if _, _, err := signing.HashReader(ctx, endless); !errors.Is(err, context.Canceled) || endless.reads != 5 {
		t.Errorf("read after the end: %v", err)
	}
}

type counter struct {
	reads, cancelAt int
	cancel          func()
}

func (c *counter) Read(p []byte) (int, error) {
	if c.reads++; c.reads == c.cancelAt {
		c.cancel()
	}
	return len(p), nil
}

func BenchmarkHashReader(b *testing.B) {
	content := make([]byte, 64<<20)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := signing.HashReader(b.Context(), bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifier(b *testing.B) {
	for _, name := range []string{"bundle.tar.gz.minisig", "bundle.tar.gz.legacy.minisig"} {
		b.Run(name, func(b *testing.B) {
			ring, s := signingtest.Keyring(b, "minisign/minisign.pub"), readSignature(b, "minisign/"+name)
			part := make([]byte, 1<<20)
			const parts = 64
			b.SetBytes(parts * int64(len(part)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := ring.Verifier(s)
				if err != nil {
					b.Fatal(err)
				}
				for range parts {
					v.Write(part)
				}
				if err := v.Verify(); !errors.Is(err, signing.ErrSignature) {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	key := signingtest.Key(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := key.Sign(signing.Digest{}, signing.Comment{File: "App.tar.gz", Version: "1.2.3"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseSignature(b *testing.B) {
	line := signingtest.Testdata(b, vectors[0].sig)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signing.ParseSignature(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecrypt(b *testing.B) {
	sealed, err := signing.ParsePrivateKey(signingtest.Testdata(b, "tauri-empty-password/tauri.key"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sealed.Decrypt(""); err != nil {
			b.Fatal(err)
		}
	}
}
