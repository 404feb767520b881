package library

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
)

// Surveyed is a version in the store with its state on the channels.
type Surveyed struct {
	Version
	// Date is when the version was published, or, if it is not complete, when a part of it was last
	// staged. It is zero if no channel showed the version and its record can't be read.
	Date       time.Time
	Channels   []string                     // channels that show it to everybody, sorted, not nil
	Rollouts   map[string]*channels.Rollout // by channel that offers it to some clients
	RolledBack []string                     // channels that were rolled back from it, sorted
	Pruned     bool                         // some of its bundles were pruned or lost, and not restored
}

// Survey returns the versions of List with what the logs of all channels say about them. It reads
// records only of versions that no log names.
func (l Library) Survey(ctx context.Context) ([]Surveyed, error) {
	versions, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	logs, err := channels.Repository{Store: l.Store, Trust: l.Trust}.All(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]Surveyed, len(versions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for i, v := range versions {
		found[i] = surveyed(v, logs)
		if found[i].Date.IsZero() {
			group.Go(func() (err error) { found[i].Date, err = l.published(ctx, v.Version); return err })
		}
	}
	return found, group.Wait()
}

// surveyed returns the state of a version as far as it is known without the record.
func surveyed(v Version, logs []*channels.Log) Surveyed {
	s := Surveyed{Version: v, Channels: []string{}, Rollouts: map[string]*channels.Rollout{}}
	for _, staged := range v.Staged {
		if staged.When.After(s.Date) {
			s.Date = staged.When
		}
	}
	for _, log := range logs {
		released := log.Release(v.Version)
		if released == nil {
			continue
		}
		s.Date = released.PubDate
		head := log.Head()
		if head.Version == v.Version {
			s.Channels = append(s.Channels, log.Channel)
		}
		if head.Rollout != nil && head.Rollout.Version == v.Version {
			s.Rollouts[log.Channel] = head.Rollout
		}
		if log.RolledBack(v.Version) != nil {
			s.RolledBack = append(s.RolledBack, log.Channel)
		}
		s.Pruned = s.Pruned || log.Pruned(v.Version) && !v.has(released)
	}
	return s
}

// has reports whether everything is there that clients and new users download of a
// release. It looks at names only.
func (v Version) has(r *channels.Release) bool {
	for _, b := range r.Platforms {
		if !v.keys[b.Path] {
			return false
		}
	}
	return !slices.ContainsFunc(r.Files, func(f channels.File) bool { return !v.keys[f.Path] })
}

// published returns the date in the record of a version that no channel showed.
func (l Library) published(ctx context.Context, version string) (time.Time, error) {
	records, err := l.Records(ctx, version)
	switch {
	case errors.Is(err, ErrStored): // one of them is damaged; what is whole can still be listed
		return time.Time{}, nil
	case err != nil || len(records) == 0:
		return time.Time{}, err
	}
	return records[len(records)-1].PubDate, nil
}
