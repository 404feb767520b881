package mqtt_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

// publisher is the contract that both types keep.
type publisher interface {
	Publish(ctx context.Context, topic string, payload []byte) (mqtt.Receipt, error)
	Ping(ctx context.Context) error
	Close() error
}

var silent = slog.New(slog.DiscardHandler)

// logTo returns a logger that writes lines of text to a log.
func logTo(log *servertest.Log) *slog.Logger { return slog.New(slog.NewTextHandler(log, nil)) }

// patience is how long tests wait for an event: long, as a machine may be busy.
const patience = 2 * time.Minute

// receive returns the next value of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing comes within %v", patience)
		panic("unreachable")
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("after %v it does not hold that %s", patience, what)
		case <-tick.C:
		}
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, not %q", err, want)
	}
}

func dial(t *testing.T, o mqtt.Options) *mqtt.Client {
	t.Helper()
	if o.Log == nil {
		o.Log = silent
	}
	c, err := mqtt.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// device is a client of a broker that has nothing in common with what is tested.
type device struct {
	*paho.Client
	messages chan *paho.Publish
}

// connect introduces a device to a broker until the end of the test.
func connect(t *testing.T, address string, as *paho.Connect) *device {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{messages: make(chan *paho.Publish, 10_000)}
	d.Client = paho.NewClient(paho.ClientConfig{
		Conn: c,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
			d.messages <- r.Packet
			return true, nil
		}},
	})
	if _, err := d.Connect(t.Context(), as); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Disconnect(&paho.Disconnect{}) })
	return d
}

// subscribe adds a filter to what the device gets.
func (d *device) subscribe(t *testing.T, filter string) *device {
	t.Helper()
	if _, err := d.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	return d
}

func mustPublish(t *testing.T, p publisher, topic, payload string) mqtt.Receipt {
	t.Helper()
	receipt, err := p.Publish(t.Context(), topic, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// wantMessage checks the next message that a device gets.
func (d *device) wantMessage(t *testing.T, topic, payload string) {
	t.Helper()
	got := receive(t, d.messages)
	if got.Topic != topic || string(got.Payload) != payload || got.QoS != 1 || got.Retain {
		t.Errorf("%.40q came on %q, at QoS %d, retained: %v; want %.40q on %q", got.Payload, got.Topic, got.QoS, got.Retain, payload, topic)
	}
}
