package release

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tsmon/channels"
)

// promoted returns the version that a promotion is about: From must show it, or
// have shown it without a rollback since.
func (p planner) promoted(v view, o PromoteOptions) (string, error) {
	from, err := v.of(o.From)
	if err != nil {
		return "", err
	}
	to, err := v.of(o.Channel)
	if err != nil {
		return "", err
	}
	version, err := promotable(from.log, o.Version)
	if err != nil {
		return "", err
	}
	return version, p.forward(to, version, o.Rollout)
}

func promotable(log *channels.Log, version string) (string, error) {
	standing := log.Standing()
	if len(standing) == 0 {
		return "", refuse(ErrNoRelease, "publish to it first", "%s shows nothing", log.Channel)
	}
	head := log.Head()
	if version == "" {
		return head.Version, nil
	}
	if r := head.Rollout; r != nil && r.Version == version {
		if !r.Paused.IsZero() {
			return "", refuse(channels.ErrRollout, "`tsmon channel resume "+log.Channel+"` offers it again", "%s holds %s back: %s", log.Channel, version, head.Why)
		}
		return "", refuse(channels.ErrRollout, fmt.Sprintf("wait for its last step, or give it to everybody with `tsmon channel rollout %s --percent 100`, then promote it", log.Channel),
			"%s is still rolling %s out", log.Channel, version)
	}
	for _, e := range standing {
		if e.Version == version {
			return version, nil
		}
	}
	if back := log.RolledBack(version); back != nil {
		return "", refuse(ErrRolledBack, "promote a release that stands", "%s left %s with entry %d: %s", version, log.Channel, back.Sequence, back.Why)
	}
	return "", refuse(ErrNoRelease, "`tsmon channel log "+log.Channel+"` shows what it had", "%s never showed %s", log.Channel, version)
}

func (p planner) promote(v view, s *state, o PromoteOptions, record *Record) change {
	c := p.changeTo(record, channels.Promote, o.Options)
	c.from = o.From
	p.begin(s, &c, o.Rollout)
	if r := v[o.From].log.Head().Rollout; r != nil && o.Version == "" {
		c.warnings = append(c.warnings, fmt.Sprintf("%s, which %s is rolling out, is not promoted", r.Version, o.From))
	}
	return c
}

