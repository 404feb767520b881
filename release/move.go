package release

import (
	"context"
	"errors"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/signing"
)

// look reads all channels, and runs beside that what else has to be read. The
// manifest of a channel is read before anything is written, as Point wants it.
func (p *Publisher) look(ctx context.Context, beside ...func(context.Context) error) (view, error) {
	v := view{}
	var group, all errgroup.Group
	for name := range p.Policies {
		s := &state{channel: name}
		v[name] = s
		all.Go(func() error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() (err error) { s.seen, err = p.channels().Peek(ctx, name); return err })
			group.Go(func() (err error) { s.log, err = p.channels().Load(ctx, name); return err })
			s.err = group.Wait()
			return nil
		})
	}
	for _, read := range beside {
		group.Go(func() error { return read(ctx) })
	}
	return v, errors.Join(all.Wait(), group.Wait())
}

// Publish uploads a release and moves a channel to it. The same call again finishes
// what an interrupted one began, or does nothing. Errors are a *Refusal, a
// *channels.ConflictError, those of signing, or the store's.
func (p *Publisher) Publish(ctx context.Context, o PublishOptions) (*Plan, error) {
	pl, err := p.planner(o.Channel)
	if err == nil {
		err = pl.checkPublish(o)
	}
	if err != nil {
		return nil, err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	read := sync.OnceValues(func() ([]bundle.Contents, error) { return p.readBundles(reading, pl, o) })
	var background sync.WaitGroup
	background.Go(func() { _, _ = read() }) // while the store answers
	defer background.Wait()
	for attempt := 1; ; attempt++ {
		plan, err := p.planPublish(ctx, pl, o, read)
		if err != nil {
			cancel()
			return nil, err
		}
		if plan, err = p.finish(ctx, plan, o.Options); !errors.Is(err, errStale) || attempt == staleAttempts {
			return plan, err
		}
	}
}

// staleAttempts bounds how often a publish is planned anew because somebody else
// uploads the same release.
const staleAttempts = 10

// planPublish reads the store and plans. read returns the contents of the bundles;
// it is waited for only once nothing else refuses the publish.
func (p *Publisher) planPublish(ctx context.Context, pl planner, o PublishOptions, read func() ([]bundle.Contents, error)) (*Plan, error) {
	library := p.Library()
	var record *Record
	var found map[string]int64
	v, err := p.look(ctx,
		func(ctx context.Context) (err error) {
			if record, err = library.Record(ctx, o.Version); errors.Is(err, ErrNoRelease) {
				record, err = nil, nil
			}
			return err
		},
		func(ctx context.Context) (err error) { found, err = library.objects(ctx, o.Version); return err })
	s, channelErr := v.of(o.Channel)
	if channelErr != nil || err != nil {
		return nil, first([]error{channelErr, err})
	}
	if err := pl.mayPublish(s, o); err != nil {
		return nil, err
	}
	contents, err := read()
	if err != nil {
		return nil, err
	}
	files := map[string]bundle.Contents{}
	ours := make([]Stored, len(contents))
	for i, c := range contents {
		ours[i] = storedOf(c)
		files[ours[i].BLAKE2b] = c
	}
	if record == nil {
		record, err = library.draft(ctx, pl, o, ours, found)
		if err != nil {
			return nil, err
		}
		plan, err := pl.plan(v, s, pl.publish(s, o, record))
		if err == nil {
			plan.record, plan.files = record, files
		}
		return plan, err
	}
	if err := record.sameBundles(ours); err != nil {
		return nil, err
	}
	p.step("%s is in the store already", o.Version)
	if err := library.verifyStored(ctx, record, o.AllowUnbound); err != nil {
		return nil, err
	}
	return pl.plan(v, s, pl.publish(s, o, record))
}

// readBundles hashes the bundles and signs those that have no signature.
func (p *Publisher) readBundles(ctx context.Context, pl planner, o PublishOptions) ([]bundle.Contents, error) {
	p.step("reading %d bundles", len(o.Bundles))
	reader := &bundle.Reader{Version: o.Version, Keys: p.Keys, Now: p.Now, Transferred: p.Transferred,
		Unlock: func() (signing.PrivateKey, error) {
			key, err := o.Unlock()
			if err == nil {
				err = pl.trusted(key)
			}
			return key, err
		}}
	return reader.Read(ctx, o.Bundles)
}

// Build returns the manifest of bundles without publishing anything; baseURL is the
// address of the folder that they will be in.
func (p *Publisher) Build(ctx context.Context, o PublishOptions, baseURL string) (*manifest.Manifest, error) {
	pl := planner{keys: p.Keys, who: p.Who, now: p.Now()}
	err := trusts(p.Keys)
	if err == nil {
		err = pl.checkPublish(o)
	}
	if err != nil {
		return nil, err
	}
	contents, err := p.readBundles(ctx, pl, o)
	if err != nil {
		return nil, err
	}
	record := pl.record(o, nil)
	for _, c := range contents {
		record.Bundles = append(record.Bundles, storedOf(c))
	}
	m := record.Manifest(baseURL)
	return &m, nil
}

// Promote moves a channel to a release that another channel shows or showed.
func (p *Publisher) Promote(ctx context.Context, o PromoteOptions) (*Plan, error) {
	pl, err := p.planner(o.Channel, o.From)
	switch {
	case err != nil:
		return nil, err
	case o.From == o.Channel:
		return nil, refuse(ErrConfig, "name two channels", "--from and --to are both %s", o.From)
	}
	if err := checkRollout(o.Rollout); err != nil {
		return nil, err
	}
	v, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	version, err := pl.promoted(v, o)
	if err != nil {
		return nil, err
	}
	return p.toStored(ctx, pl, v, o.Options, version, func(s *state, record *Record) change { return pl.promote(v, s, o, record) })
}

// Rollback moves a channel to a release that it showed before. That stops the
// spread of a bad release; clients that have it keep it, since they only go
// forward. The same call again, with the same reason and no version, does nothing;
// going back once more takes a version, so that two people don't go back twice.
func (p *Publisher) Rollback(ctx context.Context, o RollbackOptions) (*Plan, error) {
	pl, err := p.planner(o.Channel)
	if err == nil {
		err = needsReason(o.Options, "a rollback")
	}
	if err != nil {
		return nil, err
	}
	v, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	s, err := v.of(o.Channel)
	if err != nil {
		return nil, err
	}
	version, err := rollbackTarget(s.log, o)
	if err != nil {
		return nil, err
	}
	return p.toStored(ctx, pl, v, o.Options, version, func(s *state, record *Record) change { return pl.rollback(v, s, o, record) })
}

func needsReason(o Options, what string) error {
	if strings.TrimSpace(o.Why) != "" {
		return nil
	}
	return refuse(ErrConfig, "say why with --reason TEXT; the log keeps it", "%s needs a reason", what)
}

// steer reads a channel that shows something.
func (p *Publisher) steer(ctx context.Context, channel string) (planner, view, *state, error) {
	pl, err := p.planner(channel)
	if err != nil {
		return pl, nil, nil, err
	}
	v, err := p.look(ctx)
	if err != nil {
		return pl, nil, nil, err
	}
	s, err := v.shows(channel)
	return pl, v, s, err
}

// Rollout gives the release that a channel is rolling out another share of the
// clients, from now on; with 100 % the channel shows it.
func (p *Publisher) Rollout(ctx context.Context, o Options) (*Plan, error) {
	if err := checkRollout(o.Rollout); err != nil {
		return nil, err
	}
	return p.roll(ctx, o, channels.Advance, func(pl planner, now *channels.Rollout) (*channels.Rollout, error) {
		return pl.advanced(o.Channel, now, o.Rollout)
	})
}

// Resume offers the release that a channel holds back again, to those who were
// offered it before, and its steps go on.
func (p *Publisher) Resume(ctx context.Context, o Options) (*Plan, error) {
	return p.roll(ctx, o, channels.Resume, func(pl planner, now *channels.Rollout) (*channels.Rollout, error) {
		if now.Paused.IsZero() {
			return now, nil
		}
		return now.Resume(pl.now), nil
	})
}

// roll moves the rollout of a channel on to its next state.
func (p *Publisher) roll(ctx context.Context, o Options, action channels.Action, next func(planner, *channels.Rollout) (*channels.Rollout, error)) (*Plan, error) {
	pl, v, s, err := p.steer(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	now, err := rolling(s)
	if err != nil {
		return nil, err
	}
	if now, err = next(pl, now); err != nil {
		return nil, err
	}
	o.AllowUnbound = true // it was judged when it was published
	return p.toStored(ctx, pl, v, o, now.Version, func(s *state, record *Record) change { return pl.rollout(s, o, action, now, record) })
}

// Finish lets a channel show the release whose rollout has reached everybody by its
// steps. If that, or any other move, was recorded in the log and then interrupted,
// it does what is left: the manifest, and the channels that follow.
func (p *Publisher) Finish(ctx context.Context, channel string) (*Plan, error) {
	pl, v, s, err := p.steer(ctx, channel)
	if err != nil {
		return nil, err
	}
	o := Options{Channel: channel, Why: "its last step", AllowUnbound: true}
	if now := s.log.Head().Rollout; now != nil && now.Complete(pl.now) {
		return p.toStored(ctx, pl, v, o, now.Version, func(s *state, record *Record) change { return pl.rollout(s, o, channels.Advance, now, record) })
	}
	plan, err := pl.plan(v, s, unfinished(s))
	if err != nil {
		return nil, err
	}
	return p.Apply(ctx, plan)
}

// Pause holds the newest release of a channel back: nobody is offered it any more,
// and everybody gets the release before. Clients that have it keep it. On a channel
// that is paused it does nothing.
func (p *Publisher) Pause(ctx context.Context, o Options) (*Plan, error) {
	if err := needsReason(o, "a pause"); err != nil {
		return nil, err
	}
	pl, v, s, err := p.steer(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	return p.pause(ctx, pl, v, s, o)
}

func (p *Publisher) pause(ctx context.Context, pl planner, v view, s *state, o Options) (*Plan, error) {
	version, err := pauseTarget(s)
	if err != nil {
		return nil, err
	}
	return p.toStored(ctx, pl, v, o, version, func(s *state, record *Record) change { return pl.pause(v, s, o, record) })
}

// Halt pauses the rollout of a channel that was judged when its log ended with an
// entry. If somebody has moved the channel since, or another server was first, it
// does nothing. A plan that says Changed comes with an error if the pause was
// recorded in the log and is not shown yet.
func (p *Publisher) Halt(ctx context.Context, o Options, sequence uint64) (*Plan, error) {
	pl, v, s, err := p.steer(ctx, o.Channel)
	if err != nil {
		return nil, err
	}
	head := s.log.Head()
	if head.Sequence == sequence && head.Rollout != nil && head.Rollout.Paused.IsZero() {
		plan, err := p.pause(ctx, pl, v, s, o)
		switch {
		case err == nil:
			return plan, nil
		case !errors.As(err, new(*channels.ConflictError)):
			return p.halted(ctx, o.Channel, sequence+1), err
		}
	}
	return &Plan{Action: channels.Pause, Channel: o.Channel, Version: head.Newest(), Sequence: head.Sequence}, nil
}

// halted reports whether an entry is a pause that p made, after something else has
// failed.
func (p *Publisher) halted(ctx context.Context, channel string, sequence uint64) *Plan {
	plan := &Plan{Action: channels.Pause, Channel: channel, Sequence: sequence}
	log, err := p.channels().Load(ctx, channel)
	if err == nil && uint64(len(log.Entries)) >= sequence {
		entry := log.Entries[sequence-1]
		plan.Version, plan.Changed = entry.Newest(), entry.Action == channels.Pause && entry.Who == p.Who
	}
	return plan
}

// toStored plans a move to a release, after verifying it in the store, and carries
// it out. Without a version there is nothing to verify.
func (p *Publisher) toStored(ctx context.Context, pl planner, v view, o Options, version string, to func(*state, *Record) change) (*Plan, error) {
	s, err := v.of(o.Channel)
	if err != nil {
		return nil, err
	}
	var record *Record
	if version != "" {
		p.step("verifying %s in the store", version)
		if record, err = p.Library().verified(ctx, version, o.AllowUnbound); err != nil {
			return nil, err
		}
	}
	plan, err := pl.plan(v, s, to(s, record))
	if err != nil {
		return nil, err
	}
	return p.finish(ctx, plan, o)
}

// finish applies a plan, unless only the plan is wanted.
func (p *Publisher) finish(ctx context.Context, plan *Plan, o Options) (*Plan, error) {
	if !o.DryRun {
		return p.Apply(ctx, plan)
	}
	for _, each := range append([]*Plan{plan}, plan.Followers...) {
		each.DryRun = true
	}
	return plan, errors.Join(plan.broken...)
}
