package fleet

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/channels"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
)

// tower is a group of servers that share records, a log, a clock and a webhook.
type tower struct {
	t       *testing.T
	hook    *hook
	records record.Store
	logged  strings.Builder

	now     time.Time
	entries []channels.Entry
}

func newTower(t *testing.T, statuses ...int) *tower {
	t.Helper()
	records, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	return &tower{t: t, hook: newHook(t, statuses...), records: records, now: time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)}
}

// move adds entries to the log.
func (w *tower) move(entries int) {
	for range entries {
		sequence := uint64(len(w.entries) + 1)
		w.entries = append(w.entries, channels.Entry{Sequence: sequence, Action: channels.Publish, Version: fmt.Sprintf("1.%d.0", sequence), When: w.now})
	}
}

func (w *tower) server() *Notifier {
	return NewNotifier(NotifierOptions{
		Webhook: Webhook{Address: w.hook.URL}, Records: w.records, Registry: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(&w.logged, nil)),
		Now: func() time.Time { return w.now },
		Channels: func() map[string]Channel {
			if len(w.entries) == 0 {
				return nil
			}
			return map[string]Channel{"stable": {Offers: &channels.Offers{Sequence: uint64(len(w.entries))}}}
		},
		Moves: func(_ string, after uint64) []channels.Entry { return w.entries[min(after, uint64(len(w.entries))):] },
	})
}

// round has servers look once, after some time.
func (w *tower) round(after time.Duration, servers ...*Notifier) []string {
	w.now = w.now.Add(after)
	for _, s := range servers {
		s.round(w.t.Context())
	}
	return w.hook.ids()
}

// told checks that the webhook got exactly these moves, in any order.
func (w *tower) told(what string, ids []string, sequences ...int) {
	w.t.Helper()
	var got []int
	for _, id := range ids {
		var sequence int
		if _, err := fmt.Sscanf(id, "stable.%d.", &sequence); err != nil {
			w.t.Errorf("%s: an event %s", what, id)
		}
		got = append(got, sequence)
	}
	slices.Sort(got)
	if !slices.Equal(got, sequences) {
		w.t.Errorf("%s: the webhook was told of %v, want %v", what, got, sequences)
	}
}

// TestNotifier: if servers share records, one of them sends each move. Moves from before the
// webhook was configured are not sent. Moves while no server ran are sent by the next one.
func TestNotifier(t *testing.T) {
	w := newTower(t)
	w.move(3)
	w.now = w.now.Add(time.Hour)
	a, b := w.server(), w.server()
	w.told("at first", w.round(0, a, b))
	w.move(2)
	w.told("both see moves", w.round(time.Second, a, b), 4, 5)
	w.told("later", w.round(time.Minute, a, b, a, b))
	w.move(1)
	w.now = w.now.Add(24 * time.Hour)
	w.told("a new server", w.round(0, w.server(), b), 6)
	w.now = w.now.Add(time.Hour)
	w.told("a late one", w.round(0, a))
}

// TestNotifierAgain: a message that the webhook refuses is sent again, with the same ID and
// growing pauses, for a week.
func TestNotifierAgain(t *testing.T) {
	w := newTower(t, 500, 500, 500)
	a := w.server()
	w.round(0, a)
	w.move(1)
	w.told("the first try", w.round(time.Second, a), 1)
	w.told("at once", w.round(time.Second, a))
	w.told("the second", w.round(firstPause, a), 1)
	w.told("too early", w.round(firstPause, a))
	w.told("the third", w.round(firstPause, w.server()), 1)
	w.told("the last", w.round(time.Hour, a), 1)
	w.told("no more", w.round(time.Hour, a))
	if text := w.logged.String(); strings.Count(text, "webhook failed") != 2 || !strings.Contains(text, "webhook posted") { // once for each server
		t.Error(text)
	}
	w.hook.Close()
	w.move(1)
	w.round(time.Second, a)
	w.round(noticeLife-time.Minute, a)
	if told, err := w.records.Told(t.Context(), w.now); told.Waiting != 1 || err != nil {
		t.Errorf("%+v, %v", told, err)
	}
	w.round(time.Hour, a)
	if told, err := w.records.Told(t.Context(), w.now); told.Waiting != 0 || err != nil || !strings.Contains(w.logged.String(), "given up") {
		t.Errorf("%+v, %v: %s", told, err, w.logged.String())
	}
	if pauseAfter(1) != firstPause || pauseAfter(2) != 2*firstPause || pauseAfter(1000) != longPause || pauseAfter(0) != firstPause {
		t.Error("pauses do not grow")
	}
}

