package updates_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/store/object"
)

// attack is what somebody does who has the bucket's credentials and no key.
type attack struct {
	do func(t *testing.T, g *guarded)
	// fresh is what a server shows that begins then: nothing where that could be something old.
	fresh string
	alarm bool // servers raise one; of older entries only those that read them
	older bool
	// names is the object that `channel verify` finds fault with, empty if nothing is wrong.
	names string
	// mend are what `channel repair` is told besides the channel; lost has it get the bytes
	// of an object as they were.
	mend upkeep.RepairOptions
	lost string
	// refused is why a move is refused until then, nil if it is not.
	refused error
}

const (
	attackedFirst  = "log/stable/0000000001.json"
	attackedHead   = "log/stable/0000000002.json"
	attackedNext   = "log/stable/0000000003.json"
	attackedRecord = "releases/1.1.0/release.json"
	attackedBundle = "releases/1.1.0/App_universal.app.tar.gz"
)

// planted is an attack that puts an object somewhere.
func planted(key, text string) func(*testing.T, *guarded) {
	return func(t *testing.T, g *guarded) { t.Helper(); overwrite(t, g.Objects, key, []byte(text)) }
}

// overwrite writes an object, whatever stands there.
func overwrite(t *testing.T, store object.Store, key string, data []byte) {
	t.Helper()
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	apitest.Must[object.Info](t)(store.Create(t.Context(), key, bytes.NewReader(data), int64(len(data)), object.Attributes{}))
}

// edits is an attack that changes a text in an object.
func edits(key, old, text string) func(*testing.T, *guarded) {
	return func(t *testing.T, g *guarded) {
		t.Helper()
		data, _ := g.Stored(t, key)
		if !bytes.Contains(data, []byte(old)) {
			t.Fatalf("%s lacks %s", key, old)
		}
		overwrite(t, g.Objects, key, bytes.Replace(data, []byte(old), []byte(text), 1))
	}
}

