package recordtest

import (
	"bytes"
	"fmt"
	"testing"

	"tsmon/store/record"
)

func secrets(t *testing.T, s record.Store) {
	_, err := s.Secret(t.Context(), "keys")
	demand(t, err, record.ErrNotFound, "a secret that is not there")
	// Of many that create one at once all get the same.
	kept := make([][]byte, 16)
	for _, err := range race(len(kept), func(i int) (err error) {
		kept[i], err = s.CreateSecret(t.Context(), "keys", []byte{0, 0xff, byte(i)})
		return err
	}) {
		check(t, err)
	}
	first, err := s.Secret(t.Context(), "keys")
	check(t, err)
	for i, value := range kept {
		if !bytes.Equal(value, first) {
			t.Errorf("the %dth got %v, kept is %v", i, value, first)
		}
	}
	// Of many that replace one at once one does.
	won := make([]bool, 16)
	for _, err := range race(len(won), func(i int) (err error) {
		won[i], err = s.ReplaceSecret(t.Context(), "keys", first, []byte(fmt.Sprint("new ", i)))
		return err
	}) {
		check(t, err)
	}
	winner := -1
	for i := range won {
		if won[i] && winner >= 0 {
			t.Errorf("both %d and %d replaced it", winner, i)
		}
		if won[i] {
			winner = i
		}
	}
	now, err := s.Secret(t.Context(), "keys")
	check(t, err)
	equal(t, "what is kept", string(now), fmt.Sprint("new ", winner))
	if replaced, err := s.ReplaceSecret(t.Context(), "nothing", first, first); replaced || err != nil {
		t.Errorf("a secret that is not there was replaced: %t, %v", replaced, err)
	}
	for _, name := range []string{"", "a\x00", "\xff", string(make([]byte, 65))} {
		_, err := s.CreateSecret(t.Context(), name, first)
		demand(t, err, record.ErrInvalid, name)
		_, err = s.Secret(t.Context(), name)
		demand(t, err, record.ErrNotFound, name)
	}
	for _, value := range [][]byte{nil, make([]byte, 64<<10+1)} {
		_, err := s.CreateSecret(t.Context(), "size", value)
		demand(t, err, record.ErrInvalid, fmt.Sprint(len(value), " bytes"))
	}
}
