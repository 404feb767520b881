package record

import (
	"context"
	"fmt"
	"time"
)

// Outbox keeps webhook messages until they are delivered, for the servers that share the
// records. Times are stored in microseconds.
type Outbox interface {
	// Told returns the last move of each channel for which messages were queued. On new
	// records the first call stores begin as the start.
	Told(ctx context.Context, begin time.Time) (Told, error)

	// Queue atomically adds messages, due at once, and records that the moves of a channel
	// up to a number are covered; an empty channel records none. It skips messages whose ID
	// was queued before. ErrInvalid if a message is not valid.
	Queue(ctx context.Context, channel string, upTo uint64, messages []Message) error

	// Claim returns at most limit due messages, the oldest first, and makes them due again
	// at a later time. No other server gets them before then. ErrInvalid unless limit is
	// positive.
	Claim(ctx context.Context, now, again time.Time, limit int) ([]Message, error)

	// Settle changes when a message is due. The zero time means that it was delivered.
	Settle(ctx context.Context, id string, due time.Time) error

	// ForgetMessages deletes the messages made before a time, and returns how many were
	// undelivered.
	ForgetMessages(ctx context.Context, before time.Time) (int, error)
}

// Message is a message to the webhook.
type Message struct {
	ID    string // identifies the event, at most 256 bytes
	Made  time.Time
	Body  []byte // at most 64 KiB
	Tries int    // how often it was claimed; Queue ignores it
}

// Told says which moves have messages.
type Told struct {
	Begin   time.Time         // no messages are sent for earlier moves
	Moves   map[string]uint64 // the number of the last move of each channel
	Waiting int               // undelivered messages
}

// maxBody bounds the body of a message.
const maxBody = 64 << 10

// ValidateMessages reports why messages of a channel can't be stored. Errors wrap
// ErrInvalid.
func ValidateMessages(channel string, messages []Message) error {
	err := installText("channel", channel)
	for _, m := range messages {
		switch {
		case err != nil:
		case m.ID == "" || m.Made.IsZero():
			err = fmt.Errorf("%w: a message has no id or no time", ErrInvalid)
		case len(m.Body) > maxBody:
			err = fmt.Errorf("%w: a message has more than %d bytes", ErrInvalid, maxBody)
		default:
			err = installText("id", m.ID)
		}
	}
	return err
}
