package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"tsmon/release"
)

// Notice is what every message of the webhook contains. Chat servers show Text.
// A new event embeds it in a struct of its own.
type Notice struct {
	Text     string    `json:"text"`
	Event    string    `json:"event"`
	Sequence uint64    `json:"sequence"`
	Channel  string    `json:"channel"`
	Version  string    `json:"version"`
	Time     time.Time `json:"time"`
}

func (n Notice) notice() Notice { return n }

// HaltedNotice is the event rollout_halted: a guard has halted a rollout.
type HaltedNotice struct {
	Notice
	Failed   int      `json:"failed"`
	Tried    int      `json:"tried"`
	Reason   string   `json:"reason"`
	Warnings []string `json:"warnings,omitempty"` // such as channels that still show the release
}

func halted(t Trip, r *release.Report, now time.Time) HaltedNotice {
	text := fmt.Sprintf("The rollout of %s on %s was halted: %s. Clients that have it keep it; `tsmon channel resume %s` lets it go on, `tsmon release rollback` is a person's decision.",
		t.Version, t.Channel, t.Reason(), t.Channel)
	return HaltedNotice{
		Notice: Notice{text, "rollout_halted", r.Sequence, t.Channel, t.Version, now.UTC()},
		Failed: t.Failed, Tried: t.Tried, Reason: t.Reason(), Warnings: r.Warnings,
	}
}

// Webhook posts notices as JSON. The address is a secret: no log line contains it.
type Webhook struct {
	Address string          // empty: nothing is posted
	Pauses  []time.Duration // before each try; 0, 2 s, 10 s and 1 min by default
	Log     *slog.Logger
}

const webhookTime = 10 * time.Second // for each try

var defaultPauses = []time.Duration{0, 2 * time.Second, 10 * time.Second, time.Minute}

// Post sends a notice and tries again where that fails. Once the context has ended
// it tries once more and gives up.
func (h *Webhook) Post(ctx context.Context, message interface{ notice() Notice }) {
	if h.Address == "" {
		return
	}
	n := message.notice()
	log := h.Log.With("event", n.Event, "channel", n.Channel, "version", n.Version)
	body, err := json.Marshal(message)
	if err != nil {
		log.Error("webhook", "error", err)
		return
	}
	pauses := h.Pauses
	if pauses == nil {
		pauses = defaultPauses
	}
	for _, pause := range pauses {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		failed := post(context.WithoutCancel(ctx), h.Address, body)
		if failed == nil {
			log.Info("webhook posted")
			return
		}
		log.Warn("webhook failed", "error", failed)
		if ctx.Err() != nil {
			break
		}
	}
	log.Error("webhook given up")
}

// post sends JSON. Its errors don't contain the address.
func post(ctx context.Context, address string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return bareCause(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return bareCause(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4096)) // so that the connection can be reused
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}

// bareCause removes the address from an error of package http.
func bareCause(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
