package channels

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tsmon/channels/journal"
	"tsmon/channels/segment"
	"tsmon/store/object"
)

// sourceOf returns a store with a log of n entries unlike any other, and their bytes.
func sourceOf(t testing.TB, n int) (Repository, *Log, [][]byte) {
	t.Helper()
	r, _ := newStore(t)
	var entries []Entry
	for i := range n {
		entries = append(entries, entry(Publish, fmt.Sprintf("1.%d.0", i), "", rand.Text()))
	}
	log := moved(t, r, "stable", entries...)
	raw, err := r.Raw(t.Context(), "stable", 0)
	if err != nil || len(raw) != n {
		t.Fatalf("%d entries, %v", len(raw), err)
	}
	return r, log, raw
}

// failing fails to create the object with a number, from 1.
type failing struct {
	object.Store
	at atomic.Int64 // counts down
}

func failingAt(store object.Store, at int) *failing {
	f := &failing{Store: store}
	f.at.Store(int64(at))
	return f
}

var errKilled = errors.New("killed")

func (f *failing) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if f.at.Add(-1) == 0 {
		return object.Info{}, errKilled
	}
	return f.Store.Create(ctx, key, r, size, attrs)
}

// TestFeed: entries of another store count together, and no sooner.
func TestFeed(t *testing.T) {
	_, source, raw := sourceOf(t, 5)
	for at := 1; at <= 6; at++ {
		site, _ := newStore(t)
		ctx := t.Context()
		if err := site.Feed(ctx, &Log{Channel: "stable"}, raw[:2]); err != nil {
			t.Fatal(err)
		}
		log, err := site.Load(ctx, "stable")
		if err != nil || log.End().Sequence != 2 || !log.Fed() || log.Begun() != 0 {
			t.Fatalf("%+v, %v", log, err)
		}
		longer, err := site.Follow(t.Context(), log, raw[2:])
		if err != nil || longer.End() != source.End() {
			t.Fatalf("%+v, %v", longer, err)
		}
		broken := site
		broken.Store = failingAt(site.Store, at)
		err = broken.Feed(ctx, log, raw[2:])
		for _, known := range []*Log{{Channel: "stable"}, log} {
			seen, loadErr := site.Extend(ctx, known)
			if loadErr != nil {
				t.Fatalf("killed at %d: %v", at, loadErr)
			}
			want := log.End()
			if err == nil {
				want = source.End()
			}
			if seen.End() != want || !seen.Fed() || err == nil && seen.Begun() != 0 || err != nil && at > 2 && seen.Begun() != uint64(at)+1 {
				t.Errorf("killed at %d: the log ends at %+v, begun %d, want %+v", at, seen.End(), seen.Begun(), want)
			}
		}
		if seen, gaps, examineErr := site.Salvage().Examine(ctx, "stable"); examineErr != nil || len(gaps) > 0 || err != nil && seen.End() != log.End() {
			t.Errorf("killed at %d: %v, %v", at, gaps, examineErr)
		}
		if err == nil && at < 4 {
			t.Errorf("the creation with number %d did not fail", at)
		}
		if err := site.Feed(ctx, log, raw[2:]); err != nil {
			t.Fatalf("again: %v", err)
		}
		whole, err := site.Load(ctx, "stable")
		if err != nil || whole.End() != source.End() {
			t.Errorf("in the end %+v, %v", whole.End(), err)
		}
		if _, err := site.Append(ctx, whole, entry(Publish, "9.0.0", "", "")); !errors.Is(err, ErrFed) {
			t.Errorf("a move of one's own: %v", err)
		}
	}
}

// TestFeedOverOne: a longer delivery takes the place of a shorter one that was begun.
func TestFeedOverOne(t *testing.T) {
	_, source, raw := sourceOf(t, 5)
	site, _ := newStore(t)
	broken := site
	broken.Store = failingAt(site.Store, 3)
	none := &Log{Channel: "stable"}
	if err := broken.Feed(t.Context(), none, raw[:3]); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if err := site.Feed(t.Context(), none, raw); err != nil {
		t.Fatal(err)
	}
	if log, err := site.Load(t.Context(), "stable"); err != nil || log.End() != source.End() || log.Begun() != 0 {
		t.Errorf("%+v, %v", log, err)
	}
}

