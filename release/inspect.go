package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/upkeep"
)

// Inspector says what a store holds and what its channels show. It changes nothing.
type Inspector struct {
	library.Library
	channels channels.Repository
	p        *Publisher
}

// Inspector returns an inspector of the publisher's store.
func (p *Publisher) Inspector() Inspector { return Inspector{p.Library(), p.Repository(), p} }

// stage is the content of the store for a version, and the state of the channels.
type stage struct {
	*library.RecordSet
	version string
	staged  map[string]*library.Staged // including the marks of discarded bundles
	found   map[string]int64           // objects in the release's folder
	view    view
}

// lookAtStage reads all objects of a version, and refuses damaged ones.
func (in Inspector) lookAtStage(ctx context.Context, version string) (*stage, error) {
	st, err := in.readStage(ctx, version)
	for _, target := range slices.Sorted(maps.Keys(st.staged)) {
		err = cmp.Or(err, st.staged[target].Damage)
	}
	return st, err
}

// readStage reads everything that a version consists of.
func (in Inspector) readStage(ctx context.Context, version string) (*stage, error) {
	st := &stage{version: version, view: view{}}
	var records []*library.Record
	var group errgroup.Group
	var old []string
	group.Go(func() (err error) {
		st.found, old, err = in.Objects(ctx, version, in.p.Now().Add(-upkeep.TrustAge))
		return err
	})
	group.Go(func() (err error) { st.staged, err = in.Staged(ctx, version); return err })
	group.Go(func() (err error) { records, err = in.Records(ctx, version); return err })
	group.Go(func() error { st.view = in.look(ctx); return nil })
	err := group.Wait()
	if err == nil {
		st.RecordSet, err = in.Decide(ctx, records, st.view.logs())
	}
	if err == nil {
		st.distrust(old)
	}
	return st, err
}

// distrust makes names of old objects unusable that nothing refers to: Prune may remove them.
func (st *stage) distrust(old []string) {
	needed := library.Needed(st.Counts, st.staged)
	for _, name := range old {
		if name = strings.TrimSuffix(name, ".sig"); !needed[name] {
			st.found[name] = -1 // no bundle has that size
		}
	}
}

// look reads all channels, side by side, and their manifests for Point.
func (in Inspector) look(ctx context.Context) view {
	v := view{}
	var all sync.WaitGroup
	for name := range in.p.Policies {
		s := &state{channel: name}
		v[name] = s
		all.Go(func() {
			group, reading := errgroup.WithContext(ctx)
			group.Go(func() (err error) { s.seen, err = in.channels.Peek(reading, name); return err })
			group.Go(func() (err error) { s.log, err = in.channels.Load(reading, name); return err })
			if in.p.Clients != nil && in.Keys.Spanned() {
				group.Go(func() (err error) { s.clients, err = in.p.Clients(reading, name); return err })
			}
			if in.p.Types != nil {
				group.Go(func() (err error) { s.types, err = in.p.Types(reading, name); return err })
			}
			if s.err = group.Wait(); s.err == nil {
				s.err = s.catchUp(ctx, in.channels)
			}
		})
	}
	all.Wait()
	return v
}

// catchUp refuses a log that ends before the entry that clients are shown, unless it has it by
// now: a move would give clients an older state. If operators sign the log, the error is kept
// in ahead instead.
func (s *state) catchUp(ctx context.Context, r channels.Repository) (err error) {
	shown := channels.Ahead(s.seen, s.log.End().Sequence)
	if shown <= s.log.End().Sequence {
		return nil
	}
	if s.log, err = r.Extend(ctx, s.log); err == nil && shown > s.log.End().Sequence {
		err = fmt.Errorf("%w: %s shows entry %d, which is missing", channels.ErrLog, s.channel, shown)
		if s.log.Operators() != nil {
			s.ahead, err = err, nil
		}
	}
	return err
}

// Replay returns what every kind of client got from an entry of a log, by the present keys and
// policy. It returns nil if there is no entry with that number, or there are no trusted keys.
func (in Inspector) Replay(log *channels.Log, sequence uint64) ([]gate.Reach, error) {
	i := slices.IndexFunc(log.Entries, func(e channels.Entry) bool { return e.Sequence == sequence })
	if i < 0 || len(in.Keys) == 0 {
		return nil, nil
	}
	entry, policy := &log.Entries[i], in.p.Policies[log.Channel]
	return gate.Move{Manifest: entry.Render(in.p.PublicURL), Keys: in.Keys, PublicURL: in.p.PublicURL, Log: &channels.Log{Channel: log.Channel, Entries: log.Entries[:i]},
		Targets: policy.Targets, Rings: policy.Rings, ReadsManifest: policy.ReadsManifest, Downgrades: policy.AllowDowngrades, AllowUnbound: true}.Past(entry)
}

// logs returns the logs that could be read, sorted by channel.
func (v view) logs() []*channels.Log {
	var logs []*channels.Log
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if v[name].err == nil {
			logs = append(logs, v[name].log)
		}
	}
	return logs
}

// resting refuses to move a channel to a version whose bundles Prune may be removing.
func (v view) resting(s *state, version string, now time.Time) error {
	if head := s.log.Head(); head != nil && (head.Version == version || head.Newest() == version) {
		return nil
	}
	var by *channels.Entry
	shown := s.channel
	for _, log := range v.logs() {
		if e := log.PrunedBy(version); e != nil && e.Action == channels.Prune && now.Sub(e.When) < upkeep.Rest {
			by = e
		}
		if log.Shown(version) && !s.log.Shown(version) {
			shown = log.Channel
		}
	}
	if by == nil {
		return nil
	}
	return refuse(ErrPruning, "from "+by.When.Add(upkeep.Rest).UTC().Format("15:04:05")+" UTC on, `tsmon channel repair "+shown+" --bundle FILE` puts back what is gone, FILE with its bytes; then run the same command again",
		"entry %d of %s by %s prunes %s", by.Sequence, by.Channel, by.Who, version)
}
