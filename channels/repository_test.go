package channels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/channels/journal"
	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/store/longtest"
	"tsmon/store/object"
	"tsmon/store/object/dir"
)

func newStore(t testing.TB) (Repository, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "store")
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return Repository{Store: store, PublicURL: "https://example.com/app"}, root
}

// signature is any well-formed one; this package does not verify.
var signature = func() string {
	key, err := signing.GenerateKey()
	if err != nil {
		panic(err)
	}
	sig, err := key.Sign(signing.Digest{}, signing.Comment{File: "App.zip"})
	if err != nil {
		panic(err)
	}
	return sig.String()
}()

func releaseOf(version string) Release {
	return Release{Version: version, Notes: "<b> & ☃", PubDate: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), Record: strings.Repeat("0a", 32),
		Platforms: map[string]Bundle{"linux-x86_64": {Signature: signature, Path: "releases/" + version + "/App é.AppImage"}}}
}

func entry(action Action, version, from, why string) Entry {
	return Entry{Action: action, Version: version, From: from, Who: "test", When: time.Now(), Why: why, Release: releaseOf(version)}
}

// moved appends an entry for each version and returns the log.
func moved(t testing.TB, r Repository, channel string, entries ...Entry) *Log {
	t.Helper()
	log, err := r.Load(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if log, err = r.Append(t.Context(), log, e); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func TestAppendLoadRepoint(t *testing.T) {
	r, _ := newStore(t)
	if log, moved, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); err != nil || log.Head() != nil || moved {
		t.Fatalf("an empty channel: %v, %v, %v", log, moved, err)
	}
	want := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""), entry(Rollback, "1.0.0", "1.1.0", "crash"))
	moved(t, r, "beta", entry(Publish, "1.1.0", "", ""))
	got, err := r.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != 3 || got.head != want.head || got.Head().Why != "crash" || got.Head().Sequence != 3 {
		t.Errorf("loaded %+v", got)
	}
	log, changed, err := r.Repoint(t.Context(), &Log{Channel: "stable"})
	if err != nil || !changed || log.Head().Sequence != 3 {
		t.Fatalf("repoint: %+v, %v, %v", log, changed, err)
	}
	shown, err := r.Shown(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := manifest.Decode(shown); err != nil || m.Version != "1.0.0" || m.Sequence != 3 || m.Notes != "<b> & ☃" ||
		m.Platforms["linux-x86_64"].URL != "https://example.com/app/releases/1.0.0/App%20%C3%A9.AppImage" {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	if _, changed, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); changed || err != nil {
		t.Errorf("repointing again: %v, %v", changed, err)
	}
	if names, err := r.Names(t.Context()); err != nil || strings.Join(names, " ") != "beta stable" {
		t.Errorf("names: %v, %v", names, err)
	}
}

func TestAppendConflict(t *testing.T) {
	r, _ := newStore(t)
	base := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
	first := entry(Publish, "1.1.0", "", "")
	first.Who = "alice"
	if _, err := r.Append(t.Context(), base, first); err != nil {
		t.Fatal(err)
	}
	_, err := r.Append(t.Context(), base, entry(Publish, "1.2.0", "", ""))
	var conflict *ConflictError
	if !errors.As(err, &conflict) || conflict.Winner.Version != "1.1.0" || conflict.Winner.Who != "alice" || conflict.Winner.Sequence != 2 {
		t.Fatalf("error %v, want a conflict won by alice", err)
	}
	// The very same move again, in the same second by the same name, is another's.
	if _, err := r.Append(t.Context(), base, first); !errors.As(err, &conflict) || conflict.Winner.Version != "1.1.0" {
		t.Errorf("the same move again: error %v, want a conflict", err)
	}
}

