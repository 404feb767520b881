package monitor

import (
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tsmon/store/record"
)

const (
	// knownTime is how long what the records said is used while they can't be reached.
	knownTime = time.Minute
	// Bounds of what is known: lists, each of a tenant, and names of variables.
	maxKnownLists, maxKnownNames = 100, 20_000
)

// known is what the records last said, and when. It may be used concurrently.
type known[K comparable, V any] struct {
	now    func() time.Time
	values *lru.Cache[K, dated[V]]
}

type dated[V any] struct {
	value V
	asked time.Time
}

func newKnown[K comparable, V any](now func() time.Time, size int) *known[K, V] {
	values, _ := lru.New[K, dated[V]](size) // fails for sizes below one
	return &known[K, V]{now, values}
}

func (k *known[K, V]) set(key K, value V) { k.values.Add(key, dated[V]{value, k.now()}) }

// last returns what was said of a key less than age ago.
func (k *known[K, V]) last(key K, age time.Duration) (value V, ok bool) {
	found, ok := k.values.Get(key)
	if passed := k.now().Sub(found.asked); !ok || passed < 0 || passed >= age {
		return value, false
	}
	return found.value, true
}

// get asks the records, and returns what they last said if they can't be reached.
func (k *known[K, V]) get(key K, ask func() (V, error)) (V, error) {
	value, err := ask()
	if err == nil {
		k.set(key, value)
	} else if found, ok := k.last(key, knownTime); ok && errors.Is(err, record.ErrUnavailable) {
		return found, nil
	}
	return value, err
}
