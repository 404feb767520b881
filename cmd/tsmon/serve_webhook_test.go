package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
)

// hook is a webhook that accepts messages while it is open.
type hook struct {
	*httptest.Server
	secret string

	mu     sync.Mutex
	open   bool
	tries  int
	events []fleet.Notice
	wrong  []string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	description, err := apitest.LoadDescription()
	if err != nil {
		t.Fatal(err)
	}
	schema := description.T.Components.Schemas["Notice"].Value
	h := &hook{secret: "a secret of the webhook"}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tries++
		if !h.open {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(h.secret))
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
		var n fleet.Notice
		var any any
		if err == nil {
			err = json.Unmarshal(body, &n)
		}
		if err == nil {
			err = json.Unmarshal(body, &any)
		}
		if err == nil {
			err = schema.VisitJSON(any)
		}
		if err != nil || r.Header.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) || n.ID != r.Header.Get("Webhook-Id") {
			h.wrong = append(h.wrong, fmt.Sprintf("%s: %v, %v", body, err, r.Header))
		}
		h.events = append(h.events, n)
	}))
	t.Cleanup(h.Close)
	return h
}

// told returns the events of a channel, such as "publish 1.0.0", in order of the log.
func (h *hook) told(channel string) (events []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sorted := slices.SortedFunc(slices.Values(h.events), func(a, b fleet.Notice) int { return int(a.Sequence) - int(b.Sequence) })
	for _, n := range sorted {
		if n.Channel == channel {
			events = append(events, n.Event+" "+n.Version)
		}
	}
	return events
}

func (h *hook) tried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

// TestServeWebhook: each move of a channel and each alarm is sent once, signed, and as the schema
// describes it, even if the server is killed while the webhook is down and the channel moves while no
// server runs.
func TestServeWebhook(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	storage := filepath.Join(t.TempDir(), "store")
	k := newKit(t, storage, nil)
	shared := t.TempDir()
	env := append(k.env, "TSMON_REFRESH=50ms", "TSMON_WEBHOOK="+h.URL+"/secret", "TSMON_WEBHOOK_SECRET="+h.secret)
	k.must(t, "release", "publish", "--version", "0.9.0", bundles(t, "0.9.0", 100))
	s := serve(t, shared, env)
	until(t, "the manifest", func() bool { status, _ := s.ask("GET", "/updates/stable/latest.json", "", nil); return status == 200 })
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	until(t, "the first try", func() bool { return h.tried() > 0 })
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
	k.must(t, "release", "publish", "--version", "1.1.0", "--percent", "50", bundles(t, "1.1.0", 100))
	k.must(t, "channel", "pause", "stable", "--reason", "crashes")
	k.must(t, "channel", "resume", "stable")
	k.must(t, "channel", "rollout", "stable", "--percent", "60")
	k.must(t, "release", "rollback", "--to", "0.9.0", "--reason", "crashes more")
	h.mu.Lock()
	h.open = true
	h.mu.Unlock()
	// Before the servers start, since they repair the manifest as soon as they have raised the alarm.
	garbage := filepath.Join(t.TempDir(), "garbage")
	err := os.WriteFile(garbage, []byte("not a manifest"), 0o600)
	if err == nil {
		err = os.Rename(garbage, filepath.Join(storage, "stable", "latest.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	servers := []*served{serve(t, shared, env), serve(t, shared, env)}
	until(t, "the present release", func() bool {
		_, a := servers[0].ask("GET", "/updates/stable/latest.json", "", nil)
		_, b := servers[1].ask("GET", "/updates/stable/latest.json", "", nil)
		return strings.Contains(string(a), `"0.9.0"`) && strings.Contains(string(b), `"0.9.0"`)
	})
	until(t, "the alarm", func() bool { return slices.Contains(h.told(""), "alarm ") })
	k.must(t, "release", "publish", "--channel", "beta", "--version", "1.2.0", bundles(t, "1.2.0", 100))
	k.must(t, "release", "promote", "--from", "beta", "--to", "stable")
	want := []string{"publish 1.0.0", "publish 1.1.0", "pause 1.1.0", "resume 1.1.0", "step 1.1.0", "rollback 0.9.0", "promote 1.2.0"}
	told := func() []string {
		return slices.DeleteFunc(h.told("stable"), func(e string) bool { return e == "publish 0.9.0" }) // in the second in which the server began
	}
	until(t, "what was missed", func() bool { return len(told()) >= len(want) && slices.Contains(h.told("beta"), "follow 1.0.0") })
	for _, s := range servers {
		s.stop()
	}
	if got, alarms := told(), h.told(""); !slices.Equal(got, want) || !slices.Equal(alarms, []string{"alarm "}) || len(h.wrong) > 0 {
		t.Errorf("the webhook was told %q and %q, want %q; wrong: %q", got, alarms, want, h.wrong)
	}
}