// TestNotifierKilled: if a server is killed after it has claimed messages, another server sends
// them, even if the webhook already has them.
func TestNotifierKilled(t *testing.T) {
	w := newTower(t)
	a, b := w.server(), w.server()
	w.round(0, a, b)
	w.move(2)
	if _, err := a.queue(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages, err := w.records.Claim(t.Context(), w.now, w.now.Add(claimTime), claimed)
	if err != nil || len(messages) != 2 {
		t.Fatalf("%v, %v", messages, err)
	}
	if err := a.Webhook.post(t.Context(), messages[0], w.now); err != nil { // and then it is killed
		t.Fatal(err)
	}
	w.told("before", w.hook.ids(), 1)
	w.told("the other one waits", w.round(claimTime-time.Second, b))
	w.told("and takes over", w.round(time.Minute, b), 1, 2)
	w.told("once", w.round(time.Hour, b))
}

// TestNotifierBounded: while the webhook is down the outbox stays within its bound, and no move
// is lost.
func TestNotifierBounded(t *testing.T) {
	w := newTower(t)
	taking := w.hook.URL
	a := w.server()
	w.round(0, a)
	w.move(maxWaiting + 150)
	a.Webhook.Address = "http://127.0.0.1:1/"
	for range 3 {
		w.round(time.Minute, a)
		if told, err := w.records.Told(t.Context(), w.now); told.Waiting != maxWaiting || told.Moves["stable"] != maxWaiting || err != nil {
			t.Fatalf("%d wait, up to %d: %v", told.Waiting, told.Moves["stable"], err)
		}
	}
	if text := w.logged.String(); strings.Count(text, "no further messages are queued") != 1 {
		t.Error(text)
	}
	a.Webhook.Address = taking
	var all []string
	for range 4 {
		all = append(all, w.round(2*time.Hour, a)...)
	}
	var want []int
	for i := range maxWaiting + 150 {
		want = append(want, i+1)
	}
	w.told("in the end", all, want...)
}

// TestNotifierAlarm: an alarm is sent once, whichever servers raise it.
func TestNotifierAlarm(t *testing.T) {
	w := newTower(t)
	a, b := w.server(), w.server()
	w.round(0, a, b)
	a.Alarm("stable/latest.json", "1", "it is torn")
	b.Alarm("stable/latest.json", "1", "it is torn")
	if ids := w.round(time.Second, a, b); len(ids) != 1 || !strings.HasPrefix(ids[0], "alarm.") {
		t.Errorf("%v", ids)
	}
	b.Alarm("stable/latest.json", "2", "it is torn")
	if ids := w.round(time.Hour, a, b); len(ids) != 1 {
		t.Errorf("%v", ids)
	}
	for i := range 2 * maxAlarms {
		a.Alarm("releases/1.0.0/release.json", fmt.Sprint(i), "it is torn")
	}
	if ids := w.round(time.Hour, a, b); len(ids) != maxAlarms {
		t.Errorf("%d alarms", len(ids))
	}
	a.Webhook.Address = ""
	a.Alarm("stable/latest.json", "3", "it is torn")
	a.Start(t.Context()) // does nothing
	a.Close()
	if len(a.alarms) != 0 {
		t.Error("without a webhook alarms are kept")
	}
}
