package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"tsmon/channels"
	"tsmon/store/record"
)

// Histories remember in the records what servers have seen of each log.
type Histories struct {
	Records record.Histories
	Store   string // names the store of the logs, see config.Config.StoreName; another store has other logs
}

// Seen returns the end of a channel's log as it was last seen, the zero value if nobody has.
func (h Histories) Seen(ctx context.Context, channel string) (channels.Position, error) {
	seen, err := h.Records.Seen(ctx, h.log(channel))
	return channels.Position{Sequence: uint64(seen.Sequence), Hash: seen.Hash}, err
}

// SeenManifest returns the newest entry of a channel's log whose manifest was seen in its
// place in the store, 0 if none was.
func (h Histories) SeenManifest(ctx context.Context, channel string) (uint64, error) {
	seen, err := h.Records.Seen(ctx, h.log(channel))
	return uint64(seen.Manifest), err
}

// SeeManifest raises what SeenManifest returns, to at most the end of the log that was seen.
func (h Histories) SeeManifest(ctx context.Context, channel string, entry uint64) error {
	return h.Records.SeeManifest(ctx, h.log(channel), int64(entry))
}

// See replaces the position old that Seen returned, and reports false if the records have
// another one by now.
func (h Histories) See(ctx context.Context, channel string, old, end channels.Position) (bool, error) {
	return h.Records.See(ctx, h.log(channel), seenOf(old), seenOf(end))
}

func seenOf(p channels.Position) record.Seen {
	return record.Seen{Sequence: int64(p.Sequence), Hash: p.Hash}
}

// log names the log of a channel in the records.
func (h Histories) log(channel string) string {
	sum := sha256.Sum256([]byte(h.Store))
	return hex.EncodeToString(sum[:8]) + "/" + channel
}
