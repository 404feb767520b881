package updates

import (
	"context"
	"time"

	"tsmon/api/updates/alarm"
	"tsmon/api/updates/recorded"
	"tsmon/release/library"
)

// What the tests outside of the package use.
const (
	MaxAbsent     = maxAbsent
	MaxAlarms     = alarm.Max
	MaxLooks      = maxLooks
	MaxRecord     = library.MaxRecord
	ElsewhereTime = elsewhereTime
)

var (
	CheckBundle = recorded.CheckBundle
	CheckRecord = recorded.Check
	Unserved    = unserved
)

// Still keeps rounds from beginning by themselves: the test calls Round.
func (h *Heads) Still() {
	h.loop.Start(context.Background(), time.Hour, func(context.Context) {})
	h.older.loop.Start(context.Background(), time.Hour, func(context.Context) {})
}

// Reread looks at what lies beside manifests, and reads a whole log, if one is due.
func (h *Heads) Reread(ctx context.Context) { h.older.round(ctx) }

func (h *Heads) Round(ctx context.Context) { h.round(ctx) }

// Awaited reports whether a request waits for a round.
func (h *Heads) Awaited() bool {
	h.rounds.mu.Lock()
	defer h.rounds.mu.Unlock()
	return h.rounds.next != nil
}

func (h *Heads) SetPatience(d time.Duration) { h.patience = d }

// Version returns the version of the manifest that a channel shows.
func (h *Heads) Version(ctx context.Context, name string) (string, error) {
	c, err := h.of(ctx, name)
	if err != nil {
		return "", err
	}
	return c.head.Load().version, nil
}

// Absent returns how many names are remembered that no channel has.
func (h *Heads) Absent() int { return h.absent.Len() }

// LookUp looks a channel up even if it is known, and reports whether what is known
// stays the same.
func (h *Heads) LookUp(ctx context.Context, name string) (same bool, err error) {
	known := h.channel(name)
	err = h.lookUp(ctx, name)
	return h.channel(name) == known, err
}

func (h *Heads) Raise(key, etag string, err error) { h.alarms.Raise(key, etag, alarm.Record, err) }

func (h *Heads) Raised(key, etag string) bool { return h.alarms.Raised(key, etag, standsEvery) }

func (h *Heads) Alarms() int { return len(h.alarms.All()) }

// Await waits for the end of a round that has not begun yet.
func (h *Heads) Await(ctx context.Context) { h.rounds.await(ctx) }
