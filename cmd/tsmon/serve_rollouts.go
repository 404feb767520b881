package main

import (
	"context"
	"errors"
	"time"

	"tsmon/api"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
)

// finishInterval is how often rollouts are looked for that have reached
// everybody.
const finishInterval = 10 * time.Second

// finishRollouts lets channels show what a rollout has given to everybody, until
// the context ends. Of several servers one is first; the others find it done.
func (a *app) finishRollouts(ctx context.Context, c *config.Config, b *backends, handler *api.Server) error {
	p, err := a.publisherFor(ctx, c, a.newProgress(""))
	if err != nil {
		return err
	}
	p.Who, p.Step = "tsmon serve, "+a.who(), func(string) {}
	tick := time.NewTicker(finishInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, channel := range handler.Due() {
			report, err := p.Finish(ctx, channel)
			switch {
			case errors.As(err, new(*channels.ConflictError)), errors.Is(err, channels.ErrRollout), ctx.Err() != nil:
			case err != nil:
				b.log.Error("the end of a rollout could not be written", "channel", channel, "error", err)
			case report.Changed:
				b.log.Info("rollout ended", "channel", channel, "version", report.Version, "sequence", report.Sequence)
			}
		}
	}
}
