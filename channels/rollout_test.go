package channels

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsmon/channels/journal"
	"tsmon/manifest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// rollout is one of version 2.0.0.
func rollout(steps ...int) *Rollout {
	return Rollout{ID: "stable/2", Version: "2.0.0", Steps: steps, Every: Duration(6 * time.Hour), Release: releaseOf("2.0.0")}.Begin(noon)
}

func TestRolloutCheck(t *testing.T) {
	for name, change := range map[string]func(*Rollout){
		"no step":         func(r *Rollout) { r.Steps = nil },
		"many steps":      func(r *Rollout) { r.Steps = make([]int, 101) },
		"below zero":      func(r *Rollout) { r.Steps = []int{-1} },
		"above all":       func(r *Rollout) { r.Steps = []int{101} },
		"falling":         func(r *Rollout) { r.Steps = []int{50, 20} },
		"standing still":  func(r *Rollout) { r.Steps = []int{20, 20} },
		"no time":         func(r *Rollout) { r.Every = 0 },
		"short time":      func(r *Rollout) { r.Every = Duration(time.Second) },
		"many cohorts":    func(r *Rollout) { r.Cohorts = make([]string, 21) },
		"a nameless one":  func(r *Rollout) { r.Cohorts = []string{""} },
		"a name in signs": func(r *Rollout) { r.Cohorts = []string{"a b"} },
	} {
		r := rollout(5, 25, 100)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		change(r)
		if err := r.Check(); !errors.Is(err, ErrRollout) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Rollout{Steps: []int{0}}).Check(); err != nil {
		t.Errorf("one step without a time: %v", err)
	}
}

func TestSteps(t *testing.T) {
	r := rollout(5, 25, 50, 100)
	wantStep := func(what string, r *Rollout, percent int, due time.Time) {
		t.Helper()
		_, at, ok := r.Next()
		if r.Share() != percent || r.Complete() != (percent == 100) || ok != !due.IsZero() || ok && !at.Equal(due) ||
			r.Due(due.Add(-1)) && ok || r.Due(due) != ok || r.Due(due.Add(1e6*time.Hour)) != ok {
			t.Errorf("%s: %d %%, the next step at %s (%v), want %d %% and %s", what, r.Share(), at, ok, percent, due)
		}
	}
	wantStep("the first", r, 5, noon.Add(6*time.Hour))
	second := r.Step(noon.Add(7 * time.Hour))
	wantStep("the second, taken late", second, 25, noon.Add(13*time.Hour))
	last := second.Step(noon.Add(13 * time.Hour)).Step(noon.Add(19 * time.Hour))
	wantStep("the last", last, 100, time.Time{})
	wantStep("beyond the last", last.Step(noon), 100, time.Time{})
	wantStep("a single step", rollout(30), 30, time.Time{})
	wantStep("for cohorts alone", rollout(0), 0, time.Time{})

	// A pause stops the clock of the steps.
	paused := second.Pause(noon.Add(9 * time.Hour))
	wantStep("paused", paused, 0, time.Time{})
	wantStep("a step while it is paused", paused.Step(noon.Add(99*time.Hour)), 0, time.Time{})
	wantStep("resumed after two hours of six", paused.Resume(noon.Add(100*time.Hour)), 25, noon.Add(104*time.Hour))
	if r.Percent != 5 || r.Since != noon || second.Paused != (time.Time{}) {
		t.Error("a rollout was changed itself")
	}
}

// TestAdmitted: the share is exact, who is in stays in, and other rollouts have
// others.
func TestAdmitted(t *testing.T) {
	const clients = 1_000_000
	ids := make([]string, clients)
	for i := range ids {
		ids[i] = "client-" + strconv.Itoa(i)
	}
	in := make([]bool, clients)
	for _, percent := range []int{0, 1, 5, 25, 50, 99, 100} {
		r, number := rollout(percent), 0
		rings := r.Rings()
		for i, id := range ids {
			admitted := r.admits(rings, id, "")
			if in[i] && !admitted {
				t.Fatalf("%s was in before %d %% and is no longer", id, percent)
			}
			if in[i] = admitted; admitted {
				number++
			}
		}
		if share := float64(number) * 100 / clients; math.Abs(share-float64(percent)) > 0.2 {
			t.Errorf("%d %% are %.3f", percent, share)
		}
	}
	first, both, others := rollout(25).Rings(), 0, 0
	for ; others < 100; others++ {
		other := rollout(25)
		other.ID = "stable/" + strconv.Itoa(9+others)
		for ring, in := range other.Rings() {
			if in && first[ring] {
				both++
			}
		}
	}
	if share := float64(both) / float64(others); math.Abs(share-6.25) > 0.75 { // five standard deviations
		t.Errorf("%.2f %% are in both of two rollouts of 25 %%, want 6.25", share)
	}
}

