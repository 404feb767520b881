package token_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"tsmon/api/monitor/token"
)

func rotate(t *testing.T, path string) string {
	t.Helper()
	kid, err := token.Rotate(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return kid
}

func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	before := issue(t, open(t, path))
	first := stored(t, path)

	kid := rotate(t, path)
	keys := stored(t, path)
	if len(keys) != 2 || keys[0].Kid != kid || keys[0].Alg != "EdDSA" || keys[0].Key == first[0].Key || keys[1] != first[0] {
		t.Errorf("after a rotation there are %d keys, the newest %s", len(keys), keys[0].Kid)
	}
	checkMode(t, path, 0o600)
	checkOnly(t, path)
	between := issue(t, open(t, path))
	checkAccepted(t, "from before", open(t, path), before)

	rotate(t, path)
	checkAccepted(t, "from between", open(t, path), between)
	checkRefused(t, "two rotations later", open(t, path), before, "is unknown")
}

// TestRotateKeepsAlgorithm wants that programs that share a secret find one.
func TestRotateKeepsAlgorithm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, `{"keys":[{"kid":"hs","alg":"HS256","key":"`+base64url(hsSecret)+`"}]}`)
	before := issue(t, open(t, path))
	rotate(t, path)
	keys := stored(t, path)
	if keys[0].Alg != "HS256" || keys[1].Kid != "hs" || keys[1].Created != "" {
		t.Errorf("%s, then %s", keys[0].Alg, keys[1].Kid)
	}
	k := open(t, path)
	checkAccepted(t, "from before", k, before)
	checkAccepted(t, "from after", k, issue(t, k))
}

func TestRotateNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if kid, err := token.Rotate(t.Context(), path); !errors.Is(err, fs.ErrNotExist) || kid != "" {
		t.Errorf("got %q, %v", kid, err)
	}
	checkOnly(t, path)
}

// TestRotateThroughLink wants the file replaced, not the link to it.
func TestRotateThroughLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	open(t, path)
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if kid := rotate(t, link); stored(t, path)[0].Kid != kid {
		t.Error("the file was not rotated")
	}
}

// TestConcurrentRotations wants that each rotation builds on the one before: of
// two that did not, the first key would be left behind the second new one.
func TestConcurrentRotations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	for range 4 {
		rotateTogether(t, path)
	}
}

func rotateTogether(t *testing.T, path string) {
	t.Helper()
	k := open(t, path)
	first := stored(t, path)[0].Kid
	const n = 8
	var kids [n]string
	var errs [n]error
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			kids[i], errs[i] = token.Rotate(t.Context(), path)
		})
	}
	close(start)
	for range n { // servers read meanwhile
		checkAccepted(t, "own token", k, issue(t, k))
		open(t, path)
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	keys := stored(t, path)
	for _, key := range keys {
		if key.Kid == first || !slices.Contains(kids[:], key.Kid) {
			t.Errorf("%s is none of the last rotations", key.Kid)
		}
	}
	if len(keys) != 2 || keys[0].Kid == keys[1].Kid {
		t.Errorf("%d keys", len(keys))
	}
	checkOnly(t, path)
}

func TestRotateWaitsForLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	open(t, path)
	rotate(t, path)
	before := stored(t, path)
	held := flock.New(path + ".lock")
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if kid, err := token.Rotate(ctx, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("while locked: %q, %v", kid, err)
	}
	if !slices.Equal(stored(t, path), before) {
		t.Error("the file was changed")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	rotate(t, path)
}

// moving is a clock that a test sets.
type moving struct{ now time.Time }

func (m *moving) add(d time.Duration) { m.now = m.now.Add(d) }

// two returns the keys of two servers that share a file and a clock.
func two(t *testing.T) (path string, a, b *token.Keys, m *moving) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	a, b = open(t, path), open(t, path)
	m = &moving{clock}
	a.Now = func() time.Time { return m.now }
	b.Now = a.Now
	return path, a, b, m
}

func TestOtherServersRotation(t *testing.T) {
	path, a, b, m := two(t)
	before := issue(t, a)
	checkAccepted(t, "before", b, before)
	m.add(time.Minute)
	kid := rotate(t, path)
	after := issue(t, a)
	if !strings.HasPrefix(after, headerOf(kid)) {
		t.Error("a minute after its last look, Issue does not sign with the new key")
	}
	checkAccepted(t, "after", b, after)
	checkAccepted(t, "before", b, before)
}

// headerOf is the first part of a token that the key of a kid has signed.
func headerOf(kid string) string {
	return base64url([]byte(`{"alg":"EdDSA","kid":"`+kid+`","typ":"JWT"}`)) + "."
}

// TestLooks counts looks at the file by what they find.
func TestLooks(t *testing.T) {
	path, a, b, m := two(t)
	old := issue(t, a)
	checkAccepted(t, "at first", b, old) // both have looked
	kid := rotate(t, path)
	m.add(time.Minute - 1)
	if strings.HasPrefix(issue(t, a), headerOf(kid)) {
		t.Error("Issue looked within a minute")
	}
	m.add(1)
	fresh := issue(t, a)
	if !strings.HasPrefix(fresh, headerOf(kid)) {
		t.Error("Issue did not look after a minute")
	}
	// b looks because a minute is over, and the second rotation is news to it.
	checkAccepted(t, "old", b, old)
	kid = rotate(t, path)
	m.add(time.Second - 1)
	newest := issue(t, open(t, path))
	checkRefused(t, "within a second", b, newest, kid)
	m.add(1)
	checkAccepted(t, "after a second", b, newest)
	checkAccepted(t, "the key before", b, fresh)
}

// TestRotatedOut wants that the tokens of a key that is gone end in servers that
// nobody asks about another key.
func TestRotatedOut(t *testing.T) {
	path, a, b, m := two(t)
	old := issue(t, a)
	checkAccepted(t, "at first", b, old)
	rotate(t, path)
	rotate(t, path)
	m.add(time.Minute - 1)
	checkAccepted(t, "within a minute", b, old)
	m.add(1)
	checkRefused(t, "after a minute", b, old, "is unknown")
}

// TestClockSetBack wants looks also after the clock was set back.
func TestClockSetBack(t *testing.T) {
	path, a, b, m := two(t)
	checkAccepted(t, "at first", b, issue(t, a))
	kid := rotate(t, path)
	m.add(-time.Hour)
	text := issue(t, a)
	if !strings.HasPrefix(text, headerOf(kid)) {
		t.Error("Issue did not look")
	}
	checkAccepted(t, "an hour back", b, text)
}

func TestFileLost(t *testing.T) {
	path, a, b, m := two(t)
	old := issue(t, a)
	for name, spoil := range map[string]func() error{
		"gone":    func() error { return os.Remove(path) },
		"garbage": func() error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		m.add(time.Hour)
		checkAccepted(t, name, b, old)
		checkAccepted(t, name, b, issue(t, a))
		checkRefused(t, name, b, forgeEd(t, payload()), path)
	}
}

// TestNobodyWaits wants that a look that takes its time holds up nobody whose
// key is known.
func TestNobodyWaits(t *testing.T) {
	k := known(t)
	defer k.HoldLook()()
	checkAccepted(t, "while somebody looks", k, issue(t, k))
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	path, a, b, m := two(t)
	var mu sync.Mutex
	a.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); m.add(time.Second); return m.now }
	b.Now = a.Now
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				text, err := a.Issue(ana())
				if err != nil {
					t.Error(err)
					return
				}
				checkAccepted(t, "its own", a, text)
				checkAccepted(t, "the other's", b, text)
			}
		})
	}
	rotate(t, path)
	group.Wait()
}
