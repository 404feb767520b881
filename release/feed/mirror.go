package feed

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/store/object"
)

// Mirror copies channels from another store to the publisher's, as Import does from a file.
// Without names it copies every configured channel that the other store has, except those
// that were moved here. An unchanged channel costs one list request and one read of the other
// store.
func Mirror(ctx context.Context, p *release.Publisher, from object.Store, names []string, dry bool) (*Report, error) {
	in, err := newIntake(ctx, p, library.Library{Store: from, Keys: p.Keys, Trust: p.Repository().Trust}, dry)
	if err != nil {
		return nil, err
	}
	in.mirrors = true
	m := &mirror{intake: in, names: names}
	if err := inOrder(ctx, m.channels, m.settle, m.fetch, m.stock, m.bundles, m.whole, m.commit); err != nil {
		return nil, err
	}
	return in.report, nil
}

// mirror is one run of Mirror.
type mirror struct {
	*intake
	names []string // names of channels; empty for all
}

// channels reads the logs of the channels that Mirror copies.
func (m *mirror) channels(ctx context.Context) error {
	names := m.names
	if err := m.Configured(names...); err != nil {
		return err
	}
	named := len(names) > 0
	if !named {
		names = slices.Collect(maps.Keys(m.Policies))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if err := m.channel(ctx, name, named); err != nil {
			return err
		}
	}
	if len(m.deliveries) == 0 {
		return refuse(library.ErrNoRelease, "check the address after --from, and list its channels under channels in tsmon.yaml", "the other store has none of the channels in tsmon.yaml")
	}
	return nil
}

// channel reads the entries that follow the log of a channel, and the last entry of the log,
// so that a fork is noticed.
func (m *mirror) channel(ctx context.Context, name string, named bool) error {
	before, err := m.log(ctx, name)
	if err != nil {
		return err
	}
	end := before.End()
	own := end.Sequence > 0 && !before.Fed()
	if own && !named {
		return nil
	}
	since := channels.Position{Sequence: end.Sequence - min(end.Sequence, 1)}
	since.Hash = before.HashOf(since.Sequence)
	raw, err := channels.Repository{Store: m.from.Store}.Raw(ctx, name, since.Sequence)
	switch {
	case err != nil:
		return err
	case len(raw) == 0 && end.Sequence > 0:
		return refuse(ErrOlder, m.again(name, end.Sequence), "%s has no entry %d there", name, end.Sequence)
	case len(raw) == 0:
		return nil
	}
	return m.follow(ctx, before, since, raw)
}

// bundles copies the bundles that the store lacks, several at once.
func (m *mirror) bundles(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for _, b := range slices.Collect(maps.Values(m.lacking)) { // a copy, because receive deletes from lacking
		group.Go(func() error {
			body, info, err := m.from.Store.Get(ctx, library.BundleKey(b.version, b.Name))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it stays in lacking
			}
			if err != nil {
				return err
			}
			defer body.Close()
			if info.Size != b.Size {
				return nil
			}
			if err = m.receive(ctx, b, body); errors.Is(err, library.ErrBytes) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}
