package api

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

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/store/object"
)

// fleet is installed applications that follow the channel stable of some servers.
// What they are told is checked at once as far as an application can know, and
// later, by judge, against the log: each answer must be that of an entry which
// was written by the time that it came, and none older than what the server that
// gave it had shown before the question.
type fleet struct {
	t       *testing.T
	w       *world
	desk    desk
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

// told is one answer, and the entries of the log that it may come from.
type told struct {
	id, cohort, installed string
	manifest              bool   // it is the same for everybody
	offered               string // empty: nothing
	first, last           uint64
}

// newFleet makes a fleet without members, that many servers, and a desk that has
// published 1.0.0.
func newFleet(t *testing.T, w *world, servers int) *fleet {
	t.Helper()
	w.Refresh = 25 * time.Millisecond
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 100
	f := &fleet{t: t, w: w, desk: w.publisher(t), base: base, manifests: map[uint64][]byte{}, counts: map[string]int{}}
	for range servers {
		f.servers = append(f.servers, &place{base: w.serve(t).URL})
	}
	f.desk.Store = scribe{f.desk.Store, &f.newest}
	f.desk.PublicURL = f.servers[0].base + "/updates"
	f.desk.part(t, "1.0.0", func(*release.PublishOptions) {})
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
func (f *fleet) repeat(every time.Duration, do func()) {
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
func (f *fleet) wrong(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mistakes++; f.mistakes <= 10 {
		f.t.Errorf(format, args...)
	}
}

func (f *fleet) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

func (f *fleet) counted(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// shaken says that the store was away at some time since an outage's number was
// read.
func (f *fleet) shaken(before int64) bool {
	return before%2 == 1 || f.outages.Load() != before
}

// RoundTrip demands answers that are no failures, but for files of a release
// while the store is away.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
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
func (f *fleet) ask(address string, header http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(f.ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, err
	}
	r.Header = header.Clone()
	got, err := f.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, got.Header, body}, err
}

// follower asks a server for its manifest, with the ETag of the last. It never
// goes back.
func (f *fleet) follower(s *place) func() {
	etag, entry := "", uint64(0)
	return func() {
		got, err := f.ask(s.base+"/updates/stable/latest.json", http.Header{"If-None-Match": {etag}})
		switch {
		case f.ctx.Err() != nil:
			return
		case err != nil:
			f.wrong("the manifest of %s: %v", s.base, err)
		case got.status == http.StatusNotModified && got.header.Get("ETag") == etag:
			f.count("not modified")
		case got.status == http.StatusOK:
			etag, entry = got.header.Get("ETag"), f.kept(got.body)
		default:
			f.wrong("the manifest of %s: %d with the ETag %s", s.base, got.status, etag)
		}
		if seen, newest := s.entry.Load(), f.newest.Load(); entry < seen || entry > newest {
			f.wrong("%s shows entry %d after entry %d, %d is the newest", s.base, entry, seen, newest)
		}
		raise(&s.entry, entry)
	}
}

// kept remembers a manifest, and returns its number.
func (f *fleet) kept(body []byte) uint64 {
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

// desktop is an installed application. It asks the servers in turn, each for an
// answer of its own and, failing that, for the manifest.
type desktop struct {
	fleet *fleet
	updater.Updater
	cohort string
	keeps  bool // it installs nothing, so that it is offered all again
	plain  bool // it asks for the manifest alone
	visits atomic.Int64
	chain  []string // versions that it had, the last one has it
}

// desktop adds an application to the fleet, whose id tells how many there were.
func (f *fleet) desktop(installed string) *desktop {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	d := &desktop{fleet: f, chain: []string{installed}, Updater: updater.Updater{
		Client: manifest.Client{Version: installed, Target: "linux-x86_64", BundleType: "appimage"},
		Keys:   f.desk.Keys, RequireVersion: true, HTTP: &http.Client{Transport: f},
		Header: http.Header{clientHeader: {fmt.Sprint("desktop ", f.number)}},
	}}
	return d
}

// join adds applications that ask all the time.
func (f *fleet) join(number int, installed string, change func(i int, d *desktop)) []*desktop {
	var joined []*desktop
	for i := range number {
		d := f.desktop(installed)
		change(i, d)
		f.repeat(40*time.Millisecond, func() { d.visit() })
		joined = append(joined, d)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking = append(f.asking, joined...)
	return joined
}

// visit asks one server, and installs what it offers, whose version it returns.
func (d *desktop) visit() (offered string) {
	f, s := d.fleet, d.fleet.servers[int(d.visits.Load())%len(d.fleet.servers)]
	d.Endpoints = []string{s.base + "/updates/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}", s.base + "/updates/stable/latest.json"}
	if d.plain {
		d.Endpoints = d.Endpoints[1:]
	}
	a := told{id: d.Header.Get(clientHeader), cohort: d.cohort, installed: d.Client.Version, manifest: d.plain, first: s.entry.Load()}
	result, err := d.Check(f.ctx)
	a.last = f.newest.Load()
	switch {
	case f.ctx.Err() != nil:
		return ""
	case err != nil || len(result.Attempts) > 1:
		f.wrong("%s can't find out: %+v, %v", a.id, result.Attempts, err)
	case result.Offer != nil:
		a.offered = result.Offer.Version
	case result.Response != nil && !d.plain:
		f.wrong("%s has %s and is offered %s", a.id, a.installed, result.Response.Version)
	}
	f.note(a)
	if result.Offer != nil {
		d.fetch(result.Offer)
	}
	d.visits.Add(1)
	return a.offered
}

func (f *fleet) note(a told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, a)
}

// fetch downloads what is offered, verifies it and installs it. While the store
// is away nothing may come, or a part.
func (d *desktop) fetch(offer *manifest.Offer) {
	f, before, whole := d.fleet, d.fleet.outages.Load(), false
	_, err := offer.Verifier(d.Keys, true)
	if err != nil {
		f.wrong("%s is not signed: %v", offer.URL, err)
		return
	}
	err = d.Fetch(f.ctx, offer, io.Discard, func(e updater.Event) { whole = whole || e.Event == "Finished" })
	switch {
	case f.ctx.Err() != nil:
	case err == nil:
		f.count("verified")
		d.install(offer.Version)
	case whole || !f.shaken(before):
		f.wrong("%s: %v", offer.URL, err)
	default:
		f.count("broken")
	}
}

func (d *desktop) install(version string) {
	f, had := d.fleet, d.Client.Version
	if !newer(version, had) {
		f.wrong("%s goes from %s to %s", d.Header.Get(clientHeader), had, version)
	}
	if d.keeps {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d.Client.Version = version
	d.chain = append(d.chain, version)
}

// newer compares versions as the updater does.
func newer(version, than string) bool {
	v, err := manifest.ParseClientVersion(version)
	w, err2 := manifest.ParseClientVersion(than)
	return err == nil && err2 == nil && v.Compare(w) > 0
}

// installed counts applications by what they have.
func (f *fleet) installed(desktops []*desktop) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	versions := map[string]int{}
	for _, d := range desktops {
		versions[d.chain[len(d.chain)-1]]++
	}
	return versions
}

// settle waits until all servers have seen an entry, and all applications that
// ask have been told something since.
func (f *fleet) settle(t *testing.T) func(*release.Report, error) {
	return func(report *release.Report, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.servers {
			eventually(t, fmt.Sprintf("entry %d at %s", report.Sequence, s.base), func() bool { return s.entry.Load() >= report.Sequence })
		}
		f.round(t)
	}
}

// round waits until all applications that ask have been answered by every server.
func (f *fleet) round(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	asking := f.asking
	f.mu.Unlock()
	enough := make([]int64, len(asking))
	for i, d := range asking {
		enough[i] = d.visits.Load() + 1 + int64(len(f.servers)) // the one that runs may have begun before
	}
	for i, d := range asking {
		eventually(t, d.Header.Get(clientHeader)+" asks", func() bool { return d.visits.Load() >= enough[i] })
	}
}

// judge compares what the fleet was told with the log.
func (f *fleet) judge(t *testing.T) {
	t.Helper()
	log := f.log(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.told {
		right := false
		for _, e := range log.Entries[max(a.first, 1)-1 : a.last] {
			right = right || a.offered == a.due(&e)
		}
		if !right {
			t.Errorf("%+v: none of these entries says so", a)
		}
	}
	for entry, shown := range f.manifests {
		if want := must[[]byte](t)(log.Entries[entry-1].Manifest.Encode()); !bytes.Equal(shown, want) {
			t.Errorf("entry %d is shown as\n%s, want\n%s", entry, shown, want)
		}
	}
	t.Logf("%d answers, %v, of %d entries %d were shown", len(f.told), f.counts, len(log.Entries), len(f.manifests))
}

func (f *fleet) log(t *testing.T) *channels.Log {
	t.Helper()
	return must[*channels.Log](t)(channels.Repository{Store: f.desk.Store}.Load(t.Context(), "stable"))
}

// answers returns all that the fleet was told so far.
func (f *fleet) answers() []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// due is what an application has to be offered by an entry of a log without
// watersheds.
func (a told) due(e *channels.Entry) string {
	goal := e.Version
	if r := e.Rollout; r != nil && !a.manifest && r.Admits(a.id, a.cohort, time.Time{}) {
		goal = r.Version
	}
	if newer(goal, a.installed) {
		return goal
	}
	return ""
}
