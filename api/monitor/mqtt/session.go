package mqtt

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	pahosession "github.com/eclipse/paho.golang/paho/session"
)

// session tracks the unacknowledged messages of a connection. Unlike paho's session it
// ends with the connection: no message is sent again, and callers that wait learn that
// the connection was lost. It implements paho's SessionManager for a client that only
// publishes at QoS 1.
type session struct {
	mu   sync.Mutex
	link *link         // nil without a connection
	up   chan struct{} // closed while there is a connection
}

func newSession() *session { return &session{up: make(chan struct{})} }

// link is the part of a session that belongs to one connection.
type link struct {
	largest int64         // bytes of a packet
	slots   chan struct{} // one entry for each unacknowledged message
	lost    chan struct{} // closed when the connection is lost

	mu      sync.Mutex
	waiting map[uint16]chan<- packets.ControlPacket // by packet identifier; nil once the connection is lost
	last    uint16                                  // packet identifier used
}

// ConAckReceived begins the session of a new connection.
func (s *session) ConAckReceived(_ io.Writer, _ *packets.Connect, answer *packets.Connack) error {
	l := &link{largest: math.MaxInt64, lost: make(chan struct{}), waiting: map[uint16]chan<- packets.ControlPacket{}}
	unacknowledged := uint16(math.MaxUint16)
	if p := answer.Properties; p != nil && p.ReceiveMaximum != nil {
		unacknowledged = *p.ReceiveMaximum
	}
	if p := answer.Properties; p != nil && p.MaximumPacketSize != nil {
		l.largest = int64(*p.MaximumPacketSize)
	}
	l.slots = make(chan struct{}, max(unacknowledged, 1))
	s.lose()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	close(s.up)
	return nil
}

func (s *session) ConnectionLost(*packets.Disconnect) error {
	s.lose()
	return nil
}

// lose ends the waits for acknowledgements.
func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.link.lose()
		s.link, s.up = nil, make(chan struct{})
	}
}

func (l *link) lose() {
	close(l.lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answer := range l.waiting {
		answer <- packets.ControlPacket{} // each has room for one
	}
	l.waiting = nil
}

// now returns the present link, nil without a connection, and a channel that is closed
// while there is a connection.
func (s *session) now() (*link, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link, s.up
}

// AddToSession assigns a packet identifier, once the broker accepts another message.
// After an error the packet is not sent.
func (s *session) AddToSession(ctx context.Context, packet pahosession.Packet, answer chan<- packets.ControlPacket) error {
	l, _ := s.now()
	if l == nil {
		return ErrUnavailable
	}
	if size, err := packet.WriteTo(io.Discard); err != nil || size > l.largest {
		return fmt.Errorf("%w for the broker, which takes %d bytes", ErrTooLarge, l.largest)
	}
	select {
	case l.slots <- struct{}{}:
		return l.add(packet, answer)
	case <-l.lost:
		return ErrUnavailable
	case <-ctx.Done():
		return fmt.Errorf("%w: earlier messages are not acknowledged: %w", ErrUnavailable, ctx.Err())
	}
}

// add registers a wait for an acknowledgement. The caller's slot guarantees that an
// identifier is free.
func (l *link) add(packet pahosession.Packet, answer chan<- packets.ControlPacket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		return ErrUnavailable
	}
	for l.last++; l.last == 0 || l.waiting[l.last] != nil; l.last++ {
	}
	l.waiting[l.last] = answer
	packet.SetIdentifier(l.last)
	return nil
}

// PacketReceived passes on an acknowledgement.
func (s *session) PacketReceived(packet *packets.ControlPacket, _ chan<- *packets.Publish) error {
	l, _ := s.now()
	if l == nil || packet.Type != packets.PUBACK {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer := l.waiting[packet.PacketID()]; answer != nil {
		answer <- *packet
		delete(l.waiting, packet.PacketID())
		<-l.slots
	}
	return nil
}

func (s *session) Close() error {
	s.lose()
	return nil
}

// The rest of SessionManager is for subscriptions and for logs, which this client lacks:

func (s *session) Ack(*packets.Publish) error { return nil }
func (s *session) SetErrorLogger(log.Logger)  {}
func (s *session) SetDebugLogger(log.Logger)  {}
