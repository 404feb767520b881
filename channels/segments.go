package channels

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsmon/channels/segment"
	"tsmon/store/object"
)

// segmentsEvery is how many moves lie between two looks for a segment to make.
const segmentsEvery = 16

// segments lists the first entries of the segments of a channel that end behind entry
// known and not behind newest.
func (j journal) segments(ctx context.Context, known, newest uint64) ([]uint64, error) {
	after := ""
	if whole := known / segment.Entries * segment.Entries; whole > 0 {
		after = segment.Key(j.channel, whole-segment.Entries+1)
	}
	var firsts []uint64
	for info, err := range j.store.List(ctx, segment.Prefix(j.channel), after) {
		if err != nil {
			return nil, err
		}
		first := segment.First(j.channel, info.Key)
		if first == 0 {
			continue
		}
		if first+segment.Entries-1 > newest {
			break
		}
		firsts = append(firsts, first)
	}
	return firsts, nil
}

// readSegments fills in the entries behind entry known that segments have. What can't
// be read or unpacked stays nil. It reports whether any was filled in.
func (j journal) readSegments(ctx context.Context, known uint64, raw [][]byte) bool {
	if len(raw) < segment.Entries {
		return false
	}
	firsts, err := j.segments(ctx, known, known+uint64(len(raw)))
	if err != nil {
		return false
	}
	filled := make([]bool, len(firsts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide / 4)
	for i, first := range firsts {
		group.Go(func() error {
			data, err := j.read(ctx, segment.Key(j.channel, first), segment.MaxSize)
			if err != nil {
				return nil //nolint:nilerr // the entries are read one by one
			}
			entries, err := segment.Unpack(data)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			for n, data := range entries {
				if at := first + uint64(n); at > known {
					raw[at-known-1], filled[i] = data, true
				}
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	return slices.Contains(filled, true)
}

// Pack makes the oldest segment that a log lacks, if one is due. It may be called after
// each move: it looks only now and then.
func (r Repository) Pack(ctx context.Context, log *Log) error {
	if newest := log.last(); newest < segment.Entries || newest%segmentsEvery != 0 {
		return nil
	}
	_, err := r.journal(log.Channel).packNext(ctx, log.last())
	return err
}

// packNext makes the oldest segment that a log with newest entries lacks. made is false if it lacks none, or
// somebody else has made it.
func (j journal) packNext(ctx context.Context, newest uint64) (made bool, err error) {
	if newest < segment.Entries {
		return false, nil
	}
	firsts, err := j.segments(ctx, 0, newest)
	if err != nil {
		return false, err
	}
	first := uint64(1)
	for _, at := range firsts {
		if at == first {
			first += segment.Entries
		}
	}
	if first+segment.Entries-1 > newest {
		return false, nil
	}
	raw := make([][]byte, segment.Entries)
	if err := j.readEntries(ctx, first-1, raw); err != nil {
		return false, err
	}
	data, err := segment.Pack(raw)
	if err != nil {
		return false, err
	}
	_, err = j.store.Create(ctx, segment.Key(j.channel, first), bytes.NewReader(data), int64(len(data)), object.Attributes{ContentType: "application/zstd", CacheControl: entryAttributes.CacheControl})
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
