package release

import (
	"context"

	"tsmon/channels"
)

// PromoteOptions say which release goes from one channel to another.
type PromoteOptions struct {
	Options        // Channel is where it goes to
	From    string // channel that shows it
	Version string // empty: what From shows
}

// Promote moves a channel to a release that another channel shows or showed.
func (p *Publisher) Promote(ctx context.Context, o PromoteOptions) (*Report, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	policy, err := p.policy(o.Channel)
	if err != nil {
		return nil, err
	}
	if _, err := p.policy(o.From); err != nil {
		return nil, err
	}
	if o.From == o.Channel {
		return nil, refuse(ErrConfig, "name two channels", "--from and --to are both %s", o.From)
	}
	version, err := p.promoted(ctx, o)
	if err != nil {
		return nil, err
	}
	log, err := p.channels().Load(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	m, record, err := p.standing(ctx, o.Options, policy, log, version)
	if err != nil {
		return nil, err
	}
	if err := m.forward(version); err != nil {
		return nil, err
	}
	if err := m.partly(o.Rollout); err != nil {
		return nil, err
	}
	report := &Report{Action: channels.Promote, Bundles: record.Bundles}
	report.Warnings = p.begin(m, o.Rollout)
	report, err = p.advance(ctx, m, channels.Entry{Action: channels.Promote, From: o.From, Why: o.Why}, o.Options, report)
	return p.finish(ctx, report, err)
}

// promoted is the version that a promotion is about: it must stand in From.
func (p *Publisher) promoted(ctx context.Context, o PromoteOptions) (string, error) {
	from, err := p.channels().Load(ctx, o.From)
	if err != nil {
		return "", err
	}
	if head := from.Head(); head != nil && head.Rollout != nil && !head.Rollout.Paused.IsZero() && head.Rollout.Version == o.Version {
		return "", refuse(channels.ErrRollout, "`tsmon channel resume "+o.From+"` lets it go on", "%s holds %s back: %s", o.From, o.Version, head.Why)
	}
	standing := from.Standing()
	if len(standing) == 0 {
		return "", refuse(ErrNoRelease, "publish to it first", "%s shows nothing", o.From)
	}
	if o.Version == "" {
		return standing[len(standing)-1].Version, nil
	}
	for _, e := range standing {
		if e.Version == o.Version {
			return o.Version, nil
		}
	}
	if back := from.RolledBack(o.Version); back != nil {
		return "", refuse(ErrRolledBack, "promote a release that stands", "%s left %s with entry %d: %s", o.Version, o.From, back.Sequence, back.Why)
	}
	return "", refuse(ErrNoRelease, "`tsmon channel log "+o.From+"` shows what it had", "%s never showed %s", o.From, o.Version)
}
