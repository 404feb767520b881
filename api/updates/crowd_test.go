package updates_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/store/object"
)

// fleet is installed applications that follow the channel stable of some servers.
// What they are told is checked at once as far as an application can know, and
// later, by judge, against the log: each answer must be that of an entry which
// was written by the time that it came, and none older than what the server that
// gave it had shown before the question.
type crowd struct {
	t       *testing.T
	w       *apitest.World
	desk    apitest.Desk
	servers []*place
	base    http.RoundTripper
	newest  atomic.Uint64 // entry that somebody has begun to write
	outages atomic.Int64  // odd while the store is away

	ctx     context.Context
	running sync.WaitGroup

	mu        sync.Mutex
	number    int        // of applications
	asking    []*desktop // all the time
	told      []told
	manifests map[uint64][]byte // that were shown, by their sequence
	counts    map[string]int    // of what happened
	mistakes  int
}

// place is a server with the newest entry of the log that it has surely seen.
type place struct {
	base  string
	entry atomic.Uint64
}

// newFleet makes a fleet without members, that many servers, and a desk that has
// published 1.0.0.
func newFleet(t *testing.T, w *apitest.World, servers int) *crowd {
	t.Helper()
	w.Refresh = 25 * time.Millisecond
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 100
	f := &crowd{t: t, w: w, desk: w.Desk(t), base: base, manifests: map[uint64][]byte{}, counts: map[string]int{}}
	for range servers {
		f.servers = append(f.servers, &place{base: w.Serve(t).URL})
	}
	f.desk.Store = scribe{f.desk.Store, &f.newest}
	f.desk.PublicURL = f.servers[0].base + "/updates"
	f.desk.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
	ctx, stop := context.WithCancel(t.Context())
	f.ctx = ctx
	t.Cleanup(func() {
		stop()
		f.running.Wait()
		base.CloseIdleConnections()
	})
	for _, s := range f.servers {
		f.repeat(2*time.Millisecond, f.follower(s))
	}
	return f
}

// repeat does something again and again, as long as there is the fleet.
func (f *crowd) repeat(every time.Duration, do func()) {
	f.running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for f.ctx.Err() == nil {
			do()
			select {
			case <-tick.C:
			case <-f.ctx.Done():
			}
		}
	})
}

// scribe is a publisher's store, which notes the number of an entry before
// anybody can read it.
type scribe struct {
	object.Store
	newest *atomic.Uint64
}

func (s scribe) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	var entry uint64
	if _, err := fmt.Sscanf(key, channels.LogPrefix("stable")+"%d.json", &entry); err == nil {
		raise(s.newest, entry)
	}
	return s.Store.Create(ctx, key, r, size, attrs)
}

func raise(at *atomic.Uint64, to uint64) {
	for now := at.Load(); now < to && !at.CompareAndSwap(now, to); {
		now = at.Load()
	}
}

// wrong is what no client should ever get.
func (f *crowd) wrong(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mistakes++; f.mistakes <= 10 {
		f.t.Errorf(format, args...)
	}
}

func (f *crowd) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