// TestAppendWithoutAnswer: an entry that was written counts as ours though the answer was
// lost, or the client of the store sent it twice and was told that it is there.
func TestAppendWithoutAnswer(t *testing.T) {
	for name, lost := range map[string]error{"lost": errors.New("connection reset"), "sent twice": fs.ErrExist} {
		r, _ := newStore(t)
		base := moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
		r.Store = forgetful{r.Store, lost}
		if log, err := r.Append(t.Context(), base, entry(Publish, "1.1.0", "", "")); err != nil || log.last() != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// forgetful is a store that creates objects and answers with an error.
type forgetful struct {
	object.Store
	answer error
}

func (f forgetful) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if info, err := f.Store.Create(ctx, key, r, size, attrs); err != nil {
		return info, err
	}
	return object.Info{}, f.answer
}

func TestLoadRefusesBrokenLogs(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, folder string){
		"gap":        func(t *testing.T, f string) { remove(t, f+"/0000000002.json") },
		"first gone": func(t *testing.T, f string) { remove(t, f+"/0000000001.json") },
		"altered": func(t *testing.T, f string) {
			rewrite(t, f+"/0000000002.json", func(s string) string { return strings.Replace(s, `"who": "test"`, `"who": "mallory"`, 1) })
		},
		"number":   func(t *testing.T, f string) { copyFile(t, f+"/0000000003.json", f+"/0000000002.json") },
		"not JSON": func(t *testing.T, f string) { rewrite(t, f+"/0000000001.json", func(string) string { return "{" }) },
		"empty":    func(t *testing.T, f string) { rewrite(t, f+"/0000000001.json", func(string) string { return "" }) },
		"other version": func(t *testing.T, f string) {
			rewrite(t, f+"/0000000003.json", func(s string) string { return strings.Replace(s, `"version": "1.2.0"`, `"version": "1.3.0"`, 1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newStore(t)
			moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""), entry(Publish, "1.2.0", "", ""))
			damage(t, filepath.Join(root, "log", "stable"))
			if log, err := r.Load(t.Context(), "stable"); !errors.Is(err, ErrLog) {
				t.Errorf("loaded %v, error %v, want ErrLog", log, err)
			}
		})
	}
}

// TestRepointRefusesShortLog: a manifest ahead of the log must stay.
func TestRepointRefusesShortLog(t *testing.T) {
	r, root := newStore(t)
	moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""))
	if _, _, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(root, "log", "stable", "0000000002.json"))
	if _, _, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); !errors.Is(err, ErrLog) {
		t.Errorf("error %v, want ErrLog", err)
	}
}

// TestRepointReplacesForeignManifests: what somebody put there by hand gives way
// to the log.
func TestRepointReplacesForeignManifests(t *testing.T) {
	for name, content := range map[string]string{"broken": "{", "hand-written": `{"version":"v0.9.0","platforms":{}}`, "empty": ""} {
		t.Run(name, func(t *testing.T) {
			r, root := newStore(t)
			moved(t, r, "stable", entry(Publish, "1.0.0", "", ""))
			if err := os.MkdirAll(filepath.Join(root, "stable"), 0o755); err != nil {
				t.Fatal(err)
			}
			rewrite(t, filepath.Join(root, "stable", "latest.json"), func(string) string { return content })
			if log, moved, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); err != nil || !moved || log.Head().Version != "1.0.0" {
				t.Errorf("%+v, %v, %v", log, moved, err)
			}
		})
	}
}

// TestInterleavings runs three writers over one channel in random orders of
// their storage operations, some of which stop in the middle for good. After
// every single operation the manifest must not have gone back and must be one
// of the log's; a last repoint must bring it to the head.
func TestInterleavings(t *testing.T) {
	share, long := longtest.Chosen(t)
	seeds := 150
	switch {
	case long:
		seeds = 4800
	case testing.Short():
		seeds = 30
	}
	for seed := range seeds {
		if !share.Has(seed) {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r, _ := newStore(t)
			interleave(t, r, rand.New(rand.NewPCG(uint64(seed), 1)), 1)
		})
	}
}

