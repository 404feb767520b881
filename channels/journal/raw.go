package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"tsmon/channels/segment"
)

// Raw reads the bytes of the entries after a number, oldest first, without checking their
// signatures. Lost entries are empty. Errors wrap ErrLog if there are too many.
func (j Journal) Raw(ctx context.Context, after uint64) ([][]byte, error) {
	found, err := j.Numbers(ctx, after, false)
	if err != nil || len(found.Numbers) == 0 {
		return nil, err
	}
	lost, err := j.Slots(after, found.Numbers)
	if err != nil {
		return nil, err
	}
	raw := slices.Clone(lost)
	packed := j.ReadSegments(ctx, after, raw)
	raw[len(raw)-1] = nil // proves those before it
	err = j.readWithin(ctx, after, raw)
	if packed && err == nil && !linked(raw) { // a segment that is not the log's
		raw = lost
		err = j.readWithin(ctx, after, raw)
	}
	return raw, err
}

// readWithin is ReadEntries of at most MaxHistory bytes.
func (j Journal) readWithin(ctx context.Context, known uint64, raw [][]byte) error {
	size := 0
	for at := 0; at < len(raw); at += segment.Entries {
		some := raw[at:min(at+segment.Entries, len(raw))]
		if err := j.ReadEntries(ctx, known+uint64(at), some); err != nil {
			return err
		}
		for _, data := range some {
			size += len(data)
		}
		if size > MaxHistory {
			return fmt.Errorf("%w: the entries of %s have more than %d bytes", ErrLog, j.Channel, MaxHistory)
		}
	}
	return nil
}

// linked reports whether each entry has the hash of the one before it, unless that is lost.
func linked(raw [][]byte) bool {
	for i, data := range raw {
		var e struct {
			Previous string `json:"previous"`
		}
		if len(data) == 0 || i == 0 || len(raw[i-1]) == 0 {
			continue
		}
		if json.Unmarshal(data, &e) != nil || e.Previous != Hash(raw[i-1]) {
			return false
		}
	}
	return true
}
