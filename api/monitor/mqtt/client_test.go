package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

func TestDialURL(t *testing.T) {
	const secret = "hunter2"
	for _, raw := range []string{
		"", "broker", "broker:1883", "http://broker", "mqtt://", "mqtt://:1883", "ws://broker", "mqtt:broker", "//broker",
		"mqtt://u:" + secret + "@broker/path", "mqtt://u:" + secret + "@broker?x=1", "mqtt://u:" + secret + "@broker#x",
		"mqtt://u:" + secret + "@broker:0", "mqtt://u:" + secret + "@broker:65536", "mqtt://broker:" + secret, secret + "://broker",
		secret + ":x@broker:1883", "mqtt://u:" + secret + "%@broker", "mqtt://" + secret + "\x00@broker", "mqtt://[::1", "mqtt://u:" + secret + "@",
	} {
		c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: raw, Log: silent})
		if err == nil {
			c.Close()
			t.Errorf("%q is taken", raw)
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "broker:1883") {
			t.Errorf("%q: the error is %v", raw, err)
		}
	}
	for _, raw := range []string{
		"mqtt://127.0.0.1", "mqtts://127.0.0.1", "tcp://u@127.0.0.1:1/", "ssl://:p@127.0.0.1:65535", "MQTT://[::1]", "mqtt://u:%2f%3a@127.0.0.1",
	} {
		c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: raw, Log: silent})
		if err != nil {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		c.Close()
	}
}

// TestConnected: the first attempt decides, and a refusal is explained without the password.
func TestConnected(t *testing.T) {
	for want, answer := range map[string]packets.Connack{
		"": {}, "the MQTT broker refuses the connection with reason code 135": {ReasonCode: 135},
	} {
		url := fakeBroker(t, func(_ int, c peer) {
			c.welcome(answer)
			c.drain()
		})
		err := dial(t, mqtt.Options{URL: strings.Replace(url, "://", "://u:hunter2@", 1)}).Connected(t.Context())
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("the error is %v, not %q", err, want)
		}
	}
	mute := dial(t, mqtt.Options{URL: fakeBroker(t, func(_ int, c peer) { c.drain() })})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, mute.Connected(ctx), context.DeadlineExceeded)
}

// TestNotResent gives the client every reason to send again what was not
// acknowledged: the broker asks for a long session and claims to have kept it.
// Each of its connections breaks at the first message that is called lost.
func TestNotResent(t *testing.T) {
	got := make(chan *packets.Publish, 100)
	greetings := make(chan *packets.Connect, 100)
	url := fakeBroker(t, func(n int, c peer) {
		greeting := c.welcome(packets.Connack{
			SessionPresent: n > 0, Properties: &packets.Properties{SessionExpiryInterval: new(uint32(3600))},
		})
		if greeting == nil {
			return
		}
		greetings <- greeting
		for m := c.nextPublish(); m != nil; m = c.nextPublish() {
			got <- m
			if m.Topic == "lost" {
				return // without an answer
			}
			c.acknowledge(m, 0)
		}
	})
	p := dial(t, mqtt.Options{URL: url, Timeout: 5 * time.Minute}) // which is not what ends the wait
	for range 10 {
		_, err := p.Publish(t.Context(), "lost", []byte("x"))
		wantError(t, err, mqtt.ErrUnknown)
		mustPublish(t, p, "taken", "x") // as soon as there is a connection again
		for _, topic := range []string{"lost", "taken"} {
			if m := receive(t, got); m.Topic != topic || m.Duplicate || m.QoS != 1 || m.Retain {
				t.Errorf("the broker got %q, duplicate: %v, at QoS %d; want %q", m.Topic, m.Duplicate, m.QoS, topic)
			}
		}
		if greeting := receive(t, greetings); !greeting.CleanStart || greeting.Properties.SessionExpiryInterval != nil {
			t.Errorf("the client asks for a session that lasts: %+v", greeting)
		}
	}
}

