// Package doctor checks everything that a release depends on: the configuration, the storage,
// the channels in it, the public address, the keys, the Tauri project and the server.
//
// Each area is checked by a function that returns findings. A finding that is not ok says where
// the problem is and how to fix it. The areas are checked concurrently, each for a limited
// time. Only one object is written to the store, which no command reads: see probeKey. Each
// area has a file of its name; that of the storage also compares the clocks.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/tauri"
	"tsmon/signing"
	"tsmon/store/object"
)

// Level says how bad a finding is.
type Level string

// Levels of a Finding.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something works worse than it could, or can't be checked
	Error   Level = "error"   // something does not work
)

// Finding is the result of one check.
type Finding struct {
	Area  string `json:"area"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Where string `json:"where,omitempty"` // setting, file, object or address
	Mend  string `json:"mend,omitempty"`  // how to fix it
}

// Report is the result of an examination.
type Report struct {
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

// Options are what an examination needs besides the configuration of App.
type Options struct {
	App *cli.App
	// TauriConf is the project's configuration file or its folder; empty: looked
	// for as the Tauri CLI does.
	TauriConf string
	// CheckServer applies the rules of `tsmon serve` to its configuration.
	CheckServer func(config.Server) error
	// Limit bounds the time for each area; 0: 20 s.
	Limit time.Duration
	// Examined, if not nil, is called when an area is done, one call at a time.
	Examined func(area string)
}

// Areas of findings.
const (
	areaConfiguration = "configuration"
	areaStorage       = "storage"
	areaChannels      = "channels"
	areaPublic        = "public address"
	areaKeys          = "keys"
	areaApplication   = "application"
	areaServer        = "server"
)

// Areas returns the names of all areas, in the order of a report.
func Areas() []string {
	return []string{areaConfiguration, areaStorage, areaChannels, areaPublic, areaKeys, areaApplication, areaServer}
}

// patient has the data that the areas share.
type patient struct {
	Options
	config     *config.Config
	keys       signing.Keyring
	trust      map[string]channels.Trust
	store      object.Store
	project    *tauri.Project // nil if there is none
	projectErr error
	http       *http.Client               // follows no redirects; see fetch
	standings  map[string]func() standing // of the logs of channels, each of which is read once
}

// Run examines everything. If the configuration is wrong, it examines nothing else.
func Run(ctx context.Context, o Options) *Report {
	p := &patient{Options: o, http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	p.Limit = cmp.Or(p.Limit, 20*time.Second)
	if p.Examined == nil {
		p.Examined = func(string) {}
	}
	inspection := o.App.Inspect(ctx)
	p.config = inspection.Config
	found := configuration(inspection)
	p.Examined(areaConfiguration)
	if len(inspection.Mistakes) == 0 {
		found = append(found, p.prepare(ctx)...)
	} else {
		found = append(found, Finding{areaConfiguration, Warning, "nothing else was checked", "", "correct the configuration, then run `tsmon doctor` again"})
	}
	r := &Report{Findings: found}
	for _, f := range found {
		switch f.Level {
		case Error:
			r.Errors++
		case Warning:
			r.Warnings++
		}
	}
	return r
}

// prepare opens what the areas share, and examines them.
func (p *patient) prepare(ctx context.Context) []Finding {
	var err error
	if p.keys, err = cli.Keyring(p.config.TrustedKeys); err == nil {
		p.trust, err = cli.Trust(p.config)
	}
	if err == nil {
		p.store, err = p.App.OpenStore(ctx, p.config.Storage)
	}
	if err != nil { // it changed since Inspect checked it
		return []Finding{{areaConfiguration, Error, err.Error(), "", cli.HintFor(err)}}
	}
	p.project, p.projectErr = p.App.Project(p.TauriConf)
	ctx, cancel := context.WithTimeout(ctx, p.Limit)
	defer cancel()
	p.standings = map[string]func() standing{}
	for _, name := range p.config.ChannelNames() {
		p.standings[name] = sync.OnceValue(func() standing { return p.readStanding(ctx, name) })
	}
	return p.sideBySide(ctx, []area{
		{areaStorage, storageArea{p}.examine},
		{areaChannels, channelsArea{p}.examine},
		{areaPublic, publicArea{p}.examine},
		{areaKeys, keysArea{p}.examine},
		{areaApplication, applicationArea{p}.examine},
		{areaServer, serverArea{p}.examine},
	})
}

type area struct {
	name    string
	examine func(context.Context, *notes)
}

// sideBySide checks all areas concurrently until ctx ends, and returns their findings in order.
// An area that does not finish in time yields an error.
func (p *patient) sideBySide(ctx context.Context, areas []area) []Finding {
	type result struct {
		at    int
		found []Finding
	}
	results := make(chan result, len(areas))
	for i, a := range areas {
		go func() {
			n := &notes{area: a.name}
			a.examine(ctx, n)
			results <- result{i, n.found}
		}()
	}
	all := make([][]Finding, len(areas))
	for i, a := range areas {
		all[i] = []Finding{{a.name, Error, fmt.Sprintf("not examined within %v", p.Limit), "", "run `tsmon doctor` again; if it happens again, something that the configuration names answers too slowly"}}
	}
	late := time.After(p.Limit + time.Second) // for areas that ignore ctx
	for range areas {
		select {
		case r := <-results:
			all[r.at] = r.found
			p.Examined(areas[r.at].name)
		case <-late:
			return slices.Concat(all...)
		}
	}
	return slices.Concat(all...)
}

// notes collects the findings of one area.
type notes struct {
	area  string
	where string // of findings to come
	found []Finding
}

func (n *notes) at(where string) *notes {
	n.where = where
	return n
}

func (n *notes) ok(format string, args ...any) {
	n.found = append(n.found, Finding{n.area, OK, fmt.Sprintf(format, args...), n.where, ""})
}

func (n *notes) warn(mend, format string, args ...any) {
	n.found = append(n.found, Finding{n.area, Warning, fmt.Sprintf(format, args...), n.where, mend})
}

func (n *notes) fail(mend, format string, args ...any) {
	n.found = append(n.found, Finding{n.area, Error, fmt.Sprintf(format, args...), n.where, mend})
}

// failed reports an error of something that was tried.
func (n *notes) failed(err error, mend string) {
	if hint := cli.HintFor(err); hint != "" {
		mend = hint
	}
	n.fail(mend, "%v", err)
}
