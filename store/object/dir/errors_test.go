package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/crc64nvme"

	"tsmon/store/object"
)

func TestExplain(t *testing.T) {
	s := &Store{root: t.TempDir()}
	for cause, want := range map[error]error{
		syscall.ENOSPC:       object.ErrFull,
		syscall.EDQUOT:       object.ErrFull,
		syscall.EACCES:       fs.ErrPermission,
		syscall.EPERM:        fs.ErrPermission,
		syscall.EROFS:        fs.ErrPermission,
		syscall.ENOENT:       fs.ErrNotExist,
		syscall.EEXIST:       fs.ErrExist,
		syscall.ENOTDIR:      object.ErrBadKey,
		syscall.ENAMETOOLONG: object.ErrBadKey,
		syscall.EIO:          syscall.EIO,
	} {
		for _, err := range []error{
			&fs.PathError{Op: "openat", Path: ".tsmon/temp-x", Err: cause},
			&os.LinkError{Op: "linkat", Old: ".tsmon/temp-x", New: "a/b", Err: cause},
			fmt.Errorf("make folder: %w", &fs.PathError{Op: "mkdirat", Path: ".tsmon", Err: cause}),
		} {
			got := err
			if s.explain("create", "a/b", &got); !errors.Is(got, want) {
				t.Errorf("%v gives %v", err, got)
			}
		}
	}
}

// TestExplainRights wants that an error says which folder the rights are missing in: the paths
// of os.Root begin below the store's.
func TestExplainRights(t *testing.T) {
	s := &Store{root: "/srv/store"}
	var got error = &fs.PathError{Op: "openat", Path: ".tsmon/temp-x", Err: syscall.EACCES}
	if s.explain("create", "a/b", &got); got.Error() != "create a/b: access /srv/store/.tsmon/temp-x: permission denied" {
		t.Errorf("the error is %v", got)
	}
}

// TestExplainSource: an error of the caller's reader is returned unchanged, even if it looks
// like one of the store.
func TestExplainSource(t *testing.T) {
	s := &Store{root: "/does/not/exist"}
	var got error = sourceError{&fs.PathError{Op: "open", Path: "input", Err: syscall.ENOENT}}
	if s.explain("create", "a/b", &got); !errors.Is(got, fs.ErrNotExist) || errors.Is(got, object.ErrNoStore) {
		t.Errorf("the error is %v", got)
	}
}

// TestCompare changes a temporary file between writing and reading it back.
func TestCompare(t *testing.T) {
	for name, other := range map[string]string{"flipped": "0123x56789", "cut": "012345678", "grown": "0123456789+", "gone": ""} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		written, err := writeTemp(t.Context(), root, "a/b", strings.NewReader("0123456789"), 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(written.name, []byte(other), 0o644); err != nil {
			t.Fatal(err)
		}
		sum := crc64nvme.New()
		sum.Write([]byte("0123456789"))
		if err := written.compare(t.Context(), sum.Sum64(), 10); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
