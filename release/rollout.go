package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/channels"
)

// Share is who gets a release that is not for everybody yet.
type Share struct {
	Version string            `json:"version"`
	Percent int               `json:"percent"` // of clients, now; 0 while paused
	Steps   []int             `json:"steps"`
	Every   channels.Duration `json:"every,omitempty"` // time of each step
	Since   time.Time         `json:"since"`           // when the first step began
	Cohorts []string          `json:"cohorts,omitempty"`
	Paused  bool              `json:"paused"`
}

// ShareOf describes a rollout at a moment.
func ShareOf(r *channels.Rollout, now time.Time) *Share {
	return &Share{Version: r.Version, Percent: r.Percent(now), Steps: r.Steps, Every: r.Every, Since: r.Since, Cohorts: r.Cohorts, Paused: !r.Paused.IsZero()}
}

// sameRollout compares what was decided; when it was is the older one's.
func sameRollout(a, b *channels.Rollout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && slices.Equal(a.Steps, b.Steps) && a.Every == b.Every && slices.Equal(a.Cohorts, b.Cohorts) &&
		a.Paused.IsZero() == b.Paused.IsZero() && sameManifest(a.Manifest, b.Manifest)
}

// partly refuses a rollout that can't be, before a byte is sent.
func (m *move) partly(r *channels.Rollout) error {
	if r == nil {
		return nil
	}
	if err := r.Check(); err != nil {
		return &Refusal{Cause: err, Mend: "write --percent N, or --steps 5,25,50,100 --every 6h"}
	}
	if m.log.Head() == nil {
		return refuse(channels.ErrRollout, "publish the first release to everybody", "%s shows nothing that the other clients could keep to", m.channel)
	}
	return nil
}

// begin makes m a rollout, if one is wanted. A release that the channel is
// rolling out already goes on as it does, whatever is wanted: the command may be
// an old job that runs again.
func (p *Publisher) begin(m *move, wanted *channels.Rollout) (warnings []string) {
	head := m.log.Head()
	switch {
	case head != nil && head.Rollout != nil && head.Rollout.Version == m.manifest.Version:
		m.rollout, m.others = head.Rollout, &head.Manifest
		return []string{fmt.Sprintf("%s is being rolled out already; `tsmon channel rollout %s --percent N` changes that", m.manifest.Version, m.channel)}
	case wanted == nil || wanted.Steps[0] == 100 || head.Version == m.manifest.Version:
	default:
		fresh := *wanted
		fresh.ID = m.channel + "/" + strconv.FormatUint(head.Sequence+1, 10)
		fresh.Version = m.manifest.Version
		fresh.Since = p.Now().UTC().Truncate(time.Second)
		m.rollout, m.others = &fresh, &head.Manifest
	}
	if head != nil && head.Rollout != nil {
		warnings = append(warnings, fmt.Sprintf("the rollout of %s ends with this", head.Rollout.Version))
	}
	return warnings
}

