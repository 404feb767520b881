// Package object defines the object store that releases are published to: a flat space of
// keys, each holding a sequence of bytes. Writes are conditional: Create writes a key that
// does not exist, and Swap replaces a small object whose ETag the caller knows. Delete removes
// objects that nothing refers to. There is no rename and no append.
//
// The adapters dir and s3 pass the suite in objecttest. They guarantee:
//
//   - An object exists whole or not at all, whatever crashes.
//   - Of concurrent Creates of one key, and of concurrent Swaps from one ETag,
//     exactly one succeeds, across processes too.
//   - Create and Swap verify the size and checksum of the stored object.
//   - Errors match fs.ErrNotExist, fs.ErrExist, fs.ErrPermission or the sentinels of
//     this package. A missing bucket, or a root folder that has disappeared, is
//     ErrNoStore and never fs.ErrNotExist, so that it is not mistaken for an empty
//     store. A folder that was never created is an empty store.
//   - Waits are bounded by the context and the adapter's timeouts.
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
	// ErrChanged says that an object does not have the expected ETag.
	ErrChanged = errors.New("object changed in the meantime")
	// ErrNoStore says that the bucket or the root folder is missing.
	ErrNoStore = errors.New("the store does not exist")
	// ErrUnavailable says that the store can't be reached or did not answer in time.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrClock says that the clock of this machine and that of the store differ too much.
	ErrClock = errors.New("clocks differ")
	// ErrFull says that the store has no room left.
	ErrFull = errors.New("the store is full")
	// ErrCorrupt says that the stored bytes differ from those sent.
	ErrCorrupt = errors.New("the stored bytes differ from those sent")
	// ErrRange says that an object has no such part.
	ErrRange = errors.New("the object has no such part")
	// ErrBadKey says that a key breaks the rules of ValidKey.
	ErrBadKey = errors.New("invalid key")
)

// MaxSwap is the largest object that Swap accepts, in bytes.
const MaxSwap = 4 << 20

// StraightSize is the size in bytes up to which Create may read its data before it checks
// whether the key is taken.
const StraightSize = 8 << 20

// Info describes one object.
type Info struct {
	Key  string
	Size int64 // bytes
	// ETag identifies the content, without quotes. It is a digest of the bytes, but for
	// objects larger than MaxSwap it may depend on size and time only. List leaves it
	// empty, since a directory would have to read every object.
	ETag    string
	ModTime time.Time
}

// Attributes are the HTTP headers that an object is served with. A directory does
// not store them.
type Attributes struct {
	ContentType  string
	CacheControl string
}

// Store is an object store. All methods may be called concurrently.
type Store interface {
	// Get opens an object. The caller closes the reader, which fails when ctx ends. It
	// returns io.ErrUnexpectedEOF instead of io.EOF before Info.Size bytes. fs.ErrNotExist
	// if there is no object.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)

	// GetRange opens length bytes of an object from offset on, with a reader like
	// Get's. fs.ErrNotExist if there is no object, ErrChanged if its ETag differs,
	// ErrRange if length is not positive or the object is too short.
	GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error)

	// Stat describes an object. fs.ErrNotExist if there is no object.
	Stat(ctx context.Context, key string) (Info, error)

	// Checksum returns the CRC-64/NVME of an object. It reads the object unless the store
	// recorded a verified checksum. fs.ErrNotExist if there is no object.
	Checksum(ctx context.Context, key string) (uint64, error)

	// Create streams exactly size bytes from r into a new object. fs.ErrExist if the key is
	// taken, possibly by an earlier attempt of the same call whose answer was lost: callers
	// compare the stored object. If r fails, ends early or continues past size, no object
	// is created and the reader's error is returned. If the key is taken and size is above
	// StraightSize, r is not read.
	Create(ctx context.Context, key string, r io.Reader, size int64, attrs Attributes) (Info, error)

	// Swap replaces the object that has the given ETag with data, at most MaxSwap bytes; an
	// empty etag creates the object. ErrChanged if the ETag differs, the object is missing,
	// or etag is empty and the object exists. Like fs.ErrExist from Create, ErrChanged may
	// follow a lost answer.
	Swap(ctx context.Context, key, etag string, data []byte, attrs Attributes) (Info, error)

	// Delete removes objects, many in one request where the store can. A missing object is
	// no error. After a failure some may be gone; the same call again removes the rest.
	Delete(ctx context.Context, keys ...string) error

	// Now returns the store's time, to the second, which is the same for all its users. It
	// comes from a response of the last few seconds, or from a new file. For a read-only
	// folder it is the time of this machine.
	Now(ctx context.Context) (time.Time, error)

	// List yields, in byte order, the objects whose keys begin with prefix and sort after
	// after. Both may be empty, and the prefix may end within a segment. List yields at
	// most one error, as the last element.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
}

// Presigner makes addresses that give access to an object without credentials. A directory
// can't.
type Presigner interface {
	// Presign returns an address that answers GET for life, from a second to seven days, or
	// until the store's own credentials expire. The address is a secret. Presign does not
	// check that the object exists. fs.ErrPermission without credentials.
	Presign(ctx context.Context, key string, life time.Duration) (*url.URL, error)
}

// Protection says whether overwritten or deleted objects can be recovered.
type Protection struct {
	Versions bool          // old versions can be restored
	Kept     time.Duration // how long old versions can't be deleted; 0 if they can be deleted at once
}

// Protector is a store that can keep overwritten or deleted objects. A directory keeps nothing.
type Protector interface {
	// Protection returns the protection of new objects whose keys begin with prefix.
	// fs.ErrPermission if the credentials may not ask.
	Protection(ctx context.Context, prefix string) (Protection, error)
}

// Upload is an unfinished upload: it takes up space, but there is no object.
type Upload struct {
	Key   string
	Begun time.Time
	ID    string // the store's id of the upload
}

// MaxUploads is the largest number of uploads that Unfinished returns.
const MaxUploads = 10_000

// Uploads is a store that keeps the data of unfinished uploads until they are aborted.
// A directory removes old ones itself when it is opened.
type Uploads interface {
	// Unfinished returns uploads of objects whose keys begin with prefix, including those in
	// progress. A store may have forgotten some. fs.ErrPermission if the credentials don't
	// allow it.
	Unfinished(ctx context.Context, prefix string) ([]Upload, error)

	// Abort removes the data of unfinished uploads, and ignores uploads that have ended.
	Abort(ctx context.Context, uploads ...Upload) error
}

// ValidKey reports why a key is not valid. Keys are UTF-8 of at most 900 bytes without
// backslashes, colons and control characters. Slashes separate segments, which are not empty
// and do not begin with a dot. The error wraps ErrBadKey.
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

// ValidPrefix reports whether a valid key can begin with prefix.
func ValidPrefix(prefix string) bool {
	return ValidKey(prefix) == nil || ValidKey(prefix+"x") == nil
}
