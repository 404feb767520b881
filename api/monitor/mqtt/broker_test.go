package mqtt_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"tsmon/api/monitor/mqtt"
)

func listen(t *testing.T) *mqtt.Broker {
	t.Helper()
	b, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: "127.0.0.1:0", Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func anonymous() *paho.Connect { return &paho.Connect{CleanStart: true, KeepAlive: 60} }

func TestBroker(t *testing.T) {
	suite(t, func(t *testing.T) target {
		b := listen(t)
		return target{b, b.Addr(), anonymous}
	})
}

func TestBrokerAddressTaken(t *testing.T) {
	b := listen(t)
	_, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: b.Addr(), Log: silent})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("the error is %v", err)
	}
	b.Close()
	again, err := mqtt.Listen(t.Context(), mqtt.BrokerOptions{Address: b.Addr(), Log: silent})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	again.Close()
}

// TestBrokerOnlyPublisher has devices try each way to publish.
func TestBrokerOnlyPublisher(t *testing.T) {
	b := listen(t)
	d := connect(t, b.Addr(), anonymous()).subscribe(t, "#")
	other := connect(t, b.Addr(), anonymous())
	answer, err := other.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "a", Payload: []byte("x")})
	if err == nil || answer == nil || answer.ReasonCode != 135 {
		t.Errorf("at QoS 1 the answer is %+v, %v", answer, err)
	}
	if answer, err = other.Publish(t.Context(), &paho.Publish{QoS: 2, Topic: "a", Payload: []byte("x")}); err != nil || answer.ReasonCode != 135 {
		t.Errorf("at QoS 2 the answer is %+v, %v", answer, err)
	}
	if _, err := other.Publish(t.Context(), &paho.Publish{Topic: "a", Retain: false, Payload: []byte("x")}); err != nil {
		t.Error(err)
	}
	alias := uint16(1)
	if _, err := other.Publish(t.Context(), &paho.Publish{Topic: "a", Payload: []byte("x"), Properties: &paho.PublishProperties{TopicAlias: &alias}}); err != nil {
		t.Error(err)
	}
	old := raw(t, b, "\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03old") // 3.1.1
	old.want(t, "\x20\x02\x00\x00")
	old.write(t, "\x32\x06\x00\x01a\x00\x01x")
	old.wantEnd(t)
	mustPublish(t, b, "end", "")
	d.wantMessage(t, "end", "")
}

// TestBrokerRefuses lists clients that would publish with a will or pass for
// the broker.
func TestBrokerRefuses(t *testing.T) {
	b := listen(t)
	d := connect(t, b.Addr(), anonymous()).subscribe(t, "#")
	for name, greeting := range map[string]*paho.Connect{
		"will":          {CleanStart: true, WillMessage: &paho.WillMessage{Topic: "will", Payload: []byte("x")}},
		"retained will": {CleanStart: true, WillMessage: &paho.WillMessage{Topic: "will", Payload: []byte("x"), Retain: true, QoS: 1}},
		"name":          {CleanStart: true, ClientID: "inline"},
	} {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := paho.NewClient(paho.ClientConfig{Conn: c}).Connect(t.Context(), greeting); err == nil || answer == nil || answer.ReasonCode < 0x80 {
			t.Errorf("%s: the answer is %+v, %v", name, answer, err)
		}
	}
	mustPublish(t, b, "end", "")
	d.wantMessage(t, "end", "")
}
