package main

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

	"tsmon/api"
	"tsmon/release"
)

// notice is what the webhook is told. Text alone is what chat servers show.
type notice struct {
	Text     string `json:"text"`
	Event    string `json:"event"` // rollout_halted
	Sequence uint64 `json:"sequence"`
	api.Trip
	Reason   string    `json:"reason"`
	Warnings []string  `json:"warnings,omitempty"` // such as channels that go on showing the release
	Time     time.Time `json:"time"`
}

func halted(t api.Trip, r *release.Report, now time.Time) notice {
	return notice{
		Text: fmt.Sprintf("The rollout of %s on %s was halted: %s. Clients that have it keep it; `tsmon channel resume %s` lets it go on, `tsmon release rollback` is a person's decision.",
			t.Version, t.Channel, t.Reason(), t.Channel),
		Event: "rollout_halted", Sequence: r.Sequence, Trip: t, Reason: t.Reason(), Warnings: r.Warnings, Time: now.UTC(),
	}
}

const webhookTime = 10 * time.Second // of each try

// webhookPauses come before each try.
var webhookPauses = []time.Duration{0, 2 * time.Second, 10 * time.Second, time.Minute}

// tellWebhook posts a notice, several times if need be. The address, which is a
// secret, is in none of the log's lines.
func tellWebhook(ctx context.Context, address string, n notice, log *slog.Logger) {
	if address == "" {
		return
	}
	body, err := json.Marshal(n)
	if err != nil {
		log.Error("webhook", "error", err)
		return
	}
	for _, pause := range webhookPauses {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		failed := post(context.WithoutCancel(ctx), address, body)
		if failed == nil {
			log.Info("webhook told", "channel", n.Channel, "version", n.Version)
			return
		}
		log.Warn("the webhook does not take the news", "channel", n.Channel, "version", n.Version, "error", failed)
		if ctx.Err() != nil { // there was time for one
			break
		}
	}
	log.Error("the webhook was not told that a rollout was halted", "channel", n.Channel, "version", n.Version)
}

// post sends JSON. Its errors don't hold the address.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4096)) // so that the connection ends well
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}

// bareCause takes the address off an error of package http.
func bareCause(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
