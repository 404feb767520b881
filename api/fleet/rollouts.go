package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tsmon/channels"
	"tsmon/release"
)

const (
	stepInterval  = 10 * time.Second // between checks for steps that are due
	guardInterval = 5 * time.Second  // between checks for rollouts that fail, at least
)

// Steward moves channels on behalf of a server: it takes the steps of rollouts that
// are due and halts those whose release fails. Of several servers the first one
// writes the entry; the others find it written.
type Steward struct {
	Publisher *release.Publisher
	Guards    *Guards
	Log       *slog.Logger
}

// Run looks after the channels until the context ends. It begins with those in
// configured: an interrupted move may show nowhere else.
func (s *Steward) Run(ctx context.Context, configured []string) {
	var loops sync.WaitGroup
	loops.Go(func() { s.advance(ctx, configured) })
	loops.Go(func() { s.halt(ctx) })
	loops.Wait()
}

// advance takes the steps that are due, and completes interrupted moves.
func (s *Steward) advance(ctx context.Context, due []string) {
	tick := time.NewTicker(stepInterval)
	defer tick.Stop()
	failing := map[string]bool{} // what the log says
	for {
		var failed []string
		for _, channel := range due {
			report, err := s.Publisher.Advance(ctx, release.Options{Channel: channel})
			if errors.As(err, new(*channels.ConflictError)) || errors.Is(err, release.ErrNoRelease) || ctx.Err() != nil {
				continue
			}
			once(failing, channel, err, func() {
				s.Log.Error("a channel could not be brought up to date", "channel", channel, "error", err)
			})
			switch {
			case err != nil:
				failed = append(failed, channel)
			case report.Changed && report.Entry != nil:
				s.Log.Info("rollout advanced", "channel", channel, "version", report.Version, "sequence", report.Sequence, "step", report.Entry.Why)
			case report.Changed:
				s.Log.Info("channel brought up to date", "channel", channel, "version", report.Version, "sequence", report.Sequence)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due = failed
		for name, c := range s.Guards.Channels() {
			if c.Unfinished(s.Guards.Now()) && !slices.Contains(due, name) {
				due = append(due, name)
			}
		}
	}
}

// Unfinished reports whether somebody should bring the channel up to date: a step of
// its rollout is due, or its manifest is behind its log.
func (c Channel) Unfinished(now time.Time) bool { return c.Shown && (c.Due(now) || c.Behind) }

// halt pauses rollouts whose release fails.
func (s *Steward) halt(ctx context.Context) {
	next := time.NewTimer(guardInterval)
	defer next.Stop()
	failing := map[string]bool{} // what the log says
	var last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		now := look{s.Guards.Recorded(), s.Guards.Now()}
		if !last.due(now.recorded, now.at) {
			next.Reset(guardInterval)
			continue
		}
		began := time.Now()
		trips, err := s.Guards.Tripped(ctx)
		next.Reset(guardPause(time.Since(began)))
		if err == nil {
			last = now
		}
		once(failing, "", err, func() { s.Log.Error("rollouts are not guarded", "error", err) })
		for _, trip := range trips {
			report, err := s.Publisher.Halt(ctx, release.Options{Channel: trip.Channel, Why: trip.Reason()}, trip.Sequence)
			once(failing, trip.Channel, err, func() {
				s.Log.Error("a rollout that fails is not halted as a whole", "channel", trip.Channel, "version", trip.Version, "error", err)
			})
			if report != nil && report.Changed {
				s.Log.Error("rollout halted", "channel", trip.Channel, "version", trip.Version, "sequence", report.Sequence, "reason", trip.Reason(), "warnings", report.Warnings)
			}
		}
	}
}

// look is when a guard judged, and how much this server had recorded by then.
type look struct {
	recorded uint64
	at       time.Time
}

// guardIdle is how long a guard trusts that nothing new was recorded: by other
// servers, of which this one does not know.
const guardIdle = time.Minute

// due reports whether there may be something new to judge.
func (l look) due(recorded uint64, now time.Time) bool {
	age := now.Sub(l.at)
	return recorded != l.recorded || age < 0 || age >= guardIdle
}

// guardShare is the share of its time that a server may spend asking the records
// about rollouts.
const guardShare = 0.02

// guardPause returns how long to wait after a look that took so long.
func guardPause(took time.Duration) time.Duration {
	return max(guardInterval, time.Duration(float64(took)/guardShare))
}

// once calls log when something begins to fail.
func once(failing map[string]bool, what string, err error, log func()) {
	if err != nil && !failing[what] && !errors.Is(err, context.Canceled) {
		log()
	}
	failing[what] = err != nil
}
