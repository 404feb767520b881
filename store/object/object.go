// Package object is the contract of the object store that releases are
// published to: a flat space of keys, each holding an immutable sequence of
// bytes, with the two conditional writes that everything above is built on.
//
//   - Create writes a key only where none stands.
//   - Swap replaces a small object only while it still wears the ETag that the
//     caller has seen.
//
// Adapters live below this folder (dir, s3); objecttest holds the suite that
// each of them passes. An adapter keeps these promises:
//
//   - An object is there whole or not at all: no reader ever sees a part of it,
//     whatever crashes.
//   - Of any number of concurrent Creates of one key, and of concurrent Swaps
//     from one ETag, exactly one wins, also across processes.
//   - What Create and Swap report as written has been compared with what the
//     store holds, by size and by checksum.
//   - Errors answer to errors.Is: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission
//     and the sentinels of this package. An absent bucket, or a root folder that
//     is gone, is ErrNoStore and never fs.ErrNotExist, so that it can't be taken
//     for an empty store; a folder that was never made is one, unless the caller
//     insisted on it when opening the store.
//   - Every wait is bounded: by the context and by time-outs of the adapter.
//
// There is no rename and no append, and no overwriting without a condition.
package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrChanged says that a Swap or a GetRange found another ETag than the one
	// it was given.
	ErrChanged = errors.New("object changed in the meantime")
	// ErrNoStore says that the bucket or the root folder itself is missing.
	ErrNoStore = errors.New("the store does not exist")
	// ErrUnavailable says that the store could not be reached or did not answer
	// in time; the same call may work later.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrFull says that the store has no room left.
	ErrFull = errors.New("the store is full")
	// ErrCorrupt says that the store holds other bytes than were sent.
	ErrCorrupt = errors.New("the store holds other bytes than were sent")
	// ErrRange says that an object has no such part.
	ErrRange = errors.New("the object has no such part")
	// ErrBadKey says that a key breaks the rules of ValidKey.
	ErrBadKey = errors.New("not a key")
)

// MaxSwap is the largest object that Swap accepts, in bytes.
const MaxSwap = 4 << 20

// StraightSize is the size in bytes up to which Create may read its data before
// it knows whether the key is taken: so small an object is sent with the
// condition, and the store decides.
const StraightSize = 8 << 20

// Info describes one object.
type Info struct {
	Key  string
	Size int64 // bytes
	// ETag identifies the content, without quotes. It is a digest of the bytes:
	// equal bytes may wear equal ETags, also when they were written twice. For
	// objects larger than MaxSwap it may be made of size and time instead. List
	// leaves it empty, since a directory would have to read every object.
	ETag    string
	ModTime time.Time
}

// Attributes are the HTTP headers that an object is served with. A directory
// keeps none; whoever serves it derives them from the key.
type Attributes struct {
	ContentType  string
	CacheControl string
}

// Store is what every adapter offers. All methods may be called concurrently.
type Store interface {
	// Get opens an object. The caller closes the reader and keeps ctx alive
	// until then. The reader returns io.ErrUnexpectedEOF, never io.EOF, when
	// fewer than Info.Size bytes came. fs.ErrNotExist if there is none.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)

	// GetRange opens the length bytes of an object that begin at offset, while
	// its ETag is the given one. The reader is as Get's, for length bytes.
	// fs.ErrNotExist if there is none, ErrChanged if it has another ETag,
	// ErrRange if it does not hold all of these bytes or length is not above 0.
	GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error)

	// Stat describes an object. fs.ErrNotExist if there is none.
	Stat(ctx context.Context, key string) (Info, error)

	// Checksum returns the CRC-64/NVME of the object's bytes as the store holds
	// them: from the store's own record where it verified one when the object
	// was written, else by reading the object. fs.ErrNotExist if there is none.
	Checksum(ctx context.Context, key string) (uint64, error)

	// Create writes a new object of exactly size bytes read from r, streaming.
	// fs.ErrExist if the key is taken; it may also come when an earlier attempt
	// of this very call succeeded and only its answer was lost, so that callers
	// compare what stands there. The object is committed only after r has
	// delivered its last byte: if r returns an error, ends early or goes on
	// past size, nothing gets the key, and the reader's error is returned. When
	// the key is taken by an object and size is above StraightSize, r is not
	// read at all.
	Create(ctx context.Context, key string, r io.Reader, size int64, attrs Attributes) (Info, error)

	// Swap replaces the object whose ETag is etag by data, at most MaxSwap
	// bytes; an empty etag means that none stands there. ErrChanged if another
	// ETag, another object or none is found; like Create's fs.ErrExist it may
	// follow a lost answer.
	Swap(ctx context.Context, key, etag string, data []byte, attrs Attributes) (Info, error)

	// List yields the objects whose key begins with prefix and sorts after
	// after (both may be empty), in byte order of their keys. The prefix may end
	// inside a segment. It yields one error at most, as the last element. A
	// prefix that no object has, or could have, lists nothing.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
}

// Presigner makes addresses at which whoever has one gets an object from the store
// itself, without credentials. A directory has none.
type Presigner interface {
	// Presign returns an address that answers GET, of a range too, for life from
	// now, at least a second and at most seven days; for less where the store's
	// own credentials end sooner. Whether there is such an object is not looked
	// at. The address is a secret while it lives. fs.ErrPermission if there are
	// no credentials to sign with.
	Presign(ctx context.Context, key string, life time.Duration) (*url.URL, error)
}

// ValidKey reports why key can't name an object: keys are slash-separated,
// valid UTF-8, at most 900 bytes long, have no empty segment, none that begins
// with a dot, no backslash, colon or control character. The error wraps ErrBadKey.
func ValidKey(key string) error {
	switch {
	case len(key) > 900:
		return fmt.Errorf("%w: %d bytes long, at most 900 are allowed", ErrBadKey, len(key))
	case !fs.ValidPath(key) || !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not a clean, relative, slash-separated path", ErrBadKey, key)
	case strings.HasPrefix(key, ".") || strings.Contains(key, "/."):
		return fmt.Errorf("%w: %q has a segment that begins with a dot", ErrBadKey, key)
	}
	for _, c := range key {
		if unicode.IsControl(c) || c == '\\' || c == ':' {
			return fmt.Errorf("%w: %q contains %q", ErrBadKey, key, c)
		}
	}
	return nil
}

// ValidPrefix reports whether any key could begin with prefix.
func ValidPrefix(prefix string) bool {
	return ValidKey(prefix) == nil || ValidKey(prefix+"x") == nil
}
