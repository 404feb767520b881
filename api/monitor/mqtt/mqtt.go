// Package mqtt publishes messages to devices, over MQTT 5.
//
// Two types do so. Client is one of the clients of a broker that runs
// elsewhere, Mosquitto or any other of MQTT 5. Broker is a small broker within
// this process, to which devices on the same machine subscribe. Both keep the
// same promises:
//
//   - A message is sent at QoS 1 and is not retained: whoever subscribes later
//     does not get it.
//   - Publish waits for the broker's acknowledgement. Its result is one of four:
//     the broker took the message, it refused it (ErrDenied), nothing was sent
//     (ErrUnavailable, and the errors of what can't be sent), or nobody knows
//     (ErrUnknown).
//   - A message is sent once at most. One that nobody acknowledged is never sent
//     again behind the caller's back, not after a lost connection either.
//   - Every wait is bounded, by the context and by time-outs, and so is
//     everything that is read from the network.
//   - A user name and a password stand in no error and no log.
//
// Taken by the broker does not mean seen by a device: at QoS 1 a subscriber's
// own acknowledgement goes to the broker alone.
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
	// ErrTopic says that a topic breaks the rules of ValidTopic.
	ErrTopic = errors.New("not a topic to publish to")
	// ErrTooLarge says that a payload exceeds 256 KiB, or a message what the
	// broker takes. Nothing was sent.
	ErrTooLarge = errors.New("the message is too large")
	// ErrDenied says that the broker refused the message. The error is a
	// *DeniedError, which has the broker's reason code.
	ErrDenied = errors.New("the MQTT broker refused the message")
	// ErrUnavailable says that nothing was sent; the same call may work later.
	ErrUnavailable = errors.New("the MQTT broker can't be reached")
	// ErrUnknown says that the message was sent, or part of it, and that no
	// answer came: it may or may not be delivered.
	ErrUnknown = errors.New("the MQTT broker did not answer whether it took the message")
)

// DeniedError has the reason why a broker refused a message. It wraps ErrDenied.
type DeniedError struct {
	ReasonCode byte // of MQTT 5, from 128; 135 is "not authorised"
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%v: reason code %d", ErrDenied, e.ReasonCode)
}

func (e *DeniedError) Unwrap() error { return ErrDenied }

// Receipt is what the broker said of a message that it took.
type Receipt struct {
	ReasonCode byte // of MQTT 5: 0, or 16 where there is no subscriber
	Matched    bool // a subscriber's filter matched
}

// noSubscribers is the reason code that says so.
const noSubscribers = 16

const (
	maxTopic   = 1 << 10   // bytes
	maxSlashes = 200       // Mosquitto drops the connection of who sends more
	maxPayload = 256 << 10 // bytes
)

// answerTimeout is how long an acknowledgement is waited for by default.
const answerTimeout = 10 * time.Second

// ValidTopic reports whether messages may be published to a topic: 1 to 1,024
// bytes of UTF-8 with at most 200 slashes and none of + # $, control characters
// and what Unicode sets aside as no characters. The error is ErrTopic.
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

// isNoText says which characters brokers may take for a broken packet.
func isNoText(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// ready returns why a message can't be sent whatever the broker says.
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
