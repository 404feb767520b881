package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsmon/store/backup"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
)

var made = time.Date(2026, 3, 5, 15, 4, 5, 0, time.UTC)

func openRecords(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	records, err := sqlite.Open(t.Context(), path, sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	return records
}

// create returns a backup of a database, which others write to meanwhile, and of an upload.
func create(t *testing.T) []byte {
	t.Helper()
	folder := t.TempDir()
	records := openRecords(t, filepath.Join(folder, "records.db"))
	audit := func() error { return records.Audit(t.Context(), record.Audit{Schema: "a", Action: "login"}) }
	if err := audit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a.png"), []byte("picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				if err := audit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var packed bytes.Buffer
	c, err := backup.Create(t.Context(), &packed, t.TempDir(), made, []backup.Source{
		{Name: "records.db", Path: filepath.Join(folder, "records.db")}, {Name: "objects/uploads/a.png", Path: filepath.Join(folder, "a.png")},
	}, nil)
	wait.Wait()
	if err != nil || len(c.Files) != 2 || !c.Made.Equal(made) || c.Bytes() < 7 {
		t.Fatalf("%+v, %v", c, err)
	}
	return packed.Bytes()
}

func restore(t *testing.T, packed []byte, folder string) (backup.Contents, error) {
	t.Helper()
	return backup.Restore(t.Context(), bytes.NewReader(packed), t.TempDir(), folder)
}

func TestRestore(t *testing.T) {
	packed := create(t)
	folder := filepath.Join(t.TempDir(), "data")
	if _, err := restore(t, packed, ""); err != nil {
		t.Errorf("verify: %v", err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("verifying made %v", err)
	}
	if _, err := restore(t, packed, folder); err != nil {
		t.Fatal(err)
	}
	rows, err := openRecords(t, filepath.Join(folder, "records.db")).LastAudits(t.Context(), "a", 1000)
	if err != nil || len(rows) < 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "objects", "uploads", "a.png")); string(text) != "picture" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := restore(t, packed, folder); !errors.Is(err, backup.ErrInUse) {
		t.Errorf("over a folder in use: %v", err)
	}
}

// deleting deletes a file as soon as something is written.
type deleting struct {
	bytes.Buffer
	path    string
	deleted bool
}

func (d *deleting) Write(p []byte) (int, error) {
	if err := os.Remove(d.path); err == nil {
		d.deleted = true
	}
	return d.Buffer.Write(p)
}