// setsBack is an attack that puts the manifest of an older entry in the place of the newest.
func setsBack(t *testing.T, g *guarded) {
	t.Helper()
	m := g.log(t).Entries[0].Render(g.desk.PublicURL)
	overwrite(t, g.Objects, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
}

func removes(key string) func(*testing.T, *guarded) {
	return func(t *testing.T, g *guarded) {
		t.Helper()
		if err := g.Objects.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// appends is an attack that writes an entry behind the newest one, and what it shows.
func appends(change func(*channels.Entry)) func(*testing.T, *guarded) {
	return func(t *testing.T, g *guarded) {
		t.Helper()
		log := g.log(t)
		e := *log.Head()
		e.Signatures = nil
		change(&e)
		g.steal(t, log.Next(e))
	}
}

// attacks are those on each kind of object, by what is attacked.
var attacks = map[string]attack{
	"log: an entry nobody signed": {do: appends(func(e *channels.Entry) { e.Release.Critical = true }),
		alarm: true, names: attackedNext, mend: upkeep.RepairOptions{TakeOut: "forged"}, refused: channels.ErrUnsigned},
	"log: the signatures of another": {do: func(t *testing.T, g *guarded) {
		log := g.log(t)
		g.steal(t, log.Next(*log.Head()))
	}, alarm: true, names: attackedNext, mend: upkeep.RepairOptions{TakeOut: "forged"}, refused: channels.ErrUnsigned},
	"log: no entry behind the newest": {do: planted(attackedNext, "{}"),
		alarm: true, names: attackedNext, mend: upkeep.RepairOptions{TakeOut: "forged"}, refused: channels.ErrLog},
	"log: an entry far away": {do: planted("log/stable/0900000000.json", "{}"),
		alarm: true, names: "log/stable/0900000000.json", mend: upkeep.RepairOptions{TakeOut: "forged"}, refused: channels.ErrLog},
	"log: an endless entry": {do: planted(attackedNext, strings.Repeat(" ", channels.MaxEntry+1)),
		alarm: true, names: attackedNext, mend: upkeep.RepairOptions{TakeOut: "forged"}, refused: channels.ErrLog},
	"log: another first entry": {do: edits(attackedFirst, `"who": "`, `"who": "not `),
		alarm: true, names: attackedFirst, older: true, lost: attackedFirst, refused: channels.ErrLog},
	"log: the newest entry changed": {do: edits(attackedHead, `"who": "`, `"who": "not `),
		alarm: true, names: attackedHead, mend: upkeep.RepairOptions{TakeOut: "forged"}, lost: attackedHead, refused: channels.ErrLog},
	"log: the newest entry gone": {do: removes(attackedHead),
		alarm: true, names: "stable/latest.json", lost: attackedHead, refused: channels.ErrLog},
	"log: the first entry gone": {do: removes(attackedFirst),
		alarm: true, names: attackedFirst, older: true, lost: attackedFirst, refused: channels.ErrLog},
	"log: no entry": {do: planted("log/stable/readme", "x"), fresh: "1.1.0", names: "log/stable/readme"},

	"mark: behind the end":   {do: planted("log/stable/0000000003-0000000009.part", ""), fresh: "1.1.0", names: "log/stable/0000000003-0000000009.part"},
	"mark: over the end":     {do: planted("log/stable/0000000002-9999999999.part", ""), fresh: "1.1.0", names: "log/stable/0000000002-9999999999.part"},
	"mark: of the first":     {do: planted("log/stable/0000000001-0000000001.part", ""), fresh: "1.1.0", names: "log/stable/0000000001-0000000001.part"},
	"mark: of the whole log": {do: planted("log/stable/0000000001-0000000002.part", ""), fresh: "1.1.0", names: "log/stable/0000000001-0000000002.part", mend: upkeep.RepairOptions{Own: true}, refused: channels.ErrFed},
	"mark: with content":     {do: planted("log/stable/0000000001-0000000002.part", "x"), fresh: "1.1.0", names: "log/stable/0000000001-0000000002.part"},

	"segment: garbage":   {do: planted("segments/stable/0000000001-0000000256.zst", "x"), fresh: "1.1.0", names: "segments/stable/0000000001-0000000256.zst"},
	"segment: of no log": {do: planted("segments/stable/x", ""), fresh: "1.1.0", names: "segments/stable/x"},

	"pointer: a page":         {do: planted("stable/latest.json", "<!DOCTYPE html>"), fresh: "1.1.0", alarm: true, names: "stable/latest.json"},
	"pointer: changed":        {do: edits("stable/latest.json", `"version": "1.1.0"`, `"version": "6.6.6"`), fresh: "1.1.0", alarm: true, names: "stable/latest.json"},
	"pointer: an older one":   {do: setsBack, fresh: "1.1.0", alarm: true, names: "stable/latest.json"},
	"pointer: far ahead":      {do: edits("stable/latest.json", `"sequence": 2`, `"sequence": 9007199254740991`), fresh: "1.1.0", alarm: true, names: "stable/latest.json"},
	"pointer: one ahead":      {do: edits("stable/latest.json", `"sequence": 2`, `"sequence": 3`), fresh: "1.1.0", alarm: true, names: "stable/latest.json", refused: channels.ErrLog},
	"pointer: endless":        {do: planted("stable/latest.json", strings.Repeat(" ", manifest.MaxSize+1)), fresh: "1.1.0", alarm: true, names: "stable/latest.json"},
	"downloads: others":       {do: planted("stable/downloads.json", `{"version":"6.6.6","sequence":2,"files":[]}`), fresh: "1.1.0", names: "stable/downloads.json"},
	"claim: of what is to be": {do: planted("staged/moves/1.2.0/stable-x", ""), fresh: "1.1.0"},
	"plan: nobody's":          {do: planted("plans/stable/"+strings.Repeat("0", 64)+".json", "{}"), fresh: "1.1.0"},
	"plan: a signature":       {do: planted("plans/stable/"+strings.Repeat("0", 64)+".ann.sig", "x"), fresh: "1.1.0"},
	"plan: endless":           {do: planted("plans/stable/"+strings.Repeat("1", 64)+".json", strings.Repeat(" ", channels.MaxEntry+1)), fresh: "1.1.0"},
	"record: other notes":     {do: edits(attackedRecord, `"notes": "`, `"notes": "not `), fresh: "1.1.0", alarm: true, names: "releases/1.1.0/", lost: attackedRecord},
	"record: gone":            {do: removes(attackedRecord), fresh: "1.1.0", names: "releases/1.1.0/", lost: attackedRecord},
	"bundle: another":         {do: edits(attackedBundle, "App", "ppA"), fresh: "1.1.0", names: "releases/1.1.0/", lost: attackedBundle},
	"bundle: gone":            {do: removes(attackedBundle), fresh: "1.1.0", names: "releases/1.1.0/", lost: attackedBundle},
	"signature: another":      {do: planted(attackedBundle+".sig", "x"), fresh: "1.1.0", names: "releases/1.1.0/"},
	"staged: of what is next": {do: planted("staged/1.2.0/linux-x86_64/x.json", "{}"), fresh: "1.1.0"},
}

// TestAttacks: each is shown by no server, one that knew the channel goes on, `channel
// verify` names what is wrong, and after `channel repair` the channel moves on.
func TestAttacks(t *testing.T) { testAttacks(t, apitest.Embedded(t)) }

func testAttacks(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.publish(t, "1.1.0", g.ann, g.bob)
	rightful := everything(t, w.Objects)
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		a := attacks[name]
		t.Run(name, func(t *testing.T) {
			reset(t, w.Objects, rightful)
			known := serveStill(t, w)
			known.Heads.Round(t.Context())
			shows(t, known, "1.1.0")
			a.do(t, g)
			w.Clock.Move(time.Minute)
			fresh := still(t, w)
			for range 2 {
				known.Heads.Round(t.Context())
				fresh.Heads.Round(t.Context())
			}
			shows(t, known, "1.1.0")
			shows(t, fresh, a.fresh)
			for _, u := range []*apitest.Updates{known, fresh} {
				if a.fresh == "" && u == fresh {
					continue // it knows no version of the channel
				}
				if got := u.Get("/updates/" + attackedRecord); got.Status == 200 && !bytes.Equal(got.Body, rightful[attackedRecord]) {
					t.Errorf("another record is served: %.300s", got.Body)
				}
			}
			if alarmed := known.Alarms() > 0; alarmed != (a.alarm && !a.older) || fresh.Alarms() > 0 != a.alarm {
				t.Errorf("alarms: %d, %d; %s", known.Alarms(), fresh.Alarms(), w.Logged.String())
			}
			a.named(t, g)
			if a.refused != nil {
				g.desk.Sign = g.ann.sign
				if _, err := g.desk.TryPublish(t, "1.2.0", "", func(*release.PublishOptions) {}); !errors.Is(err, a.refused) {
					t.Errorf("a move: %v, want %v", err, a.refused)
				}
			}
			a.mended(t, g, rightful)
			w.Clock.Move(time.Minute)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, "1.1.0")
				wantUnverified(t, w, u, 0)
			}
			if log := g.log(t); log.End() != (g.end(t, rightful)) {
				t.Errorf("the log ends at %s", log.End())
			}
			g.publish(t, "1.2.0", g.bob, g.ann)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, "1.2.0")
			}
			g.remember(t, g.end(t, rightful))
		})
	}
}