// Rollout gives the release that a channel is rolling out another share of the
// clients, from now on; with 100 % the channel shows it.
func (p *Publisher) Rollout(ctx context.Context, o Options) (*Report, error) {
	log, policy, err := p.rollingOut(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	if err := o.Rollout.Check(); err != nil {
		return nil, &Refusal{Cause: err, Mend: "write --percent N, or --steps 5,25,50,100 --every 6h"}
	}
	now := log.Head().Rollout
	if !now.Paused.IsZero() {
		return nil, refuse(channels.ErrRollout, "`tsmon channel resume "+o.Channel+"` lets it go on", "the rollout of %s is paused", now.Version)
	}
	next := *now
	next.Steps, next.Every = o.Rollout.Steps, o.Rollout.Every
	if o.Rollout.Cohorts != nil { // else they stay in
		next.Cohorts = o.Rollout.Cohorts
	}
	if !sameRollout(now, &next) {
		next.Since = p.Now().UTC().Truncate(time.Second)
	}
	return p.roll(ctx, o, policy, log, channels.Advance, &next)
}

// Finish lets a channel show the release whose rollout has reached everybody by
// its steps. Where that, or any other move, was entered into the log and then
// interrupted, it does what is left: the manifest, and the channels that follow.
func (p *Publisher) Finish(ctx context.Context, channel string) (*Report, error) {
	log, policy, err := p.moved(ctx, channel)
	if err != nil {
		return nil, err
	}
	head := log.Head()
	now := head.Rollout
	if now == nil || !now.Complete(p.Now()) {
		m := &move{channel: channel, policy: policy, log: log, manifest: head.Manifest, rollout: now, shown: true}
		m.before, err = p.predecessor(ctx, log)
		if err != nil {
			return nil, err
		}
		return p.advance(ctx, m, channels.Entry{}, Options{Channel: channel}, &Report{Action: head.Action})
	}
	return p.roll(ctx, Options{Channel: channel, Why: "its last step"}, policy, log, channels.Advance, now)
}

// Resume lets the release that a channel holds back be offered again, to those
// who were offered it before, and its steps go on.
func (p *Publisher) Resume(ctx context.Context, o Options) (*Report, error) {
	log, policy, err := p.rollingOut(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	next := log.Head().Rollout
	if !next.Paused.IsZero() {
		next = next.Resume(p.Now())
	}
	return p.roll(ctx, o, policy, log, channels.Resume, next)
}

// rollingOut loads a channel that has a rollout, paused or not.
func (p *Publisher) rollingOut(ctx context.Context, channel string) (*channels.Log, Policy, error) {
	log, policy, err := p.moved(ctx, channel)
	if err == nil && log.Head().Rollout == nil {
		err = refuse(channels.ErrRollout, "`tsmon release publish --percent N` begins one with a newer release, `tsmon channel pause` holds this one back", "%s shows %s to everybody", channel, log.Head().Version)
	}
	return log, policy, err
}

// moved loads a channel that shows something.
func (p *Publisher) moved(ctx context.Context, channel string) (*channels.Log, Policy, error) {
	if err := p.ready(); err != nil {
		return nil, Policy{}, err
	}
	policy, err := p.policy(channel)
	if err != nil {
		return nil, Policy{}, err
	}
	log, err := p.channels().Load(ctx, channel)
	if err == nil && log.Head() == nil {
		err = refuse(ErrNoRelease, "publish to it first", "%s shows nothing", channel)
	}
	return log, policy, err
}

// roll takes the newest release of a channel through the gate into the next
// state of its rollout.
func (p *Publisher) roll(ctx context.Context, o Options, policy Policy, log *channels.Log, action channels.Action, next *channels.Rollout) (*Report, error) {
	o.AllowUnbound = true // it was judged when it was published
	m, record, err := p.standing(ctx, o, policy, log, next.Version)
	if err != nil {
		return nil, err
	}
	m.manifest = next.Manifest
	m.allowMissing = append(m.allowMissing, m.losses()...) // as when it was published
	if !next.Complete(p.Now()) {
		m.rollout, m.others = next, &log.Head().Manifest
	}
	report := &Report{Action: action, Bundles: record.Bundles}
	report, err = p.advance(ctx, m, channels.Entry{Action: action, Why: o.Why}, o, report)
	return p.finish(ctx, report, err)
}

// Pause holds the newest release of a channel back: nobody is offered it any
// more, and everybody gets the release before. Clients that have it keep it. On
// a channel that is paused it does nothing.
func (p *Publisher) Pause(ctx context.Context, o Options) (*Report, error) {
	log, policy, err := p.moved(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	return p.pause(ctx, o, policy, log)
}

// Halt pauses the rollout of a channel that was judged when its log ended with an
// entry. Where somebody has moved the channel since, or another server was first,
// it does nothing. A report that says Changed comes with an error where the pause
// was entered and not shown yet.
func (p *Publisher) Halt(ctx context.Context, o Options, sequence uint64) (*Report, error) {
	log, policy, err := p.moved(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	head := log.Head()
	if head.Sequence == sequence && head.Rollout != nil && head.Rollout.Paused.IsZero() {
		report, err := p.pause(ctx, o, policy, log)
		switch {
		case err == nil:
			return report, nil
		case !errors.As(err, new(*channels.ConflictError)):
			return p.halted(ctx, o.Channel, sequence+1), err
		}
	}
	return &Report{Action: channels.Pause, Channel: o.Channel, Version: head.Newest(), Sequence: head.Sequence}, nil
}

// halted reports whether an entry is a pause that p made, after something else
// has failed.
func (p *Publisher) halted(ctx context.Context, channel string, sequence uint64) *Report {
	report := &Report{Action: channels.Pause, Channel: channel, Sequence: sequence}
	log, err := p.channels().Load(ctx, channel)
	if err == nil && uint64(len(log.Entries)) >= sequence {
		entry := log.Entries[sequence-1]
		report.Version, report.Changed = entry.Newest(), entry.Action == channels.Pause && entry.Who == p.Who
	}
	return report
}

func (p *Publisher) pause(ctx context.Context, o Options, policy Policy, log *channels.Log) (*Report, error) {
	var err error
	if strings.TrimSpace(o.Why) == "" {
		return nil, refuse(ErrConfig, "say why with --reason TEXT; the log keeps it", "a pause needs a reason")
	}
	head := log.Head()
	o.AllowUnbound = true // what is shown was judged when it was published
	m := &move{channel: o.Channel, policy: policy, log: log, manifest: head.Manifest, shown: true}
	switch {
	case head.Rollout != nil && !head.Rollout.Paused.IsZero():
		m.rollout = head.Rollout
	case head.Rollout != nil:
		m.rollout = head.Rollout.Pause(p.Now().UTC().Truncate(time.Second))
	case head.Action == channels.Rollback:
		return nil, refuse(ErrRolledBack, "`tsmon release rollback --to VERSION` goes further back", "%s went back to %s already, by %s: %s", o.Channel, head.Version, head.Who, head.Why)
	default:
		if m, err = p.holdBack(ctx, o, policy, log); err != nil {
			return nil, err
		}
	}
	if m.before, err = p.predecessor(ctx, log); err != nil {
		return nil, err
	}
	report := &Report{Action: channels.Pause, Warnings: p.elsewhere(ctx, o.Channel, head.Newest(), m.manifest.Version)}
	if lost := m.losses(); !m.shown && len(lost) > 0 {
		m.allowMissing = lost // a bad release is worse than none
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s has nothing for %s meanwhile", o.Channel, strings.Join(lost, ", ")))
	}
	report, err = p.advance(ctx, m, channels.Entry{Action: channels.Pause, From: head.Newest(), Why: o.Why}, o, report)
	return p.finish(ctx, report, err)
}

// holdBack turns a release that everybody gets into a rollout that is paused,
// and lets the channel show the release before.
func (p *Publisher) holdBack(ctx context.Context, o Options, policy Policy, log *channels.Log) (*move, error) {
	head := log.Head()
	version, err := before(log)
	if err != nil {
		return nil, err
	}
	m, _, err := p.standing(ctx, o, policy, log, version)
	if err != nil {
		return nil, err
	}
	now := p.Now().UTC().Truncate(time.Second)
	m.rollout = &channels.Rollout{ID: log.Channel + "/" + strconv.FormatUint(head.Sequence+1, 10), Version: head.Version,
		Steps: []int{100}, Since: now, Paused: now, Manifest: head.Manifest}
	return m, nil
}