// interleave looks at the views after each so many operations.
func interleave(t *testing.T, r Repository, random *rand.Rand, each int) {
	with := func(e Entry) Entry {
		e.Release.Files = []File{{Path: "releases/" + e.Version + "/App.dmg", Size: 1, Keys: []string{"darwin-aarch64"}}}
		return e
	}
	moved(t, r, "stable", with(entry(Publish, "1.0.0", "", "")), with(entry(Publish, "1.1.0", "", "")))
	if _, _, err := r.Repoint(t.Context(), &Log{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	var writers []*writer
	for i, version := range []string{"1.2.0", "1.0.0", "1.3.0"} {
		e := with(entry(Publish, version, "", ""))
		if r.Rings != nil {
			e.Rollout = rollout(5*(i+1), 100)
		}
		writers = append(writers, startWriter(t, r, e))
	}
	before, i := make([]uint64, 1+Rings+1), 0
	for n := 0; len(writers) > 0; n++ {
		if i >= len(writers) || random.IntN(8) == 0 { // in runs, so that one can overtake another
			i = random.IntN(len(writers))
		}
		over := !writers[i].step()
		if !over && random.IntN(60) == 0 {
			writers[i].crash()
			over = true
		}
		if over {
			writers = append(writers[:i], writers[i+1:]...)
		}
		if n%each != 0 {
			continue
		}
		seen, err := r.Peek(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range seen {
			now := p.Sequence()
			if now < before[i] || now == 0 {
				t.Fatalf("view %d went from entry %d to entry %d", i, before[i], now)
			}
			before[i] = now
		}
	}
	shown, _, err := r.Repoint(t.Context(), &Log{Channel: "stable"})
	if err != nil {
		t.Fatal(err)
	}
	log, err := r.Load(t.Context(), "stable")
	if err != nil || log.End() != shown.End() {
		t.Errorf("the log ends with %+v, error %v; shown is %+v", log.End(), err, shown.End())
	}
	current(t, r, log)
}

// current wants all views to be those of a log.
func current(t *testing.T, r Repository, log *Log) {
	t.Helper()
	seen, err := r.Peek(t.Context(), log.Channel)
	if err != nil {
		t.Fatal(err)
	}
	if behind, err := r.Behind(log, seen); err != nil || len(behind) > 0 {
		t.Errorf("the views are not those of entry %d", log.End().Sequence)
	}
}

// writer appends an entry and repoints, one storage operation a step.
type writer struct {
	turn   chan struct{} // lets it do one operation
	waits  chan struct{} // it waits for its next turn
	done   chan struct{}
	cancel context.CancelFunc
}

func startWriter(t *testing.T, r Repository, e Entry) *writer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &writer{turn: make(chan struct{}), waits: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	stepped := Repository{Store: &steppedStore{r.Store, w}, PublicURL: r.PublicURL, Rings: r.Rings}
	t.Cleanup(func() { cancel(); <-w.done })
	go func() {
		defer close(w.done)
		for {
			log, err := stepped.Load(ctx, "stable")
			if err == nil {
				_, err = stepped.Append(ctx, log, e)
			}
			if conflict := (*ConflictError)(nil); errors.As(err, &conflict) {
				continue
			}
			if err == nil {
				_, _, err = stepped.Repoint(ctx, &Log{Channel: "stable"})
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("writer of %s: %v", e.Version, err)
			}
			return
		}
	}()
	return w
}

// step lets the writer do one operation; false once it is done.
func (w *writer) step() bool {
	select {
	case <-w.waits:
		w.turn <- struct{}{}
		return true
	case <-w.done:
		return false
	}
}

func (w *writer) crash() { w.cancel() }

// steppedStore waits for the writer's turn before every operation.
type steppedStore struct {
	object.Store
	w *writer
}

func (s *steppedStore) await(ctx context.Context) error {
	select {
	case s.w.waits <- struct{}{}:
		<-s.w.turn
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *steppedStore) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := s.await(ctx); err != nil {
		return nil, object.Info{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *steppedStore) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if err := s.await(ctx); err != nil {
		return object.Info{}, err
	}
	return s.Store.Create(ctx, key, r, size, attrs)
}

func (s *steppedStore) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	if err := s.await(ctx); err != nil {
		return object.Info{}, err
	}
	return s.Store.Swap(ctx, key, etag, data, attrs)
}

func (s *steppedStore) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	if err := s.await(ctx); err != nil {
		return func(yield func(object.Info, error) bool) { yield(object.Info{}, err) }
	}
	return s.Store.List(ctx, prefix, after)
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, path string, change func(string) string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	after := change(string(before))
	if after == string(before) && after != "" {
		t.Fatalf("%s did not change", path)
	}
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestExtend reads what others added, and only that; another past than the one
// that is known is a broken log.
func TestExtend(t *testing.T) {
	r, root := newStore(t)
	moved(t, r, "stable", entry(Publish, "1.0.0", "", ""), entry(Publish, "1.1.0", "", ""))
	known, err := r.Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	same, err := r.Extend(t.Context(), known)
	if err != nil || len(same.Entries) != 2 {
		t.Fatalf("%d entries, %v", len(same.Entries), err)
	}
	moved(t, r, "stable", entry(Publish, "1.2.0", "", ""))
	// The old entries are not read again.
	if err := os.WriteFile(filepath.Join(root, journal.Key("stable", 1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	longer, err := r.Extend(t.Context(), known)
	if err != nil || len(longer.Entries) != 3 || longer.Head().Version != "1.2.0" || len(known.Entries) != 2 {
		t.Fatalf("%d entries, %d before, %v", len(longer.Entries), len(known.Entries), err)
	}
	if _, err := r.Load(t.Context(), "stable"); !errors.Is(err, ErrLog) {
		t.Errorf("the whole log, of which one entry is empty: %v", err)
	}
	known.head = strings.Repeat("0", 64)
	if _, err := r.Extend(t.Context(), known); !errors.Is(err, ErrLog) {
		t.Errorf("another past: %v", err)
	}
}
