package channels

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rings is the number of rings: equal parts of the clients, each with a manifest of
// its own, which give rollouts to installations that have a bucket and no server.
const Rings = 100

// Ring returns the ring of an installation, from 0 to 99: the first eight hex digits
// of the SHA-256 of its ID, as a number, modulo 100.
func Ring(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.BigEndian.Uint32(sum[:4]) % Rings)
}

// RingKey returns the key of a ring's manifest, such as stable/rings/07/latest.json.
func RingKey(channel string, ring int) string {
	return fmt.Sprintf("%s/rings/%02d/latest.json", channel, ring)
}

// ParseRing reads the two digits of a ring.
func ParseRing(text string) (ring int, ok bool) {
	ring, err := strconv.Atoi(text)
	return ring, err == nil && ring >= 0 && text == fmt.Sprintf("%02d", ring) && ring < Rings
}

// RingIn splits the key of a ring's manifest.
func RingIn(key string) (channel string, ring int, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 4 || parts[1] != "rings" || parts[3] != "latest.json" || CheckName(parts[0]) != nil {
		return "", 0, false
	}
	ring, ok = ParseRing(parts[2])
	return parts[0], ring, ok
}

// RingSet are some of the rings.
type RingSet [Rings]bool

// Rings returns the rings that the rollout includes: as many as its share, in an order
// that each rollout draws anew. One that is included stays so while the share rises.
func (r *Rollout) Rings() (in RingSet) {
	type drawn struct {
		ring int
		lot  [sha256.Size]byte
	}
	order := make([]drawn, Rings)
	for i := range order {
		order[i] = drawn{i, sha256.Sum256(fmt.Appendf(nil, "%s\x00%02d", r.ID, i))}
	}
	slices.SortFunc(order, func(a, b drawn) int {
		return cmp.Or(bytes.Compare(a.lot[:], b.lot[:]), cmp.Compare(a.ring, b.ring))
	})
	for _, d := range order[:r.Share()] {
		in[d.ring] = true
	}
	return in
}

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
	var in RingSet
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
