package release

import (
	"context"
	"maps"
	"slices"
	"time"

	"tsmon/release/bundle"
	"tsmon/release/library"
)

// Discarded is the result of Discard.
type Discarded struct {
	Version string   `json:"version"`
	Changed bool     `json:"changed"` // false: there was nothing to discard
	Staged  []string `json:"staged"`  // targets with staged bundles
	Record  bool     `json:"record"`  // the version was complete, and shown by no channel
}

// Discard discards the staged bundles of a version and its record, so that other bundles can have
// the number. A version that a channel showed is refused. Objects stay in the store until Prune
// removes them; marks say that they no longer count.
func (p *Publisher) Discard(ctx context.Context, version string) (*Discarded, error) {
	if _, err := bundle.ParseVersion(version); err != nil {
		return nil, err
	}
	done := &Discarded{Version: version, Staged: []string{}}
	return retryRaced(func() (*Discarded, error) { return done, discard(ctx, p, done) })
}

// discard marks the record first, so that a publish that begins meanwhile takes nothing that is
// about to be thrown away. Then it looks for a publish or a plan that began before: a release
// that a log names counts in spite of the mark.
func discard(ctx context.Context, p *Publisher, done *Discarded) error {
	releases := p.Library()
	st, err := p.Inspector().lookUnshown(ctx, done.Version)
	if err != nil {
		return err
	}
	if st.Counts != nil {
		if err := p.Keeper().Unclaimed(ctx, done.Version); err != nil {
			return err
		}
		if err := releases.MarkDiscarded(ctx, done.Version, st.Next(), p.Who, p.Now()); err != nil {
			return err
		}
		done.Record, done.Changed = true, true
	}
	for _, target := range slices.Sorted(maps.Keys(st.staged)) {
		s := st.staged[target]
		if len(s.Bundles) == 0 && s.Damage == nil {
			continue
		}
		mark := &library.Staged{Version: done.Version, Target: target, Who: p.Who, When: p.Now().UTC().Truncate(time.Second), Bundles: []library.StagedBundle{}, Number: s.Number + 1}
		if err := releases.PutStaged(ctx, mark); err != nil {
			return err
		}
		done.Staged, done.Changed = append(done.Staged, target), true
	}
	if !done.Changed {
		return nil
	}
	if _, err := p.Inspector().lookUnshown(ctx, done.Version); err != nil || !done.Record {
		return err
	}
	return p.Keeper().Unclaimed(ctx, done.Version)
}

// lookUnshown reads what the store has of a version, and refuses one that a channel has shown.
func (in Inspector) lookUnshown(ctx context.Context, version string) (*stage, error) {
	st, err := in.readStage(ctx, version)
	if err == nil && st.Shown != "" {
		err = refuse(ErrShown, "publish a higher version; a version that clients may have is never discarded", "%s has shown %s", st.Shown, version)
	}
	return st, err
}
