// Package segment packs the entries of a log by whole numbers of them.
//
// A segment holds whole entries byte for byte: each is its length in decimal, a line
// feed and its bytes, and all of them are compressed with Zstandard (RFC 8878). It is
// derived from the log and may be made by anybody; the chain of hashes proves it.
package segment

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// Entries is how many entries a segment has.
	Entries = 256
	// MaxSize bounds a segment, in bytes.
	MaxSize     = 16 << 20
	maxUnpacked = 64 << 20 // bytes of its entries
)

// Root is the folder of all segments.
const Root = "segments/"

// Prefix returns the prefix of the keys of a channel's segments.
func Prefix(channel string) string { return Root + channel + "/" }

// Key returns the key of a segment, by the number of its first entry.
func Key(channel string, first uint64) string {
	return fmt.Sprintf("%s%010d-%010d.zst", Prefix(channel), first, first+Entries-1)
}

// First returns the number of the first entry of the segment with a key, 0 for other keys.
func First(channel, key string) (first uint64) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(key, Prefix(channel)), "%d", &first) // 0 is no key
	if key != Key(channel, first) || first%Entries != 1 {
		return 0
	}
	return first
}

// Pack returns the bytes of a segment.
func Pack(raw [][]byte) ([]byte, error) {
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

// Unpack returns the bytes of a segment's entries.
func Unpack(data []byte) ([][]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := r.DecodeAll(data, nil)
	if err != nil {
		return nil, err
	}
	raw := make([][]byte, 0, Entries)
	for len(all) > 0 && len(raw) < Entries {
		digits, rest, _ := bytes.Cut(all[:min(len(all), 12)], []byte{'\n'})
		size, err := strconv.ParseUint(string(digits), 10, 32)
		begin := len(digits) + 1
		if err != nil || len(rest) == 0 || size > uint64(len(all)-begin) {
			return nil, fmt.Errorf("entry %d of the segment is cut off", len(raw)+1)
		}
		raw, all = append(raw, all[begin:begin+int(size)]), all[begin+int(size):]
	}
	if len(raw) != Entries || len(all) > 0 {
		return nil, fmt.Errorf("the segment does not have %d entries", Entries)
	}
	return raw, nil
}
