package release

import (
	"context"
	"maps"
	"slices"
	"time"

	"tsmon/release/bundle"
	"tsmon/release/library"
)

// Discarded is what was thrown away of a version.
type Discarded struct {
	Version string   `json:"version"`
	Changed bool     `json:"changed"` // false: there was nothing
	Staged  []string `json:"staged"`  // targets
	Record  bool     `json:"record"`  // it was complete, and shown by no channel
}

// discarding is one run of Discard.
type discarding struct {
	*Publisher
	done *Discarded
}

// Discard throws away what is staged of a version and its record, so that other
// bundles can have the number. A version that a channel showed is refused. Objects
// stay as they are: marks that follow them say that they count no more.
func (p *Publisher) Discard(ctx context.Context, version string) (*Discarded, error) {
	if _, err := bundle.ParseVersion(version); err != nil {
		return nil, err
	}
	w := &discarding{p, &Discarded{Version: version, Staged: []string{}}}
	return retryRaced(func() (*Discarded, error) { return w.done, w.once(ctx) })
}

// once marks the record first, so that a publish that begins meanwhile takes nothing that is
// about to be thrown away. Then it looks for a publish or a plan that began before: a release
// that a log names counts in spite of the mark.
func (w *discarding) once(ctx context.Context) error {
	releases, done := w.Library(), w.done
	st, err := w.look(ctx)
	if err != nil {
		return err
	}
	if st.Counts != nil {
		if err := w.Keeper().Unclaimed(ctx, done.Version); err != nil {
			return err
		}
		if err := releases.MarkDiscarded(ctx, done.Version, st.Next(), w.Who, w.Now()); err != nil {
			return err
		}
		done.Record, done.Changed = true, true
	}
	for _, target := range slices.Sorted(maps.Keys(st.staged)) {
		s := st.staged[target]
		if len(s.Bundles) == 0 && s.Damage == nil {
			continue
		}
		mark := &library.Staged{Version: done.Version, Target: target, Who: w.Who, When: w.Now().UTC().Truncate(time.Second), Bundles: []library.StagedBundle{}, Number: s.Number + 1}
		if err := releases.PutStaged(ctx, mark); err != nil {
			return err
		}
		done.Staged, done.Changed = append(done.Staged, target), true
	}
	if !done.Changed {
		return nil
	}
	if _, err := w.look(ctx); err != nil || !done.Record {
		return err
	}
	return w.Keeper().Unclaimed(ctx, done.Version)
}

// look reads what the store has of the version, and refuses one that a channel has shown.
func (w *discarding) look(ctx context.Context) (*stage, error) {
	version := w.done.Version
	st, err := w.Inspector().readStage(ctx, version)
	if err == nil && st.Shown != "" {
		err = refuse(ErrShown, "publish a higher version; what clients may have stays", "%s has shown %s", st.Shown, version)
	}
	return st, err
}
