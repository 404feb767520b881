package release

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/store/longtest"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/s3"
	"tsmon/store/servertest"
)

// BenchmarkPrune removes the bundles of all but ten of 1,000 releases with four bundles each,
// or of 100 releases without TSMON_TEST_LONG. It fills a store for each run, so run it with
// -benchtime 1x. For MinIO it counts the requests. lists/op compares the time with that of
// listing all releases, which a prune would need at least if the logs did not say what is there.
func BenchmarkPrune(b *testing.B) {
	n := 100
	if _, long := longtest.Chosen(b); long {
		n = 1000
	}
	b.Run("dir", func(b *testing.B) {
		benchmarkPrune(b, n, nil, func(b *testing.B, i int) object.Store {
			store, err := dir.Open(filepath.Join(b.TempDir(), fmt.Sprint(i)))
			if err != nil {
				b.Fatal(err)
			}
			return store
		})
	})
	b.Run("minio", func(b *testing.B) {
		server := servertest.StartMinIO(b)
		server.Setenv()
		var requests atomic.Int64
		target, err := url.Parse(server.Endpoint)
		if err != nil {
			b.Fatal(err)
		}
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // the signature is of the host that was asked
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
			}}).ServeHTTP(w, r)
		}))
		defer proxy.Close()
		benchmarkPrune(b, n, &requests, func(b *testing.B, i int) object.Store {
			store, err := s3.Open(strings.ReplaceAll(server.URL(fmt.Sprint(i)), url.QueryEscape(server.Endpoint), url.QueryEscape(proxy.URL)), s3.Limits{})
			if err != nil {
				b.Fatal(err)
			}
			return store
		})
	})
}

func benchmarkPrune(b *testing.B, n int, requests *atomic.Int64, fresh func(b *testing.B, i int) object.Store) {
	d := newDesk(b)
	d.Policies = map[string]Policy{"stable": {}}
	d.publish(b, d.gathered(b, "1.0.0", large(b, 4, 1000)))
	template, err := d.Library().Record(b.Context(), "1.0.0")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	asked, lists := int64(0), 0.0
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		d.Store = fresh(b, i)
		d.fill(b, *template, n)
		start := time.Now()
		for _, err := range d.Store.List(b.Context(), library.Root, "") {
			if err != nil {
				b.Fatal(err)
			}
		}
		listed := time.Since(start)
		before := int64(0)
		if requests != nil {
			before = requests.Load()
		}
		b.StartTimer()
		start = time.Now()
		report, err := d.Keeper().Prune(b.Context(), upkeep.PruneOptions{Keep: 10})
		if err != nil || len(report.Pruned) != n-10 {
			b.Fatalf("%d of %d are pruned, %v", len(report.Pruned), n-10, err)
		}
		lists += float64(time.Since(start)) / float64(listed)
		if requests != nil {
			asked += requests.Load() - before
		}
	}
	b.ReportMetric(lists/float64(b.N), "lists/op")
	if requests != nil {
		b.ReportMetric(float64(asked)/float64(b.N), "requests/op")
	}
}

// fill writes n releases with the same content as a record, and a log that showed them all.
func (d *desk) fill(b *testing.B, record library.Record, n int) {
	b.Helper()
	log := &channels.Log{Channel: "stable"}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		record.Version, record.Sum = fmt.Sprintf("1.%d.0", i), ""
		next := record
		release := next.Release()
		group.Go(func() error {
			data, err := next.Encode()
			if err != nil {
				return err
			}
			objects := map[string][]byte{library.RecordKey(next.Version, 1): data}
			for _, bundle := range next.Bundles {
				objects[library.Folder(next.Version)+bundle.Name] = make([]byte, bundle.Size)
				objects[library.Folder(next.Version)+bundle.Name+".sig"] = []byte(bundle.Signature)
			}
			for key, data := range objects {
				if _, err := d.Store.Create(b.Context(), key, bytes.NewReader(data), int64(len(data)), library.BundleAttributes); err != nil {
					return err
				}
			}
			return nil
		})
		longer, err := d.Repository().Append(b.Context(), log, channels.Entry{Action: channels.Publish, Who: "test", When: time.Now(), Release: release})
		if err != nil {
			b.Fatal(err)
		}
		if log = longer; (i+1)%256 == 0 {
			if err := d.Repository().Pack(b.Context(), log); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	if _, _, err := d.Repository().Repoint(b.Context(), log); err != nil {
		b.Fatal(err)
	}
}