// TestFollowHostile: entries that don't follow are refused whole.
func TestFollowHostile(t *testing.T) {
	r, _, raw := sourceOf(t, 4)
	_, _, other := sourceOf(t, 5)
	beta, _ := newStore(t)
	moved(t, beta, "beta", entry(Publish, "1.0.0", "", ""))
	ofBeta, err := beta.Raw(t.Context(), "beta", 0)
	if err != nil {
		t.Fatal(err)
	}
	log, err := r.Follow(t.Context(), &Log{Channel: "stable"}, raw[:2])
	if err != nil {
		t.Fatal(err)
	}
	for name, hostile := range map[string][][]byte{
		"of another log":     other[2:],
		"one left out":       raw[3:],
		"in another order":   {raw[3], raw[2]},
		"changed":            {raw[2][:len(raw[2])-1], raw[3]},
		"missing in between": {{}, raw[3]},
		"missing at the end": {raw[2], {}},
		"of another channel": ofBeta,
		"too large":          {append(slices.Clone(raw[2]), strings.Repeat(" ", journal.MaxEntry)...)},
		"no entry":           {[]byte("{}")},
	} {
		if longer, err := r.Follow(t.Context(), log, hostile); !errors.Is(err, ErrLog) {
			t.Errorf("%s: follows: %v, %v", name, longer != nil, err)
		}
	}
}

