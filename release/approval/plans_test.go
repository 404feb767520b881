package approval

import (
	"strings"
	"testing"

	"tsmon/channels"
)

// TestMisplaced: the texts of plans that follow nothing.
func TestMisplaced(t *testing.T) {
	log := &channels.Log{Channel: "stable", Entries: []channels.Entry{{Sequence: 1}, {Sequence: 2}}}
	for want, change := range map[string]func(e *channels.Entry){
		"": func(*channels.Entry) {},
		"another entry came first: stable ends with entry 2, and the plan would follow entry 1": func(e *channels.Entry) { e.Sequence = 2 },
		"entry 2 of stable is another than the one that the plan would follow":                  func(e *channels.Entry) { e.Previous = strings.Repeat("0", 64) },
		"it says that entry 2 of stable is lost, which is there":                                func(e *channels.Entry) { e.Lost = []channels.Lost{{From: 2, To: 2}} },
	} {
		e := log.Next(*log.Head())
		change(&e)
		if got := misplaced(log, &e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
