package monitor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/store/object/dir"
	"tsmon/store/record"
	recordfile "tsmon/store/record/sqlite"
	"tsmon/store/series"
	seriesfile "tsmon/store/series/sqlite"
)

// TestTrySeries tries databases of tenants of which some are missing.
func TestTrySeries(t *testing.T) {
	folder := t.TempDir()
	r, err := recordfile.Open(t.Context(), filepath.Join(folder, "records.db"), recordfile.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file := filepath.Join(folder, "series.db")
	v, err := seriesfile.Open(t.Context(), file, seriesfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	try := (&Server{Options: Options{Records: r, Series: v}}).trySeries
	want := func(when string, want error) {
		t.Helper()
		if err := try(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	want("without tenants", nil)
	for _, name := range []string{"a", "b"} {
		if err := r.CreateTenant(t.Context(), record.Tenant{Schema: name, TsName: name}); err != nil {
			t.Fatal(err)
		}
	}
	want("without databases", series.ErrNoDatabase)
	if err := v.Create(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	want("with one", nil)
	if err := os.Symlink("/dev/full", file+".probe"); err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	want("with a full disk", series.ErrUnavailable)
	want("with room", nil)
}

// TestTryUpload replaces one object, which servers do at once, and finds a folder that
// takes none.
func TestTryUpload(t *testing.T) {
	folder := t.TempDir()
	store, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	try := (&Server{Options: Options{Objects: store}}).tryUpload
	ended := make(chan error)
	for range 8 {
		go func() { ended <- try(t.Context()) }()
	}
	for range 8 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	var found []string
	for info, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, info.Key)
		if info.Size < 1<<10 || info.Size > 2<<10 {
			t.Errorf("%s has %d bytes", info.Key, info.Size)
		}
	}
	if got := strings.Join(found, " "); got != readyKey || uploadName.MatchString(strings.TrimPrefix(got, uploadFolder)) {
		t.Errorf("stored: %s", got)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file can't have one below it
		t.Fatal(err)
	}
	if err := try(t.Context()); err == nil {
		t.Error("nothing could be written")
	}
}
