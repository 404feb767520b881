package updates_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/manifest/updater"
)

// desktop is an installed application. It asks the servers in turn, each for an
// answer of its own and, failing that, for the manifest.
type desktop struct {
	fleet *crowd
	updater.Updater
	cohort string
	keeps  bool // it installs nothing, so that it is offered all again
	plain  bool // it asks for the manifest alone
	visits atomic.Int64
	chain  []string // versions that it had, the last one has it
}

// desktop adds an application to the fleet, whose id tells how many there were.
func (f *crowd) desktop(installed string) *desktop {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	return &desktop{fleet: f, chain: []string{installed}, Updater: updater.Updater{
		Client: manifest.Client{Version: installed, Target: "linux-x86_64", BundleType: "appimage"},
		Keys:   f.desk.Keys, RequireVersion: true, HTTP: &http.Client{Transport: f},
		Header: http.Header{clientHeader: {fmt.Sprint("desktop ", f.number)}},
	}}
}

// join adds applications that ask all the time.
func (f *crowd) join(number int, installed string, change func(i int, d *desktop)) []*desktop {
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
	defer d.visits.Add(1)
	switch {
	case f.ctx.Err() != nil:
		return ""
	case err != nil || len(result.Attempts) > 1:
		f.wrong("%s can't find out: %+v, %v", a.id, result.Attempts, err)
		return ""
	case result.Offer == nil && result.Response != nil && !d.plain:
		f.wrong("%s has %s and is offered %s", a.id, a.installed, result.Response.Version)
	case result.Offer != nil:
		a.offered = result.Offer.Version
		defer d.fetch(result.Offer)
	}
	f.note(a)
	return a.offered
}

func (f *crowd) note(a told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, a)
	f.counts["told"]++
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
func (f *crowd) installed(desktops []*desktop) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	versions := map[string]int{}
	for _, d := range desktops {
		versions[d.chain[len(d.chain)-1]]++
	}
	return versions
}

// told is one answer, and the entries of the log that it may come from.
type told struct {
	id, cohort, installed string
	manifest              bool   // it is the same for everybody
	offered               string // empty: nothing
	first, last           uint64
}

// due is what an application has to be offered by an entry of a log without
// watersheds.
func (a told) due(e *channels.Entry) string {
	goal := e.Version
	if r := e.Rollout; r != nil && !a.manifest && r.Admits(a.id, a.cohort) {
		goal = r.Version
	}
	if newer(goal, a.installed) {
		return goal
	}
	return ""
}
