package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tsmon/channels"
)

// RollbackOptions say where a channel goes back to; Why is the reason.
type RollbackOptions struct {
	Options
	To string // version; empty: the release before the one that is shown
}

// Rollback moves a channel to a release that it showed before. It stops the
// spread of a bad release; clients that have it keep it, since they only go
// forward. The same call again, with the same reason and no version, does
// nothing; going back once more, from a rollback, takes a version, so that two
// people don't go back twice.
func (p *Publisher) Rollback(ctx context.Context, o RollbackOptions) (*Report, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	policy, err := p.policy(o.Channel)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(o.Why) == "" {
		return nil, refuse(ErrConfig, "say why with --reason TEXT; the log keeps it", "a rollback needs a reason")
	}
	log, err := p.channels().Load(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	version, err := target(log, o)
	if err != nil {
		return nil, err
	}
	left := log.Head().Newest()
	m, record, err := p.standing(ctx, o.Options, policy, log, version)
	if err != nil {
		return nil, err
	}
	report := &Report{Action: channels.Rollback, Bundles: record.Bundles}
	report.Warnings = p.elsewhere(ctx, o.Channel, left, version)
	if head := log.Head(); head.Action == channels.Rollback && head.Version == version {
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s was rolled back to %s before, by %s: %s", o.Channel, version, head.Who, head.Why))
	}
	report, err = p.advance(ctx, m, channels.Entry{Action: channels.Rollback, From: left, Why: o.Why}, o.Options, report)
	return p.finish(ctx, report, err)
}

// target is the version that a rollback goes to.
func target(log *channels.Log, o RollbackOptions) (string, error) {
	head := log.Head()
	switch {
	case head == nil:
		return "", refuse(ErrNoTarget, "publish to it first", "%s shows nothing", log.Channel)
	case o.To != "" && !log.Shown(o.To):
		return "", refuse(ErrNoTarget, "`tsmon channel log "+log.Channel+"` shows what it had", "%s never showed %s", log.Channel, o.To)
	case o.To != "":
		return o.To, nil
	case head.Rollout != nil:
		return head.Version, nil // what the others have
	case head.Action == channels.Rollback && head.Why == o.Why:
		return head.Version, nil // the same command again
	case head.Action == channels.Rollback:
		// Two people may be rolling back the same bad release.
		return "", refuse(ErrRolledBack, "--to VERSION goes further back", "%s went back to %s already, by %s: %s", log.Channel, head.Version, head.Who, head.Why)
	}
	return before(log)
}

// before is the standing release that the channel showed before its head.
func before(log *channels.Log) (string, error) {
	head, standing := log.Head(), log.Standing()
	for i := len(standing) - 2; i >= 0; i-- {
		if standing[i].Version != head.Version {
			return standing[i].Version, nil
		}
	}
	return "", refuse(ErrNoTarget, "publish a fixed build with a higher version", "%s is the first release of %s", head.Version, log.Channel)
}

// elsewhere warns of other channels that show the release that is left.
func (p *Publisher) elsewhere(ctx context.Context, channel, left, to string) []string {
	var warnings []string
	for _, name := range slices.DeleteFunc(p.channelNames(), func(n string) bool { return n == channel }) {
		log, err := p.channels().Load(ctx, name)
		if err != nil || log.Head() == nil || log.Head().Version != left || left == to {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s shows %s too: `tsmon release rollback --channel %s --reason TEXT` takes it back there", name, left, name))
	}
	return warnings
}
