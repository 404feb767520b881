// Package mqtt publishes messages to devices, over MQTT 5.
//
// Client publishes through a broker elsewhere, such as Mosquitto. Broker is a small
// broker within this process, to which devices on the same machine subscribe. Both
// guarantee:
//
//   - A message is sent at QoS 1 and not retained.
//   - Publish waits for the broker's acknowledgement. The broker accepted the message,
//     or refused it (ErrDenied), or nothing was sent (ErrUnavailable, ErrTopic,
//     ErrTooLarge), or the outcome is unknown (ErrUnknown).
//   - A message is sent at most once: one without an acknowledgement is not sent again,
//     not even after a reconnect.
//   - Every wait and everything read from the network is bounded.
//   - User names and passwords appear in no error and no log.
//
// Accepted by the broker does not mean received by a device: subscribers acknowledge to
// the broker alone.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrTopic means that ValidTopic refuses the topic.
	ErrTopic = errors.New("not a topic to publish to")
	// ErrTooLarge means that the payload exceeds 256 KiB, or the message the broker's
	// limit. Nothing was sent.
	ErrTooLarge = errors.New("the message is too large")
	// ErrDenied means that the broker refused the message. The error is a *DeniedError.
	ErrDenied = errors.New("the MQTT broker refused the message")
	// ErrUnavailable means that nothing was sent; the same call may work later.
	ErrUnavailable = errors.New("the MQTT broker can't be reached")
	// ErrUnknown means that the message was sent, at least in part, and not
	// acknowledged: it may or may not be delivered.
	ErrUnknown = errors.New("the MQTT broker did not acknowledge the message")
)

// DeniedError is the broker's reason for refusing a message. It wraps ErrDenied.
type DeniedError struct {
	ReasonCode byte // of MQTT 5, from 128; 135 is "not authorised"
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%v: reason code %d", ErrDenied, e.ReasonCode)
}

func (e *DeniedError) Unwrap() error { return ErrDenied }

// Receipt is the broker's acknowledgement of a message.
type Receipt struct {
	ReasonCode byte // of MQTT 5: 0, or 16 where there is no subscriber
	Matched    bool // a subscriber's filter matched
}

// noSubscribers is the reason code of a message without subscribers.
const noSubscribers = 16

const (
	maxTopic   = 1 << 10   // bytes
	maxSlashes = 200       // Mosquitto disconnects a client that sends more
	maxPayload = 256 << 10 // bytes
)

// answerTimeout is the default wait for an acknowledgement.
const answerTimeout = 10 * time.Second

// ValidTopic returns ErrTopic unless messages can be published to a topic: 1 to 1,024
// bytes of UTF-8 with at most 200 slashes and without + # $, control characters and
// Unicode noncharacters.
func ValidTopic(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("%w: it is empty", ErrTopic)
	case len(topic) > maxTopic:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrTopic, maxTopic)
	case !utf8.ValidString(topic):
		return fmt.Errorf("%w: it is not UTF-8", ErrTopic)
	case strings.ContainsAny(topic, "+#$"):
		return fmt.Errorf("%w: it has a +, # or $", ErrTopic)
	case strings.ContainsFunc(topic, isNoText):
		return fmt.Errorf("%w: it has a control character", ErrTopic)
	case strings.Count(topic, "/") > maxSlashes:
		return fmt.Errorf("%w: it has more than %d slashes", ErrTopic, maxSlashes)
	}
	return nil
}

// isNoText reports characters that brokers may treat as a malformed packet.
func isNoText(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// ready returns why a message can't be sent to any broker.
func ready(ctx context.Context, topic string, payload []byte) error {
	if err := ValidTopic(topic); err != nil {
		return err
	}
	if len(payload) > maxPayload {
		return fmt.Errorf("%w: its payload has %d bytes, the most is %d", ErrTooLarge, len(payload), maxPayload)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
