package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

// StageOptions say what a job of a build matrix brings.
type StageOptions struct {
	PublishOptions      // Channel is the one whose required targets count
	Replace        bool // what is staged for the targets may change
	Publish        bool // publish once the targets that Channel requires are there
}

// StageReport is what is staged of a version.
type StageReport struct {
	Version string    `json:"version"`
	Channel string    `json:"channel"`
	Changed bool      `json:"changed"` // false: the bundles were there before
	Staged  []*Staged `json:"staged"`  // by target, sorted
	// Missing are the platform keys that the channel requires, or has, and that
	// nobody staged yet.
	Missing []string `json:"missing"`
	// Published is the move of the channel, made by this job or another; nil if
	// the channel did not get the version yet.
	Published *Plan    `json:"published,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// stage is what the store holds of a version, and how the channels stand.
type stage struct {
	*holding
	staged map[string]*Staged // with the marks of what was discarded
	found  map[string]int64   // objects in the release's folder
	view   view
}

// lookAtStage reads everything that a version consists of, and refuses what is damaged.
func (p *Publisher) lookAtStage(ctx context.Context, version string) (*stage, error) {
	st, err := p.readStage(ctx, version)
	for _, target := range sortedTargets(st.staged) {
		err = cmp.Or(err, st.staged[target].damage)
	}
	return st, err
}

// readStage reads everything that a version consists of.
func (p *Publisher) readStage(ctx context.Context, version string) (*stage, error) {
	library := p.Library()
	st := &stage{view: view{}}
	var records []*Record
	var group errgroup.Group
	var old []string
	group.Go(func() (err error) {
		st.found, old, err = library.objects(ctx, version, p.Now().Add(-trustAge))
		return err
	})
	group.Go(func() (err error) { st.staged, err = library.staged(ctx, version); return err })
	group.Go(func() (err error) { records, err = library.records(ctx, version); return err })
	group.Go(func() error { st.view = p.look(ctx); return nil })
	err := group.Wait()
	if err == nil {
		st.holding, err = library.hold(ctx, records, st.view)
	}
	if err == nil {
		st.distrust(old)
	}
	return st, err
}

// distrust makes the names of old objects unusable that nothing refers to: Prune may be
// about to remove them.
func (st *stage) distrust(old []string) {
	needed := needed(st.counts, st.staged)
	for _, name := range old {
		if name = strings.TrimSuffix(name, ".sig"); !needed[name] {
			st.found[name] = -1 // no bundle has that size
		}
	}
}

// needed returns the names of the bundles in a version's folder that its record, or
// what is staged of it, refers to. The record may be nil.
func needed(record *Record, staged map[string]*Staged) map[string]bool {
	names := map[string]bool{}
	if record != nil {
		for _, b := range record.Bundles {
			names[b.Name] = true
		}
	}
	for _, s := range staged {
		for _, b := range s.Bundles {
			names[b.Name] = true
		}
	}
	return names
}

// open returns the targets of which something is staged. ours take the place of what
// is.
func (st *stage) open(ours map[string]*Staged) map[string]*Staged {
	targets := map[string]*Staged{}
	for target, s := range st.staged {
		if len(s.Bundles) > 0 {
			targets[target] = s
		}
	}
	maps.Copy(targets, ours)
	return targets
}

// bundles returns what a release of all that is staged would consist of: that, and
// what the record of a release that no channel showed has for other platforms.
func (st *stage) bundles(rules *bundle.Rules) ([]Stored, error) {
	_, all, err := merged(st.open(nil), rules)
	if err != nil || st.counts == nil {
		return all, err
	}
	if !slices.ContainsFunc(all, func(b Stored) bool { return !st.counts.has(b) }) {
		return slices.Clone(st.counts.Bundles), nil
	}
	for _, b := range st.counts.Bundles {
		if st.shown == "" && !slices.ContainsFunc(all, b.overlaps) {
			all = append(all, b)
		}
	}
	return all, nil
}

// what names a bundle by its platforms, or a download by its name.
func (s *Stored) what() string {
	if s.updates() {
		return strings.Join(s.Keys, ", ")
	}
	return s.Name
}

// overlaps reports whether two bundles are for the same platform key, or two downloads
// for the same new users.
func (s *Stored) overlaps(other Stored) bool {
	if !s.updates() && !other.updates() {
		return s.Name == other.Name || slices.ContainsFunc(s.Downloads, func(key string) bool { return slices.Contains(other.Downloads, key) })
	}
	return slices.ContainsFunc(s.Keys, func(key string) bool { return slices.Contains(other.Keys, key) })
}

// take completes a publish with what is staged.
func (st *stage) take(o *PublishOptions) ([]Stored, error) {
	all, err := st.bundles(o.Rules)
	if err != nil {
		return nil, &Refusal{Cause: err, Mend: "`tsmon release discard " + o.Version + "` throws away what is staged; then stage one of them"}
	}
	if len(all) == 0 {
		return nil, refuse(ErrNoRelease, "name the bundles to publish, or stage them first with `tsmon release stage --version "+o.Version+"`", "nothing is staged of %s", o.Version)
	}
	for _, b := range all {
		o.Bundles = append(o.Bundles, bundle.Bundle{Name: b.Name, Type: b.Type, Keys: b.Keys, Downloads: b.Downloads, Size: b.Size, Also: !b.updates()})
	}
	if o.Notes == "" && st.shown == "" {
		o.Notes, err = notesOf(o.Version, st.open(nil))
	}
	return all, err
}

// leavesNone refuses a publish of bundles that leaves out what is staged.
func (st *stage) leavesNone(o PublishOptions, ours []Stored) error {
	if st.shown != "" {
		return nil
	}
	targets := st.open(nil)
	_, all, err := merged(targets, o.Rules)
	if err != nil {
		return err
	}
	for _, b := range all {
		if !slices.ContainsFunc(ours, b.same) {
			return refuse(ErrStaged, "`tsmon release publish --version "+o.Version+"` without bundles publishes what is staged, `tsmon release discard "+o.Version+"` throws it away",
				"%s of %s is staged, and not among these bundles", b.what(), o.Version)
		}
	}
	return nil
}

// missing returns the platform keys that a channel would lack.
func (st *stage) missing(pl planner, channel string, rules *bundle.Rules) ([]string, error) {
	all, err := st.bundles(rules)
	s := st.view[channel]
	if err != nil || s.err != nil {
		return nil, cmp.Or(s.err, err)
	}
	return append([]string{}, pl.completeness(s, all).missing()...), nil
}

// Stage stores the bundles of one job. With Publish, the job that completes what the
// channel requires publishes the release; of several that do so at once, one does,
// and the others find it done. The same call again does nothing, or completes what
// was interrupted. Errors are those of Publish.
func (p *Publisher) Stage(ctx context.Context, o StageOptions) (*StageReport, error) {
	o.Options = p.allow(o.Options)
	pl, err := p.planner(o.Channel)
	if err == nil {
		err = pl.checkPublish(o.PublishOptions)
	}
	if err != nil {
		return nil, err
	}
	read, stop := p.reading(ctx, pl, o.PublishOptions)
	defer stop()
	var report *StageReport
	for attempt := 1; ; attempt++ {
		if report, err = p.stageOnce(ctx, pl, o, read); !errors.Is(err, errStale) || attempt == staleAttempts {
			break
		}
	}
	if err != nil || !o.Publish {
		return report, err
	}
	return report, p.publishStaged(ctx, o, report)
}

// stageOnce looks at the store and adds what it lacks.
func (p *Publisher) stageOnce(ctx context.Context, pl planner, o StageOptions, read func() ([]bundle.Contents, error)) (*StageReport, error) {
	st, err := p.lookAtStage(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	s := st.view[o.Channel]
	if err := pl.mayStage(s, o); err != nil {
		return nil, err
	}
	contents, err := read()
	if err != nil {
		return nil, err
	}
	ours, err := p.changes(ctx, st, pl, o, contents)
	if err != nil {
		return nil, err
	}
	if err := p.putAll(ctx, st, o, ours, contents); err != nil {
		return nil, err
	}
	return p.report(ctx, pl, o, ours)
}

// mayStage refuses what the channel would refuse whatever else is staged.
func (p planner) mayStage(s *state, o StageOptions) error {
	if s.err != nil || !o.Publish || s.log.Shown(o.Version) {
		return s.err
	}
	if len(p.completeness(s, nil).required()) == 0 {
		return refuse(ErrConfig, "list what every release must have in tsmon.yaml, such as channels: {"+s.channel+": {targets: [windows-x86_64, linux-x86_64]}}; or leave --publish out, and run `tsmon release publish --version "+o.Version+"` once all is staged",
			"%s requires no targets, so that nobody knows when the release is complete", s.channel)
	}
	return p.forward(s, o.Version, o.Rollout)
}

// completeness is a gate that knows what a release needs to be complete. A channel
// that names no targets needs those of the channel that it follows.
func (p planner) completeness(s *state, bundles []Stored) gate {
	policy := p.policies[s.channel]
	if len(policy.Targets) == 0 {
		policy.Targets = p.policies[policy.Follows].Targets
	}
	return gate{policy: policy, log: s.log, before: s.before(), change: change{manifest: (&Record{Bundles: bundles}).Manifest("")}}
}

// changes returns the targets that a job changes, and refuses those that it may not
// change.
func (p *Publisher) changes(ctx context.Context, st *stage, pl planner, o StageOptions, contents []bundle.Contents) (map[string]*Staged, error) {
	ours := pl.stagedOf(o.PublishOptions, contents)
	together, all, err := merged(st.open(ours), o.Rules)
	if err != nil {
		return nil, &Refusal{Cause: err, Mend: "`tsmon release discard " + o.Version + "` throws away what is staged; then stage one of them"}
	}
	if st.shown != "" {
		return nil, st.late(o.Version, ours, together, all)
	}
	for _, target := range sortedTargets(ours) {
		changed, err := p.change(ctx, st, o, ours[target])
		if err != nil {
			return nil, err
		}
		if !changed {
			delete(ours, target)
		}
	}
	if st.counts != nil && !o.Replace {
		if err := st.differs(o.Version, ours); err != nil {
			return nil, err
		}
	}
	_, err = notesOf(o.Version, st.open(ours))
	return ours, err
}

// late refuses bundles of a version that a channel has shown, unless the release
// has them.
func (st *stage) late(version string, ours map[string]*Staged, together []bundle.Bundle, all []Stored) error {
	for i, b := range together {
		if ours[b.Target] == nil || st.counts.has(all[i]) {
			continue
		}
		return refuse(ErrOtherBytes, "publish a higher version: this one can't change any more", "%s showed %s without this %s", st.shown, version, all[i].what())
	}
	return nil
}

// differs refuses bundles other than those of a record that no channel showed.
func (st *stage) differs(version string, ours map[string]*Staged) error {
	for _, target := range sortedTargets(ours) {
		for _, b := range ours[target].Bundles {
			for _, other := range st.counts.Bundles {
				if other.BLAKE2b != b.BLAKE2b && b.overlaps(other) {
					return refuse(ErrOtherBytes, "if it was built again on purpose, say --replace", "%s is complete with another %s, and was shown by no channel yet", version, b.what())
				}
			}
		}
	}
	return nil
}

// change completes what a job brings for one target with what is staged there. It
// reports whether that changes anything.
func (p *Publisher) change(ctx context.Context, st *stage, o StageOptions, ours *Staged) (bool, error) {
	before := st.staged[ours.Target]
	if before == nil {
		ours.number = 1
		return true, nil
	}
	ours.number = before.number + 1
	if len(before.Bundles) == 0 {
		return true, nil
	}
	changed := false
	for i := range ours.Bundles {
		b := &ours.Bundles[i]
		staged := before.find(b)
		intact := false
		if staged != nil && staged.BLAKE2b == b.BLAKE2b {
			var err error
			if intact, err = p.Library().intact(ctx, o.Version, staged, b.Stored, o.AllowUnbound); err != nil {
				return false, err
			}
		}
		switch {
		case staged == nil:
			changed = true
		case staged.BLAKE2b != b.BLAKE2b && !o.Replace:
			return false, refuse(ErrOtherBytes, "if it was built again on purpose, say --replace",
				"%s of %s was staged with another %s by %s at %s", ours.Target, o.Version, b.Type, before.Who, before.When.Format("2006-01-02 15:04:05 MST"))
		case intact:
			b.Stored.Name, b.Stored.Signature = staged.Name, staged.Signature
		default:
			changed = true
		}
	}
	switch {
	case ours.Notes == "":
		ours.Notes = before.Notes
	case ours.Notes == before.Notes:
	case before.Notes != "" && !o.Replace:
		return false, refuse(ErrNotes, "say --replace to change them", "%s of %s was staged with other notes", ours.Target, o.Version)
	default:
		changed = true
	}
	for _, b := range before.Bundles {
		switch {
		case ours.find(&b) != nil:
		case o.Replace:
			changed = true
		default:
			ours.Bundles = append(ours.Bundles, b)
		}
	}
	return changed, nil
}

// putAll uploads the bundles of the targets that change, then says so in staged/.
// errStale if somebody else has changed one of them.
func (p *Publisher) putAll(ctx context.Context, st *stage, o StageOptions, ours map[string]*Staged, contents []bundle.Contents) error {
	if len(ours) == 0 {
		return nil
	}
	library := p.Library()
	files := map[string]bundle.Contents{}
	for _, c := range contents {
		files[storedOf(c).BLAKE2b] = c
	}
	var fresh []*Stored
	for _, target := range sortedTargets(ours) {
		for i := range ours[target].Bundles {
			b := &ours[target].Bundles[i].Stored
			if _, ok := files[b.BLAKE2b]; !ok {
				continue // staged before
			}
			if err := library.settle(ctx, o.Version, b, st.found, o.AllowUnbound); err != nil {
				return err
			}
			fresh = append(fresh, b)
		}
	}
	p.step("uploading %d bundles", len(fresh))
	if err := library.uploadAll(ctx, o.Version, fresh, files, p.Uploaded); err != nil {
		return err
	}
	if i := slices.IndexFunc(fresh, func(b *Stored) bool { return b.updates() }); i >= 0 {
		b := fresh[i]
		if err := object.CheckConditions(ctx, p.Store, folder(o.Version)+b.Name+".sig", []byte(b.Signature), signatureAttributes); err != nil {
			return err
		}
	}
	if st.counts != nil && o.Replace && st.differs(o.Version, ours) != nil {
		if err := library.mark(ctx, o.Version, st.next(), p.Who, p.Now()); err != nil {
			return err
		}
	}
	for _, target := range sortedTargets(ours) {
		if err := library.putStaged(ctx, ours[target]); err != nil {
			return err
		}
	}
	return nil
}

// report looks again at what is staged, and says what the channel lacks. A publish
// that did not see what this job changed may have begun meanwhile: late is then
// refused, or, if it may be in time, warned of.
func (p *Publisher) report(ctx context.Context, pl planner, o StageOptions, ours map[string]*Staged) (*StageReport, error) {
	st, err := p.lookAtStage(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	report := &StageReport{Version: o.Version, Channel: o.Channel, Changed: len(ours) > 0, Staged: []*Staged{}}
	targets := st.open(nil)
	report.Staged = append(report.Staged, standing(targets)...)
	if report.Missing, err = st.missing(pl, o.Channel, o.Rules); err != nil || len(ours) == 0 || st.counts == nil {
		return report, err
	}
	together, all, err := merged(targets, o.Rules)
	if err != nil {
		return nil, err
	}
	late := st.late(o.Version, ours, together, all)
	if late != nil && st.shown == "" && !o.Publish {
		report.Warnings = append(report.Warnings, fmt.Sprintf("a publish of %s has begun without these bundles, or was interrupted; `tsmon release publish --version %s` includes them if it is not too late", o.Version, o.Version))
	}
	if st.shown == "" {
		late = nil
	}
	return report, late
}

// publishStaged publishes what is staged once nothing is missing. While others move
// the channel it looks again; they may have published it.
func (p *Publisher) publishStaged(ctx context.Context, o StageOptions, report *StageReport) error {
	publish := o.PublishOptions
	publish.Bundles, publish.Notes, publish.Unlock = nil, "", nil
	for attempt := 1; ; attempt++ {
		if len(report.Missing) > 0 {
			return nil
		}
		plan, err := p.Publish(ctx, publish)
		report.Published = plan
		if err == nil {
			return nil
		}
		if errors.As(err, new(*channels.ConflictError)) && attempt < followAttempts {
			continue
		}
		if !errors.As(err, new(*Refusal)) || plan != nil {
			return err
		}
		// Another job may have published it, and the channel moved on since.
		if s, err2 := p.channels().Load(ctx, o.Channel); err2 == nil && s.Shown(o.Version) && !errors.Is(err, ErrOtherBytes) {
			return nil
		}
		return err
	}
}
