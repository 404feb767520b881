package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release/gate"
	"tsmon/release/library"
)

// promote chooses a release that From shows, or has shown without a rollback since.
func (p planner) promote(v view, s *state, o PromoteOptions) (change, error) {
	from := v[o.From]
	if o.From == o.Channel {
		return change{}, refuse(ErrConfig, "name two channels", "--from and --to are both %s", o.From)
	}
	version, err := promotable(from, o.Version)
	if err == nil {
		err = p.forward(s, version, o.Rollout)
	}
	if err != nil {
		return change{}, err
	}
	c := p.changeTo(version, channels.Promote, o.Options)
	c.from = o.From
	p.begin(s, &c, o.Rollout)
	if r := from.log.Head().Rollout; r != nil && o.Version == "" {
		c.warnings = append(c.warnings, fmt.Sprintf("%s, which %s is rolling out, is not promoted", r.Version, o.From))
	}
	return c, nil
}

// promotable returns the version that a channel promotes if version is asked for, or none is.
func promotable(from *state, version string) (string, error) {
	if err := from.shows(); err != nil {
		return "", err
	}
	log, head := from.log, from.log.Head()
	switch {
	case version == "":
		return head.Version, nil
	case head.Rollout == nil || head.Rollout.Version != version:
	case head.Rollout.Paused.IsZero():
		return "", refuse(channels.ErrRollout, fmt.Sprintf("wait for its last step, or give it to everybody with `tsmon channel rollout %s --percent 100`, then promote it", log.Channel),
			"%s is still rolling %s out", log.Channel, version)
	default:
		return "", refuse(channels.ErrRollout, "`tsmon channel resume "+log.Channel+"` offers it again", "%s holds %s back: %s", log.Channel, version, head.Why)
	}
	for _, e := range log.Standing() {
		if e.Version == version {
			return version, nil
		}
	}
	if back := log.RolledBack(version); back != nil {
		return "", refuse(ErrRolledBack, "promote a release that was not rolled back", "%s left %s with entry %d: %s", version, log.Channel, back.Sequence, back.Why)
	}
	return "", refuse(library.ErrNoRelease, "`tsmon channel log "+log.Channel+"` shows the versions that it had", "%s never showed %s", log.Channel, version)
}

// rollback chooses the release that a channel goes back to.
func (p planner) rollback(v view, s *state, o RollbackOptions) (change, error) {
	if err := needsReason(o.Options, "a rollback"); err != nil {
		return change{}, err
	}
	version, err := rollbackTarget(s.log, o)
	if err != nil {
		return change{}, err
	}
	head := s.log.Head()
	c := p.changeTo(version, channels.Rollback, o.Options)
	c.from = head.Newest()
	c.warnings = v.elsewhere(s, version)
	if head.WentBack() && head.Version == version {
		c.warnings = append(c.warnings, fmt.Sprintf("%s was rolled back to %s before, by %s: %s", s.channel, version, head.Who, head.Why))
	}
	return c, nil
}

func rollbackTarget(log *channels.Log, o RollbackOptions) (string, error) {
	head := log.Decided()
	switch {
	case head == nil:
		return "", refuse(ErrNoTarget, "publish to it first", "%s shows nothing", log.Channel)
	case o.To != "" && !log.Shown(o.To):
		return "", refuse(ErrNoTarget, "`tsmon channel log "+log.Channel+"` shows the versions that it had", "%s never showed %s", log.Channel, o.To)
	case o.To != "":
		return o.To, nil
	case head.Rollout != nil, head.WentBack() && head.Why == o.Why:
		return head.Version, nil // which the other clients have, or the same command went back to
	case head.WentBack():
		return "", wentBack(head) // two people may be rolling back the same release
	}
	return previous(log)
}

func wentBack(e *channels.Entry) error {
	return refuse(ErrRolledBack, "`tsmon release rollback --channel "+e.Channel+" --to VERSION --reason TEXT` goes further back", "%s went back to %s already, by %s: %s", e.Channel, e.Version, e.Who, e.Why)
}

// previous returns the version to which a rollback goes by default: the last one before the present
// version that was not rolled back.
func previous(log *channels.Log) (string, error) {
	head := log.Head()
	for _, e := range slices.Backward(log.Standing()) {
		if e.Version != head.Version {
			return e.Version, nil
		}
	}
	return "", refuse(ErrNoTarget, "publish a fixed build with a higher version", "%s is the first release of %s", head.Version, log.Channel)
}

func needsReason(o Options, what string) error {
	if strings.TrimSpace(o.Why) != "" {
		return nil
	}
	return refuse(ErrConfig, "give --reason TEXT; the channel's log records it", "%s needs a reason", what)
}

// elsewhere warns of other channels that show the release which a channel leaves for a
// lower one.
func (v view) elsewhere(s *state, to string) []string {
	var warnings []string
	left := s.log.Head().Newest()
	for _, other := range v.others(s) {
		if head := other.Log.Head(); head != nil && head.Version == left && library.CompareVersions(to, left) < 0 {
			warnings = append(warnings, fmt.Sprintf("%s shows %s too: `tsmon release rollback --channel %s --reason TEXT` takes it back there", head.Channel, left, head.Channel))
		}
	}
	return warnings
}

