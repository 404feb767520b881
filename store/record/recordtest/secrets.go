package recordtest

import (
	"bytes"
	"fmt"
	"testing"

	"tsmon/store/record"
)

func secrets(t *testing.T, s record.Store) {
	demand(t, errorOf(s.Secret(t.Context(), "keys")), record.ErrNotFound, "a secret that is not there")
	// Concurrent calls that create a secret all get the same value.
	kept := make([][]byte, 16)
	raceAll(t, len(kept), func(i int) (err error) {
		kept[i], err = s.CreateSecret(t.Context(), "keys", []byte{0, 0xff, byte(i)})
		return err
	})
	first := must(s.Secret(t.Context(), "keys"))(t)
	for i, value := range kept {
		if !bytes.Equal(value, first) {
			t.Errorf("call %d got %v, the store has %v", i, value, first)
		}
	}
	// Of concurrent calls that replace a secret exactly one succeeds.
	won := winner(t, 16, func(i int) (bool, error) {
		return s.ReplaceSecret(t.Context(), "keys", first, []byte(fmt.Sprint("new ", i)))
	})
	equal(t, "the secret", string(must(s.Secret(t.Context(), "keys"))(t)), fmt.Sprint("new ", won))
	if replaced, err := s.ReplaceSecret(t.Context(), "nothing", first, first); replaced || err != nil {
		t.Errorf("a secret that is not there was replaced: %t, %v", replaced, err)
	}
	for _, name := range []string{"", "a\x00", "\xff", string(make([]byte, 65))} {
		demand(t, errorOf(s.CreateSecret(t.Context(), name, first)), record.ErrInvalid, name)
		demand(t, errorOf(s.Secret(t.Context(), name)), record.ErrNotFound, name)
	}
	for _, value := range [][]byte{nil, make([]byte, 64<<10+1)} {
		demand(t, errorOf(s.CreateSecret(t.Context(), "size", value)), record.ErrInvalid, fmt.Sprint(len(value), " bytes"))
	}
}
