package updates_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/channels/journal"
	"tsmon/store/object"
)

// TestServerGoesOn: a server whose store fails after some requests each time keeps what it has
// read of a long log, and shows the channel in the end; what it showed before stays shown.
func TestServerGoesOn(t *testing.T) {
	const more = 4 * journal.SideBySide
	w := apitest.Embedded(t)
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	d.PublishVersion(t, "beta", "1.0.0")
	store := w.WatchObjects()
	running := still(t, w)
	running.Heads.Round(t.Context())

	r := channels.Repository{Store: w.Objects}
	log := apitest.Must[*channels.Log](t)(r.Load(t.Context(), "stable"))
	for i := range more {
		e := *log.Head()
		e.Why = fmt.Sprint("move ", i)
		log = apitest.Must[*channels.Log](t)(r.Append(t.Context(), log, e))
	}
	d.PublishVersion(t, "stable", "1.1.0")
	for info, err := range w.Objects.List(t.Context(), "segments/", "") { // each entry is read by itself
		t.Fatal(info, err)
	}

	begins := still(t, w)
	var left atomic.Int64
	store.Fail(func(context.Context) error {
		if left.Add(-1) < 0 {
			return fmt.Errorf("%w: it went away", object.ErrUnavailable)
		}
		return nil
	})
	for name, u := range map[string]*apitest.Updates{"runs": running, "begins": begins} {
		rounds := 0
		for ; rounds < 20; rounds++ {
			left.Store(2 * journal.SideBySide)
			u.Heads.Round(t.Context())
			left.Store(0) // what is asked now finds nothing but what is known
			got := string(u.Get("/updates/stable/latest.json").Body)
			if strings.Contains(got, `"1.1.0"`) {
				break
			}
			if name == "runs" && !strings.Contains(got, `"1.0.0"`) {
				t.Errorf("it shows %.100s meanwhile", got)
			}
		}
		if rounds < 2 || rounds == 20 {
			t.Errorf("the server that %s shows 1.1.0 after %d rounds", name, rounds)
		}
	}
}
