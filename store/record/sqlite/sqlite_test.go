package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
	driver "modernc.org/sqlite"

	"tsmon/store/record"
	"tsmon/store/record/recordtest"
	"tsmon/store/record/sqlstore"
	"tsmon/store/sqlitefile"
)

func TestMain(m *testing.M) { recordtest.Main(m, openStore) }

func openStore(ctx context.Context, path string) (record.Store, error) {
	return Open(ctx, path, Limits{})
}

// patient are limits for tests in which many write at once, on a machine that may be busy.
var patient = Limits{Call: 2 * time.Minute}

func mustOpen(t testing.TB, path string, limits Limits) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "a folder %20 #ñ?.db") }

func TestContract(t *testing.T) {
	recordtest.Suite(t, func(t *testing.T) record.Store { return mustOpen(t, file(t), patient) })
}

// TestTwoStores records clients through two stores, as two processes would.
func TestTwoStores(t *testing.T) {
	path := file(t)
	recordtest.SightRace(t, mustOpen(t, path, patient), mustOpen(t, path, patient))
}

func TestTenantDeletedElsewhere(t *testing.T) {
	path := file(t)
	recordtest.TenantDeletedElsewhere(t, mustOpen(t, path, patient), mustOpen(t, path, patient))
}

// TestAges simulates many days. On a busy machine one of 60,000 calls may wait long.
func TestAges(t *testing.T) {
	s := mustOpen(t, file(t), Limits{Call: 10 * time.Minute})
	recordtest.Ages(t, 3, s, func() (bytes int64) {
		err := s.Readers.QueryRowContext(t.Context(), `SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'clients%' OR name LIKE 'tries%' OR name LIKE 'samples%'`).Scan(&bytes)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	})
}

// TestGrowth measures the whole file.
func TestGrowth(t *testing.T) {
	s := mustOpen(t, file(t), patient)
	recordtest.Growth(t, s, func() (bytes int64) {
		if err := s.Readers.QueryRowContext(t.Context(), `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	})
}

func TestStarters(t *testing.T) { recordtest.Starters(t, openStore, file(t)) }

func TestOpenBad(t *testing.T) {
	folder := t.TempDir()
	garbage := filepath.Join(folder, "garbage")
	if err := os.WriteFile(garbage, []byte("this is no database, and long enough to be seen as such: "+string(make([]byte, 4096))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "absent", "x.db"), folder, garbage} {
		s, err := Open(t.Context(), path, Limits{})
		if err == nil {
			t.Errorf("%s was opened", path)
		} else if err := s.Close(); err != nil {
			t.Errorf("the store that was not opened can't be closed: %v", err)
		}
	}
}

// TestTryWriteFullDisk lets a write fail beside the file, which can be read.
func TestTryWriteFullDisk(t *testing.T) {
	path := file(t)
	s := mustOpen(t, path, Limits{})
	if err := os.Symlink("/dev/full", path+".probe"); err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	if err := s.TryWrite(t.Context()); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("on a full disk the error is %v", err)
	}
	if err := s.TryWrite(t.Context()); err != nil { // the probe is a file again
		t.Error(err)
	}
}

func TestOpenNewer(t *testing.T) {
	path := file(t)
	s := mustOpen(t, path, Limits{})
	if _, err := s.Writer.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Limits{}); !errors.Is(err, sqlitefile.ErrNewer) {
		t.Errorf("the error is %v", err)
	}
}

func TestOpenAgain(t *testing.T) {
	path := file(t)
	first := mustOpen(t, path, Limits{})
	if err := first.CreateTenant(t.Context(), record.Tenant{Schema: "a", TsName: "x"}); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, path, Limits{})
	if _, err := second.Tenant(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

// TestOpenOld opens a file of the first version of the structure.
func TestOpenOld(t *testing.T) {
	path := file(t)
	steps, err := sqlstore.Steps(sqlstore.Central)
	if err != nil {
		t.Fatal(err)
	}
	old, err := open(t.Context(), path, Limits{}, steps[:1])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.CreateTenant(t.Context(), record.Tenant{Schema: "a", TsName: "x"}), old.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := mustOpen(t, path, Limits{})
		if _, err := s.Tenant(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		recordtest.Sighted(t, s)
	}
}

// TestOpenWaits lets another process be in the middle of opening the file.
func TestOpenWaits(t *testing.T) {
	path := file(t)
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Limits{Lock: 50 * time.Millisecond}); !errors.Is(err, record.ErrUnavailable) {
		t.Fatalf("beside another one that opens the file the error is %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the file was made")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, Limits{})
}

// TestFile checks the settings of the connections of both pools.
func TestFile(t *testing.T) {
	s := mustOpen(t, file(t), Limits{})
	for _, db := range []*sql.DB{s.Writer, s.Readers} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "9000"} {
			var got string
			if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s: %v", pragma, got, want, err)
			}
		}
	}
	if _, err := s.Readers.Exec("DELETE FROM tenants"); err == nil {
		t.Error("a reader can write")
	}
}

// TestBusy lets another process's writer hold the file: calls that write fail in
// bounded time, calls that read don't notice, and afterwards all is well.
func TestBusy(t *testing.T) {
	path := file(t)
	other := mustOpen(t, path, Limits{})
	s := mustOpen(t, path, Limits{Call: 300 * time.Millisecond})
	tenant := record.Tenant{Schema: "a", TsName: "x"}
	if err := s.CreateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	tx, err := other.Writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range 2 {
		if _, err := s.SaveDiagram(t.Context(), "a", record.Diagram{}, record.Deleted{}); !errors.Is(err, record.ErrUnavailable) {
			t.Fatalf("a save beside another writer says %v", err)
		}
		if _, err := s.Tenant(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Fatalf("two calls took %v", took)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SaveDiagram(t.Context(), "a", record.Diagram{}, record.Deleted{}); err != nil {
		t.Fatal(err)
	}
}

// TestForgetInPieces counts transactions: others write between them.
func TestForgetInPieces(t *testing.T) {
	s := mustOpen(t, file(t), Limits{})
	seen := record.Sightings{Installed: recordtest.Sightings(2*sqlstore.Piece + 1).Installed}
	if err := s.Sight(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	commits := 0
	conn, err := s.Writer.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 { commits++; return 0 })
		return nil
	}), conn.Close())
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.ForgetClients(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	if n != 2*sqlstore.Piece+1 || err != nil || commits < 3 {
		t.Errorf("%d rows are gone in %d transactions, %v", n, commits, err)
	}
}

func BenchmarkDiagram(b *testing.B) {
	recordtest.Benchmarks(b, func(b *testing.B) (record.Store, func() int64) {
		return mustOpen(b, file(b), Limits{}), nil
	})
}

func BenchmarkSightings(b *testing.B) {
	recordtest.BenchmarkSightings(b, mustOpen(b, file(b), Limits{}))
}
