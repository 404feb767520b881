// Package journal reads and writes the objects of a channel's log as bytes: entries, marks of
// deliveries, and segments. What the bytes say is package channels' concern.
package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels/fault"
	"tsmon/manifest"
	"tsmon/store/object"
)

// ErrLog means that a log is not as package channels wrote it.
var ErrLog = errors.New("the log is broken")

// MaxEntry bounds a log entry, in bytes: two manifests, an entry that it follows with one
// in quotes, and the fields around them.
const MaxEntry = 4*manifest.MaxSize + 64<<10

const (
	// MaxEntries bounds the entries of a log with gaps, and those of one delivery. MaxHistory
	// bounds the latter in bytes.
	MaxEntries = 1 << 20
	MaxHistory = 256 << 20
)

// Root is the prefix of the keys of all logs.
const Root = "log/"

// Prefix returns the prefix of the keys of a channel's log.
func Prefix(channel string) string { return Root + channel + "/" }

// Key returns the key of an entry.
func Key(channel string, sequence uint64) string {
	return fmt.Sprintf("%s%010d.json", Prefix(channel), sequence)
}

// SequenceOf returns the number in the key of an entry of a channel; ok is false for other keys.
func SequenceOf(channel, key string) (sequence uint64, ok bool) {
	digits, isEntry := strings.CutSuffix(strings.TrimPrefix(key, Prefix(channel)), ".json")
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return sequence, isEntry && err == nil && key == Key(channel, sequence)
}

// Attributes are those of an entry.
var Attributes = object.Attributes{
	ContentType:  "application/json",
	CacheControl: "private, max-age=31536000, immutable",
}

// Faulty returns the *fault.Fault of an entry. It wraps ErrLog.
func Faulty(channel string, sequence uint64, format string, args ...any) error {
	return fault.New(fmt.Errorf("%w: "+format, append([]any{ErrLog}, args...)...), channel, Key(channel, sequence), sequence)
}

// Journal is the objects of one channel's log.
type Journal struct {
	Store   object.Store
	Channel string
}

// SideBySide is how many entries are read at once.
const SideBySide = 32

// Slots returns what ReadEntries fills in: one slot for each entry from known+1 to the last of
// numbers, nil for those in numbers, and empty for the others, which are missing. More than
// MaxEntries are a *fault.Fault.
func (j Journal) Slots(known uint64, numbers []uint64) ([][]byte, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	newest := numbers[len(numbers)-1]
	if newest-known > MaxEntries {
		return nil, Faulty(j.Channel, newest, "entries up to %d of %s are missing", newest-1, j.Channel)
	}
	raw := slices.Repeat([][]byte{{}}, int(newest-known))
	for _, n := range numbers {
		raw[n-known-1] = nil
	}
	return raw, nil
}

// ReadEntries fills in the bytes of the entries behind entry known that are nil. Those
// that are being read when one fails are still read: a log that takes longer to read than
// a caller waits grows with each attempt.
func (j Journal) ReadEntries(ctx context.Context, known uint64, raw [][]byte) error {
	var group errgroup.Group
	var failed atomic.Bool
	group.SetLimit(SideBySide)
	for i := range raw {
		if raw[i] != nil || failed.Load() {
			continue
		}
		group.Go(func() error {
			data, err := j.Read(ctx, Key(j.Channel, known+uint64(i)+1), MaxEntry)
			if errors.Is(err, object.ErrTooLarge) {
				data, err = []byte{0}, nil // no entry: the log is at fault, not the store
			}
			if err != nil {
				failed.Store(true)
				return err
			}
			raw[i] = data
			return nil
		})
	}
	return group.Wait()
}

// Numbers lists the entries after entry known that count; fed says whether the log was fed up
// to there.
func (j Journal) Numbers(ctx context.Context, known uint64, fed bool) (Listing, error) {
	found, err := j.List(ctx, known)
	switch {
	case err != nil:
		return Listing{}, err
	case known == 0:
	case len(found.Parts) == 0 && len(found.Numbers) == 0, found.Fed && fed, len(found.Parts) == 0 && !fed:
		found.Fed = fed
	default: // the marks before known count, too
		if found, err = j.List(ctx, 0); err != nil {
			return Listing{}, err
		}
	}
	found.settle()
	at, _ := slices.BinarySearch(found.Numbers, known+1)
	found.Numbers = found.Numbers[at:]
	return found, nil
}

// List lists everything behind entry known, whether it counts or not. Fed says whether the marks in
// the list cover its entries.
func (j Journal) List(ctx context.Context, known uint64) (Listing, error) {
	after := ""
	if known > 0 {
		after = Key(j.Channel, known)
	}
	var found Listing
	marked := map[Part]time.Time{}
	for info, err := range j.Store.List(ctx, Prefix(j.Channel), after) {
		if err != nil {
			return Listing{}, fmt.Errorf("list the log of %s: %w", j.Channel, err)
		}
		if len(found.Numbers)+len(found.Parts)+len(found.Strange) == MaxEntries {
			return Listing{}, fmt.Errorf("%w: there are more than %d objects in the log of %s", ErrLog, MaxEntries, j.Channel)
		}
		if p, ok := PartOf(j.Channel, info.Key); ok && info.Size == 0 { // no delivery writes one with content
			found.Parts, marked[p] = append(found.Parts, p), info.ModTime
		} else if sequence, ok := SequenceOf(j.Channel, info.Key); ok {
			found.Numbers = append(found.Numbers, sequence)
			found.note(sequence, info.ModTime, marked)
		} else {
			found.Strange = append(found.Strange, info.Key)
		}
	}
	slices.Sort(found.Numbers) // keys of more than ten digits are not in their order
	slices.SortFunc(found.Parts, func(a, b Part) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	found.Fed = found.covered()
	return found, nil
}

// note keeps the marks that are dated after the first entry of their delivery. Marks are listed
// before the entry.
func (l *Listing) note(sequence uint64, written time.Time, marked map[Part]time.Time) {
	for _, p := range slices.Backward(l.Parts) {
		if p.From < sequence {
			break
		}
		if p.From == sequence && marked[p].After(written) {
			l.late = append(l.late, p)
		}
	}
}

// Read returns an object of at most limit bytes.
func (j Journal) Read(ctx context.Context, key string, limit int64) ([]byte, error) {
	data, _, err := object.ReadAll(ctx, j.Store, key, limit)
	return data, err
}

// Replace writes a small object, in place of other bytes if there are any.
func (j Journal) Replace(ctx context.Context, key string, data []byte) error {
	standing, err := j.Read(ctx, key, MaxEntry)
	switch {
	case err == nil && bytes.Equal(standing, data):
		return nil
	case err == nil || errors.Is(err, object.ErrTooLarge):
		err = j.Store.Delete(ctx, key)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil {
		_, err = j.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), Attributes)
	}
	return err
}

// Hash returns the hex SHA-256 of the bytes of an entry.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
