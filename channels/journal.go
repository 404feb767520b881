package channels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tsmon/store/object"
)

// journal is the objects of one channel's log.
type journal struct {
	store   object.Store
	channel string
}

func (r Repository) journal(channel string) journal { return journal{r.Store, channel} }

// sideBySide is how many entries are read at once.
const sideBySide = 32

// readEntries fills in the bytes of the entries behind entry known that are nil. Those
// that are being read when one fails are still read: a log that is too long for the
// patience of a caller grows with each attempt.
func (j journal) readEntries(ctx context.Context, known uint64, raw [][]byte) error {
	var group errgroup.Group
	var failed atomic.Bool
	group.SetLimit(sideBySide)
	for i := range raw {
		if raw[i] != nil || failed.Load() {
			continue
		}
		group.Go(func() error {
			data, err := j.read(ctx, entryKey(j.channel, known+uint64(i)+1), maxEntry)
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

// count returns the number of the newest entry. Entries up to known exist, of a log that was
// fed or not; those behind it are checked for gaps.
func (j journal) count(ctx context.Context, known uint64, fed bool) (uint64, listing, error) {
	found, err := j.numbers(ctx, known, fed)
	for i, sequence := range found.numbers {
		if want := known + uint64(i) + 1; sequence != want {
			return 0, found, faulty(j.channel, want, "entry %d of %s is missing", want, j.channel)
		}
	}
	return known + uint64(len(found.numbers)), found, err
}

// numbers lists the entries behind entry known that count; fed is what was known of the log
// up to there. Whatever else lies among them is passed over.
func (j journal) numbers(ctx context.Context, known uint64, fed bool) (listing, error) {
	found, err := j.list(ctx, known)
	if err != nil {
		return listing{}, err
	}
	found.fed = len(found.parts) > 0 && found.covered()
	switch {
	case known == 0:
	case len(found.parts) == 0 && len(found.numbers) == 0, found.fed && fed, len(found.parts) == 0 && !fed:
		found.fed = fed
	default: // the marks before known count, too
		if found, err = j.list(ctx, 0); err != nil {
			return listing{}, err
		}
		found.fed = len(found.parts) > 0 && found.covered()
	}
	found.settle()
	at, _ := slices.BinarySearch(found.numbers, known+1)
	found.numbers = found.numbers[at:]
	return found, nil
}

// list lists what lies behind entry known, whether it counts or not.
func (j journal) list(ctx context.Context, known uint64) (listing, error) {
	after := ""
	if known > 0 {
		after = entryKey(j.channel, known)
	}
	var found listing
	for info, err := range j.store.List(ctx, LogPrefix(j.channel), after) {
		if err != nil {
			return listing{}, fmt.Errorf("list the log of %s: %w", j.channel, err)
		}
		if len(found.numbers)+len(found.parts)+len(found.strange) == maxAround {
			return listing{}, fmt.Errorf("%w: there are more than %d objects in the log of %s", ErrLog, maxAround, j.channel)
		}
		if p, ok := partOf(j.channel, info.Key); ok {
			found.parts = append(found.parts, p)
		} else if sequence, ok := sequenceOf(j.channel, info.Key); ok {
			found.numbers = append(found.numbers, sequence)
		} else {
			found.strange = append(found.strange, info.Key)
		}
	}
	slices.Sort(found.numbers) // keys of more than ten digits are not in their order
	slices.SortFunc(found.parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return found, nil
}

func (j journal) read(ctx context.Context, key string, limit int64) ([]byte, error) {
	data, _, err := object.ReadAll(ctx, j.store, key, limit)
	return data, err
}

// replace writes a small object, in place of other bytes if there are any.
func (j journal) replace(ctx context.Context, key string, data []byte) error {
	standing, err := j.read(ctx, key, maxEntry)
	switch {
	case err == nil && bytes.Equal(standing, data):
		return nil
	case err == nil || errors.Is(err, object.ErrTooLarge):
		err = j.store.Delete(ctx, key)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil {
		_, err = j.store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), entryAttributes)
	}
	return err
}

// enter writes an entry that Next completed, and returns the hash of its bytes. A
// *ConflictError if another entry has its number.
func (j journal) enter(ctx context.Context, e Entry) (hashed string, err error) {
	data, err := e.encode()
	if err != nil {
		return "", err
	}
	if _, err := decodeEntry(data); err != nil {
		return "", fmt.Errorf("the entry could not be read back: %w", err)
	}
	key := entryKey(j.channel, e.Sequence)
	_, err = j.store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), entryAttributes)
	if errors.Is(err, fs.ErrExist) {
		err = j.compare(ctx, key, data)
	} else if err != nil && j.compare(ctx, key, data) == nil {
		err = nil // only the answer was lost
	} else if err != nil {
		err = fmt.Errorf("write entry %d of %s: %w", e.Sequence, j.channel, err)
	}
	return hash(data), err
}

// compare accepts an entry of ours that was written though the answer was lost; an
// entry of somebody else is a *ConflictError.
func (j journal) compare(ctx context.Context, key string, ours []byte) error {
	theirs, err := j.read(ctx, key, maxEntry)
	if err != nil || bytes.Equal(theirs, ours) {
		return err
	}
	winner, err := decodeEntry(theirs)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLog, key, err)
	}
	return &ConflictError{Channel: j.channel, Winner: winner}
}