// rollbackTarget returns the version that a rollback goes to.
func rollbackTarget(log *channels.Log, o RollbackOptions) (string, error) {
	head := log.Head()
	switch {
	case head == nil:
		return "", refuse(ErrNoTarget, "publish to it first", "%s shows nothing", log.Channel)
	case o.To != "" && !log.Shown(o.To):
		return "", refuse(ErrNoTarget, "`tsmon channel log "+log.Channel+"` shows what it had", "%s never showed %s", log.Channel, o.To)
	case o.To != "":
		return o.To, nil
	case head.Rollout != nil:
		return head.Version, nil // which the other clients have
	case head.Action == channels.Rollback && head.Why == o.Why:
		return head.Version, nil // the same command again
	case head.Action == channels.Rollback:
		// Two people may be rolling back the same bad release.
		return "", refuse(ErrRolledBack, "--to VERSION goes further back", "%s went back to %s already, by %s: %s", log.Channel, head.Version, head.Who, head.Why)
	}
	return previous(log)
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

func (p planner) rollback(v view, s *state, o RollbackOptions, record *Record) change {
	head := s.log.Head()
	c := p.changeTo(record, channels.Rollback, o.Options)
	c.from = head.Newest()
	c.warnings = p.elsewhere(v, s, record.Version)
	if head.Action == channels.Rollback && head.Version == record.Version {
		c.warnings = append(c.warnings, fmt.Sprintf("%s was rolled back to %s before, by %s: %s", s.channel, record.Version, head.Who, head.Why))
	}
	return c
}

// elsewhere warns of other channels that show the release which a channel leaves.
func (p planner) elsewhere(v view, s *state, to string) []string {
	var warnings []string
	left := s.log.Head().Newest()
	for _, name := range p.channels() {
		other := v[name]
		if name == s.channel || other.err != nil || other.log.Head() == nil || other.log.Head().Version != left || left == to {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s shows %s too: `tsmon release rollback --channel %s --reason TEXT` takes it back there", name, left, name))
	}
	return warnings
}

// rollout returns the next state of the rollout of a channel. What its release
// lacks was judged when it was published.
func (p planner) rollout(s *state, o Options, action channels.Action, next *channels.Rollout, record *Record) change {
	c := change{action: action, why: o.Why, manifest: next.Manifest, bundles: record.Bundles, allowUnbound: true}
	if !next.Complete(p.now) {
		c.rollout, c.others = next, &s.log.Head().Manifest
	}
	c.allowMissing = gate{policy: p.policies[s.channel], before: s.before(), change: c}.missing()
	return c
}

// rolling returns the rollout of a channel, paused or not.
func rolling(s *state) (*channels.Rollout, error) {
	head := s.log.Head()
	if head.Rollout == nil {
		return nil, refuse(channels.ErrRollout, "`tsmon release publish --percent N` begins a rollout of a newer release, `tsmon channel pause` holds this one back",
			"%s shows %s to everybody", s.channel, head.Version)
	}
	return head.Rollout, nil
}

// advanced returns a rollout with another share of the clients, from now on.
func (p planner) advanced(channel string, now, wanted *channels.Rollout) (*channels.Rollout, error) {
	if !now.Paused.IsZero() {
		return nil, refuse(channels.ErrRollout, "`tsmon channel resume "+channel+"` offers it again", "the rollout of %s is paused", now.Version)
	}
	next := *now
	next.Steps, next.Every = wanted.Steps, wanted.Every
	if wanted.Cohorts != nil { // else they stay in
		next.Cohorts = wanted.Cohorts
	}
	if !sameRollout(now, &next) {
		next.Since = p.now.UTC().Truncate(time.Second)
	}
	return &next, nil
}

// pauseTarget returns the version that everybody gets during a pause, which has to
// be verified; "" if they get it already.
func pauseTarget(s *state) (string, error) {
	head := s.log.Head()
	switch {
	case head.Rollout != nil:
		return "", nil
	case head.Action == channels.Rollback:
		return "", refuse(ErrRolledBack, "`tsmon release rollback --to VERSION` goes further back", "%s went back to %s already, by %s: %s", s.channel, head.Version, head.Who, head.Why)
	}
	return previous(s.log)
}

// pause holds the newest release of a channel back. A release that everybody gets
// becomes a paused rollout, and the channel shows the release before, record.
func (p planner) pause(v view, s *state, o Options, record *Record) change {
	head := s.log.Head()
	now := p.now.UTC().Truncate(time.Second)
	o.AllowUnbound = true // what is shown was judged when it was published
	c := change{why: o.Why, manifest: head.Manifest, rollout: head.Rollout, standing: true}
	if record != nil {
		c = p.changeTo(record, "", o)
		c.rollout = &channels.Rollout{ID: s.channel + "/" + strconv.FormatUint(head.Sequence+1, 10), Version: head.Version,
			Steps: []int{100}, Since: now, Paused: now, Manifest: head.Manifest}
	} else if head.Rollout.Paused.IsZero() {
		c.rollout = head.Rollout.Pause(now)
	}
	c.action, c.from = channels.Pause, head.Newest()
	c.warnings = p.elsewhere(v, s, c.manifest.Version)
	lost := gate{policy: p.policies[s.channel], before: s.before(), change: c}.missing()
	if record != nil && len(lost) > 0 {
		c.allowMissing = append(c.allowMissing, lost...) // a bad release is worse than none
		c.warnings = append(c.warnings, fmt.Sprintf("%s has nothing for %s meanwhile", s.channel, strings.Join(lost, ", ")))
	}
	return c
}

// unfinished is the change to what the log ends with: what an interrupted move left
// open.
func unfinished(s *state) change {
	head := s.log.Head()
	return change{action: head.Action, manifest: head.Manifest, rollout: head.Rollout, standing: true}
}
