package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"tsmon/api/fleet/verdict"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/library"
)

const (
	stepInterval  = 10 * time.Second // between checks for steps that are due
	guardInterval = 5 * time.Second  // between checks for rollouts that fail, at least
)

// Steward moves channels on behalf of a server: it takes the steps of rollouts that are due, if
// the outcomes of the release allow it, and halts rollouts whose release fails. If there are
// several servers, one writes the entry and the others find it.
type Steward struct {
	Publisher *release.Publisher
	Guards    *Guards
	Log       *slog.Logger
	// Elapsed is a clock that can't be set; a step must be over by this clock too. nil means
	// the monotonic clock of this machine.
	Elapsed func() time.Duration

	// Look returns once the server has looked at the channels, or after a while. Run calls it
	// first, so that the server raises its alarms before Run repairs what caused them. May be nil.
	Look func(ctx context.Context)

	steps *watched
}

// Run moves the channels until the context ends. It begins with the configured ones, because
// only the log may show that a move was interrupted.
func (s *Steward) Run(ctx context.Context, configured []string) {
	var loops sync.WaitGroup
	loops.Go(func() { s.advance(ctx, configured) })
	loops.Go(func() { s.halt(ctx) })
	loops.Wait()
}

// advance takes steps, and completes interrupted moves.
func (s *Steward) advance(ctx context.Context, configured []string) {
	said := said{}
	if s.Look != nil {
		s.Look(ctx)
	}
	for _, channel := range configured {
		s.finish(ctx, channel, said)
	}
	every(ctx, stepInterval, func(ctx context.Context) { s.takeSteps(ctx, said) })
}

// takeSteps takes the steps that are due and that the evidence allows.
func (s *Steward) takeSteps(ctx context.Context, said said) {
	if s.steps == nil {
		s.steps = newWatched(s.Guards.Now, s.Elapsed)
	}
	for name, c := range s.Guards.Channels() {
		switch {
		case !c.Shown:
		case c.Behind:
			s.finish(ctx, name, said)
		default:
			over, early := s.steps.over(name, c)
			if said.begins(name+" is early", early) {
				s.Log.Info("the next step of a rollout waits until this server has watched the present one for long enough: it began lately, or its clock was set ahead", "channel", name)
			}
			if over {
				s.step(ctx, name, c, said)
			}
		}
	}
}

func (s *Steward) finish(ctx context.Context, channel string, said said) {
	report, err := s.Publisher.Finish(ctx, channel)
	if !s.failed(channel, err, said) && report.Changed {
		s.Log.Info("channel brought up to date", "channel", channel, "version", report.Version, "sequence", report.Sequence)
	}
}

// step takes a step that is due, unless it has to wait for evidence.
func (s *Steward) step(ctx context.Context, channel string, c Channel, said said) {
	o, err := s.Guards.Judge(ctx, channel, c)
	if s.failed(channel, err, said) {
		return
	}
	why := ""
	if o.Decision != verdict.Continue {
		why = string(o.Verdict.Cause) + o.Version
	}
	if said.news(channel+" waits", why) {
		s.Log.Info("the next step of a rollout waits", "channel", channel, "version", o.Version, "reason", o.Why)
	}
	if o.Decision != verdict.Continue {
		return
	}
	report, err := s.Publisher.Advance(ctx, release.Options{Channel: channel})
	if !s.failed(channel, err, said) && report.Changed && report.Entry != nil {
		s.Log.Info("rollout advanced", "channel", channel, "version", report.Version, "sequence", report.Sequence, "step", report.Entry.Why, "verdict", o.Verdict.Sentence)
	}
}

// failed reports whether there is an error, and logs it unless somebody else moved the channel
// or the channel shows nothing.
func (s *Steward) failed(channel string, err error, said said) bool {
	if errors.As(err, new(*channels.ConflictError)) || errors.Is(err, library.ErrNoRelease) {
		return true
	}
	if said.fails(channel, err) {
		s.Log.Error("a channel could not be brought up to date", withHint(err, "channel", channel)...)
	}
	return err != nil
}

