package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// BenchmarkOldLog starts a server on a store that is far away, and publishes to it, with
// logs of some lengths:
//
//	go test -run '^$' -bench OldLog -benchtime 1x ./cmd/tsmon
//
// It reports the medians of seconds, and requests in a row, which don't depend on what else
// the machine does; and how many requests a round of the server takes without news.
func BenchmarkOldLog(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) { benchmarkOldLog(b, n) })
	}
}

func benchmarkOldLog(b *testing.B, n int) {
	w := apitest.Embedded(b)
	store := w.Options.Objects
	key, err := signing.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	keys, err := cli.Keyring(config.TrustedKeys{{Key: key.Public().String()}})
	if err != nil {
		b.Fatal(err)
	}
	p := &release.Publisher{Store: store, PublicURL: "https://releases.example.com", Keys: keys, Who: "bench", Now: time.Now, Policies: map[string]release.Policy{"stable": {}}}
	publish := func(version string) {
		found, _, err := bundle.Gather(version, []string{bundles(b, version, 100)}, nil, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		_, err = p.Publish(b.Context(), release.PublishOptions{Options: release.Options{Channel: "stable"}, Version: version, Bundles: found,
			Unlock: func() (signing.PrivateKey, error) { return key, nil }})
		if err != nil {
			b.Fatal(err)
		}
	}
	publish("1.0.0")
	lengthen(b, p.Repository(), n)
	var publishing, cold, publishRow, coldRow []float64
	for minor := 1; b.Loop(); minor++ {
		for turn := range 3 {
			far := &afar{Store: store}
			p.Store = far
			began := time.Now()
			publish(fmt.Sprintf("1.%d.%d", minor, turn))
			publishing = append(publishing, time.Since(began).Seconds())
			publishRow = append(publishRow, float64(far.depth))
			seconds, row, round := coldStart(b, w.Options, keys)
			cold, coldRow = append(cold, seconds), append(coldRow, row)
			b.ReportMetric(round, "round-requests")
		}
	}
	for name, all := range map[string][]float64{"publish-s": publishing, "cold-s": cold, "publish-row": publishRow, "cold-row": coldRow} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}

// lengthen adds entries to the log of stable, until it has n, and packs them.
func lengthen(b *testing.B, r channels.Repository, n int) {
	log, err := r.Load(b.Context(), "stable")
	for err == nil && len(log.Entries) < n {
		e := *log.Head()
		e.Why = fmt.Sprint("the move with the number ", len(log.Entries))
		log, err = r.Append(b.Context(), log, e)
	}
	if err == nil {
		_, _, err = r.Repoint(b.Context(), log)
	}
	if err == nil {
		err = r.PackAll(b.Context(), log)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// coldStart starts a server and waits until it shows stable on both addresses.
func coldStart(b *testing.B, o api.Options, keys signing.Keyring) (seconds, row, round float64) {
	far := &afar{Store: o.Objects}
	o.Objects, o.Keys, o.Refresh, o.PublicURL = far, keys, time.Second, "https://releases.example.com"
	began := time.Now()
	handler := api.New(o)
	defer handler.Close()
	for _, path := range []string{"/updates/stable/latest.json", "/updates/stable/linux-x86_64/x86_64/0.9.0"} {
		for code := 0; code != http.StatusOK; {
			if time.Since(began) > time.Minute {
				b.Fatalf("%s: %d", path, code)
			}
			answer := httptest.NewRecorder()
			handler.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil))
			code = answer.Code
		}
	}
	seconds, row = time.Since(began).Seconds(), float64(far.depth)
	before, rounds := far.seen()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(distant) {
		if requests, now := far.seen(); now >= rounds+3 {
			return seconds, row, float64(requests-before) / float64(now-rounds)
		}
		if time.Now().After(deadline) {
			b.Fatal("the server does not look for news")
		}
	}
}

// afar is a store each request to which takes longer. depth is the longest chain of
// requests of which each began when the one before it had ended.
type afar struct {
	object.Store
	mu       sync.Mutex
	requests int
	rounds   int // looks at the manifest
	depth    int
}

func (a *afar) seen() (requests, rounds int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests, a.rounds
}

// request waits for the way there; the function that it returns ends the request.
func (a *afar) request() (end func()) {
	a.mu.Lock()
	a.requests++
	own := a.depth + 1
	a.mu.Unlock()
	<-time.After(distant)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.depth = max(a.depth, own)
	}
}

func (a *afar) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	defer a.request()()
	return a.Store.Get(ctx, key)
}

func (a *afar) Stat(ctx context.Context, key string) (object.Info, error) {
	if key == channels.ManifestKey("stable") {
		a.mu.Lock()
		a.rounds++
		a.mu.Unlock()
	}
	defer a.request()()
	return a.Store.Stat(ctx, key)
}

func (a *afar) Checksum(ctx context.Context, key string) (uint64, error) {
	defer a.request()()
	return a.Store.Checksum(ctx, key)
}

func (a *afar) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	defer a.request()()
	return a.Store.Create(ctx, key, r, size, attrs)
}

func (a *afar) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	defer a.request()()
	return a.Store.Swap(ctx, key, etag, data, attrs)
}

// List takes a request for each thousand objects.
func (a *afar) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		a.request()()
		n := 0
		for info, err := range a.Store.List(ctx, prefix, after) {
			if n++; n%1000 == 0 {
				a.request()()
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
