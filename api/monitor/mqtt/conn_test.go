package mqtt

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// source is a connection that reads from memory.
type source struct {
	net.Conn
	io.Reader
}

func (s source) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// read returns the packets that come before an error.
func read(from io.Reader) (all []*packets.ControlPacket, err error) {
	for {
		packet, err := packets.ReadPacket(from)
		if err != nil {
			return all, err
		}
		all = append(all, packet)
	}
}

// FuzzAnswers reads what a broker might send. Through a conn the same packets
// come as without, up to one that is too large, however the bytes arrive.
func FuzzAnswers(f *testing.F) {
	for _, data := range [][]byte{
		nil, {0x20, 0x03, 0x00, 0x00, 0x00}, {0xd0, 0x00, 0xd0, 0x00, 0x40, 0x02, 0x00, 0x01}, {0x40, 0x04, 0x00, 0x01, 0x10, 0x00},
		{0x20, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0x20, 0x80, 0x80, 0x80, 0x80, 0x00}, {0x20, 0x83, 0x00, 0x00, 0x00, 0x00},
		append([]byte{0x30, 0x80, 0x80, 0x04}, make([]byte, 64<<10)...), append([]byte{0x30, 0x81, 0x80, 0x04}, make([]byte, 64<<10+1)...),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(newConn(source{Reader: bytes.NewReader(data)}, 0))
		bytewise, errBytewise := read(newConn(source{Reader: iotest.OneByteReader(bytes.NewReader(data))}, 0))
		if !reflect.DeepEqual(got, bytewise) || errors.Is(err, errAnswer) != errors.Is(errBytewise, errAnswer) {
			t.Errorf("%d packets and %v come, byte by byte %d and %v", len(got), err, len(bytewise), errBytewise)
		}
		if errors.Is(err, errAnswer) {
			return
		}
		if want, _ := read(bytes.NewReader(data)); !reflect.DeepEqual(got, want) {
			t.Errorf("%d packets come, want %d; the error is %v", len(got), len(want), err)
		}
	})
}

func TestAnswerSize(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []byte
		body   int
		fits   bool
	}{
		{"largest", []byte{0x30, 0x80, 0x80, 0x04}, maxAnswer, true},
		{"a byte more", []byte{0x30, 0x81, 0x80, 0x04}, maxAnswer + 1, false},
		{"4 GiB", []byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x0f}, 0, false},
		{"five digits", []byte{0x30, 0x80, 0x80, 0x80, 0x80, 0x00}, 0, false},
	} {
		data := append(c.header, make([]byte, c.body)...)
		got, err := read(newConn(source{Reader: bytes.NewReader(data)}, 0))
		if fits := len(got) == 1; fits != c.fits || errors.Is(err, errAnswer) == c.fits {
			t.Errorf("%s: %d packets come, and %v", c.name, len(got), err)
		}
	}
}

// TestStalledWrite writes to who does not read: that fails, and no other packet
// can follow the half of one.
func TestStalledWrite(t *testing.T) {
	near, far := net.Pipe()
	t.Cleanup(func() { far.Close() })
	c := newConn(near, 10*time.Millisecond)
	packet := &packets.Publish{Topic: "a", Payload: []byte("x")}
	if _, err := packet.WriteTo(c); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other side reads: %v", err)
	}
}

// TestGreetingTimeout has a client that never says who it is.
func TestGreetingTimeout(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(socket, newSparseLog(slog.New(slog.DiscardHandler)))
	l.greeting = 10 * time.Millisecond
	t.Cleanup(func() { l.Close(func(string) {}) })
	ended := make(chan error, 1)
	go l.Serve(func(_ string, c net.Conn) error {
		_, err := c.Read(make([]byte, 1))
		ended <- err
		return err
	})
	c, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the wait ends with %v", err)
	}
}

func TestDelay(t *testing.T) {
	c := &Client{log: newSparseLog(slog.New(slog.DiscardHandler))}
	if d := c.delay(0); d != 0 {
		t.Errorf("the first attempt waits %v", d)
	}
	for attempt, longest := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 6: 3200 * time.Millisecond, 7: 5 * time.Second, 1 << 40: 5 * time.Second,
	} {
		for range 100 {
			if d := c.delay(attempt); d < longest/2 || d > longest {
				t.Errorf("attempt %d waits %v, want %v at most and half of it at least", attempt, d, longest)
			}
		}
	}
	for range 20 { // connections that came to nothing
		c.connected(nil, nil)
	}
	if d := c.delay(0); d < 2500*time.Millisecond {
		t.Errorf("after many useless connections an attempt waits %v", d)
	}
}

func TestSparseLog(t *testing.T) {
	now := time.Now()
	l := newSparseLog(nil)
	l.now = func() time.Time { return now }
	for i, c := range []struct {
		message string
		later   time.Duration
		want    bool
	}{
		{"a", 0, true}, {"a", time.Second, false}, {"b", 0, true}, {"a", 58 * time.Second, false}, {"a", time.Second, true}, {"a", 0, false},
	} {
		now = now.Add(c.later)
		if got := l.due(c.message); got != c.want {
			t.Errorf("%d: %s is due: %v", i, c.message, got)
		}
	}
}
