package mqtt_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

// rawClient talks to a broker in bytes.
type rawClient struct{ net.Conn }

func raw(t *testing.T, b *mqtt.Broker, greeting string) rawClient {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	r := rawClient{c}
	r.write(t, greeting)
	return r
}

func (r rawClient) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(r, text); err != nil {
		t.Fatal(err)
	}
}

func (r rawClient) want(t *testing.T, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
		t.Errorf("the answer is %q, %v, want %q", got, err, text)
	}
}

// wantEnd reads until the broker ends the connection.
func (r rawClient) wantEnd(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the broker keeps the connection")
	}
}

const (
	greeting5  = "\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03raw"
	greeting3  = "\x10\x0f\x00\x04MQTT\x04\x00\x00\x3c\x00\x03raw" // wants a session that lasts
	connack3   = "\x20\x02\x00\x00"
	subscribe5 = "\x82\x08\x00\x01\x00\x00\x02r/\x01"
	subscribe3 = "\x82\x07\x00\x01\x00\x02r/\x01"
	suback3    = "\x90\x03\x00\x01\x01"
)

// CloseWrite ends what the client sends.
func (r rawClient) CloseWrite() { r.Conn.(*net.TCPConn).CloseWrite() }

// TestBrokerBrokenPackets sends what ends a connection, and must end no more.
func TestBrokerBrokenPackets(t *testing.T) {
	b := listen(t)
	d := connect(t, b.Addr(), anonymous()).subscribe(t, "#")
	for name, text := range map[string]string{
		"no options":      greeting5 + "\x82\x07\x00\x02\x00\x00\x02r/",
		"cut off":         greeting5 + subscribe5 + "\x82\x04\x00\x02\x00\x00",
		"large greeting":  "\x10\x81\x80\x04" + strings.Repeat("x", 100),
		"not MQTT":        "GET / HTTP/1.1\r\n\r\n",
		"greets twice":    greeting5 + greeting5,
		"no greeting":     subscribe5,
		"bad filter":      greeting5 + "\x82\x0a\x00\x02\x00\x00\x04\xff\xff\xff\xff\x01",
		"bad topic":       greeting5 + "\x32\x08\x00\x01#\x00\x01\x00xx",
		"bad flags":       greeting5 + "\x80\x08\x00\x01\x00\x00\x02r/\x01",
		"reserved packet": greeting5 + "\x00\x00",
	} {
		c := raw(t, b, text)
		c.CloseWrite()
		c.wantEnd(t)
		mustPublish(t, b, name, "x")
		d.wantMessage(t, name, "x")
	}
	raw(t, b, greeting5+"\x82\xff\xff\xff\x7f").wantEnd(t) // without waiting for the rest
}

// TestBrokerForgets checks that a session ends with its connection, whatever
// the client asked for.
func TestBrokerForgets(t *testing.T) {
	b := listen(t)
	hour := uint32(3600)
	d := connect(t, b.Addr(), &paho.Connect{ClientID: "d", KeepAlive: 60, Properties: &paho.ConnectProperties{SessionExpiryInterval: &hour}})
	d.subscribe(t, "d/#")
	old := raw(t, b, greeting3+subscribe3)
	old.want(t, connack3+suback3)
	broken := raw(t, b, "\x10\x11\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x04fool\x82\x08\x00\x01\x00\x00\x02b/\x01")
	eventually(t, "it is subscribed", func() bool { return mustPublish(t, b, "b/", "x").Matched })
	for _, topic := range []string{"d/a", "r/", "b/"} {
		if !mustPublish(t, b, topic, "x").Matched {
			t.Errorf("nobody has subscribed to %s", topic)
		}
	}
	d.TerminateConnectionForTest()
	old.Close()
	broken.write(t, "\x82\x07\x00\x02\x00\x00\x02b/")
	broken.wantEnd(t)
	for _, topic := range []string{"d/a", "r/", "b/"} {
		eventually(t, "the subscription is forgotten", func() bool { return !mustPublish(t, b, topic, "x").Matched })
	}
	old = raw(t, b, greeting3+subscribe3)
	old.want(t, connack3+suback3)
	old.Close()
	raw(t, b, greeting3).want(t, connack3) // which says that there is no session
	d = connect(t, b.Addr(), &paho.Connect{ClientID: "d", KeepAlive: 60})
	d.subscribe(t, "end")
	mustPublish(t, b, "end", "")
	d.wantMessage(t, "end", "")
}

// TestBrokerFilters counts what one client may subscribe to.
func TestBrokerFilters(t *testing.T) {
	b := listen(t)
	d := connect(t, b.Addr(), anonymous())
	if _, err := d.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: strings.Repeat("/", 1025), QoS: 1}}}); err == nil {
		t.Error("a long filter is taken")
	}
	for i := range 100 {
		d.subscribe(t, "f/"+strings.Repeat("x", i))
	}
	if _, err := d.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "one/more", QoS: 1}}}); err == nil {
		t.Error("one filter too many is taken")
	}
	mustPublish(t, b, "one/more", "x")
	mustPublish(t, b, "f/xx", "x")
	d.wantMessage(t, "f/xx", "x")
}