// TestUnanswered lets messages pass their time while the broker takes one at a
// time: what is not sent is told apart from what nobody knows, and a late
// answer makes room again.
func TestUnanswered(t *testing.T) {
	got, answer := make(chan string, 10), make(chan struct{})
	url := fakeBroker(t, func(_ int, c peer) {
		one := uint16(1)
		if c.welcome(packets.Connack{Properties: &packets.Properties{ReceiveMaximum: &one}}) == nil {
			return
		}
		m := c.nextPublish()
		if m == nil {
			return
		}
		got <- m.Topic
		select {
		case <-answer:
		case <-t.Context().Done():
			return
		}
		c.acknowledge(m, 0)
		c.acknowledge(m, 0) // once more than asked for
		for m := c.nextPublish(); m != nil; m = c.nextPublish() {
			got <- m.Topic
			c.acknowledge(m, 0)
		}
	})
	p := dial(t, mqtt.Options{URL: url, Timeout: 100 * time.Millisecond})
	eventually(t, "there is a connection", func() bool { return p.Ping(t.Context()) == nil })
	_, err := p.Publish(t.Context(), "sent", []byte("x"))
	wantError(t, err, mqtt.ErrUnknown)
	wantError(t, err, context.DeadlineExceeded)
	_, err = p.Publish(t.Context(), "unsent", []byte("x"))
	wantError(t, err, mqtt.ErrUnavailable)
	wantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, mqtt.ErrUnknown) {
		t.Errorf("the error is %v too", mqtt.ErrUnknown)
	}
	close(answer)
	eventually(t, "a message is taken again", func() bool {
		_, err := p.Publish(t.Context(), "later", []byte("x"))
		return err == nil
	})
	for _, topic := range []string{"sent", "later"} {
		if first := receive(t, got); first != topic {
			t.Errorf("the broker got %s, want %s", first, topic)
		}
	}
}

// TestCancelledWhileWaiting ends the caller's context after the broker has the
// message.
func TestCancelledWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := fakeBroker(t, func(_ int, c peer) {
		if c.welcome(packets.Connack{}) != nil && c.nextPublish() != nil {
			cancel()
			c.drain()
		}
	})
	p := dial(t, mqtt.Options{URL: url, Timeout: 5 * time.Minute})
	_, err := p.Publish(ctx, "a", []byte("x"))
	wantError(t, err, mqtt.ErrUnknown)
	wantError(t, err, context.Canceled)
}

// TestCloseWhileWaiting ends the client after the broker has the message.
func TestCloseWhileWaiting(t *testing.T) {
	sent := make(chan struct{})
	url := fakeBroker(t, func(_ int, c peer) {
		if c.welcome(packets.Connack{}) != nil && c.nextPublish() != nil {
			close(sent)
			c.drain()
		}
	})
	p := dial(t, mqtt.Options{URL: url, Timeout: 5 * time.Minute})
	result := make(chan error, 1)
	go func() {
		_, err := p.Publish(t.Context(), "a", []byte("x"))
		result <- err
	}()
	receive(t, sent)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, receive(t, result), mqtt.ErrUnknown)
}

// TestReasonCodes checks what becomes of each class of answer.
func TestReasonCodes(t *testing.T) {
	codes := make(chan byte, 1)
	url := fakeBroker(t, func(_ int, c peer) {
		if c.welcome(packets.Connack{}) == nil {
			return
		}
		for m := c.nextPublish(); m != nil; m = c.nextPublish() {
			c.acknowledge(m, <-codes)
		}
	})
	p := dial(t, mqtt.Options{URL: url})
	for code, want := range map[byte]mqtt.Receipt{0: {Matched: true}, 16: {ReasonCode: 16}} {
		codes <- code
		if got := mustPublish(t, p, "a", "x"); got != want {
			t.Errorf("reason code %d: the receipt is %+v", code, got)
		}
	}
	for _, code := range []byte{0x80, 0x83, 0x87, 0x90, 0x97, 0x99, 0xff} {
		codes <- code
		_, err := p.Publish(t.Context(), "a", []byte("x"))
		denied := new(mqtt.DeniedError)
		if !errors.As(err, &denied) || denied.ReasonCode != code || !errors.Is(err, mqtt.ErrDenied) || errors.Is(err, mqtt.ErrUnknown) || !strings.Contains(err.Error(), strconv.Itoa(int(code))) {
			t.Errorf("reason code %d: the error is %v", code, err)
		}
	}
}

// TestBrokerLimits checks that what a broker does not take is not sent to it.
func TestBrokerLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits packets.Properties
		want   error
	}{
		{"size", packets.Properties{MaximumPacketSize: new(uint32(100))}, mqtt.ErrTooLarge},
		{"quality", packets.Properties{MaximumQOS: new(byte(0))}, mqtt.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan *packets.ControlPacket, 1)
			url := fakeBroker(t, func(n int, peer peer) {
				if peer.welcome(packets.Connack{Properties: &c.limits}) != nil {
					got <- peer.next()
				}
			})
			p := dial(t, mqtt.Options{URL: url})
			_, err := p.Publish(t.Context(), "a", make([]byte, 100))
			wantError(t, err, c.want)
			p.Close()
			if packet := receive(t, got); packet == nil || packet.Type != packets.DISCONNECT {
				t.Errorf("the broker got %v", packet)
			}
		})
	}
}

