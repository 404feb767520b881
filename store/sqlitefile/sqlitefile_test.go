package sqlitefile

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLogShrinks: the write-ahead log, which a burst made large while somebody read, is
// small again after that.
func TestLogShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	f, err := Open(t.Context(), path, Options{Steps: []string{`CREATE TABLE x (y BLOB)`}, Readers: 1, Lock: time.Minute, Busy: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Writer.Close()
	defer f.Readers.Close()
	write := func(bytes int) {
		t.Helper()
		if _, err := f.Writer.ExecContext(t.Context(), `INSERT INTO x VALUES (zeroblob(?))`, bytes); err != nil {
			t.Fatal(err)
		}
	}
	logged := func() int64 {
		t.Helper()
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	reading, err := f.Readers.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reading.QueryRowContext(t.Context(), `SELECT count(*) FROM x`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		write(1 << 20)
	}
	if n := logged(); n <= 4*maxLog {
		t.Fatalf("the log has only %d bytes", n)
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	write(1) // copies the log to the file
	write(1) // begins a new one
	if n := logged(); n > maxLog {
		t.Errorf("the log still has %d bytes", n)
	}
}