func TestAdmitsWithoutID(t *testing.T) {
	r := rollout(99)
	r.Cohorts = []string{"internal"}
	for _, c := range []struct {
		id, cohort string
		want       bool
	}{{"", "", false}, {"", "internal", true}, {"", "other", false}, {"x", "internal", true}} {
		if got := r.Admits(c.id, c.cohort); got != c.want {
			t.Errorf("%q of %q: %v", c.id, c.cohort, got)
		}
	}
	if !rollout(100).Admits("", "") {
		t.Error("everybody is not everybody")
	}
	if r.Pause(noon).Admits("x", "internal") {
		t.Error("a cohort is in while it is paused")
	}
}

// TestRolloutInTheLog: what was appended is read back, with the number of the
// entry in both manifests.
func TestRolloutInTheLog(t *testing.T) {
	r, _ := newStore(t)
	log := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
	e := entry(Publish, "1.0.0", "", "first to a few")
	e.Rollout = rollout(5, 100)
	if _, err := r.Append(t.Context(), log, e); err != nil {
		t.Fatal(err)
	}
	log, err := r.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	head := log.Head()
	want := *e.Rollout
	if !reflect.DeepEqual(head.Rollout, &want) || head.Sequence != 2 || head.Version != "1.0.0" || head.Newest() != "2.0.0" {
		t.Errorf("read back %+v", head)
	}
	if !log.Shown("2.0.0") || log.RolledBack("2.0.0") != nil {
		t.Error("a release that some clients get is not known")
	}
	log = moved(t, r, "stable", entry(Rollback, "1.0.0", "2.0.0", "bad"))
	if off := log.RolledBack("2.0.0"); off == nil || off.Sequence != 3 || log.RolledBack("1.0.0") != nil {
		t.Errorf("rolled back: %+v", off)
	}
}