func (f *crowd) counted(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// shaken says that the store was away at some time since an outage's number was
// read.
func (f *crowd) shaken(before int64) bool {
	return before%2 == 1 || f.outages.Load() != before
}

// RoundTrip demands answers that are no failures, but for files of a release
// while the store is away.
func (f *crowd) RoundTrip(r *http.Request) (*http.Response, error) {
	before := f.outages.Load()
	got, err := f.base.RoundTrip(r)
	if err != nil || got.StatusCode < 300 || got.StatusCode == http.StatusNotModified {
		return got, err
	}
	if got.StatusCode != http.StatusServiceUnavailable || !f.shaken(before) || !strings.HasPrefix(r.URL.Path, "/updates/releases/") {
		f.wrong("%s is answered with %d", r.URL.Path, got.StatusCode)
	}
	return got, nil
}

// ask reads an answer; the error says that it did not come, or broke off.
func (f *crowd) ask(address string, header http.Header) (apitest.Answer, error) {
	r, err := http.NewRequestWithContext(f.ctx, http.MethodGet, address, nil)
	if err != nil {
		return apitest.Answer{}, err
	}
	r.Header = header.Clone()
	got, err := f.RoundTrip(r)
	if err != nil {
		return apitest.Answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return apitest.Answer{Status: got.StatusCode, Header: got.Header, Body: body}, err
}

// follower asks a server for its manifest, with the ETag of the last. It never
// goes back.
func (f *crowd) follower(s *place) func() {
	etag, entry := "", uint64(0)
	return func() {
		got, err := f.ask(s.base+"/updates/stable/latest.json", http.Header{"If-None-Match": {etag}})
		switch {
		case f.ctx.Err() != nil:
			return
		case err != nil:
			f.wrong("the manifest of %s: %v", s.base, err)
		case got.Status == http.StatusNotModified && got.Header.Get("ETag") == etag:
			f.count("not modified")
		case got.Status == http.StatusOK:
			etag, entry = got.Header.Get("ETag"), f.kept(got.Body)
		default:
			f.wrong("the manifest of %s: %d with the ETag %s", s.base, got.Status, etag)
		}
		if seen, newest := s.entry.Load(), f.newest.Load(); entry < seen || entry > newest {
			f.wrong("%s shows entry %d after entry %d, %d is the newest", s.base, entry, seen, newest)
		}
		raise(&s.entry, entry)
	}
}

// kept remembers a manifest, and returns its number.
func (f *crowd) kept(body []byte) uint64 {
	response, err := manifest.ParseResponse(body)
	if err != nil {
		f.wrong("%.200s is no manifest: %v", body, err)
		return 0
	}
	f.mu.Lock()
	before, known := f.manifests[response.Sequence]
	f.manifests[response.Sequence] = body
	f.mu.Unlock()
	if known && !bytes.Equal(before, body) {
		f.wrong("entry %d is shown as\n%s and as\n%s", response.Sequence, before, body)
	}
	return response.Sequence
}

// settle waits until all servers have seen an entry, and all applications that
// ask have been told something since.
func (f *crowd) settle(t *testing.T) func(*release.Plan, error) {
	return func(report *release.Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.servers {
			apitest.Eventually(t, fmt.Sprintf("entry %d at %s", report.Sequence, s.base), func() bool { return s.entry.Load() >= report.Sequence })
		}
		f.round(t)
	}
}

// round waits until all applications that ask have been answered by every server.
func (f *crowd) round(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	asking := f.asking
	f.mu.Unlock()
	enough := make([]int64, len(asking))
	for i, d := range asking {
		enough[i] = d.visits.Load() + 1 + int64(len(f.servers)) // the one that runs may have begun before
	}
	for i, d := range asking {
		apitest.Eventually(t, d.Header.Get(clientHeader)+" asks", func() bool { return d.visits.Load() >= enough[i] })
	}
}

// judge compares what the fleet was told with the log.
func (f *crowd) judge(t *testing.T) {
	t.Helper()
	log := f.log(t)
	for _, a := range f.answers() {
		right := false
		for _, e := range log.Entries[max(a.first, 1)-1 : a.last] {
			right = right || a.offered == a.due(&e)
		}
		if !right {
			f.wrong("%+v: none of these entries says so", a)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for entry, shown := range f.manifests {
		m := log.Entries[entry-1].Render(f.desk.PublicURL)
		if want := apitest.Must[[]byte](t)(m.Encode()); !bytes.Equal(shown, want) {
			t.Errorf("entry %d is shown as\n%s, want\n%s", entry, shown, want)
		}
	}
	t.Logf("%v, of %d entries %d were shown", f.counts, len(log.Entries), len(f.manifests))
}

func (f *crowd) log(t *testing.T) *channels.Log {
	t.Helper()
	return apitest.Must[*channels.Log](t)(channels.Repository{Store: f.desk.Store}.Load(t.Context(), "stable"))
}

// answers returns all that the fleet was told so far.
func (f *crowd) answers() []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// agree demands that log, manifest and all servers come to say the same, and that
// all answers so far were right.
func (f *crowd) agree(t *testing.T) *channels.Log {
	t.Helper()
	log := f.log(t)
	f.settle(t)(&release.Plan{Sequence: log.Head().Sequence}, nil)
	found, err := f.desk.Keeper().Verify(t.Context(), "stable")
	if err != nil || found.Findings.Err() != nil || found.Entries != len(log.Entries) {
		t.Errorf("the channel: %+v, %v", found, err)
	}
	stored, _ := f.w.Stored(t, channels.ManifestKey("stable"))
	for _, s := range f.servers {
		if got := (apitest.Client{TB: t, Base: s.base}).Get("/updates/stable/latest.json"); !bytes.Equal(got.Body, stored) {
			t.Errorf("%s shows %s, want %s", s.base, got.Body, stored)
		}
	}
	f.judge(t)
	return log
}