// TestCreateBesideUploads: a file that a copied row names is there though it was made after
// the copy began, and one that is deleted meanwhile is left out or kept, without an error.
func TestCreateBesideUploads(t *testing.T) {
	folder, scratch := t.TempDir(), t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for name, size := range map[string]int{"large": 8 << 20, "upload": 1000} { // of which something is written before all is read
		text := make([]byte, size)
		if _, err := rand.Read(text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	records := openRecords(t, path("records.db"))
	later := func() ([]backup.Source, error) {
		if _, err := os.Stat(filepath.Join(scratch, "records.db")); err != nil {
			t.Errorf("files are listed before the records are copied: %v", err)
		}
		if err := records.Audit(t.Context(), record.Audit{Schema: "late", Action: "login"}); err != nil {
			t.Error(err)
		}
		return []backup.Source{{Name: "objects/uploads/gone", Path: path("gone")}, {Name: "objects/uploads/upload", Path: path("upload")}}, nil
	}
	want, err := os.ReadFile(path("upload"))
	if err != nil {
		t.Fatal(err)
	}
	packed := &deleting{path: path("upload")}
	c, err := backup.Create(t.Context(), packed, scratch, made, []backup.Source{{Name: "records.db", Path: path("records.db")}, {Name: "large", Path: path("large")}}, later)
	if err != nil || len(c.Files) != 3 || !packed.deleted {
		t.Fatalf("%d files, deleted %v: %v", len(c.Files), packed.deleted, err)
	}
	restored := filepath.Join(t.TempDir(), "data")
	if _, err := restore(t, packed.Bytes(), restored); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(restored, "objects", "uploads", "upload")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of the upload, %v", len(got), err)
	}
	if rows, err := openRecords(t, filepath.Join(restored, "records.db")).LastAudits(t.Context(), "late", 1); err != nil || len(rows) > 0 {
		t.Errorf("%d rows of after the copy, %v", len(rows), err)
	}
	failed := errors.New("no list")
	if _, err := backup.Create(t.Context(), &bytes.Buffer{}, t.TempDir(), made, nil, func() ([]backup.Source, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("without a list: %v", err)
	}
}

// TestDamaged: whatever byte is changed or missing, nothing is restored.
func TestDamaged(t *testing.T) {
	packed := create(t)
	folder := filepath.Join(t.TempDir(), "data")
	for i := 0; i < len(packed); i += max(1, len(packed)/200) {
		changed := bytes.Clone(packed)
		changed[i] ^= 0x10
		for what, damaged := range map[string][]byte{"changed": changed, "cut": packed[:i]} {
			if _, err := restore(t, damaged, folder); err == nil {
				// The only bytes that nothing depends on are in the frame's own header.
				if _, statErr := os.Stat(filepath.Join(folder, "records.db")); what == "cut" || statErr != nil {
					t.Errorf("%s at byte %d of %d: restored", what, i, len(packed))
				}
				os.RemoveAll(folder)
			} else if _, err := os.Stat(folder); !os.IsNotExist(err) {
				t.Fatalf("%s at byte %d: a folder was made", what, i)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Restore(ctx, bytes.NewReader(packed), t.TempDir(), folder); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestHostileArchives: no archive writes outside of the folder, or what it did not announce.
func TestHostileArchives(t *testing.T) {
	type member struct {
		name, text string
		kind       byte
	}
	archive := func(list any, members ...member) []byte {
		t.Helper()
		var packed bytes.Buffer
		z, err := zstd.NewWriter(&packed)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(z)
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append([]member{{"backup.json", string(text), tar.TypeReg}}, members...) {
			header := &tar.Header{Typeflag: m.kind, Name: m.name, Size: int64(len(m.text)), Mode: 0o600}
			if m.kind == tar.TypeSymlink {
				header.Linkname, header.Size = "/etc/passwd", 0
			}
			if err := w.WriteHeader(header); err != nil {
				t.Fatal(err)
			}
			if m.kind == tar.TypeReg {
				if _, err := w.Write([]byte(m.text)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes()
	}
	file := func(name, text string) backup.File {
		sum := sha256.Sum256([]byte(text))
		return backup.File{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
	}
	list := func(files ...backup.File) backup.Contents { return backup.Contents{Format: 1, Files: files} }
	above := t.TempDir()
	for what, packed := range map[string][]byte{
		"nothing": nil, "text": []byte("no archive"), "another format": archive(backup.Contents{Format: 2}), "no list": archive("text"),
		"up":             archive(list(file("../x", "a")), member{"../x", "a", tar.TypeReg}),
		"absolute":       archive(list(file("/x", "a")), member{"/x", "a", tar.TypeReg}),
		"backslash":      archive(list(file(`..\x`, "a")), member{`..\x`, "a", tar.TypeReg}),
		"drive":          archive(list(file("C:x", "a")), member{"C:x", "a", tar.TypeReg}),
		"the folder":     archive(list(file(".", "a")), member{".", "a", tar.TypeReg}),
		"twice":          archive(list(file("x", "a"), file("x", "a")), member{"x", "a", tar.TypeReg}, member{"x", "a", tar.TypeReg}),
		"a link":         archive(list(file("x", "")), member{"x", "", tar.TypeSymlink}),
		"another text":   archive(list(file("x", "a")), member{"x", "b", tar.TypeReg}),
		"another length": archive(list(file("x", "a")), member{"x", "ab", tar.TypeReg}),
		"another order":  archive(list(file("x", "a"), file("y", "a")), member{"y", "a", tar.TypeReg}, member{"x", "a", tar.TypeReg}),
		"not announced":  archive(list(), member{"x", "a", tar.TypeReg}),
		"missing":        archive(list(file("x", "a"))),
		"no database":    archive(list(file("records.db", "text")), member{"records.db", "text", tar.TypeReg}),
		"a folder below": archive(list(file("x", "a"), file("x/y", "a")), member{"x", "a", tar.TypeReg}, member{"x/y", "a", tar.TypeReg}),
	} {
		if _, err := backup.Restore(t.Context(), bytes.NewReader(packed), filepath.Join(above, "scratch"), filepath.Join(above, "data")); err == nil {
			t.Errorf("%s was restored", what)
		}
		if _, err := os.Lstat(filepath.Join(above, "data")); !os.IsNotExist(err) {
			t.Errorf("%s made a folder", what)
		}
		if _, err := os.Lstat(filepath.Join(above, "x")); !os.IsNotExist(err) {
			t.Errorf("%s wrote above", what)
		}
		os.RemoveAll(filepath.Join(above, "scratch"))
	}
}