// TestBrokerKeepAlive has a device that would never be missed.
func TestBrokerKeepAlive(t *testing.T) {
	b := listen(t)
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := paho.NewClient(paho.ClientConfig{Conn: c}).Connect(t.Context(), &paho.Connect{CleanStart: true})
	if err != nil || answer.Properties.ServerKeepAlive == nil || *answer.Properties.ServerKeepAlive != 300 {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
}

// TestBrokerUnacknowledged has a subscriber that acknowledges nothing: what is
// kept for it is bounded, and the log says so once.
func TestBrokerUnacknowledged(t *testing.T) {
	var log servertest.Log
	b, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: logTo(&log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	raw(t, b, greeting5+subscribe5)
	eventually(t, "there is a subscriber", func() bool { return mustPublish(t, b, "r/", "x").Matched })
	for range 1023 {
		mustPublish(t, b, "r/", "x")
	}
	if text := log.String(); text != "" {
		t.Errorf("after 1,024 messages the log is:\n%s", text)
	}
	for range 10 {
		mustPublish(t, b, "r/", "x")
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "dropped=1") {
		t.Errorf("the log is:\n%s", text)
	}
}

// TestBrokerSilentClients fills the broker with clients that say nothing: it
// takes no more of them, and Close does not wait for any.
func TestBrokerSilentClients(t *testing.T) {
	var log servertest.Log
	b, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: logTo(&log)})
	if err != nil {
		t.Fatal(err)
	}
	clients := []rawClient{raw(t, b, greeting5)}
	for range 255 {
		clients = append(clients, raw(t, b, ""))
	}
	eventually(t, "the broker is full", func() bool {
		c := raw(t, b, "")
		c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return err == io.EOF
	})
	clients[7].Close()
	eventually(t, "there is room for one again", func() bool {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = paho.NewClient(paho.ClientConfig{Conn: c}).Connect(t.Context(), anonymous())
		return err == nil
	})
	clients[6].SetDeadline(time.Now().Add(5 * time.Second)) // of itself it would end after 10 s
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range clients[:7] {
		c.wantEnd(t)
	}
	if n := strings.Count(log.String(), "too many clients"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
}

// TestBrokerStalledSubscriber has a subscriber that stops reading. It holds up
// no publisher past its own time, and is disconnected; others lose nothing.
func TestBrokerStalledSubscriber(t *testing.T) {
	b := listen(t)
	d := connect(t, b.Addr(), anonymous()).subscribe(t, "d")
	raw(t, b, greeting5+subscribe5)
	eventually(t, "there is a subscriber", func() bool { return mustPublish(t, b, "r/", "x").Matched })
	try := func(topic string, payload []byte) (mqtt.Receipt, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return b.Publish(ctx, topic, payload)
	}
	sent, unknown := 0, 0
	eventually(t, "the subscriber is given up", func() bool {
		if _, err := try("d", []byte("x")); err == nil {
			sent++
		} else {
			wantError(t, err, mqtt.ErrUnavailable) // the turn is not its own
		}
		receipt, err := try("r/", make([]byte, 256<<10))
		if errors.Is(err, mqtt.ErrUnknown) {
			unknown++
		} else if err != nil {
			wantError(t, err, mqtt.ErrUnavailable)
		}
		return err == nil && !receipt.Matched
	})
	if unknown == 0 {
		t.Error("the subscriber held up nobody")
	}
	for range sent {
		d.wantMessage(t, "d", "x")
	}
}

// TestBrokerLog looks for secrets of devices and for payloads in the log.
func TestBrokerLog(t *testing.T) {
	const secret = "hunter2"
	var log servertest.Log
	b, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: logTo(&log)})
	if err != nil {
		t.Fatal(err)
	}
	as := &paho.Connect{CleanStart: true, UsernameFlag: true, Username: secret, PasswordFlag: true, Password: []byte(secret)}
	connect(t, b.Addr(), as).subscribe(t, "#")
	mustPublish(t, b, "a", secret)
	twice := raw(t, b, greeting5+"\x10\x1b\x00\x04MQTT\x05\xc2\x00\x3c\x00\x00\x00\x00\x03usr\x00\x07"+secret)
	twice.wantEnd(t)
	broken := raw(t, b, greeting5+"\x82\x07\x00\x02\x00\x00\x02r/")
	broken.wantEnd(t)
	b.Close()
	if text := log.String(); strings.Contains(text, secret) || strings.Count(text, "\n") != 1 || !strings.Contains(text, "malformed packet") {
		t.Errorf("the log is:\n%s", text)
	}
}
