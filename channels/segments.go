package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"tsmon/store/object"
)

// A segment holds whole entries byte for byte: each is its length in decimal, a line
// feed and its bytes, and all of them are compressed with Zstandard (RFC 8878). It is
// derived from the log and may be made by anybody; the chain of hashes proves it.
const (
	segmentEntries = 256
	// segmentsEvery is how many moves lie between two looks for a segment to make.
	segmentsEvery = 16
	maxPacked     = 16 << 20 // bytes of a segment
	maxUnpacked   = 64 << 20 // bytes of its entries
)

const segmentRoot = "segments/"

func segmentPrefix(channel string) string { return segmentRoot + channel + "/" }

// segmentKey returns the key of a segment, by the number of its first entry.
func segmentKey(channel string, first uint64) string {
	return fmt.Sprintf("%s%010d-%010d.zst", segmentPrefix(channel), first, first+segmentEntries-1)
}

// firstOf returns the first entry of the segment with a key, 0 for other keys.
func firstOf(channel, key string) (first uint64) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(key, segmentPrefix(channel)), "%d", &first) // 0 is no key
	if key != segmentKey(channel, first) || first%segmentEntries != 1 {
		return 0
	}
	return first
}

// pack returns the bytes of a segment.
func pack(raw [][]byte) ([]byte, error) {
	var all []byte
	for _, data := range raw {
		all = append(strconv.AppendInt(all, int64(len(data)), 10), '\n')
		all = append(all, data...)
	}
	if len(all) > maxUnpacked {
		return nil, fmt.Errorf("%d bytes are too many for a segment, at most %d", len(all), maxUnpacked)
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(all, nil), nil
}

// unpack returns the bytes of a segment's entries.
func unpack(data []byte) ([][]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := r.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	raw := make([][]byte, 0, segmentEntries)
	for len(all) > 0 && len(raw) < segmentEntries {
		digits, rest, _ := bytes.Cut(all[:min(len(all), 12)], []byte{'\n'})
		size, err := strconv.ParseUint(string(digits), 10, 32)
		begin := len(digits) + 1
		if err != nil || len(rest) == 0 || size > uint64(len(all)-begin) {
			return nil, fmt.Errorf("entry %d of the segment is cut off", len(raw)+1)
		}
		raw, all = append(raw, all[begin:begin+int(size)]), all[begin+int(size):]
	}
	if len(raw) != segmentEntries || len(all) > 0 {
		return nil, fmt.Errorf("the segment does not have %d entries", segmentEntries)
	}
	return raw, nil
}

// segments lists the first entries of the segments of a channel that end behind entry
// known and not behind newest.
func (j journal) segments(ctx context.Context, known, newest uint64) ([]uint64, error) {
	after := ""
	if whole := known / segmentEntries * segmentEntries; whole > 0 {
		after = segmentKey(j.channel, whole-segmentEntries+1)
	}
	var firsts []uint64
	for info, err := range j.store.List(ctx, segmentPrefix(j.channel), after) {
		if err != nil {
			return nil, err
		}
		first := firstOf(j.channel, info.Key)
		if first == 0 {
			continue
		}
		if first+segmentEntries-1 > newest {
			break
		}
		firsts = append(firsts, first)
	}
	return firsts, nil
}

// readSegments fills in the entries behind entry known that segments have. What can't
// be read or unpacked stays nil. It reports whether any was filled in.
func (j journal) readSegments(ctx context.Context, known uint64, raw [][]byte) bool {
	if len(raw) < segmentEntries {
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
			data, err := j.read(ctx, segmentKey(j.channel, first), maxPacked)
			if err != nil {
				return nil //nolint:nilerr // the entries are read one by one
			}
			entries, err := unpack(data)
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
	for _, ok := range filled {
		if ok {
			return true
		}
	}
	return false
}

// Pack makes the oldest segment that a log lacks, if one is due. It may be called after
// each move: it looks only now and then.
func (r Repository) Pack(ctx context.Context, log *Log) error {
	if newest := log.last(); newest < segmentEntries || newest%segmentsEvery != 0 {
		return nil
	}
	_, err := r.journal(log.Channel).packNext(ctx, log.last())
	return err
}

// packNext makes the oldest segment that a log with newest entries lacks. made is false if it lacks none, or
// somebody else has made it.
func (j journal) packNext(ctx context.Context, newest uint64) (made bool, err error) {
	if newest < segmentEntries {
		return false, nil
	}
	firsts, err := j.segments(ctx, 0, newest)
	if err != nil {
		return false, err
	}
	first := uint64(1)
	for _, at := range firsts {
		if at == first {
			first += segmentEntries
		}
	}
	if first+segmentEntries-1 > newest {
		return false, nil
	}
	raw := make([][]byte, segmentEntries)
	if err := j.readEntries(ctx, first-1, raw); err != nil {
		return false, err
	}
	data, err := pack(raw)
	if err != nil {
		return false, err
	}
	_, err = j.store.Create(ctx, segmentKey(j.channel, first), bytes.NewReader(data), int64(len(data)), object.Attributes{ContentType: "application/zstd", CacheControl: entryAttributes.CacheControl})
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
