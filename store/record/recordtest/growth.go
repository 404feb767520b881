package recordtest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"tsmon/store/record"
)

// Growth doubles a fleet many times, far beyond the number of clients that are recorded, while
// all clients ask again and again. It checks that the tables stop growing. bytes returns their
// size, including space that the database keeps for reuse.
func Growth(t *testing.T, s record.Store, bytes func() int64) {
	t.Helper()
	const most, doublings = 2000, 20
	var ids []record.ClientID // the clients in the sample
	var first, size int64
	for doubling := range doublings {
		var now record.Sample
		for round := 0; now.Level <= record.Level(doubling); round++ {
			if round > 20 {
				t.Fatalf("with %d clients the sample is still %+v", len(ids), now)
			}
			for range most / 4 { // only clients that the sample holds: the others cost nothing
				var id record.ClientID
				sum := digest(doubling<<20 | round<<12 | len(ids))
				binary.BigEndian.PutUint64(id[:], binary.BigEndian.Uint64(sum[:])>>now.Level)
				copy(id[8:], sum[8:])
				ids = append(ids, id)
			}
			var seen record.Sightings
			for i, id := range ids {
				at := moment(doubling<<24 | round<<16 | i)
				seen.Installed = append(seen.Installed, record.Installed{Channel: stable, Client: id, Version: fmt.Sprint(i % 3), Target: target, Seen: at, Asked: at})
				seen.Tries = append(seen.Tries, record.Try{Channel: stable, Client: id, Version: "2", Asked: at, Network: record.Network(i)})
			}
			sight(t, s, seen)
			for _, version := range []string{"", "2"} {
				now = bound(t, s, stable, version, most)
				sweep(t, s, stable, version)
			}
			kept := ids[:0]
			for _, id := range ids {
				if now.Holds(id) {
					kept = append(kept, id)
				}
			}
			ids = kept
		}
		if size = bytes(); doubling == 1 {
			first = size
		}
		t.Logf("sample of 1/%d, %d clients: %d bytes", 1<<now.Level, len(ids), size)
	}
	if size > first*5/4 {
		t.Errorf("the tables grew from %d to %d bytes while the fleet grew from 4 to %d times the sample", first, size, 1<<doublings)
	}
}
