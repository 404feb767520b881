package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/servertest"
)

// distant is the delay that is added to every request to the store.
const distant = 30 * time.Millisecond

// BenchmarkRingsFromAfar measures moves on MinIO behind a proxy that delays each request. It takes
// turns between a channel with rings and one without, and reports the medians in seconds.
func BenchmarkRingsFromAfar(b *testing.B) {
	server := servertest.StartMinIO(b)
	b.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	b.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		b.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which is signed
	}, Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(distant)
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	store, err := cli.OpenStore(b.Context(), strings.Replace(server.URL("desktop"), url.QueryEscape(server.Endpoint), url.QueryEscape(proxy.URL), 1))
	if err != nil {
		b.Fatal(err)
	}
	key, err := signing.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	keys, err := cli.Keyring(config.TrustedKeys{{Key: key.Public().String()}})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	p := &release.Publisher{Store: store, PublicURL: "https://releases.example.com", Keys: keys, Who: "bench", Now: func() time.Time { return now },
		Policies: map[string]release.Policy{"plain": {}, "ringed": {Rings: true}}}
	publish := func(channel, version string, r *channels.Rollout) error {
		bundles, _, err := bundle.Gather(version, []string{bundles(b, version, 5000)}, nil, nil, nil)
		if err != nil {
			return err
		}
		_, err = p.Publish(b.Context(), release.PublishOptions{Options: release.Options{Channel: channel, Rollout: r}, Version: version, Bundles: bundles,
			Unlock: func() (signing.PrivateKey, error) { return key, nil }})
		return err
	}
	took := map[string][]time.Duration{}
	clock := func(name, channel string, move func() error) {
		begin := time.Now()
		if err := move(); err != nil {
			b.Fatalf("%s on %s: %v", name, channel, err)
		}
		took[name+"-"+channel] = append(took[name+"-"+channel], time.Since(begin))
	}
	for i := 0; b.Loop(); i++ {
		for j, channel := range []string{"plain", "ringed"} {
			version := func(n int) string { return fmt.Sprintf("%d.%d.%d", 1+j, i, n) }
			clock("publish", channel, func() error { return publish(channel, version(0), nil) })
			steps := &channels.Rollout{Steps: []int{5, 25, 100}, Every: channels.Duration(time.Hour)}
			clock("rollout", channel, func() error { return publish(channel, version(1), steps) })
			for _, step := range []string{"to25", "to100"} {
				now = now.Add(2 * time.Hour)
				clock(step, channel, func() error {
					_, err := p.Advance(b.Context(), release.Options{Channel: channel})
					return err
				})
			}
		}
	}
	for name, times := range took {
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2].Seconds(), name+"-s")
	}
}
