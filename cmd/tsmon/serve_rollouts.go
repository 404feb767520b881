package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tsmon/api"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
)

const (
	finishInterval = 10 * time.Second // between looks for rollouts that have reached everybody
	guardInterval  = 5 * time.Second  // between looks for rollouts that fail
)

// steerRollouts ends and halts rollouts until the context ends. The log names the
// server by its address, so that of two that are run by the same user each knows
// its own entries.
func (a *app) steerRollouts(ctx context.Context, c *config.Config, b *backends, handler *api.Server, address string) error {
	if c.PublicURL == "" || len(b.trusted) == 0 {
		b.log.Info("this server neither guards nor ends rollouts: it has no public_url or no trusted_keys")
		return nil
	}
	p, err := a.publisherFor(ctx, c, a.newProgress(""))
	if err != nil {
		b.log.Error("rollouts are neither guarded nor ended by this server", "error", err)
		return err
	}
	p.Who, p.Step = "tsmon serve at "+address+", "+a.who(), func(string) {}
	var loops sync.WaitGroup
	loops.Go(func() { finishRollouts(ctx, c, p, b.log, handler) })
	loops.Go(func() { haltRollouts(ctx, c, p, b.log, handler) })
	loops.Wait()
	return nil
}

// finishRollouts lets channels show what a rollout has given to everybody, and
// does what interrupted commands left open, until the context ends. Of several
// servers one is first; the others find it done.
func finishRollouts(ctx context.Context, c *config.Config, p *release.Publisher, log *slog.Logger, handler *api.Server) {
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
				log.Error("a channel could not be brought up to date", "channel", channel, "error", err)
			case report.Changed:
				log.Info("channel brought up to date", "channel", channel, "version", report.Version, "sequence", report.Sequence)
			}
		}
		select {
		case <-ctx.Done():
			return
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

// haltRollouts pauses the rollouts whose release fails, until the context ends,
// and tells the webhook of those that it was the first to pause.
func haltRollouts(ctx context.Context, c *config.Config, p *release.Publisher, log *slog.Logger, handler *api.Server) {
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	failing := map[string]bool{} // what the log knows
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		trips, err := handler.Tripped(ctx)
		once(failing, "", err, func() { log.Error("rollouts are not guarded", "error", err) })
		for _, trip := range trips {
			report, err := p.Halt(ctx, release.Options{Channel: trip.Channel, Why: trip.Reason()}, trip.Sequence)
			once(failing, trip.Channel, err, func() {
				log.Error("a rollout that fails is not halted as a whole", "channel", trip.Channel, "version", trip.Version, "error", err)
			})
			if report != nil && report.Changed {
				log.Error("rollout halted", "channel", trip.Channel, "version", trip.Version, "sequence", report.Sequence, "reason", trip.Reason(), "warnings", report.Warnings)
				calls.Go(func() { tellWebhook(ctx, string(c.Server.Webhook), halted(trip, report, p.Now()), log) })
			}
		}
	}
}

// once says that something fails when it begins to.
func once(failing map[string]bool, what string, err error, say func()) {
	if err != nil && !failing[what] && !errors.Is(err, context.Canceled) {
		say()
	}
	failing[what] = err != nil
}
