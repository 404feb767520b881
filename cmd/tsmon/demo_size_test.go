package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

// TestDemoIsSmall: a value of the demo's history takes at most two bytes of the file, including
// rollups and values that are not packed yet.
func TestDemoIsSmall(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data, nil, "--demo")
	s.demoReady()
	s.stop()
	name := filepath.Join(data, "series.db")
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var values float64
	if err := db.QueryRowContext(t.Context(), "SELECT sum(count) FROM blocks").Scan(&values); err != nil || values < 200_000 {
		t.Fatalf("%.0f values are packed, %v", values, err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if each := float64(info.Size()) / values; each > 2 {
		t.Errorf("%.2f bytes a value", each)
	} else {
		t.Logf("%.2f bytes a value", each)
	}
}
