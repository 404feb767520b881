package updates_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/channels/journal"
	"tsmon/store/object"
)

// partial is a store that does not answer for entries of a log behind one.
type partial struct {
	object.Store
	mu   sync.Mutex
	last string // the key of the last one that it answers for
	read int    // entries
}

func (s *partial) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if strings.HasPrefix(key, "log/stable/") {
		s.mu.Lock()
		defer s.mu.Unlock()
		if key > s.last {
			return nil, object.Info{}, fmt.Errorf("%w: it went away", object.ErrUnavailable)
		}
		s.read++
	}
	return s.Store.Get(ctx, key)
}

// TestServerGoesOn: a server whose store fails while it reads a long log keeps what it has read,
// also one that begins, and shows the channel in the end. What it showed before stays shown.
func TestServerGoesOn(t *testing.T) {
	const more = 4 * journal.SideBySide
	for name, begins := range map[string]bool{"runs": false, "begins": true} {
		t.Run(name, func(t *testing.T) {
			w := apitest.Embedded(t)
			d := w.Desk(t)
			d.PublishVersion(t, "stable", "1.0.0")
			rightful := w.Objects
			store := &partial{Store: rightful, last: journal.Key("stable", 1)}
			w.Objects = store
			u := still(t, w)
			if !begins {
				u.Heads.Round(t.Context())
			}
			r := channels.Repository{Store: rightful}
			log := apitest.Must[*channels.Log](t)(r.Load(t.Context(), "stable"))
			for i := range more {
				e := *log.Head()
				e.Why = fmt.Sprint("move ", i)
				log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, e))
			}
			d.PublishVersion(t, "stable", "1.1.0")
			store.read = 0
			for last := uint64(1); last < more; last += journal.SideBySide {
				store.last = journal.Key("stable", last)
				u.Heads.Round(t.Context())
				if got := u.Get("/updates/stable/latest.json"); begins != (got.Status == 503) || !begins && !strings.Contains(string(got.Body), `"1.0.0"`) {
					t.Errorf("up to entry %d: %d %.100s", last, got.Status, got.Body)
				}
			}
			store.last = journal.Key("stable", more+2)
			u.Heads.Round(t.Context())
			if got := string(u.Get("/updates/stable/latest.json").Body); !strings.Contains(got, `"1.1.0"`) {
				t.Errorf("it shows %.100s", got)
			}
			if store.read > more+journal.SideBySide {
				t.Errorf("%d entries were read of %d", store.read, more+2)
			}
		})
	}
}
