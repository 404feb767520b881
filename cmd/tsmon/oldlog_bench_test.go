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
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// BenchmarkOldLog starts a server on a distant store and publishes to it, with logs of several
// lengths:
//
//	go test -run '^$' -bench OldLog -benchtime 1x ./cmd/tsmon
//
// It reports medians of seconds, the number of consecutive requests, which other load does not
// affect, and the requests of a server's round without news. With operators each entry is signed.
// read-s is the time in which a publish or a start reads the log, thorough-s that of `channel
// verify`, both without the delay of the store.
func BenchmarkOldLog(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		for _, signed := range []bool{false, true} {
			b.Run(fmt.Sprintf("entries=%d,signed=%t", n, signed), func(b *testing.B) { benchmarkOldLog(b, n, signed) })
		}
	}
}

func benchmarkOldLog(b *testing.B, n int, signed bool) {
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
	var sign approval.Sign
	trust := map[string]channels.Trust{}
	if signed {
		key := signingtest.Operator(b)
		sign = func(_ context.Context, _ []string, data []byte) (string, error) {
			return key.Sign(channels.Namespace, data)
		}
		operators := &channels.Operators{Keys: map[string]string{"ci": key.Public().String()}, Approvals: 1, Rollbacks: 1}
		p.Policies["stable"], p.Sign = release.Policy{Operators: operators}, sign
		trust["stable"] = channels.Trust{Operators: operators}
	}
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
	lengthen(b, p.Repository(), n, sign)
	w.Options.Trust = trust
	var publishing, cold, publishRow, coldRow, reading, thorough, served []float64
	for minor := 1; b.Loop(); minor++ {
		for turn := range 3 {
			far := &afar{Store: store}
			p.Store = far
			began := time.Now()
			publish(fmt.Sprintf("1.%d.%d", minor, turn))
			publishing = append(publishing, time.Since(began).Seconds())
			publishRow = append(publishRow, float64(far.depth))
			seconds, row, round, request := coldStart(b, w.Options, keys)
			served = append(served, request)
			cold, coldRow = append(cold, seconds), append(coldRow, row)
			reading, thorough = append(reading, readingTime(b, p.Repository(), store, false)), append(thorough, readingTime(b, p.Repository(), store, true))
			b.ReportMetric(round, "round-requests")
		}
	}
	for name, all := range map[string][]float64{"publish-s": publishing, "cold-s": cold, "read-s": reading, "thorough-s": thorough, "served-µs": served, "publish-row": publishRow, "cold-row": coldRow} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}

// readingTime returns the seconds that reading the log of stable takes.
func readingTime(b *testing.B, r channels.Repository, store object.Store, thorough bool) float64 {
	r.Store, r.Thorough = store, thorough
	began := time.Now()
	if _, err := r.Load(b.Context(), "stable"); err != nil {
		b.Fatal(err)
	}
	return time.Since(began).Seconds()
}

// lengthen adds entries to the log of stable, until it has n, and packs them.
func lengthen(b *testing.B, r channels.Repository, n int, sign approval.Sign) {
	log, err := r.Load(b.Context(), "stable")
	for err == nil && len(log.Entries) < n {
		e := *log.Head()
		e.Operators, e.Signatures, e.Expires, e.Entered = nil, nil, time.Time{}, time.Time{}
		e.Why = fmt.Sprint("the move with the number ", len(log.Entries))
		if e = log.Next(e); sign != nil {
			payload, failed := e.Payload()
			if failed != nil {
				b.Fatal(failed)
			}
			armored, failed := sign(b.Context(), nil, payload)
			if failed != nil {
				b.Fatal(failed)
			}
			e.Signatures = []string{armored}
		}
		log, err = r.Enter(b.Context(), log, e)
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
// Then served is the microseconds of an answer on the dynamic one.
func coldStart(b *testing.B, o api.Options, keys signing.Keyring) (seconds, row, round, served float64) {
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
	const answers = 500
	began = time.Now()
	for range answers {
		handler.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/updates/stable/linux-x86_64/x86_64/0.9.0", nil))
	}
	served = float64(time.Since(began).Microseconds()) / answers
	before, rounds := far.seen()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(distant) {
		if requests, now := far.seen(); now >= rounds+3 {
			return seconds, row, float64(requests-before) / float64(now-rounds), served
		}
		if time.Now().After(deadline) {
			b.Fatal("the server does not look for news")
		}
	}
}

// afar is a store with slow requests. depth is the longest chain of consecutive requests.
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
