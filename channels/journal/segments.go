package journal

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

// segments lists the first entries of the segments of a channel that end behind entry
// known and not behind newest.
func (j Journal) segments(ctx context.Context, known, newest uint64) ([]uint64, error) {
	after := ""
	if whole := known / segment.Entries * segment.Entries; whole > 0 {
		after = segment.Key(j.Channel, whole-segment.Entries+1)
	}
	var firsts []uint64
	for info, err := range j.Store.List(ctx, segment.Prefix(j.Channel), after) {
		if err != nil {
			return nil, err
		}
		first := segment.First(j.Channel, info.Key)
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

// ReadSegments fills in the entries behind entry known that segments have. What can't
// be read or unpacked stays as it is. It reports whether any was filled in.
func (j Journal) ReadSegments(ctx context.Context, known uint64, raw [][]byte) bool {
	if len(raw) < segment.Entries {
		return false
	}
	firsts, err := j.segments(ctx, known, known+uint64(len(raw)))
	if err != nil {
		return false
	}
	filled := make([]bool, len(firsts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(SideBySide / 4)
	for i, first := range firsts {
		group.Go(func() error {
			data, err := j.Read(ctx, segment.Key(j.Channel, first), segment.MaxSize)
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

// PackNext makes the oldest segment that a log lacks whose newest entry is given. made is false if
// it lacks none, or somebody else was faster.
func (j Journal) PackNext(ctx context.Context, newest uint64) (made bool, err error) {
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
	if err := j.ReadEntries(ctx, first-1, raw); err != nil {
		return false, err
	}
	data, err := segment.Pack(raw)
	if err != nil {
		return false, err
	}
	_, err = j.Store.Create(ctx, segment.Key(j.Channel, first), bytes.NewReader(data), int64(len(data)), object.Attributes{ContentType: "application/zstd", CacheControl: Attributes.CacheControl})
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
