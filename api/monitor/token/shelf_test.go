package token_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tsmon/api/monitor/token"
)

// shelf holds a text in memory.
type shelf struct {
	mu     sync.Mutex
	text   []byte
	failed error
}

func (s *shelf) Create(_ context.Context, text []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil && s.failed == nil {
		s.text = text
	}
	return s.text, s.failed
}

func (s *shelf) Replace(_ context.Context, change func([]byte) ([]byte, error)) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := change(s.text)
	if err == nil {
		s.text = text
	}
	return err
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// TestShared: servers with one shelf accept each other's tokens, and notice a rotation.
func TestShared(t *testing.T) {
	s := &shelf{}
	one, two := token.OpenShared(t.Context(), s), token.OpenShared(t.Context(), s)
	before := issue(t, one)
	checkAccepted(t, "of another server", two, before)
	kid, err := token.RotateShared(t.Context(), s)
	if err != nil || !bytes.Contains(s.text, []byte(kid)) {
		t.Fatalf("%q, %v", kid, err)
	}
	three := token.OpenShared(t.Context(), s)
	now := time.Now()
	one.Now = func() time.Time { return now.Add(2 * time.Second) }
	checkAccepted(t, "of the new key", one, issue(t, three))
	checkAccepted(t, "of the key before", three, before)
	if _, err := token.RotateShared(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "of an old key", token.OpenShared(t.Context(), s), before, "unknown")
}

// TestSharedOutOfReach: a server starts without its keys, doubts tokens rather than
// refuse them, and works once it can read them.
func TestSharedOutOfReach(t *testing.T) {
	s := &shelf{}
	text := issue(t, token.OpenShared(t.Context(), s))
	away := errors.New("away")
	s.fail(away)
	k := token.OpenShared(t.Context(), s)
	now := time.Now()
	k.Now = func() time.Time { return now }
	if _, err := k.Issue(ana()); !errors.Is(err, token.ErrKeys) || !errors.Is(err, away) {
		t.Errorf("issue: %v", err)
	}
	if _, err := k.Verify(text); !errors.Is(err, token.ErrKeys) || !errors.Is(err, away) {
		t.Errorf("verify: %v", err)
	}
	s.fail(nil)
	now = now.Add(2 * time.Second)
	checkAccepted(t, "once the keys are read", k, text)
	issue(t, k)
	s.fail(away)
	now = now.Add(2 * time.Minute)
	checkAccepted(t, "while they can't be read again", k, text)
}

// TestIssueOnceInReach: the first login after the keys could not be read issues a token.
func TestIssueOnceInReach(t *testing.T) {
	s := &shelf{failed: errors.New("away")}
	k := token.OpenShared(t.Context(), s)
	s.fail(nil)
	now := time.Now().Add(2 * time.Second)
	k.Now = func() time.Time { return now }
	issue(t, k)
}

// TestHostileShelf: a text that is no key file is no keys, and not replaced.
func TestHostileShelf(t *testing.T) {
	for _, text := range []string{"", "{}", `{"keys":[]}`, "null", `{"keys":[{"kid":"a","alg":"none","key":""}]}`} {
		s := &shelf{text: []byte(text)}
		if _, err := token.OpenShared(t.Context(), s).Issue(ana()); !errors.Is(err, token.ErrKeys) {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := token.RotateShared(t.Context(), s); err == nil || string(s.text) != text {
			t.Errorf("%q became %q, %v", text, s.text, err)
		}
	}
}
