package release

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release/library"
)

// choice is what a channel is to be moved to. to returns the change that the record
// of version leads to; "" if there is nothing to verify in the store. A nil to
// leaves the channel as it is.
type choice struct {
	version      string
	allowUnbound bool
	to           func(*library.Record) change
}

// promote chooses a release that From shows, or has shown without a rollback since.
func (p planner) promote(v view, s *state, o PromoteOptions) (choice, error) {
	from := v[o.From]
	if o.From == o.Channel {
		return choice{}, refuse(ErrConfig, "name two channels", "--from and --to are both %s", o.From)
	}
	if from.err != nil {
		return choice{}, from.err
	}
	version, err := promotable(from.log, o.Version)
	if err == nil {
		err = p.forward(s, version, o.Rollout)
	}
	return choice{version, o.AllowUnbound, func(record *library.Record) change {
		c := p.changeTo(record, channels.Promote, o.Options)
		c.from = o.From
		p.begin(s, &c, o.Rollout)
		if r := from.log.Head().Rollout; r != nil && o.Version == "" {
			c.warnings = append(c.warnings, fmt.Sprintf("%s, which %s is rolling out, is not promoted", r.Version, o.From))
		}
		return c
	}}, err
}

func promotable(log *channels.Log, version string) (string, error) {
	head := log.Head()
	switch {
	case head == nil:
		return "", refuse(library.ErrNoRelease, "publish to it first", "%s shows nothing", log.Channel)
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
		return "", refuse(ErrRolledBack, "promote a release that stands", "%s left %s with entry %d: %s", version, log.Channel, back.Sequence, back.Why)
	}
	return "", refuse(library.ErrNoRelease, "`tsmon channel log "+log.Channel+"` shows what it had", "%s never showed %s", log.Channel, version)
}

// rollback chooses the release that a channel goes back to.
func (p planner) rollback(v view, s *state, o RollbackOptions) (choice, error) {
	if err := needsReason(o.Options, "a rollback"); err != nil {
		return choice{}, err
	}
	version, err := rollbackTarget(s.log, o)
	return choice{version, o.AllowUnbound, func(record *library.Record) change {
		head := s.log.Head()
		c := p.changeTo(record, channels.Rollback, o.Options)
		c.from = head.Newest()
		c.warnings = p.elsewhere(v, s, version)
		if head.WentBack() && head.Version == version {
			c.warnings = append(c.warnings, fmt.Sprintf("%s was rolled back to %s before, by %s: %s", s.channel, version, head.Who, head.Why))
		}
		return c
	}}, err
}

func rollbackTarget(log *channels.Log, o RollbackOptions) (string, error) {
	head := log.Decided()
	switch {
	case head == nil:
		return "", refuse(ErrNoTarget, "publish to it first", "%s shows nothing", log.Channel)
	case o.To != "" && !log.Shown(o.To):
		return "", refuse(ErrNoTarget, "`tsmon channel log "+log.Channel+"` shows what it had", "%s never showed %s", log.Channel, o.To)
	case o.To != "":
		return o.To, nil
	case head.Rollout != nil:
		return head.Version, nil // which the other clients have
	case head.WentBack() && head.Why == o.Why:
		return head.Version, nil // the same command again
	case head.WentBack():
		return "", wentBack(head, log.Channel) // two people may be rolling back the same release
	}
	return previous(log)
}

func wentBack(head *channels.Entry, channel string) error {
	return refuse(ErrRolledBack, "`tsmon release rollback --channel "+channel+" --to VERSION --reason TEXT` goes further back", "%s went back to %s already, by %s: %s", channel, head.Version, head.Who, head.Why)
}

