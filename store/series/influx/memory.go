package influx

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tsmon/store/series"
)

const (
	kindsLife   = 5 * time.Minute
	missingLife = time.Minute
)

// ladder is how far back each step searches for a last value; zero is all time.
var ladder = []time.Duration{time.Hour, 24 * time.Hour, 0}

// memory is the cache of one database. It holds only keys that are fields of the
// database, so that queries can't make it grow.
type memory struct {
	mu    sync.Mutex
	kinds map[series.Key]series.Kind
	asked time.Time // when kinds were read; zero before
	lasts map[series.Key]whereabouts

	rollups rollups   // as they were when they were read
	read    time.Time // zero before

	// writes counts the writes through this store. An answer that was on its way during a
	// write may be older than the write.
	writes int
}

// whereabouts is where the last value of a key was found.
type whereabouts struct {
	rung    int
	missing time.Time // when no value was found; zero otherwise
}

// memory returns the memory of a database, or an empty one that keep can store.
func (s *Store) memory(database string) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.memories[database]; m != nil {
		return m
	}
	return &memory{kinds: map[series.Key]series.Kind{}, lasts: map[series.Key]whereabouts{}}
}

// keep stores the memory of a database that is known to exist, unless it has one, and
// returns the stored one.
func (s *Store) keep(database string, m *memory) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memories[database] == nil {
		s.memories[database] = m
	}
	return s.memories[database]
}

// kindsOf returns the kinds of the keys that are fields. It asks the server if the cached
// kinds are too old or lack a key.
func (s *Store) kindsOf(ctx context.Context, database string, keys []series.Key) (*memory, map[series.Key]series.Kind, error) {
	m := s.memory(database)
	now := s.now()
	kinds, writes, ok := m.recall(keys, now)
	if ok {
		return m, kinds, nil
	}
	all, err := s.server.fieldKeys(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	m = s.keep(database, m)
	m.learn(all, now, writes)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m, m.kindsOf(keys), nil
}

// kindsOf returns the cached kinds of the keys that are fields.
func (m *memory) kindsOf(keys []series.Key) map[series.Key]series.Kind {
	kinds := make(map[series.Key]series.Kind, len(keys))
	for _, k := range keys {
		if kind := m.kinds[k]; kind != 0 {
			kinds[k] = kind
		}
	}
	return kinds
}

// recall returns the cached kinds of keys and the number of writes so far, or false
// if the server has to be asked.
func (m *memory) recall(keys []series.Key, now time.Time) (map[series.Key]series.Kind, int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := now.Sub(m.asked)
	unknown := func(k series.Key) bool { return m.kinds[k] == 0 }
	if age < 0 || age >= kindsLife || age >= missingLife && slices.ContainsFunc(keys, unknown) {
		return nil, m.writes, false
	}
	return m.kindsOf(keys), m.writes, true
}

// learn replaces the cached kinds, or adds to them if there has been a write since
// the server was asked.
func (m *memory) learn(kinds map[series.Key]series.Kind, now time.Time, writes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writes != writes {
		maps.Copy(kinds, m.kinds)
	}
	m.kinds, m.asked = kinds, now
	maps.DeleteFunc(m.lasts, func(k series.Key, _ whereabouts) bool { return kinds[k] == 0 })
}

func (m *memory) wrote(kinds map[series.Key]series.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	for k, kind := range kinds {
		if _, ok := m.kinds[k]; !ok {
			m.kinds[k] = kind
		}
		if !m.lasts[k].missing.IsZero() {
			delete(m.lasts, k)
		}
	}
}

// Forget drops what is cached of a database, to which another process has written.
func (s *Store) Forget(database string) {
	m := s.memory(database)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	m.asked, m.read = time.Time{}, time.Time{}
	clear(m.lasts)
}

// rung returns the step of the ladder at which to begin the search for the last value of a
// key, or false if the key is known to have none.
func (m *memory) rung(k series.Key, now time.Time) (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.lasts[k]
	if w.missing.IsZero() {
		return w.rung, true
	}
	age := now.Sub(w.missing)
	return 0, age < 0 || age >= missingLife
}

// found records the age of a last value.
func (m *memory) found(k series.Key, age time.Duration) {
	rung := 0
	for ladder[rung] != 0 && age >= ladder[rung] {
		rung++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lasts[k] = whereabouts{rung: rung}
}

// lost records that a key has no last value, unless there has been a write since the
// server was asked.
func (m *memory) lost(k series.Key, now time.Time, writes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writes == writes {
		m.lasts[k] = whereabouts{missing: now}
	}
}

// count returns the number of writes so far.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// rolled returns the cached rollups, or false if the server has to be asked.
func (m *memory) rolled(now time.Time) (rollups, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	age := now.Sub(m.read)
	return m.rollups, age >= 0 && age < kindsLife
}

// roll replaces the cached rollups; they are read again if now is zero.
func (m *memory) roll(r rollups, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rollups, m.read = r, now
}
