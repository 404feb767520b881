package mqtt_test

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// script is what a broker does with its n-th connection, counted from 0; the
// connection is closed when it returns.
type script func(n int, c peer)

// fakeBroker plays a script to each client until the end of the test, and
// returns its URL.
func fakeBroker(t *testing.T, play script) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				stop := closeAtEnd(t, c)
				defer stop()
				play(n, peer{c, t})
			})
		}
	})
	t.Cleanup(running.Wait) // after the listener is closed
	t.Cleanup(func() { l.Close() })
	return "mqtt://" + l.Addr().String()
}

// closeAtEnd closes a connection at the end of the test or when stop is called.
func closeAtEnd(t *testing.T, c net.Conn) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-t.Context().Done():
		case <-done:
		}
		c.Close()
	}()
	return sync.OnceFunc(func() { close(done) })
}

// peer is a broker's side of a connection.
type peer struct {
	net.Conn
	t *testing.T
}

// next returns the next packet that is no ping, nil at the end.
func (p peer) next() *packets.ControlPacket {
	for {
		packet, err := packets.ReadPacket(p)
		if err != nil {
			return nil
		}
		if packet.Type != packets.PINGREQ {
			return packet
		}
		p.send(packets.NewControlPacket(packets.PINGRESP))
	}
}

func (p peer) send(packet *packets.ControlPacket) {
	if _, err := packet.WriteTo(p); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Logf("the fake broker can't answer: %v", err) // the client may be gone
	}
}

// welcome answers the client's CONNECT, which it returns, nil at the end.
func (p peer) welcome(answer packets.Connack) *packets.Connect {
	packet := p.next()
	if packet == nil || packet.Type != packets.CONNECT {
		return nil
	}
	if answer.Properties == nil {
		answer.Properties = &packets.Properties{}
	}
	p.send(&packets.ControlPacket{FixedHeader: packets.FixedHeader{Type: packets.CONNACK}, Content: &answer})
	return packet.Content.(*packets.Connect)
}

// nextPublish returns the next message, nil at the end.
func (p peer) nextPublish() *packets.Publish {
	packet := p.next()
	if packet == nil || packet.Type != packets.PUBLISH {
		return nil
	}
	return packet.Content.(*packets.Publish)
}

func (p peer) acknowledge(m *packets.Publish, reason byte) {
	p.send(&packets.ControlPacket{
		FixedHeader: packets.FixedHeader{Type: packets.PUBACK},
		Content:     &packets.Puback{PacketID: m.PacketID, ReasonCode: reason, Properties: &packets.Properties{}},
	})
}

// acknowledgeAll takes every message until the end.
func (p peer) acknowledgeAll() {
	for m := p.nextPublish(); m != nil; m = p.nextPublish() {
		p.acknowledge(m, 0)
	}
}

// drain reads until the client goes.
func (p peer) drain() {
	for p.next() != nil {
	}
}