// previous returns the version that stood before the one that a channel shows.
func previous(log *channels.Log) (string, error) {
	head, standing := log.Head(), log.Standing()
	for i := len(standing) - 2; i >= 0; i-- {
		if standing[i].Version != head.Version {
			return standing[i].Version, nil
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
func (p planner) elsewhere(v view, s *state, to string) []string {
	var warnings []string
	left := s.log.Head().Newest()
	if library.CompareVersions(to, left) >= 0 {
		return nil
	}
	for _, name := range p.channels() {
		other := v[name]
		if name == s.channel || other.err != nil || other.log.Head() == nil || other.log.Head().Version != left {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s shows %s too: `tsmon release rollback --channel %s --reason TEXT` takes it back there", name, left, name))
	}
	return warnings
}

// shows refuses a channel that shows nothing.
func (s *state) shows() error {
	if s.log.Head() != nil {
		return nil
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

// roll chooses the next state of a channel's rollout, whose release was judged when
// it was published.
func (p planner) roll(s *state, action channels.Action, o Options, next *channels.Rollout) choice {
	return choice{next.Version, true, func(record *library.Record) change {
		c := change{action: action, why: o.Why, release: next.Release, bundles: record.Bundles, allowUnbound: true,
			strand: o.Strand, strandAll: action != channels.Advance || o.Rollout == nil}
		c.manifest = c.release.Render(p.publicURL, 0)
		if !next.Complete() {
			c.rollout, c.others = next, &s.log.Head().Release
		}
		c.allowMissing = slices.Concat(p.move(s, c).Missing(), next.AllowMissing, o.AllowMissing)
		return c
	}}
}

// rollout chooses another share of the clients, from now on.
func (p planner) rollout(s *state, o Options) (choice, error) {
	now, err := s.rolling()
	switch {
	case err != nil:
		return choice{}, err
	case !now.Paused.IsZero():
		return choice{}, refuse(channels.ErrRollout, "`tsmon channel resume "+s.channel+"` offers it again", "the rollout of %s is paused", now.Version)
	}
	next := *now
	next.Steps, next.Every = o.Rollout.Steps, o.Rollout.Every
	if o.Rollout.Cohorts != nil { // else they stay in
		next.Cohorts = o.Rollout.Cohorts
	}
	next = *next.Allow(o.AllowMissing)
	if now.Alike(&next) {
		return p.roll(s, channels.Advance, o, now), nil
	}
	chosen := p.roll(s, channels.Advance, o, next.Begin(p.now.UTC().Truncate(time.Second)))
	if lost := now.Steps[slices.Index(now.Steps, now.Percent)+1:]; len(lost) > 0 && len(next.Steps) == 1 && next.Steps[0] < 100 {
		to := chosen.to
		chosen.to = func(record *library.Record) change {
			c := to(record)
			c.warnings = append(c.warnings, fmt.Sprintf("the steps of the rollout end with this: %s stays at %d %% until `tsmon channel rollout %s --percent N` gives it to more; with --steps and --every it has steps again",
				next.Version, next.Steps[0], s.channel))
			return c
		}
	}
	return chosen, nil
}

// advance chooses the next step of a rollout if it is due, else what finish does.
func (p planner) advance(s *state, o Options) (choice, error) {
	if err := s.shows(); err != nil {
		return choice{}, err
	}
	r := s.log.Head().Rollout
	if r == nil || o.Hold || !r.Due(p.now) || s.log.Fed() {
		return p.finish(s)
	}
	next := r.Allow(o.AllowMissing).Step(p.now.UTC().Truncate(time.Second))
	o.Why = cmp.Or(o.Why, next.Title())
	return p.roll(s, channels.Advance, o, next), nil
}

// resume chooses a rollout that goes on where it was paused.
func (p planner) resume(s *state, o Options) (choice, error) {
	next, err := s.rolling()
	if err != nil {
		return choice{}, err
	}
	if !next.Paused.IsZero() {
		next = next.Resume(p.now)
	}
	return p.roll(s, channels.Resume, o, next), nil
}

// finish chooses what an interrupted move left open.
func (p planner) finish(s *state) (choice, error) {
	return choice{to: func(*library.Record) change {
		head := s.log.Head()
		return change{action: head.Action, release: head.Release, rollout: head.Rollout, standing: true}
	}}, s.shows()
}

// pause holds the newest release of a channel back. A release that everybody gets
// becomes a paused rollout, and the channel shows the release before.
func (p planner) pause(v view, s *state, o Options) (choice, error) {
	err := needsReason(o, "a pause")
	if err == nil {
		err = s.shows()
	}
	if err != nil {
		return choice{}, err
	}
	head := s.log.Head()
	now := p.now.UTC().Truncate(time.Second)
	if head.Rollout != nil {
		return choice{to: func(*library.Record) change {
			c := change{action: channels.Pause, from: head.Newest(), why: o.Why, release: head.Release, rollout: head.Rollout, standing: true,
				warnings: p.elsewhere(v, s, head.Version)}
			if head.Rollout.Paused.IsZero() {
				c.rollout = head.Rollout.Pause(now)
			}
			return c
		}}, nil
	}
	if last := s.log.Decided(); last.WentBack() {
		return choice{}, wentBack(last, s.channel)
	}
	version, err := previous(s.log)
	return choice{version, true, func(record *library.Record) change {
		c := p.changeTo(record, channels.Pause, o)
		c.from, c.allowUnbound, c.warnings = head.Version, true, p.elsewhere(v, s, version)
		c.rollout = &channels.Rollout{ID: s.channel + "/" + strconv.FormatUint(head.Sequence+1, 10), Version: head.Version,
			Steps: []int{100}, Percent: 100, Since: now, Paused: now, Release: head.Release}
		c.manifest = c.release.Render(p.publicURL, 0)
		c.strandAll = true
		if lost := p.move(s, c).Missing(); len(lost) > 0 {
			c.allowMissing = lost // a bad release is worse than none
			c.warnings = append(c.warnings, fmt.Sprintf("%s has nothing for %s meanwhile", s.channel, strings.Join(lost, ", ")))
		}
		return c
	}}, err
}
