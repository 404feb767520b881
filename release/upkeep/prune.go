package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/store/object"
)

// PruneOptions choose the releases to prune. Both Keep and OlderThan must allow it; their zero values
// allow all.
type PruneOptions struct {
	Keep      int           // how many of each channel's newest releases stay
	OlderThan time.Duration // since a channel last offered it
	Why       string        // recorded in the logs
	// Strays removes no old releases, only leftovers and objects among the releases that no log
	// names.
	Strays bool
	DryRun bool
}

// PrunedRelease is a release whose bundles are removed.
type PrunedRelease struct {
	Version string `json:"version"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
}

// PruneReport lists what Prune removed, or would remove.
type PruneReport struct {
	Changed  bool            `json:"changed"` // false: there was nothing to do
	DryRun   bool            `json:"dry_run,omitempty"`
	Pruned   []PrunedRelease `json:"pruned"` // in the updater's order
	Channels []string        `json:"channels"`
	// Leftovers are the keys of objects that no release needs, sorted: interrupted uploads,
	// discarded versions, and the staging records and claims of releases that a channel has
	// shown since; with Strays all that Unnamed finds in files.
	Leftovers []string `json:"leftovers"`
	// Unfinished are the keys of uploads that were begun and not finished.
	Unfinished []string `json:"unfinished"`
	Warnings   []string `json:"warnings,omitempty"`
}

const (
	// Prune removes objects that no release needs once all objects of the version are older than
	// leftoverAge. A publish uses such an object only if it is not older than TrustAge. The
	// difference is the time that a command may take.
	leftoverAge = 24 * time.Hour
	TrustAge    = leftoverAge / 2
	// Prune may remove bundles for PruneTime after its entries in the logs. For Rest no channel can
	// be moved to their versions. The difference allows for clocks that differ.
	PruneTime = 10 * time.Minute
	Rest      = 30 * time.Minute
	// deletedAtOnce is how many objects are removed between two looks at the clock.
	deletedAtOnce = 1000
)

// ErrPruneTime means that Prune had to stop.
var ErrPruneTime = fmt.Errorf("removing bundles took longer than %v; prune again for the rest", PruneTime)

// pruning is one run of Prune.
type pruning struct {
	Keeper
	o       PruneOptions
	began   time.Time
	stored  time.Time         // when it began by the time of the store
	stocks  map[string]*stock // by version
	logs    []*channels.Log
	astray  []object.Info // old ones among the releases, in no version's folder
	report  *PruneReport
	linked  []string        // paths of what manifests of channels without a log offer
	ahead   error           // manifests show an entry that a log lacks, whose end is lost then
	doomed  []string        // versions whose bundles go, sorted
	uploads []object.Upload // that nobody goes on with
	// unshown are versions that no channel has shown, no plan waits for, and that are complete.
	unshown []string
}

// stock lists the objects of a version in the store.
type stock struct {
	records []object.Info
	objects []object.Info // in its folder, but for records
	staged  []object.Info // that say how it was staged
	newest  time.Time     // when the last of all these was written
}

// Prune removes the bundles of releases that no client is offered, and objects that no
// release needs. It never removes what a channel offers, including rollouts and watersheds,
// what the last two rollbacks would return to, what is staged, or what no channel has shown.
// Records are kept, so that a version is never used twice, and Repair can put bundles back.
//
// Prune first adds an entry to the logs of all channels that names the bundles. Moves that
// were planned before then get a conflict; later ones can't show one of those versions for
// Rest. Then Prune looks once more, and removes the bundles within PruneTime.
func (k Keeper) Prune(ctx context.Context, o PruneOptions) (*PruneReport, error) {
	if err := k.Ready(); err != nil {
		return nil, err
	}
	if err := library.CheckClock(ctx, k.Library.Store, k.Now()); err != nil {
		return nil, err // it would remove what is not old
	}
	stored, err := k.Library.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	w := &pruning{Keeper: k, o: o, began: k.Now().Round(0), stored: stored, stocks: map[string]*stock{},
		report: &PruneReport{DryRun: o.DryRun, Pruned: []PrunedRelease{}, Channels: []string{}, Leftovers: []string{}, Unfinished: []string{}}}
	steps := []func(context.Context) error{w.takeStock, w.prunable, w.leftovers, w.unfinished}
	if !o.DryRun {
		steps = append(steps, w.declare, w.stillPrunable)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	var keys []string
	for _, version := range w.doomed {
		pruned := PrunedRelease{Version: version}
		for _, info := range w.stocks[version].objects {
			keys = append(keys, info.Key)
			pruned.Objects, pruned.Bytes = pruned.Objects+1, pruned.Bytes+info.Size
		}
		w.report.Pruned = append(w.report.Pruned, pruned)
	}
	w.report.Changed = len(keys)+len(w.report.Leftovers)+len(w.uploads) > 0
	if o.DryRun {
		return w.report, nil
	}
	if err := w.remove(ctx, keys); err != nil {
		return nil, err
	}
	return w.report, w.clear(ctx)
}

// takeStock lists all that lies in the store of any version. Old claims are leftovers.
func (w *pruning) takeStock(ctx context.Context) error {
	for _, prefix := range []string{library.Root, library.StagedRoot} {
		for info, err := range w.Library.Store.List(ctx, prefix, "") {
			if err != nil {
				return err
			}
			if w.isOldClaim(info) {
				w.report.Leftovers = append(w.report.Leftovers, info.Key)
			}
			version, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
			if _, err := manifest.ParseVersion(version); err != nil {
				if prefix == library.Root && w.began.Sub(info.ModTime) >= leftoverAge {
					w.astray = append(w.astray, info)
				}
				continue
			}
			s := w.stocks[version]
			if s == nil {
				s = &stock{}
				w.stocks[version] = s
			}
			switch {
			case prefix == library.StagedRoot:
				s.staged = append(s.staged, info)
			case library.IsRecord(info.Key):
				s.records = append(s.records, info)
			default:
				s.objects = append(s.objects, info)
			}
			if info.ModTime.After(s.newest) {
				s.newest = info.ModTime
			}
		}
	}
	return nil
}

// prunable reads the logs and finds the versions whose bundles may go.
func (w *pruning) prunable(ctx context.Context) error {
	kept, err := w.kept(ctx)
	if err != nil || w.o.Strays {
		return err
	}
	offered := lastOffered(w.logs)
	for version, s := range w.stocks {
		last, shown := offered[version]
		if len(s.records) > 0 && len(s.objects) > 0 && shown && !kept[version] && w.began.Sub(last) >= w.o.OlderThan {
			w.doomed = append(w.doomed, version)
		}
	}
	slices.SortFunc(w.doomed, library.CompareVersions)
	return nil
}

// kept reads what is new in the logs, and returns the versions that must stay.
func (w *pruning) kept(ctx context.Context) (map[string]bool, error) {
	names, err := w.Channels.Names(ctx)
	if err != nil {
		return nil, err
	}
	logs, kept := make([]*channels.Log, len(names)), map[string]bool{}
	for i, name := range names {
		logs[i] = &channels.Log{Channel: name}
		if at := slices.IndexFunc(w.logs, func(log *channels.Log) bool { return log.Channel == name }); at >= 0 {
			logs[i] = w.logs[at]
		}
		if logs[i], err = w.Channels.Extend(ctx, logs[i]); err != nil {
			return nil, err
		}
		shown, err := w.Channels.Peek(ctx, name)
		if err != nil {
			return nil, err
		}
		end := logs[i].End().Sequence
		if last := channels.Ahead(shown, end); last > end {
			w.ahead = fmt.Errorf("%w: clients of %s are shown entry %d, which is missing", channels.ErrLog, name, last)
		}
		for _, version := range append(keptBy(logs[i], w.o.Keep), versionsIn(shown)...) {
			kept[version] = true
		}
	}
	w.logs = logs
	return kept, nil
}

// keptBy returns the versions that a channel's log keeps: those that it offers, also if
// paused, its watersheds, those that the last two rollbacks would return to, and the newest
// ones.
func keptBy(log *channels.Log, newest int) []string {
	head, standing := log.Head(), log.Standing()
	if head == nil {
		return nil // a delivery of its first entries is under way
	}
	if log.Fed() { // whose log alone says what goes
		newest = 2 * len(log.Entries)
	}
	back := []string{head.Version}
	for _, e := range slices.Backward(standing) {
		if len(back) < 3 && !slices.Contains(back, e.Version) {
			back = append(back, e.Version)
		}
	}
	versions := append(append(log.Watersheds(), head.Newest()), back...)
	for _, e := range standing {
		if e.Release.Watershed {
			versions = append(versions, e.Version)
		}
	}
	all := library.VersionsOf(log)
	slices.SortFunc(all, func(a, b string) int { return library.CompareVersions(b, a) })
	return append(versions, all[:min(max(newest, 0), len(all))]...)
}

// versionsIn returns the versions of manifests, which may be behind the log.
func versionsIn(shown []channels.Pointer) []string {
	var versions []string
	for _, pointer := range channels.Distinct(shown) {
		if m, err := manifest.Decode(pointer.Data); err == nil {
			versions = append(versions, m.Version)
		}
	}
	return versions
}

// lastOffered returns, for each version that was ever shown, when a channel last stopped
// offering it. For a version that is still offered it is when that began.
func lastOffered(logs []*channels.Log) map[string]time.Time {
	offered := map[string]time.Time{}
	for _, log := range logs {
		for i := range log.Entries {
			e := &log.Entries[i]
			until := log.Entries[min(i+1, len(log.Entries)-1)].When
			for _, version := range []string{e.Version, e.Newest()} {
				if last, ok := offered[version]; !ok || until.After(last) {
					offered[version] = until
				}
			}
		}
	}
	return offered
}

// declare adds an entry to each log that has not announced the pruning of the versions, or
// announced it too long ago. Whoever is about to move the channel to one of them conflicts
// with that entry. It adds none unless the operator who works here may sign them all.
func (w *pruning) declare(ctx context.Context) error {
	if len(w.doomed) == 0 {
		return nil
	}
	entries := make([]*channels.Entry, len(w.logs))
	for i, log := range w.logs {
		var err error
		if entries[i], err = w.announcement(ctx, log); err != nil {
			return err
		}
	}
	for i, log := range w.logs {
		if log.Fed() {
			continue
		}
		if entries[i] != nil {
			longer, err := w.Channels.Enter(ctx, log, *entries[i])
			if err != nil {
				return err
			}
			log = longer
			w.report.Channels = append(w.report.Channels, log.Channel)
		}
		// Without an entry, too, what clients read may be behind.
		if _, _, err := w.Channels.Repoint(ctx, log); err != nil {
			return err
		}
	}
	return nil
}

// announcement returns the signed entry that announces the pruning in a log, nil if
// it needs none. A plan would be of no use: the bundles go within PruneTime of the entry.
func (w *pruning) announcement(ctx context.Context, log *channels.Log) (*channels.Entry, error) {
	if log.Fed() {
		return nil, nil
	}
	var versions []string
	for _, version := range w.doomed {
		if e := log.PrunedBy(version); e == nil || e.Action != channels.Prune || w.began.Sub(e.When).Abs() > PruneTime/2 {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		return nil, nil
	}
	head := log.Head()
	e := log.Next(channels.Entry{Action: channels.Prune, Who: w.Who, When: w.began, Origin: w.Origin, Pruned: versions,
		Why: cmp.Or(w.o.Why, fmt.Sprintf("bundles of %d old releases are removed", len(versions))), Release: head.Release, Rollout: head.Rollout})
	if err := w.Sign(ctx, log, &e); err != nil {
		return nil, approval.NobodySigns(err, log, &e)
	}
	has, needs, err := w.Channels.Approvals(log, e)
	if err == nil && has < needs { // by the key of a server, which pauses alone
		err = approval.NobodySigns(approval.ErrNotOperator, log, &e)
	}
	return &e, err
}

// stillPrunable spares versions that a channel needs by now, and versions without an entry in one of
// the logs.
func (w *pruning) stillPrunable(ctx context.Context) error {
	if len(w.doomed) == 0 {
		return nil
	}
	claimed, err := w.claimed(ctx)
	if err != nil {
		return err
	}
	kept, err := w.kept(ctx)
	if err != nil {
		return err
	}
	w.doomed = slices.DeleteFunc(w.doomed, func(version string) bool {
		return claimed[version] || kept[version] || slices.ContainsFunc(w.logs, func(log *channels.Log) bool { return !log.Fed() && !log.Pruned(version) })
	})
	return nil
}

// remove removes bundles, in the time that there is for it.
func (w *pruning) remove(ctx context.Context, keys []string) error {
	if len(keys) > 0 {
		w.Step("removing objects: %d", len(keys))
	}
	ctx, stop := context.WithTimeoutCause(ctx, PruneTime-w.Now().Round(0).Sub(w.began), ErrPruneTime)
	defer stop()
	for part := range slices.Chunk(keys, deletedAtOnce) {
		if w.Now().Round(0).Sub(w.began) > PruneTime { // ctx does not notice a computer that slept
			return ErrPruneTime
		}
		if err := w.Library.Store.Delete(ctx, part...); err != nil {
			if errors.Is(context.Cause(ctx), ErrPruneTime) {
				return ErrPruneTime
			}
			return err
		}
	}
	return nil
}
