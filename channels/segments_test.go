package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tsmon/channels/journal"
	"tsmon/channels/segment"
	"tsmon/store/object"
)

// counted counts what is read from a store, and fails once its patience is used up.
type counted struct {
	object.Store
	gets     atomic.Int64
	patience int64 // 0: endless
}

var errImpatient = errors.New("the store went away")

func (c *counted) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if n := c.gets.Add(1); c.patience > 0 && n > c.patience {
		return nil, object.Info{}, errImpatient
	}
	return c.Store.Get(ctx, key)
}

// longLog writes the entries of a log into a store's folder, without its care.
func longLog(t testing.TB, root string, n int) *Log {
	t.Helper()
	log := &Log{Channel: "stable"}
	folder := filepath.Join(root, "log", "stable")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := log.Next(entry(Publish, fmt.Sprintf("1.%d.0", i), "", ""))
		data, err := e.encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%010d.json", i+1)), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		log.Entries, log.head = append(log.Entries, e), journal.Hash(data)
	}
	return log
}

// loads reads a log and wants it to be whole, with so many reads at most.
func loads(t *testing.T, r Repository, from, want *Log, most int64) {
	t.Helper()
	store := &counted{Store: r.Store}
	r.Store = store
	got, err := r.Extend(t.Context(), from)
	if err != nil {
		t.Error(err)
		return
	}
	if got.End() != want.End() || len(got.Entries) != len(want.Entries) {
		t.Errorf("the log ends at %v with %d entries, want %v", got.End(), len(got.Entries), want.End())
	}
	if n := store.gets.Load(); n > most {
		t.Errorf("%d objects were read, want %d at most", n, most)
	}
}

// TestSegments reads a long log by its segments, and one by one where they are wrong.
func TestSegments(t *testing.T) {
	r, root := newStore(t)
	log := longLog(t, root, 2*segment.Entries+3*segmentsEvery)
	none := &Log{Channel: "stable"}
	loads(t, r, none, log, int64(len(log.Entries)))
	for range 3 {
		if err := r.Pack(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(root, "segments", "stable")
	first, second := filepath.Join(folder, "0000000001-0000000256.zst"), filepath.Join(folder, "0000000257-0000000512.zst")
	if files, err := os.ReadDir(folder); err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	loads(t, r, none, log, 2+3*segmentsEvery)
	known := &Log{Channel: "stable", Entries: log.Entries[:300], head: log.Entries[300].Previous}
	loads(t, r, known, log, int64(len(log.Entries)-300)) // fewer than a segment
	known = &Log{Channel: "stable", Entries: log.Entries[:200], head: log.Entries[200].Previous}
	loads(t, r, known, log, 2+3*segmentsEvery)

	good, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := segment.Unpack(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([][]byte{}, plain...)
	changed[100] = bytes.Replace(plain[100], []byte(`"who": "test"`), []byte(`"who": "eve!"`), 1)
	forged, err := segment.Pack(changed)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing":        {},
		"half of it":     good[:len(good)/2],
		"another's":      other,
		"text":           []byte("not packed"),
		"a bomb":         w.EncodeAll(make([]byte, 64<<20+1), nil),
		"a false length": w.EncodeAll([]byte("99999999999\n{}"), nil),
		"no length":      w.EncodeAll([]byte("{}"), nil),
		"too few":        w.EncodeAll([]byte("2\n{}"), nil),
		"too many":       w.EncodeAll([]byte(strings.Repeat("2\n{}", segment.Entries+1)), nil),
		"a forged entry": forged,
	} {
		if err := os.WriteFile(first, data, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { loads(t, r, none, log, 2*int64(len(log.Entries))) })
	}
}

// TestSegmentsBeforeAGap: an entry before a lost one, whose hash no other has, is read from the
// log, whatever a segment says.
func TestSegmentsBeforeAGap(t *testing.T) {
	r, root := newStore(t)
	log := longLog(t, root, segment.Entries)
	raw, err := r.Raw(t.Context(), "stable", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Delete(t.Context(), journal.Key("stable", 100)); err != nil {
		t.Fatal(err)
	}
	repaired := entry(Repair, log.Head().Version, "", "")
	repaired.Lost = []Lost{{From: 100, To: 100}}
	if _, err := r.Append(t.Context(), log, repaired); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{98, 99} {
		raw[i] = bytes.Replace(raw[i], []byte(`"who": "test"`), []byte(`"who": "eve!"`), 1)
	}
	forged, err := segment.Pack(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Create(t.Context(), segment.Key("stable", 1), bytes.NewReader(forged), int64(len(forged)), object.Attributes{}); err != nil {
		t.Fatal(err)
	}
	got, err := r.Load(t.Context(), "stable")
	if err != nil || got.At(99).Who != "test" || got.At(100) != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestPackIsRare: a move looks for a segment to make only now and then.
func TestPackIsRare(t *testing.T) {
	r, root := newStore(t)
	log := longLog(t, root, segment.Entries+segmentsEvery)
	for n := segment.Entries - segmentsEvery; n < segment.Entries+segmentsEvery; n++ {
		store := &counted{Store: r.Store}
		part := &Log{Channel: "stable", Entries: log.Entries[:n], head: log.Entries[n].Previous}
		if err := (Repository{Store: store}).Pack(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if n == segment.Entries {
			want = segment.Entries
		}
		if got := store.gets.Load(); got != want {
			t.Errorf("after entry %d, %d entries were read, want %d", n, got, want)
		}
	}
}

// TestExtendGoesOn: a store that fails now and then only delays.
func TestExtendGoesOn(t *testing.T) {
	r, root := newStore(t)
	log := longLog(t, root, 5*journal.SideBySide)
	got := &Log{Channel: "stable"}
	for attempt := 0; ; attempt++ {
		impatient := Repository{Store: &counted{Store: r.Store, patience: 2 * journal.SideBySide},
			Seen: func(context.Context, string) (Position, error) { return log.End(), nil }}
		longer, err := impatient.Extend(t.Context(), got)
		if err == nil {
			got = longer
			break
		}
		if !errors.Is(err, errImpatient) || longer == nil || attempt == 100 {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		got = longer
	}
	if got.End() != log.End() {
		t.Errorf("the log ends at %v, want %v", got.End(), log.End())
	}
}

func FuzzUnpack(f *testing.F) {
	whole, err := segment.Pack(bytes.Fields(bytes.Repeat([]byte("{} "), segment.Entries)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("2\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := segment.Unpack(data)
		if err != nil {
			return
		}
		again, err := segment.Pack(raw)
		if err != nil {
			t.Fatal(err)
		}
		back, err := segment.Unpack(again)
		if err != nil || len(back) != len(raw) {
			t.Fatalf("%d entries of %d, %v", len(back), len(raw), err)
		}
	})
}
