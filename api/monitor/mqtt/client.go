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
	keepAlive   = 15              // seconds: a broker that is silent is given up after twice that
	patience    = 2 * time.Second // how long Publish waits for a connection
	firstDelay  = 50 * time.Millisecond
	longestWait = 5 * time.Second // between two attempts to connect
)

// Options say how a Client finds its broker.
type Options struct {
	// URL is mqtt://host:port, or mqtts:// for TLS; tcp:// and ssl:// are the
	// same. It may hold a user name and a password.
	URL string
	// Timeout is how long an acknowledgement is waited for, 10 s by default.
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
	// idle counts the connections since the last message that was answered.
	idle atomic.Int32
}

// Dial returns a client that connects in the background, again and again where
// the broker is down, until Close. It outlives ctx. Only a URL that can't be
// used is an error.
func Dial(ctx context.Context, o Options) (*Client, error) {
	at, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	return dial(ctx, at, o)
}

func dial(ctx context.Context, at endpoint, o Options) (*Client, error) {
	c := &Client{endpoint: at, timeout: cmp.Or(o.Timeout, answerTimeout), log: newSparseLog(o.Log), session: newSession()}
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
		ServerUrls:       []*url.URL{{Scheme: "mqtt", Host: c.endpoint.address}}, // without the password, for it stands in errors
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
			PacketTimeout:      24 * time.Hour, // ConnectTimeout and Publish have shorter ones
			OnPublishReceived:  []func(paho.PublishReceived) (bool, error){ignore},
			OnClientError:      func(err error) { c.lost("error", err) },
			OnServerDisconnect: func(d *paho.Disconnect) { c.lost("reasonCode", d.ReasonCode) },
		},
	}
}

// completeConnect asks for a session that is new and ends with the connection,
// and for small packets.
func completeConnect(connect *paho.Connect, _ *url.URL) (*paho.Connect, error) {
	connect.CleanStart = true
	connect.Properties = &paho.ConnectProperties{ReceiveMaximum: new(uint16(1)), MaximumPacketSize: new(uint32(maxAnswer))}
	return connect, nil
}

// noAuth stands where paho calls a handler as soon as a broker speaks of
// enhanced authentication. It has nothing to say.
type noAuth struct{}

// Authenticate answers nothing of use.
func (noAuth) Authenticate(*paho.Auth) *paho.Auth {
	return &paho.Auth{Properties: &paho.AuthProperties{}}
}

// Authenticated does nothing.
func (noAuth) Authenticated() {}

// ignore takes a message that nobody asked for.
func ignore(paho.PublishReceived) (bool, error) { return true, nil }

// delay returns how long to wait before an attempt to connect: the longer, the
// more attempts failed and the more connections came to nothing.
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
	if refusal := new(autopaho.ConnackError); errors.As(err, &refusal) {
		c.log.warn("the MQTT broker refuses the connection", "broker", c.endpoint.address, "reasonCode", refusal.ReasonCode)
		return
	}
	c.log.warn("the MQTT broker can't be reached", "broker", c.endpoint.address, "error", err)
}

// Publish sends a message and waits for the acknowledgement. While there is no
// connection it waits up to 2 s for one.
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

// await waits a moment for a connection that is about to be made. The manager
// alone would not do: it still believes in a connection that has just been lost.
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

// Ping reports whether there is a connection. ErrUnavailable if not.
func (c *Client) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if link, _ := c.session.now(); link == nil {
		return ErrUnavailable
	}
	return nil
}

// Close disconnects, ends the goroutines and waits for them.
func (c *Client) Close() error {
	c.stop()
	<-c.manager.Done()
	return nil
}
