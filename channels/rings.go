package channels

import (
	"fmt"
	"slices"
	"strings"

	"tsmon/channels/ring"
)

// Rings is the number of rings: equal parts of the clients, each with a manifest of
// its own, which give rollouts to installations that have a bucket and no server.
const Rings = ring.Count

// RingKey returns the key of a ring's manifest, such as stable/rings/07/latest.json.
func RingKey(channel string, number int) string {
	return fmt.Sprintf("%s/rings/%02d/latest.json", channel, number)
}

// RingIn splits the key of a ring's manifest.
func RingIn(key string) (channel string, number int, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[1] != "rings" || parts[3] != "latest.json" || CheckName(parts[0]) != nil {
		return "", 0, false
	}
	number, ok = ring.Parse(parts[2])
	return parts[0], number, ok
}

// Rings returns the rings that the rollout includes: as many as its share, as ring.Draw
// draws them.
func (r *Rollout) Rings() ring.Set { return ring.Draw(r.ID, r.Share()) }

// ringViews returns what each ring shows: the release that its clients get, under the
// number of the last entry that changed it. A step of a rollout thus changes only the
// rings that it adds.
func (l *Log) ringViews() []View {
	views := make([]View, Rings)
	open := make([]int, Rings) // rings whose entry is not found yet
	for i := range open {
		open[i] = i
	}
	for at := len(l.Entries) - 1; at >= 0 && len(open) > 0; at-- {
		e := &l.Entries[at]
		gets := e.byRing()
		open = slices.DeleteFunc(open, func(ring int) bool {
			later := views[ring].release
			if later != nil && later != gets[ring] && !later.Equal(gets[ring]) {
				return true
			}
			views[ring] = View{Key: RingKey(l.Channel, ring), Sequence: e.Sequence, release: gets[ring]}
			return false
		})
	}
	return views
}

// byRing returns what each ring gets from an entry on.
func (e *Entry) byRing() (gets [Rings]*Release) {
	var in ring.Set
	if e.Rollout != nil {
		in = e.Rollout.Rings()
	}
	for ring := range gets {
		if gets[ring] = &e.Release; in[ring] {
			gets[ring] = &e.Rollout.Release
		}
	}
	return gets
}