// shows refuses a channel that can't be read, or shows nothing.
func (s *state) shows() error {
	if s.err != nil || s.log.Head() != nil {
		return s.err
	}
	return refuse(library.ErrNoRelease, "publish to it first", "%s shows nothing", s.channel)
}

// rolling returns the rollout of a channel, paused or not.
func (s *state) rolling() (*channels.Rollout, error) {
	if err := s.shows(); err != nil {
		return nil, err
	}
	head := s.log.Head()
	if head.Rollout == nil {
		return nil, refuse(channels.ErrRollout, "`tsmon release publish --percent N` begins a rollout of a newer release, `tsmon channel pause` holds this one back",
			"%s shows %s to everybody", s.channel, head.Version)
	}
	return head.Rollout, nil
}

// roll returns the change to the next state of a channel's rollout. Its release was checked when it was
// published.
func (p planner) roll(s *state, action channels.Action, o Options, next *channels.Rollout) change {
	c := p.changeTo(next.Version, action, o)
	c.Release, c.AllowMissing, c.mayLose = next.Release, slices.Concat(next.AllowMissing, o.AllowMissing), true
	c.AllowUnbound, c.StrandAll = true, action != channels.Advance || o.Rollout == nil
	if !next.Complete() {
		c.rollout, c.others = next, &s.log.Head().Release
	}
	return c
}

// rollout chooses another share of the clients, from now on.
func (p planner) rollout(_ view, s *state, o Options) (change, error) {
	now, err := s.rolling()
	switch {
	case err != nil:
		return change{}, err
	case !now.Paused.IsZero():
		return change{}, refuse(channels.ErrRollout, "`tsmon channel resume "+s.channel+"` offers it again", "the rollout of %s is paused", now.Version)
	}
	next := now.Allow(o.AllowMissing)
	next.Steps, next.Every = o.Rollout.Steps, o.Rollout.Every
	if o.Rollout.Cohorts != nil { // else they stay in
		next.Cohorts = o.Rollout.Cohorts
	}
	if now.Alike(next) {
		return p.roll(s, channels.Advance, o, now), nil
	}
	c := p.roll(s, channels.Advance, o, next.Begin(p.now.UTC().Truncate(time.Second)))
	if lost := now.Steps[slices.Index(now.Steps, now.Percent)+1:]; len(lost) > 0 && len(next.Steps) == 1 && next.Steps[0] < 100 {
		c.warnings = append(c.warnings, fmt.Sprintf("the steps of the rollout end with this: %s stays at %d %% until `tsmon channel rollout %s --percent N` gives it to more; with --steps and --every it has steps again",
			next.Version, next.Steps[0], s.channel))
	}
	return c, nil
}

// advance chooses the next step of a rollout if it is due. Otherwise it is finish.
func (p planner) advance(v view, s *state, o Options) (change, error) {
	if err := s.shows(); err != nil {
		return change{}, err
	}
	r := s.log.Head().Rollout
	if r == nil || o.Hold || !r.Due(p.now) || s.log.Fed() {
		return p.finish(v, s, o)
	}
	next := r.Allow(o.AllowMissing).Step(p.now.UTC().Truncate(time.Second))
	o.Why = cmp.Or(o.Why, next.Title())
	return p.roll(s, channels.Advance, o, next), nil
}

// resume chooses a rollout that goes on where it was paused.
func (p planner) resume(_ view, s *state, o Options) (change, error) {
	next, err := s.rolling()
	if err != nil {
		return change{}, err
	}
	if !next.Paused.IsZero() {
		next = next.Resume(p.now)
	}
	return p.roll(s, channels.Resume, o, next), nil
}

// finish chooses the present state again, so that the rest of an interrupted move is done.
func (p planner) finish(_ view, s *state, _ Options) (change, error) {
	if err := s.shows(); err != nil {
		return change{}, err
	}
	head := s.log.Head()
	return change{Move: gate.Move{Action: head.Action, Release: head.Release, Standing: true}, rollout: head.Rollout}, nil
}

// pause stops offering the newest release of a channel. A release that everybody gets
// becomes a paused rollout, and the channel shows the release before.
func (p planner) pause(v view, s *state, o Options) (change, error) {
	if err := cmp.Or(needsReason(o, "a pause"), s.shows()); err != nil {
		return change{}, err
	}
	head := s.log.Head()
	now := p.now.UTC().Truncate(time.Second)
	if head.Rollout != nil {
		c := change{Move: gate.Move{Action: channels.Pause, Release: head.Release, Standing: true},
			from: head.Newest(), why: o.Why, rollout: head.Rollout, warnings: v.elsewhere(s, head.Version)}
		if head.Rollout.Paused.IsZero() {
			c.rollout = head.Rollout.Pause(now)
		}
		return c, nil
	}
	if last := s.log.Decided(); last.WentBack() {
		return change{}, wentBack(last)
	}
	version, err := previous(s.log)
	if err != nil {
		return change{}, err
	}
	c := p.changeTo(version, channels.Pause, o)
	c.from, c.warnings = head.Version, v.elsewhere(s, version)
	c.AllowUnbound, c.StrandAll, c.mayLose = true, true, true // a bad release is worse than none
	c.rollout = &channels.Rollout{ID: rolloutID(head), Version: head.Version,
		Steps: []int{100}, Percent: 100, Since: now, Paused: now, Release: head.Release}
	return c, nil
}