// withHint adds an error and its hint to the attributes of a log line.
func withHint(err error, args ...any) []any {
	args = append(args, "error", err)
	if refusal, ok := errors.AsType[*release.Refusal](err); ok && refusal.Mend != "" {
		args = append(args, "hint", refusal.Mend)
	}
	return args
}

// halt judges releases whenever something new is known about them.
func (s *Steward) halt(ctx context.Context) {
	next := time.NewTimer(guardInterval)
	defer next.Stop()
	said, kept := said{}, map[string]time.Time{}
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
		err := s.judge(ctx, said, kept)
		next.Reset(guardPause(time.Since(began)))
		if err == nil {
			last = now
		}
	}
}

// judge stores the outcomes of releases, and pauses rollouts whose release fails. The error is
// that of the records.
func (s *Steward) judge(ctx context.Context, said said, kept map[string]time.Time) error {
	s.keep(ctx, said, kept)
	trips, err := s.Guards.Tripped(ctx)
	if said.fails("", err) {
		s.Log.Error("rollouts are not guarded", "error", err)
	}
	for _, trip := range trips {
		report, err := s.Publisher.Halt(ctx, release.Options{Channel: trip.Channel, Why: trip.Why}, trip.Sequence)
		if said.fails(trip.Channel, err) {
			s.Log.Error("a rollout that fails is not halted as a whole", withHint(err, "channel", trip.Channel, "version", trip.Version)...)
		}
		if report != nil && report.Changed {
			s.Log.Error("rollout halted", "channel", trip.Channel, "version", trip.Version, "sequence", report.Sequence, "reason", trip.Why, "warnings", report.Warnings)
		}
	}
	return err
}

// keepEvery is how often the outcomes of a release are stored.
const keepEvery = time.Minute

// keep stores the outcomes of the newest releases, each at most once per keepEvery. kept is when
// it last did so, by channel.
func (s *Steward) keep(ctx context.Context, said said, kept map[string]time.Time) {
	for name, c := range s.Guards.Channels() {
		now := s.Guards.Now()
		if age := now.Sub(kept[name]); age >= 0 && age < keepEvery {
			continue
		}
		err := s.Guards.Keep(ctx, name, c)
		if said.fails(name+" is kept", err) {
			s.Log.Error("what a release came to is not kept", "channel", name, "version", c.Newest(), "error", err)
		}
		if err == nil {
			kept[name] = now
		}
	}
}

// look is when a guard judged, and how much this server had recorded by then.
type look struct {
	recorded uint64
	at       time.Time
}

// guardIdle is how long a guard assumes that other servers have recorded nothing new.
const guardIdle = time.Minute

// due reports whether there may be something new to judge.
func (l look) due(recorded uint64, now time.Time) bool {
	age := now.Sub(l.at)
	return recorded != l.recorded || age < 0 || age >= guardIdle
}

// guardShare is the share of its time that a server may spend asking the records
// about rollouts.
const guardShare = 0.02

// guardPause returns how long to wait after a check that took this long.
func guardPause(took time.Duration) time.Duration {
	return max(guardInterval, time.Duration(float64(took)/guardShare))
}

// said is what was last logged, by subject, so that each change is logged once.
type said map[string]string

// news sets the state of a subject, empty for nothing to report, and reports whether to log it.
func (s said) news(subject, state string) bool {
	before := s[subject]
	s[subject] = state
	return state != "" && state != before
}

// begins reports whether a condition has just become true.
func (s said) begins(subject string, now bool) bool {
	if !now {
		return s.news(subject, "")
	}
	return s.news(subject, "so")
}

// turns is begins, and also reports whether the condition has just become false.
func (s said) turns(subject string, now bool) (began, ended bool) {
	before := s[subject] != ""
	return s.begins(subject, now), before && !now
}

// fails is begins for an error, other than that of a cancelled context.
func (s said) fails(subject string, err error) bool {
	return s.begins(subject, err != nil) && !errors.Is(err, context.Canceled)
}
