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

	// Look returns once the server has looked at the channels, or soon: what it finds has its
	// alarm before Run writes it anew. nil: Run begins at once.
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
	tick := time.NewTicker(stepInterval)
	defer tick.Stop()
	log := newStepLog(s.Log)
	if s.Look != nil {
		s.Look(ctx)
	}
	for _, channel := range configured {
		s.finish(ctx, channel, log)
	}
	for {
		s.takeSteps(ctx, log)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeSteps takes the steps that are due and that the evidence allows.
func (s *Steward) takeSteps(ctx context.Context, log stepLog) {
	if s.steps == nil {
		s.steps = newWatched(s.Guards.Now, s.Elapsed)
	}
	for name, c := range s.Guards.Channels() {
		switch {
		case !c.Shown:
		case c.Behind:
			s.finish(ctx, name, log)
		default:
			over, early := s.steps.over(name, c)
			if log.early(name, early); over {
				s.step(ctx, name, c, log)
			}
		}
	}
}

// finish completes an interrupted move.
func (s *Steward) finish(ctx context.Context, channel string, log stepLog) {
	report, err := s.Publisher.Finish(ctx, channel)
	if !log.failed(channel, err) && report.Changed {
		s.Log.Info("channel brought up to date", "channel", channel, "version", report.Version, "sequence", report.Sequence)
	}
}

// step takes a step that is due, unless it has to wait for evidence.
func (s *Steward) step(ctx context.Context, channel string, c Channel, log stepLog) {
	opinion, err := s.Guards.Judge(ctx, channel, c)
	if log.failed(channel, err) {
		return
	}
	if log.waits(opinion); opinion.Decision != verdict.Continue {
		return
	}
	report, err := s.Publisher.Advance(ctx, release.Options{Channel: channel})
	if !log.failed(channel, err) && report.Changed && report.Entry != nil {
		s.Log.Info("rollout advanced", "channel", channel, "version", report.Version, "sequence", report.Sequence, "step", report.Entry.Why, "verdict", opinion.Verdict.Sentence)
	}
}

// stepLog logs each change of state once.
type stepLog struct {
	*slog.Logger
	failing map[string]bool
	waiting map[string]string
	tooSoon map[string]bool
}

func newStepLog(log *slog.Logger) stepLog {
	return stepLog{log, map[string]bool{}, map[string]string{}, map[string]bool{}}
}

// early logs once that a step is over by its date alone.
func (l stepLog) early(channel string, early bool) {
	if early && !l.tooSoon[channel] {
		l.Info("the next step of a rollout waits until this server has watched the present one for long enough: it began lately, or its clock was set ahead", "channel", channel)
	}
	l.tooSoon[channel] = early
}

// failed reports whether there is an error, and logs it unless somebody else moved the channel
// or the channel shows nothing.
func (l stepLog) failed(channel string, err error) bool {
	if errors.As(err, new(*channels.ConflictError)) || errors.Is(err, library.ErrNoRelease) {
		return true
	}
	once(l.failing, channel, err, func() {
		l.Error("a channel could not be brought up to date", withHint(err, "channel", channel)...)
	})
	return err != nil
}

// withHint adds an error and its hint to the attributes of a log line.
func withHint(err error, args ...any) []any {
	args = append(args, "error", err)
	if refusal := (*release.Refusal)(nil); errors.As(err, &refusal) && refusal.Mend != "" {
		args = append(args, "hint", refusal.Mend)
	}
	return args
}

// waits logs why a step waits, when it begins to wait and when it no longer does.
func (l stepLog) waits(o *Opinion) {
	why := ""
	if o.Decision != verdict.Continue {
		why = string(o.Verdict.Cause) + o.Version
	}
	if why != "" && why != l.waiting[o.Channel] {
		l.Info("the next step of a rollout waits", "channel", o.Channel, "version", o.Version, "reason", o.Why)
	}
	l.waiting[o.Channel] = why
}

// halt judges releases whenever something new is known about them.
func (s *Steward) halt(ctx context.Context) {
	next := time.NewTimer(guardInterval)
	defer next.Stop()
	seen := newGuardLog()
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
		err := s.judge(ctx, seen)
		next.Reset(guardPause(time.Since(began)))
		if err == nil {
			last = now
		}
	}
}

// guardLog is the state of the guard between rounds.
type guardLog struct {
	failing map[string]bool // what the log says
	kept    map[string]time.Time
}

func newGuardLog() guardLog { return guardLog{map[string]bool{}, map[string]time.Time{}} }

// judge stores the outcomes of releases, and pauses rollouts whose release fails. The error is
// that of the records.
func (s *Steward) judge(ctx context.Context, seen guardLog) error {
	s.keep(ctx, seen)
	trips, err := s.Guards.Tripped(ctx)
	once(seen.failing, "", err, func() { s.Log.Error("rollouts are not guarded", "error", err) })
	for _, trip := range trips {
		report, err := s.Publisher.Halt(ctx, release.Options{Channel: trip.Channel, Why: trip.Reason()}, trip.Sequence)
		once(seen.failing, trip.Channel, err, func() {
			s.Log.Error("a rollout that fails is not halted as a whole", withHint(err, "channel", trip.Channel, "version", trip.Version)...)
		})
		if report != nil && report.Changed {
			s.Log.Error("rollout halted", "channel", trip.Channel, "version", trip.Version, "sequence", report.Sequence, "reason", trip.Reason(), "warnings", report.Warnings)
		}
	}
	return err
}

// keepEvery is how often the outcomes of a release are stored.
const keepEvery = time.Minute

// keep stores the outcomes of the newest releases, at most once per keepEvery.
func (s *Steward) keep(ctx context.Context, seen guardLog) {
	for name, c := range s.Guards.Channels() {
		now := s.Guards.Now()
		if age := now.Sub(seen.kept[name]); age >= 0 && age < keepEvery {
			continue
		}
		err := s.Guards.Keep(ctx, name, c)
		once(seen.failing, name+"/kept", err, func() {
			s.Log.Error("what a release came to is not kept", "channel", name, "version", c.Newest(), "error", err)
		})
		if err == nil {
			seen.kept[name] = now
		}
	}
}

// look records when a guard judged, and how much this server had recorded by then.
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

// once calls log when something begins to fail.
func once(failing map[string]bool, what string, err error, log func()) {
	if err != nil && !failing[what] && !errors.Is(err, context.Canceled) {
		log()
	}
	failing[what] = err != nil
}
