package mqtt

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	maxClients     = 256
	maxRequest     = 64 << 10 // bytes of a packet from a client
	maxBacklog     = 1024     // messages queued for one subscriber or not acknowledged by it
	maxFilters     = 100      // of one client
	maxKeepAlive   = 300      // seconds
	messageLife    = 60       // seconds until an unacknowledged message is dropped
	statusInterval = 3600     // seconds between messages under $SYS
)

// BrokerOptions are what a Broker needs.
type BrokerOptions struct {
	Address string // host:port; port 0 is any free one
	Log     *slog.Logger
}

// Broker is an MQTT broker within this process, for clients of MQTT 3.1, 3.1.1 and 5.
// Anyone who can connect may subscribe; only the process itself may publish, so that
// clients with a will are refused.
//
// A session ends with its connection: a device that is away misses messages. A client
// that does not read is disconnected after 2 s, and messages are dropped while 1,024
// are not acknowledged.
//
// Its methods may be called concurrently; messages are sent one at a time.
type Broker struct {
	server   *mochi.Server
	listener *listener
	log      *sparseLog
	turn     chan struct{} // full while a message is sent
	dropped  int64         // messages; guarded by turn
	closed   chan struct{}
	closing  sync.Once
}

// Listen starts a broker, which runs until Close.
func Listen(ctx context.Context, o BrokerOptions) (*Broker, error) {
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("MQTT broker: %w", err)
	}
	log := newSparseLog(o.Log)
	b := &Broker{
		server: mochi.New(&mochi.Options{
			Capabilities:           capabilities(),
			InlineClient:           true,
			SysTopicResendInterval: statusInterval,
			Logger:                 slog.New(slog.DiscardHandler), // mochi logs whole packets, with passwords and payloads
		}),
		listener: newListener(socket, log),
		log:      log,
		turn:     make(chan struct{}, 1),
		closed:   make(chan struct{}),
	}
	if err := b.serve(); err != nil {
		socket.Close()
		return nil, fmt.Errorf("MQTT broker: %w", err)
	}
	return b, nil
}

func (b *Broker) serve() error {
	if err := b.server.AddHook(&rules{server: b.server, log: b.log}, nil); err != nil {
		return err
	}
	if err := b.server.AddListener(b.listener); err != nil {
		return err
	}
	return b.server.Serve()
}

func capabilities() *mochi.Capabilities {
	c := mochi.NewDefaultServerCapabilities()
	c.MaximumClients = maxClients
	c.MaximumPacketSize = maxRequest
	c.MaximumClientWritesPending = maxBacklog
	c.MaximumInflight = maxBacklog
	c.MaximumMessageExpiryInterval = messageLife
	c.MaximumSessionExpiryInterval = 0
	c.ReceiveMaximum = 16
	c.TopicAliasMaximum = 0
	c.RetainAvailable = 0
	return c
}

// Addr returns the address that the broker listens at.
func (b *Broker) Addr() string { return b.listener.Address() }

// Publish sends a message to its subscribers. It returns once the message is in the
// queue of each.
func (b *Broker) Publish(ctx context.Context, topic string, payload []byte) (Receipt, error) {
	if err := ready(ctx, topic, payload); err != nil {
		return Receipt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := b.Ping(ctx); err != nil {
		return Receipt{}, err
	}
	select {
	case b.turn <- struct{}{}:
	case <-b.closed:
		return Receipt{}, ErrUnavailable
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("%w: an earlier message is waiting for a subscriber: %w", ErrUnavailable, ctx.Err())
	}
	var receipt Receipt
	var err error
	sent := make(chan struct{})
	payload = bytes.Clone(payload) // the caller may return before it is read
	go func() {
		defer func() { <-b.turn }() // Close waits for it
		receipt, err = b.publish(topic, payload)
		close(sent)
	}()
	select {
	case <-sent:
		return receipt, err
	case <-ctx.Done():
		return Receipt{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// publish is called with the turn. A subscriber that does not read delays it.
func (b *Broker) publish(topic string, payload []byte) (Receipt, error) {
	subscribers := b.server.Topics.Subscribers(topic)
	receipt := Receipt{ReasonCode: noSubscribers}
	if len(subscribers.Subscriptions)+len(subscribers.Shared) > 0 {
		receipt = Receipt{Matched: true}
	}
	if err := b.server.Publish(topic, payload, false, 1); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	dropped := atomic.LoadInt64(&b.server.Info.MessagesDropped) + atomic.LoadInt64(&b.server.Info.InflightDropped)
	if dropped > b.dropped {
		b.log.warn("MQTT messages were dropped because a subscriber is too slow", "dropped", dropped)
		b.dropped = dropped
	}
	return receipt, nil
}

// Ping returns ErrUnavailable if the broker is closed.
func (b *Broker) Ping(ctx context.Context) error {
	select {
	case <-b.closed:
		return ErrUnavailable
	default:
		return ctx.Err()
	}
}

// Close disconnects all clients and waits for the broker's goroutines.
func (b *Broker) Close() error {
	var err error
	b.closing.Do(func() {
		close(b.closed)
		err = b.server.Close()
		b.turn <- struct{}{}
	})
	return err
}

// rules decides what clients may do.
type rules struct {
	mochi.HookBase
	server *mochi.Server
	log    *sparseLog
}

// Provides lists the hooks that are implemented.
func (r *rules) Provides(event byte) bool {
	return bytes.IndexByte([]byte{
		mochi.OnConnect, mochi.OnConnectAuthenticate, mochi.OnSubscribe, mochi.OnACLCheck, mochi.OnClientExpired,
	}, event) >= 0
}

// OnConnect refuses a client with a will, which the broker would publish, and one with
// the broker's own client ID. Sessions of others end with the connection.
func (r *rules) OnConnect(client *mochi.Client, connect packets.Packet) error {
	if connect.Connect.WillFlag || client.ID == mochi.InlineClientId {
		r.log.warn("refused an MQTT client with a will or the broker's own client ID", "client", client.Net.Remote)
		refusal := packets.ErrNotAuthorized
		if err := r.server.SendConnack(client, refusal, false, nil); err != nil {
			return err
		}
		return refusal
	}
	client.Properties.Clean = true
	if five := client.Properties.ProtocolVersion == 5; five && (client.State.Keepalive == 0 || client.State.Keepalive > maxKeepAlive) {
		client.State.Keepalive, client.State.ServerKeepalive = maxKeepAlive, true
	}
	return nil
}

// OnConnectAuthenticate admits everyone.
func (r *rules) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnSubscribe empties filters that are too many or too long; empty ones are refused.
func (r *rules) OnSubscribe(client *mochi.Client, subscribe packets.Packet) packets.Packet {
	full := client.State.Subscriptions.Len()+len(subscribe.Filters) > maxFilters
	for i := range subscribe.Filters {
		if full || len(subscribe.Filters[i].Filter) > maxTopic {
			subscribe.Filters[i].Filter = ""
		}
	}
	return subscribe
}

// OnACLCheck allows subscribing and forbids publishing.
func (r *rules) OnACLCheck(_ *mochi.Client, _ string, publish bool) bool { return !publish }

// OnClientExpired removes the subscriptions of a client that did not disconnect.
func (r *rules) OnClientExpired(client *mochi.Client) { r.server.UnsubscribeClient(client) }