// named wants verification to find what is wrong, and that alone.
func (a attack) named(t *testing.T, g *guarded) {
	t.Helper()
	report, err := g.desk.Keeper().Verify(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) > 0 != (a.names != "") || a.names != "" && !slices.ContainsFunc(report.Findings, func(f upkeep.Finding) bool { return f.Object == a.names && f.Mend != "" }) {
		t.Errorf("findings %+v, want %q", report.Findings, a.names)
	}
}

// mended wants a repair to leave nothing to be found.
func (a attack) mended(t *testing.T, g *guarded, rightful map[string][]byte) {
	t.Helper()
	o := a.mend
	o.Channel = "stable"
	if o.TakeOut != "" {
		o.TakeOut = filepath.Join(t.TempDir(), o.TakeOut)
	}
	if a.lost != "" {
		file := filepath.Join(t.TempDir(), "lost")
		if err := os.WriteFile(file, rightful[a.lost], 0o600); err != nil {
			t.Fatal(err)
		}
		o.Files = []string{file}
	}
	report, err := g.desk.Keeper().Repair(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Findings.Err() != nil || a.names != "" && !report.Changed {
		t.Errorf("repaired: %+v", report)
	}
	if o.TakeOut != "" {
		if kept, err := os.ReadDir(o.TakeOut); err != nil || len(kept) != 1 {
			t.Errorf("%d files were kept", len(kept))
		}
	}
	a.names = ""
	a.named(t, g)
}

// everything is all objects of a store.
func everything(t *testing.T, store object.Store) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := object.ReadAll(t.Context(), store, info.Key, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		all[info.Key] = data
	}
	return all
}

// reset makes the objects of a store what they were.
func reset(t *testing.T, store object.Store, before map[string][]byte) {
	t.Helper()
	now := everything(t, store)
	for key := range now {
		if _, ok := before[key]; !ok {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key, data := range before {
		if got, ok := now[key]; !ok || !bytes.Equal(got, data) {
			overwrite(t, store, key, data)
		}
	}
}

// remember has servers believe that they have seen a log up to there and no further.
func (g *guarded) remember(t *testing.T, end channels.Position) {
	t.Helper()
	histories := fleet.Histories{Records: g.Records}
	seen := apitest.Must[channels.Position](t)(histories.Seen(t.Context(), "stable"))
	apitest.Must[bool](t)(histories.See(t.Context(), "stable", seen, end))
}

// end is the end of a log as it was.
func (g *guarded) end(t *testing.T, objects map[string][]byte) channels.Position {
	t.Helper()
	var e channels.Entry
	if err := json.Unmarshal(objects[attackedHead], &e); err != nil {
		t.Fatal(err)
	}
	return channels.Position{Sequence: e.Sequence, Hash: library.SumOf(objects[attackedHead])}
}
