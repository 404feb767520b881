package demo_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"tsmon/cmd/tsmon/demo"
	"tsmon/store/series"
	"tsmon/store/series/sqlite"
)

// database opens a store whose clock is late, with an empty database.
func database(t testing.TB) series.Store {
	t.Helper()
	late := func() time.Time { return noon.AddDate(1, 0, 0) }
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "series.db"), sqlite.Options{Now: late})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Create(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	return store
}

func write(t testing.TB, store series.Store, n *demo.Network, stop time.Time) (first, last time.Time) {
	t.Helper()
	for batch := range n.Until(stop) {
		if err := store.Write(t.Context(), "demo", batch); err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = batch[0].Time
		}
		last = batch[len(batch)-1].Time
	}
	return first, last
}

// TestResume: a restarted process writes only what is missing.
func TestResume(t *testing.T) {
	store := database(t)
	write(t, store, demo.New(noon.Add(-time.Hour)), noon)
	for _, c := range []struct {
		now, first time.Time
	}{
		{noon.Add(7 * time.Minute), noon.Add(time.Minute)},
		{noon.Add(7*time.Minute + demo.Interval), noon.Add(7*time.Minute + demo.Interval)},
	} {
		n, err := demo.Resume(t.Context(), store, "demo", c.now)
		if err != nil {
			t.Fatal(err)
		}
		if first, last := write(t, store, n, c.now); !first.Equal(c.first) || !last.Equal(c.now) {
			t.Errorf("at %s it wrote from %s until %s, want from %s", c.now, first, last, c.first)
		}
	}
	later := noon.AddDate(0, 0, 30) // for longer than a demo looks back
	n, err := demo.Resume(t.Context(), store, "demo", later)
	if err != nil {
		t.Fatal(err)
	}
	for batch := range n.Until(later) {
		if first, want := batch[0].Time, later.Add(5*time.Minute-demo.Span); !first.Equal(want) {
			t.Errorf("after a month it begins at %s, want %s", first, want)
		}
		break
	}
	if _, err := demo.Resume(t.Context(), store, "nowhere", noon); !errors.Is(err, series.ErrNoDatabase) {
		t.Errorf("without a database the error is %v", err)
	}
}

// TestTagSets: a field that several sites measure is one key in the store.
func TestTagSets(t *testing.T) {
	sites := map[series.Key]map[string]bool{}
	for _, s := range until(demo.New(noon), noon.Add(demo.Interval)) {
		for name := range s.Fields {
			key := series.Key{Measurement: s.Measurement, Field: name}
			if sites[key] == nil {
				sites[key] = map[string]bool{}
			}
			if sites[key][s.Tags["site"]] {
				t.Errorf("%s is measured twice at %q", key, s.Tags["site"])
			}
			sites[key][s.Tags["site"]] = true
		}
	}
	if n := len(sites[series.Key{Measurement: "remota", Field: "bateria"}]); n != 4 {
		t.Errorf("the batteries of %d sites are measured", n)
	}
	store := database(t)
	write(t, store, demo.New(noon), noon.Add(demo.Interval))
	fields, err := store.Fields(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) != len(sites) || len(fields) < 45 || len(fields) > 60 {
		t.Errorf("%d fields are stored, %d measured", len(fields), len(sites))
	}
}

// BenchmarkHistory writes the ten days of a new demo's history.
func BenchmarkHistory(b *testing.B) {
	for b.Loop() {
		write(b, database(b), demo.New(noon.Add(-demo.Span)), noon)
	}
}

// BenchmarkUntil makes them without writing.
func BenchmarkUntil(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		until(demo.New(noon.Add(-demo.Span)), noon)
	}
}