// TestHostileBroker checks that a client leaves a broker that talks nonsense,
// at once and without reading all of it, and is there for the next one.
func TestHostileBroker(t *testing.T) {
	for name, answer := range map[string][]byte{
		"not MQTT":       []byte("HTTP/1.1 400 Bad Request\r\n" + strings.Repeat("x", 1000)),
		"4 GiB":          {0x20, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"256 MiB":        {0x20, 0xff, 0xff, 0xff, 0x7f},
		"endless length": append([]byte{0x20}, bytes.Repeat([]byte{0x80}, 1000)...),
		"reserved type":  {0x00, 0x00},
		"other type":     {0x40, 0x02, 0x00, 0x01},
		"empty CONNACK":  {0x20, 0x00},
		"refused":        {0x20, 0x03, 0x00, 0x87, 0x00},
		"CONNACK twice":  {0x20, 0x03, 0x00, 0x00, 0x00, 0x20, 0x03, 0x00, 0x00, 0x00},
		"sent away":      {0x20, 0x03, 0x00, 0x00, 0x00, 0xe0, 0x02, 0x8e, 0x00},
		"4 GiB later":    {0x20, 0x03, 0x00, 0x00, 0x00, 0x40, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			url := fakeBroker(t, func(n int, c peer) {
				if n == 0 {
					c.next()
					c.Write(answer)
					c.drain()
					left <- struct{}{}
				} else if c.welcome(packets.Connack{}) != nil {
					c.acknowledgeAll()
				}
			})
			p := dial(t, mqtt.Options{URL: url})
			receive(t, left)
			eventually(t, "a message is taken", func() bool {
				_, err := p.Publish(t.Context(), "a", []byte("x"))
				return err == nil
			})
		})
	}
}

// TestUnasked sends a client what it has no use for.
func TestUnasked(t *testing.T) {
	url := fakeBroker(t, func(n int, c peer) {
		if c.welcome(packets.Connack{Properties: &packets.Properties{AuthMethod: "any"}}) == nil {
			return
		}
		c.Write([]byte{0x30, 0x04, 0x00, 0x01, 'a', 0x00})                 // a message at QoS 0
		c.Write([]byte{0x32, 0x06, 0x00, 0x01, 'a', 0x00, 0x07, 0x00})     // at QoS 1
		c.Write([]byte{0x40, 0x02, 0x12, 0x34, 0x90, 0x04, 0, 1, 0, 0})    // acknowledgements
		c.Write([]byte{0x62, 0x02, 0x00, 0x01, 0x70, 0x02, 0, 1, 0xd0, 0}) // more of them, and to a ping
		c.Write([]byte{0xf0, 0x02, 0x18, 0x00})                            // authentication
		for packet := c.next(); packet != nil; packet = c.next() {
			if m, ok := packet.Content.(*packets.Publish); ok {
				c.acknowledge(m, 0)
			}
		}
	})
	p := dial(t, mqtt.Options{URL: url})
	mustPublish(t, p, "a", "x")
}

// TestSilentPeer connects to something that accepts and never says a word.
func TestSilentPeer(t *testing.T) {
	url := fakeBroker(t, func(_ int, c peer) { c.drain() })
	p := dial(t, mqtt.Options{URL: url})
	wantError(t, p.Ping(t.Context()), mqtt.ErrUnavailable)
	_, err := p.Publish(t.Context(), "a", []byte("x"))
	wantError(t, err, mqtt.ErrUnavailable)
	if errors.Is(err, mqtt.ErrUnknown) {
		t.Errorf("nothing was sent, but: %v", err)
	}
}

// TestStalledBroker fills the connection to a broker that stops reading: the
// writer is not held up, and the connection is made anew.
func TestStalledBroker(t *testing.T) {
	again := make(chan struct{}, 100)
	url := fakeBroker(t, func(n int, c peer) {
		if n > 0 {
			again <- struct{}{}
		}
		if c.welcome(packets.Connack{}) != nil {
			<-t.Context().Done()
		}
	})
	p := dial(t, mqtt.Options{URL: url, Timeout: 50 * time.Millisecond})
	for range 500 {
		if _, err := p.Publish(t.Context(), "a", make([]byte, 256<<10)); err == nil {
			t.Fatal("a message is taken")
		}
		select {
		case <-again:
			return
		default:
		}
	}
	t.Error("the connection stays")
}

// TestRefusedLog counts what a client writes whose broker refuses it again and
// again.
func TestRefusedLog(t *testing.T) {
	const secret = "hunter2"
	refused := make(chan struct{}, 100)
	url := fakeBroker(t, func(_ int, c peer) {
		c.welcome(packets.Connack{ReasonCode: 0x87, Properties: &packets.Properties{ReasonString: "no\nentry"}})
		refused <- struct{}{}
	})
	var log servertest.Log
	p := dial(t, mqtt.Options{URL: strings.Replace(url, "//", "//user:"+secret+"@", 1), Log: logTo(&log)})
	for range 4 {
		receive(t, refused)
	}
	wantError(t, p.Ping(t.Context()), mqtt.ErrUnavailable)
	p.Close()
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "reasonCode=135") || strings.Contains(text, secret) {
		t.Errorf("the log is:\n%s", text)
	}
}
