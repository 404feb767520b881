package fleet

import (
	"context"

	"tsmon/channels"
	"tsmon/store/record"
)

// Histories remember in the records how far servers have seen each log. Without Records
// they remember nothing.
type Histories struct{ Records record.Histories }

// Seen returns the end of a channel's log as it was last seen, the zero value if nobody has.
func (h Histories) Seen(ctx context.Context, channel string) (channels.Position, error) {
	if h.Records == nil {
		return channels.Position{}, nil
	}
	seen, err := h.Records.Seen(ctx, channel)
	return channels.Position{Sequence: uint64(seen.Sequence), Hash: seen.Hash}, err
}

// See replaces what Seen returns, and reports false if that is not old any more.
func (h Histories) See(ctx context.Context, channel string, old, end channels.Position) (bool, error) {
	if h.Records == nil {
		return true, nil
	}
	return h.Records.See(ctx, channel, seenOf(old), seenOf(end))
}

func seenOf(p channels.Position) record.Seen {
	return record.Seen{Sequence: int64(p.Sequence), Hash: p.Hash}
}