// TestRawIgnoresWrongSegments: a segment that is not the log's is not taken over.
func TestRawIgnoresWrongSegments(t *testing.T) {
	r, log, raw := sourceOf(t, segment.Entries+1)
	_, _, other := sourceOf(t, segment.Entries)
	data, err := segment.Pack(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Delete(t.Context(), segment.Key("stable", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Create(t.Context(), segment.Key("stable", 1), strings.NewReader(string(data)), int64(len(data)), journal.Attributes); err != nil {
		t.Fatal(err)
	}
	again, err := r.Raw(t.Context(), "stable", 0)
	if err != nil || !slices.EqualFunc(again, raw, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Errorf("%d entries, %v", len(again), err)
	}
	for _, n := range []uint64{1, 200, uint64(len(raw))} {
		if log.HashOf(n) != journal.Hash(raw[n-1]) {
			t.Errorf("the hash of entry %d", n)
		}
	}
}

// TestForgedMarks: whoever can write to a store and has no key hides no entry of a channel by
// marks, neither from one who begins nor from one who knew the log, and such marks are named.
func TestForgedMarks(t *testing.T) {
	for name, c := range map[string]struct {
		fed   bool
		marks []string
		want  bool // the log passes for fed
	}{
		"behind the end":              {false, []string{"0000000006-0000000009"}, false},
		"of the next entry":           {false, []string{"0000000006-0000000006"}, false},
		"over the end":                {false, []string{"0000000003-0000000009"}, false},
		"in between":                  {false, []string{"0000000002-0000000003"}, false},
		"of all but the first":        {false, []string{"0000000002-0000000005"}, false},
		"of all":                      {false, []string{"0000000001-0000000005"}, true},
		"of all, in parts":            {false, []string{"0000000001-0000000002", "0000000003-0000000005"}, true},
		"of all, and more":            {false, []string{"0000000001-9999999999"}, true},
		"fed: behind the end":         {true, []string{"0000000006-9999999999"}, true},
		"fed: over the end":           {true, []string{"0000000003-9999999999"}, true},
		"fed: over all":               {true, []string{"0000000001-9999999999", "0000000002-0000000009"}, true},
		"fed: of one that was before": {true, []string{"0000000001-0000000003"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, log, raw := sourceOf(t, 5)
			if c.fed {
				site, _ := newStore(t)
				if err := site.Feed(t.Context(), &Log{Channel: "stable"}, raw); err != nil {
					t.Fatal(err)
				}
				r = site
			}
			known, err := r.Load(t.Context(), "stable")
			if err != nil || known.Fed() != c.fed {
				t.Fatalf("fed %v, %v", known.Fed(), err)
			}
			for _, mark := range append(c.marks, "x", "9999") {
				key := LogPrefix("stable") + mark + ".part"
				if _, err := r.Store.Create(t.Context(), key, strings.NewReader(""), 0, journal.Attributes); err != nil {
					t.Fatal(err)
				}
			}
			part := &Log{Channel: "stable"}
			if part, err = r.Follow(t.Context(), part, raw[:4]); err != nil {
				t.Fatal(err)
			}
			part.deliveries = known.deliveries
			for _, from := range []*Log{{Channel: "stable"}, known, part} {
				got, err := r.Extend(t.Context(), from)
				if err != nil || got.End() != log.End() || got.Begun() != 0 {
					t.Errorf("from entry %d: %+v, begun %d, %v", from.last(), got.End(), got.Begun(), err)
				}
				if from.last() == 0 && got.Fed() != c.want {
					t.Errorf("fed: %v", got.Fed())
				}
			}
			if tail, err := r.Tail(t.Context(), "stable", 2); err != nil || len(tail) != 2 || tail[1].Sequence != 5 {
				t.Errorf("the tail: %v, %v", tail, err)
			}
			strays, err := r.Salvage().Strays(t.Context(), "stable")
			want := 2
			for _, mark := range c.marks {
				if p, ok := journal.PartOf("stable", LogPrefix("stable")+mark+".part"); ok && (!c.want || p.To > 5) {
					want++
				}
			}
			if err != nil || len(strays) != want {
				t.Errorf("strays %v, %v, want %d", strays, err, want)
			}
			for _, s := range strays {
				if s.Written.IsZero() || !errors.Is(s.Problem, ErrLog) {
					t.Errorf("%+v", s)
				}
			}
			if !c.want {
				next, err := r.Append(t.Context(), known, entry(Publish, "9.0.0", "", ""))
				if err != nil {
					t.Fatal(err)
				}
				for _, from := range []*Log{{Channel: "stable"}, known, part} {
					if got, err := r.Extend(t.Context(), from); err != nil || got.End() != next.End() {
						t.Errorf("the next move, from entry %d: %+v, %v", from.last(), got.End(), err)
					}
				}
				return
			}
			marks, _, err := r.Salvage().Marks(t.Context(), "stable")
			if err != nil || len(marks) < len(c.marks) {
				t.Errorf("marks %v, %v", marks, err)
			}
			for _, p := range marks {
				if err := r.Store.Delete(t.Context(), p.Key("stable")); err != nil {
					t.Fatal(err)
				}
			}
			own, err := r.Load(t.Context(), "stable")
			if err != nil || own.Fed() || own.End() != log.End() {
				t.Errorf("in the end %+v, fed %v, %v", own.End(), own.Fed(), err)
			}
		})
	}
}

// TestFeedOwn: a log of one's own, such as the copy of a store, is fed from then on, whatever
// lies in the place of a mark.
func TestFeedOwn(t *testing.T) {
	_, source, raw := sourceOf(t, 5)
	site, _ := newStore(t)
	for i, data := range raw[:3] {
		if err := site.journal("stable").put(t.Context(), uint64(i)+1, data); err != nil {
			t.Fatal(err)
		}
	}
	own, err := site.Load(t.Context(), "stable")
	if err != nil || own.Fed() || own.last() != 3 {
		t.Fatalf("%+v, %v", own, err)
	}
	for at := range 4 {
		broken := site
		broken.Store = failingAt(site.Store, at+1)
		if err := broken.Feed(t.Context(), own, raw[3:]); !errors.Is(err, errKilled) {
			t.Fatalf("killed at %d: %v", at, err)
		}
		for _, from := range []*Log{{Channel: "stable"}, own} {
			if seen, err := site.Extend(t.Context(), from); err != nil || seen.last() != 3 {
				t.Errorf("killed at %d: %v", at, err)
			}
		}
	}
	mark := (journal.Part{From: 1, To: 3}).Key("stable")
	if err := site.Store.Delete(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Store.Create(t.Context(), mark, strings.NewReader("x"), 1, journal.Attributes); err != nil {
		t.Fatal(err)
	}
	if err := site.Feed(t.Context(), own, raw[3:]); err != nil {
		t.Fatal(err)
	}
	if marks, late, err := site.Salvage().Marks(t.Context(), "stable"); err != nil || len(marks) != 2 || len(late) > 0 {
		t.Errorf("marks %v, of which %v pass for forged: %v", marks, late, err)
	}
	for _, from := range []*Log{{Channel: "stable"}, own} {
		if seen, err := site.Extend(t.Context(), from); err != nil || seen.End() != source.End() || !seen.Fed() {
			t.Errorf("in the end %+v, fed %v, %v", seen, seen.Fed(), err)
		}
	}
}
