package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/signing/signingtest"
)

// large makes a folder with n bundles of size bytes, recognisable as update
// archives of one version.
func large(b *testing.B, n int, size int64) string {
	b.Helper()
	folder := b.TempDir()
	names := []string{"App_1.0.0_x64_en-US.msi.zip", "App_x64.app.tar.gz", "App_aarch64.app.tar.gz", "App_1.0.0_amd64.AppImage.tar.gz"}
	for _, name := range names[:n] {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, size), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return folder
}

// BenchmarkSign signs bundles of 64 MiB, which are in the page cache, one and
// four at a time.
func BenchmarkSign(b *testing.B) {
	const size = 64 << 20
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprintf("bundles=%d", n), func(b *testing.B) {
			d := newDesk(b)
			o := d.gathered(b, "1.0.0", large(b, n, size))
			var paths []string
			for _, bundle := range o.Bundles {
				paths = append(paths, bundle.Path)
			}
			signer := bundle.Reader{Unlock: d.unlock, Version: "1.0.0", Now: time.Now, Transferred: d.Transferred}
			b.SetBytes(int64(n) * size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := signer.Sign(b.Context(), paths); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRepublish publishes four bundles of 16 MiB that are published
// already: they are read and hashed, nothing is sent.
func BenchmarkRepublish(b *testing.B) {
	const size = 16 << 20
	d := newDesk(b)
	o := d.gathered(b, "1.0.0", large(b, 4, size))
	d.publish(b, o)
	b.SetBytes(4 * size)
	b.ReportAllocs()
	for b.Loop() {
		if report := d.publish(b, o); report.Changed {
			b.Fatal("it was published again")
		}
	}
}

// BenchmarkPublish publishes four bundles of 16 MiB to an empty directory. They are
// read twice: once before the plan is made, once while they are sent.
func BenchmarkPublish(b *testing.B) {
	const size = 16 << 20
	folder := large(b, 4, size)
	b.SetBytes(4 * size)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		d := newDesk(b)
		o := d.gathered(b, "1.0.0", folder)
		b.StartTimer()
		d.publish(b, o)
	}
}

// BenchmarkSigned publishes without operators and with one who signs, by turns, and reports
// the median of what the signature adds to a publish, in milliseconds.
func BenchmarkSigned(b *testing.B) {
	plain, signed := newDesk(b), newDesk(b)
	key, sign := signingtest.Sign(b, channels.Namespace)
	signed.Policies["stable"] = Policy{Operators: &channels.Operators{Keys: map[string]string{"ann": key}, Approvals: 1, Rollbacks: 1}}
	signed.Sign = sign
	var added []time.Duration
	for n := 0; b.Loop(); n++ {
		version := fmt.Sprintf("1.0.%d", n)
		took := func(d *desk) time.Duration {
			o := d.options(b, version)
			start := time.Now()
			d.publish(b, o)
			return time.Since(start)
		}
		if n%2 == 0 {
			before := took(plain)
			added = append(added, took(signed)-before)
		} else {
			after := took(signed)
			added = append(added, after-took(plain))
		}
	}
	slices.Sort(added)
	b.ReportMetric(float64(added[len(added)/2].Microseconds())/1000, "added-ms")
}
