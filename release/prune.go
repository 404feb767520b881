package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/store/object"
)

// PruneOptions say which releases may go. Both must hold; zero values allow all.
type PruneOptions struct {
	Keep      int           // newest releases of each channel that stay
	OlderThan time.Duration // since a channel last offered it
	Why       string        // recorded in the logs
	DryRun    bool
}

// PrunedRelease is a release whose bundles are removed.
type PrunedRelease struct {
	Version string `json:"version"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
}

// PruneReport is what Prune removed, or would remove.
type PruneReport struct {
	Changed  bool            `json:"changed"` // false: there was nothing to do
	DryRun   bool            `json:"dry_run,omitempty"`
	Pruned   []PrunedRelease `json:"pruned"` // in the updater's order
	Channels []string        `json:"channels"`
	// Leftovers are objects of uploads that never became a release.
	Leftovers []string `json:"leftovers"`
}

const (
	// leftoverAge is how old an object of no release must be to be removed, and
	// trustAge how old one may be that a publish makes part of a release. Between them
	// lies the time that a command may take.
	leftoverAge = 24 * time.Hour
	trustAge    = leftoverAge / 2
)

// holdings are the objects of the releases in a store, by version.
type holdings map[string][]object.Info

// pruning is one run of Prune.
type pruning struct {
	*Publisher
	o      PruneOptions
	report *PruneReport
}

// Prune removes the bundles of releases that no client is offered. The logs of all
// channels say so first, which keeps anybody from moving a channel to one of them
// meanwhile; then it looks once more, and then bundles and signatures go. Records stay,
// so that a version is never used twice, and Repair can put bundles back. It never
// removes what a channel offers, in a rollout or to older clients as a watershed, what
// the last two rollbacks would lead to, what is staged, or what no channel has shown.
func (p *Publisher) Prune(ctx context.Context, o PruneOptions) (*PruneReport, error) {
	if _, err := p.planner(); err != nil {
		return nil, err
	}
	report := &PruneReport{DryRun: o.DryRun, Pruned: []PrunedRelease{}, Channels: []string{}, Leftovers: []string{}}
	w := &pruning{p, o, report}
	logs, doomed, held, err := w.prunable(ctx)
	if err != nil {
		return nil, err
	}
	leftovers, err := w.leftovers(ctx, held)
	if err != nil {
		return nil, err
	}
	if !o.DryRun && len(doomed) > 0 {
		if err := w.declare(ctx, logs, doomed); err != nil {
			return nil, err
		}
		if doomed, err = w.stillPrunable(ctx, doomed); err != nil {
			return nil, err
		}
	}
	keys := leftovers
	for _, version := range doomed {
		pruned := PrunedRelease{Version: version}
		for _, info := range held[version] {
			keys = append(keys, info.Key)
			pruned.Objects, pruned.Bytes = pruned.Objects+1, pruned.Bytes+info.Size
		}
		report.Pruned = append(report.Pruned, pruned)
	}
	report.Leftovers = append(report.Leftovers, leftovers...)
	report.Changed = len(keys) > 0
	if o.DryRun || len(keys) == 0 {
		return report, nil
	}
	p.step("removing %d objects", len(keys))
	return report, p.Store.Delete(ctx, keys...)
}

// prunable returns the logs, the versions whose bundles may go, and all objects of
// releases but for records.
func (w *pruning) prunable(ctx context.Context) ([]*channels.Log, []string, holdings, error) {
	held := holdings{}
	for info, err := range w.Store.List(ctx, root, "") {
		if err != nil {
			return nil, nil, nil, fmt.Errorf("list %s: %w", root, err)
		}
		version, ok := versionIn(info.Key)
		if _, err := manifest.ParseVersion(version); err != nil || !ok {
			continue
		}
		if IsRecord(info.Key) {
			info.Key = "" // which only marks the version
		}
		held[version] = append(held[version], info)
	}
	logs, kept, err := w.kept(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	var doomed []string
	for version, infos := range held {
		if bundles := slices.DeleteFunc(slices.Clone(infos), func(i object.Info) bool { return i.Key == "" }); len(bundles) == 0 {
			delete(held, version)
		} else if len(bundles) < len(infos) { // it has a record
			held[version] = bundles
			if last, shown := lastOffered(logs, version); shown && !kept[version] && w.Now().Sub(last) >= w.o.OlderThan {
				doomed = append(doomed, version)
			} else {
				delete(held, version)
			}
		}
	}
	slices.SortFunc(doomed, compareVersions)
	return logs, doomed, held, nil
}

// kept reads the logs and returns the versions that must stay.
func (w *pruning) kept(ctx context.Context) ([]*channels.Log, map[string]bool, error) {
	logs, err := w.channels().All(ctx)
	if err != nil {
		return nil, nil, err
	}
	kept := map[string]bool{}
	for _, log := range logs {
		head, standing := log.Head(), log.Standing()
		versions := append(log.Watersheds(), head.Version, head.Newest())
		back := []string{head.Version}
		for _, e := range slices.Backward(standing) {
			if !slices.Contains(back, e.Version) && len(back) < 3 {
				back = append(back, e.Version)
			}
		}
		for _, e := range standing { // watersheds that are held back, too
			if e.Release.Watershed {
				versions = append(versions, e.Version)
			}
		}
		var all []string
		for _, e := range log.Entries {
			all = append(all, e.Version, e.Newest())
		}
		slices.SortFunc(all, func(a, b string) int { return compareVersions(b, a) })
		all = slices.Compact(all)
		versions = append(append(versions, back...), all[:min(max(w.o.Keep, 0), len(all))]...)
		shown, err := w.channels().Peek(ctx, log.Channel)
		if err != nil {
			return nil, nil, err
		}
		for _, pointer := range shown {
			if m, err := manifest.Decode(pointer.Data); err == nil {
				versions = append(versions, m.Version)
			}
		}
		for _, version := range versions {
			kept[version] = true
		}
	}
	return logs, kept, nil
}

// lastOffered returns when a channel last ceased to offer a version.
func lastOffered(logs []*channels.Log, version string) (last time.Time, shown bool) {
	for _, log := range logs {
		for i := len(log.Entries) - 1; i >= 0; i-- {
			e := &log.Entries[i]
			if e.Version != version && e.Newest() != version {
				continue
			}
			shown = true
			if i+1 < len(log.Entries) {
				e = &log.Entries[i+1]
			}
			if e.When.After(last) {
				last = e.When
			}
			break
		}
	}
	return last, shown
}

// declare adds an entry to each log that does not say yet that versions are pruned.
func (w *pruning) declare(ctx context.Context, logs []*channels.Log, doomed []string) error {
	for _, log := range logs {
		versions := slices.DeleteFunc(slices.Clone(doomed), log.Pruned)
		if len(versions) == 0 { // but perhaps what clients read is behind
			if _, _, err := w.channels().Repoint(ctx, log); err != nil {
				return err
			}
			continue
		}
		head := log.Head()
		e := channels.Entry{Action: channels.Prune, Who: w.Who, When: w.Now(), Why: cmp.Or(w.o.Why, fmt.Sprintf("bundles of %d old releases are removed", len(versions))),
			Release: head.Release, Rollout: head.Rollout, Pruned: versions}
		e = log.Next(e)
		if err := w.sign(ctx, log, &e); err != nil {
			return err
		}
		longer, err := w.channels().Enter(ctx, log, e)
		if err != nil {
			return err
		}
		if _, _, err := w.channels().Repoint(ctx, longer); err != nil {
			return err
		}
		w.report.Channels = append(w.report.Channels, log.Channel)
	}
	return nil
}

// stillPrunable returns those of the versions that no channel has come to need since.
func (w *pruning) stillPrunable(ctx context.Context, doomed []string) ([]string, error) {
	logs, kept, err := w.kept(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(doomed, func(version string) bool {
		return kept[version] || slices.ContainsFunc(logs, func(log *channels.Log) bool { return !log.Pruned(version) })
	}), nil
}

// leftovers returns the objects of versions without a record, of which nothing is
// staged, that are old enough that nobody is uploading them.
func (w *pruning) leftovers(ctx context.Context, held holdings) ([]string, error) {
	staged, err := w.Library().versions(ctx, stagedRoot, func(string, object.Info) bool { return true })
	if err != nil {
		return nil, err
	}
	var keys []string
	for version, infos := range held {
		if slices.Contains(staged, version) || slices.ContainsFunc(infos, func(i object.Info) bool { return i.Key == "" }) {
			continue
		}
		records, err := w.Library().records(ctx, version)
		if err != nil || len(records) > 0 {
			continue
		}
		for _, info := range infos {
			if w.Now().Sub(info.ModTime) >= leftoverAge && strings.HasPrefix(info.Key, root) {
				keys = append(keys, info.Key)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}
