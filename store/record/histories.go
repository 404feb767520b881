package record

import (
	"context"
	"fmt"
)

// Histories records the newest entry that servers have seen of each log, so that none of them
// shows a log that was shortened or rewritten. A short text names a log.
type Histories interface {
	// Seen returns the end of a log as it was last seen, the zero value if it never was.
	Seen(ctx context.Context, log string) (Seen, error)

	// See replaces what Seen returns, and reports false if that is not old any more.
	// ErrInvalid if seen is not valid.
	See(ctx context.Context, log string, old, seen Seen) (bool, error)
}

// Seen is the end of a log.
type Seen struct {
	Sequence int64  // number of the last entry
	Hash     string // of its bytes, at most 64 bytes
}

// Validate reports why the end of a log can't be stored under a name. Errors wrap
// ErrInvalid.
func (s Seen) Validate(log string) error {
	if s.Sequence < 1 || s.Hash == "" || len(s.Hash) > 64 {
		return fmt.Errorf("%w: the end of a log, entry %d", ErrInvalid, s.Sequence)
	}
	return installText("log", log, "hash", s.Hash)
}
