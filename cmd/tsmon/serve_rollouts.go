package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"tsmon/api"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
)

// finishInterval is how often rollouts are looked for that have reached
// everybody.
const finishInterval = 10 * time.Second

// finishRollouts lets channels show what a rollout has given to everybody, and
// does what interrupted commands left open, until the context ends. Of several
// servers one is first; the others find it done.
func (a *app) finishRollouts(ctx context.Context, c *config.Config, b *backends, handler *api.Server) error {
	p, err := a.publisherFor(ctx, c, a.newProgress(""))
	if err != nil {
		return err
	}
	p.Who, p.Step = "tsmon serve, "+a.who(), func(string) {}
	tick := time.NewTicker(finishInterval)
	defer tick.Stop()
	due := slices.Collect(maps.Keys(c.Channels)) // what an interruption left open may show nowhere
	for {
		var failed []string
		for _, channel := range due {
			report, err := p.Finish(ctx, channel)
			switch {
			case errors.As(err, new(*channels.ConflictError)), errors.Is(err, release.ErrNoRelease), ctx.Err() != nil:
			case err != nil:
				failed = append(failed, channel)
				b.log.Error("a channel could not be brought up to date", "channel", channel, "error", err)
			case report.Changed:
				b.log.Info("channel brought up to date", "channel", channel, "version", report.Version, "sequence", report.Sequence)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due = failed
		for _, channel := range handler.Due() {
			if !slices.Contains(due, channel) {
				due = append(due, channel)
			}
		}
	}
}