func TestRolloutOfAnotherHand(t *testing.T) {
	good := Entry{Sequence: 2, Action: Publish, Version: "1.0.0", Release: releaseOf("1.0.0"), Rollout: rollout(5)}
	for name, change := range map[string]func(*Entry){
		"another version":             func(e *Entry) { e.Rollout.Version = "2.0.1" },
		"steps that fall":             func(e *Entry) { e.Rollout.Steps = []int{5, 1} },
		"a share that is no step":     func(e *Entry) { e.Rollout.Percent = 6 },
		"no share":                    func(e *Entry) { e.Rollout.Percent = 0 },
		"a manifest without platform": func(e *Entry) { e.Rollout.Release.Platforms = map[string]Bundle{"linux-x86_64": {}} },
	} {
		data, err := json.Marshal(good)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeEntry(data); err != nil {
			t.Fatal(err)
		}
		var e Entry
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		change(&e)
		if data, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		if _, err := decodeEntry(data); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// told is what a client is told, in short.
func told(t *testing.T, o *Offers, installed, id string) string {
	t.Helper()
	answer, err := o.For(Client{Client: manifest.Client{Version: installed, Target: "linux-x86_64"}, ID: id})
	switch {
	case err != nil:
		return err.Error()
	case answer.Offer == nil && answer.Held:
		return "held"
	case answer.Offer == nil:
		return "current"
	case answer.Held:
		return "held, " + answer.Offer.Version
	}
	return answer.Offer.Version
}

// compiled makes a log of entries ready.
func compiled(t *testing.T, entries ...Entry) *Offers {
	t.Helper()
	for i := range entries {
		entries[i].Sequence = uint64(i) + 1
	}
	o, err := Compile(&Log{Channel: "stable", Entries: entries}, anywhere, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func flagged(version string) Entry {
	e := entry(Publish, version, "", "")
	e.Release.Watershed = true
	return e
}

func flaggedRollout() *Rollout {
	r := rollout(50)
	r.Release.Watershed = true
	return r
}

// TestUnverified leaves out what does not verify: a rollout is for nobody, and
// who would have to pass a watershed is told that it is in doubt.
func TestUnverified(t *testing.T) {
	log := &Log{Channel: "stable", Entries: []Entry{entry(Publish, "1.0.0", "", ""), flagged("1.1.0"), entry(Publish, "1.2.0", "", "")}}
	log.Entries[2].Rollout = rollout(99)
	for bad, want := range map[string]map[string]string{
		"":      {"1.0.0": "1.1.0", "1.1.0": "2.0.0", "1.2.0": "2.0.0"},
		"2.0.0": {"1.0.0": "held, 1.1.0", "1.1.0": "held, 1.2.0", "1.2.0": "held"},
		"1.1.0": {"1.0.0": "1.1.0: the release does not verify", "1.1.0": "2.0.0", "1.2.0": "2.0.0"},
	} {
		o, err := Compile(log, anywhere, func(data []byte) error {
			if strings.Contains(string(data), `"version": "`+bad+`"`) {
				return errors.New("no trusted key")
			}
			return nil
		})
		if (err != nil) != (bad != "") || o == nil {
			t.Fatalf("without %s: %v", bad, err)
		}
		for installed, tells := range want {
			if got := told(t, o, installed, "x"); got != tells {
				t.Errorf("without %s a client of %s is told %q, want %q", bad, installed, got, tells)
			}
		}
	}
	if o, err := Compile(log, anywhere, func([]byte) error { return errors.New("nothing verifies") }); o != nil || err == nil {
		t.Errorf("nothing verifies: %v, %v", o, err)
	}
}

// TestLargeEntry: two manifests of the largest notes fit, and what does not is
// refused before it is written.
func TestLargeEntry(t *testing.T) {
	r, _ := newStore(t)
	e := entry(Publish, "1.0.0", "", "")
	e.Release.Notes = strings.Repeat("<&>", 120<<10/3)
	e.Rollout = rollout(5)
	e.Rollout.Release.Notes = e.Release.Notes
	log, err := r.Append(t.Context(), &Log{Channel: "stable"}, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context(), "stable"); err != nil {
		t.Fatal(err)
	}
	e.Why = strings.Repeat("x", journal.MaxEntry)
	if _, err := r.Append(t.Context(), log, e); !errors.Is(err, ErrLog) {
		t.Errorf("an entry that nobody could read: %v", err)
	}
	if log, err := r.Load(t.Context(), "stable"); err != nil || len(log.Entries) != 1 {
		t.Errorf("%v", err)
	}
}

func TestOffers(t *testing.T) {
	in, out := "", ""
	for i := 0; in == "" || out == ""; i++ {
		if id := fmt.Sprint(i); rollout(50).Admits(id, "") {
			in = id
		} else {
			out = id
		}
	}
	half, first := rollout(50), entry(Publish, "1.0.0", "", "")
	with := func(r *Rollout) Entry { e := entry(Publish, "1.0.0", "", ""); e.Rollout = r; return e }
	shed := with(half)
	shed.Rollout = rollout(50)
	shed.Rollout.Release.Watershed = true
	held := with(flaggedRollout().Pause(noon))
	begun := with(flaggedRollout())
	for name, c := range map[string]struct {
		entries []Entry
		want    map[string]string // by installed version and client
	}{
		"one held back, then overtaken": {[]Entry{first, flagged("2.0.0"), held, entry(Publish, "3.0.0", "", "")}, map[string]string{"0.9.0 x": "3.0.0"}},
		"one resumed":                   {[]Entry{first, flagged("2.0.0"), held, flagged("2.0.0"), entry(Publish, "3.0.0", "", "")}, map[string]string{"0.9.0 x": "2.0.0"}},
		"one begun, then overtaken":     {[]Entry{first, begun, entry(Publish, "3.0.0", "", "")}, map[string]string{"0.9.0 x": "2.0.0", "2.0.0 x": "3.0.0"}},

		"one release":       {[]Entry{first}, map[string]string{"0.9.0 x": "1.0.0", "1.0.0 x": "current", "1.1.0 x": "current", "v0.9.0 x": "1.0.0"}},
		"in and out":        {[]Entry{first, with(half)}, map[string]string{"1.0.0 " + in: "2.0.0", "0.9.0 " + in: "2.0.0", "2.0.0 " + in: "current", "1.0.0 " + out: "held", "0.9.0 " + out: "held, 1.0.0", "2.0.0 " + out: "held", "0.9.0 ": "held, 1.0.0"}},
		"paused":            {[]Entry{first, with(half.Pause(noon))}, map[string]string{"1.0.0 " + in: "held", "0.9.0 " + in: "held, 1.0.0", "2.0.0 " + in: "held"}},
		"rolled back":       {[]Entry{first, entry(Publish, "2.0.0", "", ""), entry(Rollback, "1.0.0", "2.0.0", "bad")}, map[string]string{"0.9.0 x": "1.0.0", "2.0.0 x": "current"}},
		"watersheds":        {[]Entry{first, flagged("1.1.0"), entry(Publish, "1.2.0", "", ""), flagged("1.3.0"), entry(Publish, "2.0.0", "", "")}, map[string]string{"0.9.0 x": "1.1.0", "1.1.0 x": "1.3.0", "1.2.9 x": "1.3.0", "1.3.0 x": "2.0.0", "2.0.0 x": "current"}},
		"the last is one":   {[]Entry{first, flagged("1.1.0")}, map[string]string{"0.9.0 x": "1.1.0", "1.1.0 x": "current"}},
		"one rolled back":   {[]Entry{first, flagged("1.1.0"), entry(Rollback, "1.0.0", "1.1.0", "bad"), entry(Publish, "1.2.0", "", "")}, map[string]string{"0.9.0 x": "1.2.0"}},
		"one in rollout":    {[]Entry{first, shed}, map[string]string{"0.9.0 " + in: "2.0.0", "0.9.0 " + out: "held, 1.0.0"}},
		"before a rollout":  {[]Entry{flagged("0.9.5"), first, with(half)}, map[string]string{"0.9.0 " + in: "0.9.5", "0.9.5 " + in: "2.0.0", "0.9.0 " + out: "held, 0.9.5"}},
		"what nobody knows": {[]Entry{first}, map[string]string{"one x": `not a version: "one"`, " x": `not a version: ""`}},
	} {
		o := compiled(t, c.entries...)
		for who, want := range c.want {
			installed, id, _ := strings.Cut(who, " ")
			if got := told(t, o, installed, id); got != want && !(strings.HasPrefix(want, "not a version") && strings.Contains(got, "version")) {
				t.Errorf("%s: %s of %q is told %q, want %q", name, installed, id, got, want)
			}
		}
	}
	if _, err := Compile(&Log{}, anywhere, nil); !errors.Is(err, ErrNothing) {
		t.Errorf("an empty log: %v", err)
	}
	o := compiled(t, first)
	if _, err := o.For(Client{Client: manifest.Client{Version: "1.0.0", Target: "plan9-mips"}}); !errors.Is(err, manifest.ErrTarget) {
		t.Errorf("an unknown target: %v", err)
	}
}

// TestExtraReachesClients: what the application is to be told goes with the
// offer, of the release that is offered.
func TestExtraReachesClients(t *testing.T) {
	log := &Log{Channel: "stable"}
	for _, release := range []struct {
		version string
		extra   manifest.Extra
	}{
		{"1.0.0", manifest.Extra{}},
		{"1.1.0", manifest.Extra{Watershed: true}},
		{"1.2.0", manifest.Extra{MinimumVersion: "1.0.5", Critical: true}},
		{"2.0.0", manifest.Extra{}},
	} {
		e := entry(Publish, release.version, "", "")
		e.Release.Extra = release.extra
		e.Release = log.Carry(e.Release)
		log.Entries = append(log.Entries, log.Next(e))
	}
	o := compiled(t, log.Entries...)
	for installed, want := range map[string]manifest.Extra{
		"1.0.0":      {MinimumVersion: "1.0.5", Critical: true, Watershed: true},
		"1.0.4":      {MinimumVersion: "1.0.5", Critical: true, Watershed: true},
		"1.1.0":      {Critical: true},
		"1.2.0-rc.1": {Critical: true},
		"1.2.0":      {},
		"v1.3.0+7":   {},
	} {
		answer, err := o.For(Client{Client: manifest.Client{Version: installed, Target: "linux-x86_64"}})
		if err != nil || answer.Extra != want {
			t.Errorf("%s: %+v, %v, want %+v", installed, answer.Extra, err, want)
		}
	}
}

// TestCarry: what releases ask of clients goes on with those after them, as long as
// they stand.
func TestCarry(t *testing.T) {
	critical := func(version, minimum string) Entry {
		e := entry(Publish, version, "", "")
		e.Release.Critical, e.Release.MinimumVersion, e.Release.CriticalBelow = true, minimum, version
		return e
	}
	begun := entry(Publish, "1.0.0", "", "")
	begun.Rollout = rollout(5, 100)
	begun.Rollout.Release.Critical, begun.Rollout.Release.CriticalBelow = true, "2.0.0"
	paused := begun
	paused.Rollout = begun.Rollout.Pause(noon)
	for name, c := range map[string]struct {
		entries []Entry
		next    string
		extra   manifest.Extra // its own
		minimum string
		below   string // critical
	}{
		"nothing":             {[]Entry{entry(Publish, "1.0.0", "", "")}, "2.1.0", manifest.Extra{}, "", ""},
		"an empty log":        {nil, "2.1.0", manifest.Extra{Critical: true}, "", "2.1.0"},
		"an earlier one":      {[]Entry{critical("1.1.0", "1.0.0"), entry(Publish, "1.2.0", "", "")}, "2.1.0", manifest.Extra{}, "1.0.0", "1.1.0"},
		"the highest":         {[]Entry{critical("1.1.0", "1.0.9"), critical("1.10.0", "1.0.0")}, "2.1.0", manifest.Extra{MinimumVersion: "1.0.10"}, "1.0.10", "1.10.0"},
		"its own":             {[]Entry{critical("1.1.0", "1.0.0")}, "2.1.0", manifest.Extra{MinimumVersion: "0.9.0", Critical: true}, "1.0.0", "2.1.0"},
		"again":               {[]Entry{critical("1.1.0", "1.0.0")}, "1.1.0", manifest.Extra{MinimumVersion: "1.0.0", Critical: true}, "1.0.0", "1.1.0"},
		"below it":            {[]Entry{entry(Publish, "1.0.0", "", ""), critical("1.1.0", "1.0.0")}, "1.0.0", manifest.Extra{}, "", ""},
		"rolled back":         {[]Entry{entry(Publish, "1.0.0", "", ""), critical("1.1.0", "1.0.0"), entry(Rollback, "1.0.0", "1.1.0", "crashes")}, "2.1.0", manifest.Extra{}, "", ""},
		"being rolled out":    {[]Entry{begun}, "2.1.0", manifest.Extra{}, "", "2.0.0"},
		"held back":           {[]Entry{begun, paused}, "2.1.0", manifest.Extra{}, "", ""},
		"below a rollout":     {[]Entry{begun}, "1.5.0", manifest.Extra{}, "", ""},
		"a pre-release of it": {[]Entry{critical("1.1.0", "")}, "1.1.0-rc.1", manifest.Extra{}, "", ""},
	} {
		log := &Log{Channel: "stable", Entries: c.entries}
		r := releaseOf(c.next)
		r.Extra = c.extra
		carried := log.Carry(r)
		if carried.MinimumVersion != c.minimum || carried.CriticalBelow != c.below || carried.Critical != c.extra.Critical {
			t.Errorf("%s: %+v, critical below %q, want %q and %q", name, carried.Extra, carried.CriticalBelow, c.minimum, c.below)
		}
		if again := log.Carry(carried); !again.Equal(&carried) {
			t.Errorf("%s: carried again it is %+v", name, again)
		}
	}
}

func BenchmarkOffers(b *testing.B) {
	entries := make([]Entry, 200)
	for i := range entries {
		entries[i] = entry(Publish, fmt.Sprintf("1.%d.0", i), "", "")
		entries[i].Sequence = uint64(i) + 1
		entries[i].Release.Watershed = i%50 == 0
	}
	entries[199].Rollout = rollout(50)
	o, err := Compile(&Log{Channel: "stable", Entries: entries}, anywhere, nil)
	if err != nil {
		b.Fatal(err)
	}
	clients := slices.Repeat([]Client{{}}, 64)
	for i := range clients {
		clients[i] = Client{Client: manifest.Client{Version: "1.60.0", Target: "linux-x86_64"}, ID: fmt.Sprint(i)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := o.For(clients[i%64]); err != nil {
			b.Fatal(err)
		}
	}
}
