package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/store/object"
)

// unnamedShown bounds the findings of Unnamed.
const unnamedShown = 100

var (
	errUnnamed = errors.New("no log names this file among the releases")
	errUnshown = errors.New("no channel has shown this release, no plan waits for it, and nothing of it is staged")
)

// Unnamed finds what no log names among the releases of a store where operators sign a channel:
// files, records, and whole releases that no channel has shown. Servers show none of it, but
// clients that read the bucket itself can fetch it. Unnamed skips what was written within a day,
// since a publish may be under way, what is staged, and what a plan waits to show. It finds
// nothing while the log of a channel, or its end, is lost or can't be read: that log may name it.
func (k Keeper) Unnamed(ctx context.Context) (found Findings, err error) {
	if !k.anySigned() {
		return nil, nil
	}
	now, err := k.Library.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	w := &pruning{Keeper: k, o: PruneOptions{Strays: true}, began: now, stored: now, stocks: map[string]*stock{}, report: &PruneReport{}}
	if err = w.takeStock(ctx); err == nil {
		_, err = w.kept(ctx)
	}
	if err == nil {
		err = w.leftovers(ctx)
	}
	if errors.Is(err, channels.ErrLog) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, version := range slices.SortedFunc(slices.Values(w.unshown), library.CompareVersions) {
		found.find(library.Folder(version), errUnshown,
			"`tsmon release publish --version "+version+"` completes it; if it is not to be released, `tsmon release discard "+version+"` deletes it, and a day later `tsmon release prune --strays` removes its files")
	}
	for _, key := range w.report.Leftovers {
		if strings.HasPrefix(key, library.Root) {
			found.find(key, errUnnamed, "`tsmon release prune --strays` removes it; with --dry-run it lists all such files")
		}
	}
	if more := len(found) - unnamedShown; more > 0 {
		found = found[:unnamedShown]
		found[unnamedShown-1].Problem += fmt.Sprintf("; and %d more like it", more)
	}
	return found, nil
}

// anySigned reports whether operators sign a channel.
func (k Keeper) anySigned() bool {
	for _, trust := range k.Channels.Trust {
		if trust.Operators != nil {
			return true
		}
	}
	return false
}

// whole returns an error if the log of a channel, or the end of one, was removed.
func (w *pruning) whole(ctx context.Context) error {
	if w.ahead != nil {
		return w.ahead
	}
	for name := range w.Channels.Trust {
		if slices.ContainsFunc(w.logs, func(log *channels.Log) bool { return log.Channel == name }) {
			continue
		}
		if gone, err := w.gone(ctx, name, channels.Position{}); err != nil || gone != nil {
			return errors.Join(gone, err)
		}
	}
	return nil
}

// ErrAwaited means that a plan waits to show a version.
var ErrAwaited = errors.New("a plan waits to show the version")

// Unclaimed returns an error if a version that no log names may still be needed: ErrAwaited if a
// plan waits to show it, or channels.ErrLog if a log, or its end, was removed and may have
// named it.
func (k Keeper) Unclaimed(ctx context.Context, version string) error {
	w := &pruning{Keeper: k}
	if _, err := w.kept(ctx); err != nil {
		return err
	}
	if err := w.whole(ctx); err != nil {
		return err
	}
	planned, err := w.planned(ctx)
	if p := planned[version]; err == nil && p != nil {
		err = bundle.Refuse(ErrAwaited, "`tsmon plan withdraw "+p.Name()+" --channel "+p.Channel+"` removes the plan; then discard "+version+" again", "plan %s of %s", p.Name(), p.Channel)
	}
	return err
}

// planned returns the plans that wait, by the versions that they show, also those of channels that
// tsmon.yaml here does not name.
func (w *pruning) planned(ctx context.Context) (map[string]*approval.Waiting, error) {
	found := map[string]*approval.Waiting{}
	plans := approval.Plans{Store: w.Library.Store, Channels: w.Channels, Now: w.Now}
	for name, err := range object.Folders(ctx, w.Library.Store, approval.Folder) {
		if err != nil {
			return nil, err
		}
		if channels.CheckName(name) != nil {
			continue
		}
		plans.Root = w.Channels.Trust[name].Root
		all, _, err := plans.List(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if p.Stale == "" {
				found[p.Entry.Version], found[p.Entry.Newest()] = p, p
			}
		}
	}
	return found, nil
}
