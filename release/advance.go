package release

import (
	"context"
	"errors"
	"fmt"

	"tsmon/channels"
	"tsmon/manifest"
)

// Report is what a publish, promote or rollback did, or with DryRun would do.
type Report struct {
	Action   channels.Action `json:"action"`
	Channel  string          `json:"channel"`
	Version  string          `json:"version"`
	Previous string          `json:"previous,omitempty"` // version that the channel showed
	Sequence uint64          `json:"sequence"`           // number of the log entry that stands for it
	// Changed is false where there was nothing to do.
	Changed bool     `json:"changed"`
	DryRun  bool     `json:"dry_run,omitempty"`
	URL     string   `json:"url"` // of the manifest
	Bundles []Stored `json:"bundles"`
	Reach   []Reach  `json:"reach"`
	// Rollout says who gets Version, where that is not everybody.
	Rollout *Share `json:"rollout,omitempty"`
	// Unbound are platform keys whose signatures name no version: applications
	// that require a signed version refuse them.
	Unbound   []string  `json:"unbound,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Followers []*Report `json:"followers,omitempty"` // channels that moved along
	// Probed says that clients were seen to get it.
	Probed bool `json:"probed"`

	shown manifest.Manifest // what the channel shows now
}

// Options say how a channel is moved.
type Options struct {
	Channel      string
	Why          string   // kept in the log
	AllowMissing []string // platform keys that the channel may lose
	AllowUnbound bool     // accept signatures that are bound to no version
	DryRun       bool     // write nothing
	// Rollout has the Steps, Every and Cohorts of who gets the release first; nil:
	// everybody does.
	Rollout *channels.Rollout
}

// standing prepares a move to a release that is whole in the store, after
// verifying it there.
func (p *Publisher) standing(ctx context.Context, o Options, policy Policy, log *channels.Log, version string) (*move, *Record, error) {
	record, err := p.Record(ctx, version)
	if err != nil {
		return nil, nil, err
	}
	p.step("verifying %s in the store", version)
	if err := p.verifyStored(ctx, record, o.AllowUnbound); err != nil {
		return nil, nil, err
	}
	m := &move{channel: log.Channel, policy: policy, log: log, manifest: p.manifestOf(record), allowMissing: o.AllowMissing, allowUnbound: o.AllowUnbound}
	m.before, err = p.predecessor(ctx, log)
	return m, record, err
}

// advance takes a channel to the state that m holds: gate, log, manifest, then
// the channels that follow. Where the channel shows it already, only what an
// interrupted run left open is done.
func (p *Publisher) advance(ctx context.Context, m *move, entry channels.Entry, o Options, report *Report) (*Report, error) {
	if err := p.judge(m, o, report); err != nil {
		return nil, err
	}
	if o.DryRun {
		if m.rollout != nil {
			return report, nil
		}
		return report, p.follow(ctx, m, o, report)
	}
	if report.Changed {
		if err := p.enter(ctx, m, entry); err != nil {
			return nil, err
		}
	}
	head, err := p.show(ctx, m.channel, report)
	if err != nil {
		return nil, err
	}
	report.shown = head.Manifest
	if head.Newest() != report.Version && head.Version != report.Version {
		report.Warnings = append(report.Warnings, fmt.Sprintf("%s has moved on to %s meanwhile (entry %d by %s)", m.channel, head.Version, head.Sequence, head.Who))
		return report, nil // whoever moved it takes the followers along
	}
	if m.rollout != nil {
		return report, nil // followers take what everybody gets
	}
	return report, p.follow(ctx, m, o, report)
}

// judge holds the new state to the gate and fills in the report.
func (p *Publisher) judge(m *move, o Options, report *Report) (err error) {
	if !m.shown {
		if err := m.covers(); err != nil {
			return err
		}
		if report.Reach, err = p.replay(m); err != nil {
			return err
		}
	}
	report.Channel, report.Version, report.DryRun = m.channel, m.manifest.Version, o.DryRun
	report.URL = p.manifestURL(m.channel)
	report.Unbound = m.manifest.Unbound()
	report.Warnings = append(report.Warnings, crossings(report.Reach)...)
	if m.before != nil {
		report.Previous = m.before.Version.String()
	}
	if m.rollout != nil {
		report.Rollout = ShareOf(m.rollout, p.Now())
	}
	report.Sequence, report.Changed = m.next()
	return nil
}

// next returns the number of the log entry that stands for the new state, and
// whether it has yet to be written.
func (m *move) next() (sequence uint64, missing bool) {
	head := m.log.Head()
	if head == nil {
		return 1, true
	}
	entry := m.entry(channels.Entry{})
	if sameManifest(head.Manifest, entry.Manifest) && sameRollout(head.Rollout, entry.Rollout) {
		return head.Sequence, false
	}
	return head.Sequence + 1, true
}

// sameManifest compares all but the number of the log entry.
func sameManifest(a, b manifest.Manifest) bool {
	changes := manifest.Diff(&a, &b)
	return len(changes) == 0 || len(changes) == 1 && changes[0].Place == "sequence"
}

// entry fills in what clients get from an entry on.
func (m *move) entry(e channels.Entry) channels.Entry {
	e.Manifest, e.Rollout = m.manifest, m.rollout
	if m.others != nil {
		part := *m.rollout
		part.Manifest = m.manifest
		e.Manifest, e.Rollout = *m.others, &part
	}
	e.Version = e.Manifest.Version
	return e
}

// enter writes the log entry.
func (p *Publisher) enter(ctx context.Context, m *move, entry channels.Entry) error {
	entry = m.entry(entry)
	entry.Who, entry.When = p.Who, p.Now()
	log, err := p.channels().Append(ctx, m.log, entry)
	if err == nil {
		m.log = log
	}
	return err
}

// show brings the manifest up to date with the log, and returns its head.
func (p *Publisher) show(ctx context.Context, channel string, report *Report) (*channels.Entry, error) {
	head, moved, err := p.channels().Repoint(ctx, channel)
	report.Changed = report.Changed || moved
	return head, err
}

// followAttempts bounds how often a follower is tried while others move it.
const followAttempts = 20

// follow moves the channels that follow this one and are behind it. A channel
// that can't follow is a warning: this one has moved.
func (p *Publisher) follow(ctx context.Context, m *move, o Options, report *Report) error {
	for _, name := range p.channelNames() {
		if p.Policies[name].Follows != m.channel || name == m.channel {
			continue
		}
		follower, err := p.followOne(ctx, name, m, o)
		for attempt := 0; attempt < followAttempts && errors.As(err, new(*channels.ConflictError)); attempt++ {
			follower, err = p.followOne(ctx, name, m, o) // whoever was first may have left nothing to do
		}
		var refusal *Refusal
		switch {
		case errors.As(err, &refusal):
			report.Warnings = append(report.Warnings, fmt.Sprintf("%s does not follow: %v", name, err))
		case err != nil:
			return fmt.Errorf("%s has moved to %s, but %s, which follows it, has not: %w", m.channel, report.Version, name, err)
		case follower != nil:
			report.Followers = append(report.Followers, follower)
		}
	}
	return nil
}

func (p *Publisher) followOne(ctx context.Context, name string, leader *move, o Options) (*Report, error) {
	log, err := p.channels().Load(ctx, name)
	if err != nil {
		return nil, err
	}
	// What may be missing, or unbound, was said of the leader alone.
	m := &move{channel: name, policy: p.Policies[name], log: log, manifest: leader.manifest}
	if m.before, err = p.predecessor(ctx, log); err != nil {
		return nil, err
	}
	version, err := manifest.ParseVersion(leader.manifest.Version)
	if err != nil {
		return nil, err
	}
	if m.before != nil && version.Compare(m.before.Version) < 0 || log.RolledBack(version.String()) != nil {
		return nil, nil
	}
	if held, err := m.keep(version); held || err != nil {
		return nil, err
	}
	if left, err := p.left(ctx, leader, o); left || err != nil {
		return nil, err
	}
	report, err := p.advance(ctx, m, channels.Entry{Action: channels.Follow, From: leader.channel, Why: o.Why}, Options{DryRun: o.DryRun}, &Report{Action: channels.Follow})
	if err != nil || !report.Changed {
		return nil, err
	}
	return report, nil
}

// keep leaves a follower's own rollout of a newer release as it is, and reports
// that the follower holds back the very release that it would follow to.
func (m *move) keep(version manifest.Version) (held bool, err error) {
	head := m.log.Head()
	if head == nil || head.Rollout == nil {
		return false, nil
	}
	own, err := manifest.ParseVersion(head.Rollout.Version)
	if err != nil {
		return false, err
	}
	switch order := version.Compare(own); {
	case order == 0:
		return !head.Rollout.Paused.IsZero(), nil
	case order < 0:
		shown := m.manifest
		m.others, m.rollout, m.manifest = &shown, head.Rollout, head.Rollout.Manifest
	}
	return false, nil
}

// left says that the leader shows something else by now: a rollback that came
// in between must not be followed by the release that it took off.
func (p *Publisher) left(ctx context.Context, leader *move, o Options) (bool, error) {
	if o.DryRun {
		return false, nil
	}
	log, err := p.channels().Load(ctx, leader.channel)
	if err != nil {
		return false, err
	}
	return log.Head() == nil || log.Head().Version != leader.manifest.Version, nil
}

// probe fetches what clients get of every channel that was moved. The pointers
// have moved by then.
func (p *Publisher) probe(ctx context.Context, report *Report) error {
	if p.Probe == nil || report.DryRun {
		return nil
	}
	for _, r := range append([]*Report{report}, report.Followers...) {
		p.step("fetching %s as a client", r.URL)
		if err := p.Probe(ctx, r.URL, r.shown); err != nil {
			return &Refusal{Cause: fmt.Errorf("%w: %w", ErrProbe, err),
				Text: fmt.Sprintf("%s has moved to %s all the same (entry %d)", r.Channel, r.shown.Version, r.shown.Sequence),
				Mend: "check that public_url leads to the store and that no cache holds " + channels.ManifestKey(r.Channel) + "; --no-probe skips this"}
		}
		r.Probed = true
	}
	return nil
}

// finish ends a move: what it did is seen as a client sees it.
func (p *Publisher) finish(ctx context.Context, report *Report, err error) (*Report, error) {
	if err != nil {
		return report, err
	}
	return report, p.probe(ctx, report)
}
