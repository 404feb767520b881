package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/sqlitefile"
)

func open(t testing.TB, name string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), name, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	seriestest.Suite(t, func(t *testing.T, now func() time.Time) series.Store {
		return open(t, filepath.Join(t.TempDir(), "odd ñ?#%&= name.db"), Options{Now: now})
	})
}

// TestReopen closes a file and finds everything in it again, old schema and all.
func TestReopen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "series.db")
	first := open(t, name, Options{})
	if err := first.Create(t.Context(), "db"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	put := func(s *Store, value any) error {
		sample := series.Sample{Measurement: "m", Fields: map[string]any{"f": value}, Time: now}
		return s.Write(t.Context(), "db", []series.Sample{sample})
	}
	if err := put(first, 1.5); err != nil {
		t.Fatal(err)
	}
	second := open(t, name, Options{}) // as another process would
	if err := put(second, true); !errors.Is(err, series.ErrKind) {
		t.Errorf("the error is %v", err)
	}
	if err := put(second, 2.5); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	third := open(t, name, Options{})
	want := series.Want{Key: series.Key{Measurement: "m", Field: "f"}}
	values, err := third.Current(t.Context(), "db", []series.Want{want})
	if err != nil || values[0].Number != 2.5 {
		t.Errorf("%+v, %v", values, err)
	}
	_, err = first.Current(t.Context(), "db", []series.Want{want})
	for _, err := range []error{err, first.Ping(t.Context()), put(first, 1.5), first.Create(t.Context(), "x")} {
		if !errors.Is(err, series.ErrUnavailable) {
			t.Errorf("a closed store says %v", err)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	name := filepath.Join(t.TempDir(), "series.db")
	s := open(t, name, Options{})
	if _, err := s.file.Writer.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(t.Context(), name, Options{}); !errors.Is(err, sqlitefile.ErrNewer) {
		t.Errorf("the error is %v", err)
	}
}

// TestOpenAtOnce creates one file through several stores at once.
func TestOpenAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "series.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := Open(t.Context(), name, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Create(t.Context(), "db"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestOpenRefuses(t *testing.T) {
	none, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "folder"), Options{})
	if !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	if err := none.Close(); err != nil {
		t.Errorf("the store that was not opened can't be closed: %v", err)
	}
	name := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(name, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), name, Options{}); !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

// TestPlans checks that the statements look into the indexes.
func TestPlans(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "series.db"), Options{})
	for statement, search := range map[string]string{
		newestChunks: "SEARCH c USING PRIMARY KEY (stream=? AND last",
		chunksOf:     "SEARCH chunks USING PRIMARY KEY (stream=? AND last",
		blocksOf:     "SEARCH blocks USING INTEGER PRIMARY KEY (rowid",
		streamsOf:    "SEARCH s USING COVERING INDEX",
	} {
		args := []any{1, 2, 3, 4}[:strings.Count(statement, "?")]
		for _, name := range []string{"keys", "database", "text", "now", "tomorrow", "day"} {
			if strings.Contains(statement, "@"+name) {
				args = append(args, sql.Named(name, "[]"))
			}
		}
		rows, err := s.file.Readers.Query("EXPLAIN QUERY PLAN "+statement, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		found := false
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			found = found || strings.HasPrefix(step, search)
			if strings.HasPrefix(step, "SCAN ") && !strings.HasPrefix(step, "SCAN q") {
				t.Errorf("a table is read in full: %s", step)
			}
		}
		if !found {
			t.Errorf("no %s in the plan of %s", search, statement)
		}
	}
}
