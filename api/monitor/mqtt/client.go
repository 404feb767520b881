package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

const (
	keepAlive   = 15              // seconds; after twice that the broker counts as lost
	patience    = 2 * time.Second // how long Publish waits for a connection
	firstDelay  = 50 * time.Millisecond
	longestWait = 5 * time.Second // between two attempts to connect
)

// Options are what a Client needs.
type Options struct {
	// URL is mqtt://host:port or tcp://host:port, for TLS mqtts:// or ssl://. It may
	// contain a user name and a password.
	URL string
	// Timeout bounds the wait for an acknowledgement, 10 s by default.
	Timeout time.Duration
	Log     *slog.Logger
}

// Client publishes through a broker. Its methods may be called concurrently.
type Client struct {
	endpoint endpoint
	timeout  time.Duration
	log      *sparseLog
	manager  *autopaho.ConnectionManager
	session  *session
	stop     context.CancelFunc
	failed   chan error   // of the first attempt to connect that failed
	idle     atomic.Int32 // connections since the last acknowledged message
}

// Dial returns a client that connects in the background, and reconnects, until Close.
// It outlives ctx. Only an unusable URL is an error.
func Dial(ctx context.Context, o Options) (*Client, error) {
	at, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	return dial(ctx, at, o)
}

func dial(ctx context.Context, at endpoint, o Options) (*Client, error) {
	c := &Client{endpoint: at, timeout: cmp.Or(o.Timeout, answerTimeout), log: newSparseLog(o.Log), session: newSession(), failed: make(chan error, 1)}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if c.manager, err = autopaho.NewConnection(ctx, c.configuration()); err != nil {
		c.stop()
		return nil, fmt.Errorf("MQTT client: %w", err)
	}
	return c, nil
}

func (c *Client) configuration() autopaho.ClientConfig {
	return autopaho.ClientConfig{
		ServerUrls:       []*url.URL{{Scheme: "mqtt", Host: c.endpoint.address}}, // without the password, which errors would show
		ConnectUsername:  c.endpoint.user,
		ConnectPassword:  []byte(c.endpoint.password),
		KeepAlive:        keepAlive,
		ConnectTimeout:   2 * connectTimeout,
		ReconnectBackoff: c.delay,
		AttemptConnection: func(ctx context.Context, _ autopaho.ClientConfig, _ *url.URL) (net.Conn, error) {
			return c.endpoint.dial(ctx, c.timeout)
		},
		ConnectPacketBuilder: completeConnect,
		OnConnectionUp:       c.connected,
		OnConnectError:       c.refused,
		ClientConfig: paho.ClientConfig{
			ClientID:           "tsmon-" + strings.ToLower(rand.Text()[:16]), // all brokers take up to 23 bytes
			Session:            c.session,
			AuthHandler:        noAuth{},
			PacketTimeout:      24 * time.Hour, // ConnectTimeout and Publish are shorter
			OnPublishReceived:  []func(paho.PublishReceived) (bool, error){ignore},
			OnClientError:      func(err error) { c.lost("error", err) },
			OnServerDisconnect: func(d *paho.Disconnect) { c.lost("reasonCode", d.ReasonCode) },
		},
	}
}

// completeConnect asks for a new session that ends with the connection, and for small
// packets.
func completeConnect(connect *paho.Connect, _ *url.URL) (*paho.Connect, error) {
	connect.CleanStart = true
	connect.Properties = &paho.ConnectProperties{ReceiveMaximum: new(uint16(1)), MaximumPacketSize: new(uint32(maxAnswer))}
	return connect, nil
}

// noAuth is the handler that paho calls if a broker asks for enhanced authentication,
// which this client does not have.
type noAuth struct{}

func (noAuth) Authenticate(*paho.Auth) *paho.Auth {
	return &paho.Auth{Properties: &paho.AuthProperties{}}
}

func (noAuth) Authenticated() {}

func ignore(paho.PublishReceived) (bool, error) { return true, nil }

// delay returns the wait before an attempt to connect. It grows with failed attempts
// and with connections on which no message was acknowledged.
func (c *Client) delay(attempt int) time.Duration {
	failures := attempt + int(c.idle.Load())
	if failures == 0 {
		return 0
	}
	longest := min(firstDelay<<min(failures, 8), longestWait)
	return longest/2 + mathrand.N(longest/2)
}

func (c *Client) connected(*autopaho.ConnectionManager, *paho.Connack) {
	c.idle.Store(min(c.idle.Load()+1, 8))
	c.log.info("connected to the MQTT broker", "broker", c.endpoint.address)
}

func (c *Client) lost(key string, reason any) {
	c.log.warn("lost the connection to the MQTT broker", "broker", c.endpoint.address, key, reason)
}

func (c *Client) refused(err error) {
	if refusal, ok := errors.AsType[*autopaho.ConnackError](err); ok {
		c.log.warn("the MQTT broker refuses the connection", "broker", c.endpoint.address, "reasonCode", refusal.ReasonCode)
		err = fmt.Errorf("the MQTT broker refuses the connection with reason code %d", refusal.ReasonCode)
	} else {
		c.log.warn("the MQTT broker can't be reached", "broker", c.endpoint.address, "error", err)
	}
	select {
	case c.failed <- err:
	default:
	}
}

// Connected waits for the first connection, or returns why the first attempt that failed did.
func (c *Client) Connected(ctx context.Context) error {
	_, up := c.session.now()
	select {
	case <-up:
		return nil
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Publish sends a message and waits for the acknowledgement. Without a connection it
// first waits up to 2 s for one.
func (c *Client) Publish(ctx context.Context, topic string, payload []byte) (Receipt, error) {
	if err := ready(ctx, topic, payload); err != nil {
		return Receipt{}, err
	}
	if err := c.await(ctx); err != nil {
		return Receipt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.manager.Publish(ctx, &paho.Publish{QoS: 1, Topic: topic, Payload: payload})
	if answer != nil {
		c.idle.Store(0)
	}
	switch {
	case err == nil:
		return Receipt{answer.ReasonCode, answer.ReasonCode != noSubscribers}, nil
	case answer != nil:
		return Receipt{}, &DeniedError{answer.ReasonCode}
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge):
		return Receipt{}, err
	case errors.Is(err, autopaho.ConnectionDownError), errors.Is(err, paho.ErrInvalidArguments):
		return Receipt{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return Receipt{}, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// await waits for a connection. The session notices a lost connection before the manager
// does.
func (c *Client) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, up := c.session.now()
	select {
	case <-up:
	case <-c.manager.Done():
	case <-ctx.Done():
	}
	if err := c.manager.AwaitConnection(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Ping returns ErrUnavailable if there is no connection.
func (c *Client) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if link, _ := c.session.now(); link == nil {
		return ErrUnavailable
	}
	return nil
}

// Close disconnects and waits for the client's goroutines.
func (c *Client) Close() error {
	c.stop()
	<-c.manager.Done()
	return nil
}
