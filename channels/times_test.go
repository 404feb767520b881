package channels

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"tsmon/store/object"
)

// timed is a store with a time of its own.
type timed struct {
	object.Store
	now time.Time
}

func (s *timed) Now(context.Context) (time.Time, error) { return s.now, nil }

// TestTimesWritten: nothing is written that is from the future, or from before the log's
// newest entry; a little is put right.
func TestTimesWritten(t *testing.T) {
	r, _ := newStore(t)
	store := &timed{r.Store, noon}
	r.Store = store
	first := entry(Publish, "1.0.0", "", "")
	first.When = noon
	log := moved(t, r, "stable", first)
	for name, c := range map[string]struct {
		action Action
		at     time.Duration // from noon
		want   time.Duration // as it is written
		err    error
	}{
		"now":                      {Publish, 0, 0, nil},
		"later":                    {Publish, Tolerance, Tolerance, nil},
		"in the future":            {Publish, Tolerance + time.Second, 0, object.ErrClock},
		"a year ahead":             {Publish, 365 * 24 * time.Hour, 0, object.ErrClock},
		"a little before the log":  {Publish, -Tolerance, 0, nil},
		"before the log":           {Publish, -Tolerance - time.Second, 0, object.ErrClock},
		"a year behind":            {Publish, -365 * 24 * time.Hour, 0, object.ErrClock},
		"accepts what is later":    {Accept, -365 * 24 * time.Hour, -365 * 24 * time.Hour, nil},
		"accepts in the future":    {Accept, time.Hour, 0, object.ErrClock},
		"a step in the future":     {Advance, time.Hour, 0, object.ErrClock},
		"a prune before the log":   {Prune, -time.Hour, 0, object.ErrClock},
		"a guard's pause tomorrow": {Pause, 24 * time.Hour, 0, object.ErrClock},
	} {
		t.Run(name, func(t *testing.T) {
			own, _ := newStore(t)
			own.Store = &timed{own.Store, noon}
			log := moved(t, own, "stable", first)
			e := entry(c.action, "1.1.0", "", "")
			e.When = noon.Add(c.at)
			longer, err := own.Append(t.Context(), log, e)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatal(err)
			}
			there, failed := own.Exists(t.Context(), "stable", 2)
			if failed != nil || there != (c.err == nil) {
				t.Errorf("it is written: %v, %v", there, failed)
			}
			if err == nil && !longer.Head().When.Equal(noon.Add(c.want)) {
				t.Errorf("it is of %s", longer.Head().When)
			}
		})
	}
	// One that waited for signatures counts from when it is made.
	waited := log.Next(entry(Publish, "1.1.0", "", ""))
	waited.When, waited.Entered, waited.Expires = noon.Add(-time.Hour), noon.Add(-time.Minute), noon.Add(time.Hour)
	longer, err := r.Enter(t.Context(), log, waited)
	if err != nil || !longer.Head().When.Equal(noon) {
		t.Errorf("%v, %v", longer, err)
	}
}

// TestTimesRead: a log with an entry from the future is not believed until then, or until
// an entry of the right time accepts it.
func TestTimesRead(t *testing.T) {
	r, _ := newStore(t)
	store := &timed{r.Store, noon}
	r.Store = store
	first := entry(Publish, "1.0.0", "", "")
	first.When = noon
	log := moved(t, r, "stable", first)
	early := entry(Publish, "9.0.0", "", "")
	early.When = noon.Add(time.Hour)
	raw := func(log *Log, e Entry) []byte {
		t.Helper()
		e = log.Next(e)
		if _, err := r.journal("stable").create(t.Context(), e); err != nil { // as one without this rule does
			t.Fatal(err)
		}
		data, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := raw(log, early)
	refused := func() {
		t.Helper()
		if _, err := r.Load(t.Context(), "stable"); !errors.Is(err, ErrFuture) || !errors.Is(err, ErrLog) {
			t.Errorf("it is read: %v", err)
		}
		if _, err := r.Extend(t.Context(), log); !errors.Is(err, ErrFuture) {
			t.Errorf("it is read by who knows the rest: %v", err)
		}
		if _, err := r.Follow(t.Context(), log, [][]byte{data}); !errors.Is(err, ErrFuture) {
			t.Errorf("it is imported: %v", err)
		}
	}
	refused()
	store.now = noon.Add(time.Hour - Tolerance - time.Second)
	refused()

	// It settles by itself.
	store.now = noon.Add(time.Hour - Tolerance)
	for _, from := range []*Log{{Channel: "stable"}, log} {
		if longer, err := r.Extend(t.Context(), from); err != nil || longer.Head().Version != "9.0.0" {
			t.Errorf("%v, %v", longer, err)
		}
	}

	// Or by an entry, which anybody can write who reads it all the same.
	store.now = noon.Add(time.Minute)
	refused()
	reader := r
	reader.AnyTime = true
	all, err := reader.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	other := entry(Publish, "9.1.0", "", "")
	other.When = store.now
	if _, err := reader.Append(t.Context(), all, other); !errors.Is(err, object.ErrClock) {
		t.Errorf("another move goes on from it: %v", err)
	}
	accept := entry(Accept, "9.0.0", "", "")
	accept.When, accept.Release = noon.Add(24*time.Hour), all.Head().Release
	if _, err := reader.Append(t.Context(), all, accept); !errors.Is(err, object.ErrClock) {
		t.Errorf("it is accepted tomorrow: %v", err)
	}
	accept.When = store.now
	if _, err := reader.Append(t.Context(), all, accept); err != nil {
		t.Fatal(err)
	}
	for _, from := range []*Log{{Channel: "stable"}, log} {
		longer, err := r.Extend(t.Context(), from)
		if err != nil || len(longer.Entries) != 3 {
			t.Fatalf("%v, %v", longer, err)
		}
		log = longer
	}
	if _, err := r.Append(t.Context(), log, other); err != nil {
		t.Error(err)
	}
}

// TestTimeOfNoNews: a log is compared with the time of the store only if something is new.
func TestTimeOfNoNews(t *testing.T) {
	r, _ := newStore(t)
	log := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
	r.Store = untimed{r.Store}
	if longer, err := r.Extend(t.Context(), log); err != nil || len(longer.Entries) != 1 {
		t.Errorf("%v, %v", longer, err)
	}
	if _, err := r.Load(t.Context(), "stable"); !errors.Is(err, errUntimed) {
		t.Errorf("a store without a time: %v", err)
	}
	if _, err := r.Append(t.Context(), log, entry(Publish, "1.1.0", "", "")); !errors.Is(err, errUntimed) {
		t.Errorf("a store without a time: %v", err)
	}
	if found, err := r.Raw(t.Context(), "stable", 0); err != nil || len(found) != 1 || bytes.Contains(found[0], []byte("1.1.0")) {
		t.Errorf("%s, %v", found, err)
	}
}

// untimed is a store that does not tell its time.
type untimed struct{ object.Store }

var errUntimed = errors.New("no time")

func (untimed) Now(context.Context) (time.Time, error) { return time.Time{}, errUntimed }
