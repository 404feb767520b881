package objecttest

import (
	"testing"
	"time"

	"tsmon/store/object"
)

// now compares the time of a store with this machine's, before and after the first object is
// created. The store's server runs on this machine. Now must leave no object behind.
func now(t *testing.T, s object.Store) {
	for _, key := range []string{"a/b", "a/c"} {
		before := time.Now()
		got, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if early, late := before.Add(-2*time.Second), time.Now().Add(2*time.Second); got.Before(early) || got.After(late) {
			t.Errorf("the store says %s, this machine %s", got, before)
		}
		mustCreate(t, s, key, sample(10))
	}
	if keys, err := listed(s.List(t.Context(), "", "")); err != nil || len(keys) != 2 {
		t.Errorf("%v, %v", keys, err)
	}
}
