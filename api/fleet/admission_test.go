package fleet

import (
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

// TestAdmit: nobody fills the records with clients that do not exist.
func TestAdmit(t *testing.T) {
	now := time.Date(2026, 3, 5, 15, 0, 0, 0, time.UTC)
	var a admitted
	id := func(i int) (c record.ClientID) {
		copy(c[:], fmt.Sprintf("%016d", i))
		return c
	}
	in := 0
	for i := range maxOfNetwork + 100 {
		if a.admit(id(i), "2001:db8::/48", now) {
			in++
		}
	}
	if in != maxOfNetwork {
		t.Errorf("%d clients of one network", in)
	}
	if !a.admit(id(0), "192.0.2.1", now) || a.admit(id(maxOfNetwork), "2001:db8::/48", now) || !a.admit(id(maxOfNetwork), "192.0.2.1", now) {
		t.Error("a client is known by its id, others by their network")
	}
	for i := range maxAdmitted {
		a.admit(id(1_000_000+i), fmt.Sprintf("198.51.%d.%d", i/5000, i%250), now)
	}
	if len(a.clients) != maxAdmitted || a.admit(id(9_999_999), "203.0.113.1", now) {
		t.Errorf("%d clients", len(a.clients))
	}
	if !a.admit(id(9_999_999), "203.0.113.1", now.Add(admitTime)) || len(a.clients) != 1 {
		t.Error("the next day is like the one before")
	}
}
