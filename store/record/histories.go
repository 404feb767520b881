package record

import (
	"context"
	"fmt"
)

// Histories records the newest entry that servers have seen of each log, so that none of them
// shows a shortened or rewritten log. It also records the newest entry whose manifest they have
// seen, to tell an older manifest that was put back from an interrupted move. A log's name has at
// most 256 bytes.
type Histories interface {
	// Seen returns the end of a log as it was last seen, or the zero value.
	Seen(ctx context.Context, log string) (Seen, error)

	// See replaces old with seen, and reports whether old was stored. It keeps the number of
	// the newest manifest, at most that of the new last entry. ErrInvalid if seen is not
	// valid.
	See(ctx context.Context, log string, old, seen Seen) (bool, error)

	// SeeManifest records that the manifest of an entry was seen in the store. It changes
	// nothing if a newer manifest was seen, or if the log ends before the entry. ErrInvalid
	// if the name or the number is not valid.
	SeeManifest(ctx context.Context, log string, entry int64) error
}

// Seen is the end of a log.
type Seen struct {
	Sequence int64  // number of the last entry
	Hash     string // of its bytes, at most 64 bytes
	Manifest int64  // the newest entry whose manifest was seen, 0 for none; See ignores it
}

// Validate reports why the end of a log can't be stored under a name. Errors wrap
// ErrInvalid.
func (s Seen) Validate(log string) error {
	if s.Sequence < 1 || s.Hash == "" || len(s.Hash) > 64 {
		return fmt.Errorf("%w: a log can't end with entry %d and a hash of %d bytes", ErrInvalid, s.Sequence, len(s.Hash))
	}
	return installText("log", log, "hash", s.Hash)
}
