package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

// staging is one run of Stage.
type staging struct {
	publishing // of the bundles that the job brings
	o          StageOptions
}

// Stage stores the bundles of one job. With Publish, the job that completes the targets of the
// channel also publishes the release; if several jobs do at once, one of them publishes it. The same
// call again completes an interrupted one, or does nothing. Errors are those of Publish.
func (p *Publisher) Stage(ctx context.Context, o StageOptions) (*StageReport, error) {
	run, stop, err := startPublishing(ctx, p, o.PublishOptions)
	if err != nil {
		return nil, err
	}
	defer stop()
	o.PublishOptions = run.o
	w := staging{run, o}
	report, err := retryRaced(func() (*StageReport, error) { return w.once(ctx) })
	if err != nil || !o.Publish {
		return report, err
	}
	return report, w.publishStaged(ctx, report)
}

// once reads the store and adds the bundles that it lacks.
func (w *staging) once(ctx context.Context) (report *StageReport, err error) {
	if w.st, err = w.Inspector().lookAtStage(ctx, w.o.Version); err != nil {
		return nil, err
	}
	if err := w.pl.mayStage(w.st.view[w.o.Channel], w.o); err != nil {
		return nil, err
	}
	contents, err := w.read()
	if err != nil {
		return nil, err
	}
	ours, err := w.changes(ctx, contents)
	if err != nil {
		return nil, err
	}
	if err := w.putAll(ctx, ours, contents); err != nil {
		return nil, err
	}
	return w.report(ctx, ours)
}

// changes returns the targets that a job changes, and refuses changes that it may not make.
func (w *staging) changes(ctx context.Context, contents []bundle.Contents) (map[string]*library.Staged, error) {
	ours := w.pl.stagedOf(w.o.PublishOptions, contents)
	if w.st.Shown == "" {
		if err := w.strands(contents); err != nil {
			return nil, err
		}
	}
	together, all, err := w.st.merged(ours, w.o.Rules)
	if err != nil {
		return nil, err
	}
	if w.st.Shown != "" {
		return nil, w.st.late(ours, together, all)
	}
	for _, target := range slices.Sorted(maps.Keys(ours)) {
		if changed, err := w.change(ctx, ours[target]); err != nil {
			return nil, err
		} else if !changed {
			delete(ours, target)
		}
	}
	if w.st.Counts != nil && !w.o.Replace {
		if err := w.st.differs(ours); err != nil {
			return nil, err
		}
	}
	_, err = notesOf(w.o.Version, w.st.open(ours))
	return ours, err
}

// strands refuses bundles whose key installed applications lack, as a publish would. Without
// Publish, another channel may be meant, whose applications have the key.
func (w *staging) strands(contents []bundle.Contents) error {
	stored, _ := storedOf(contents)
	record := &library.Record{Version: w.o.Version, Extra: w.o.Extra, Bundles: stored}
	s := w.st.view[w.o.Channel]
	c := w.pl.publish(s, PublishOptions{Options: w.o.Options, Extra: w.o.Extra}, record)
	c.Manifest = record.Manifest("")
	move := w.pl.move(s, c.Move)
	move.Part, move.Others = true, w.st.view.others(s)
	_, err := move.LeavesBehind()
	if err != nil && !w.o.Publish && move.Successor() != "" {
		return nil
	}
	return err
}

// change merges a job's bundles for one target with the staged ones, and reports whether that changes
// anything.
func (w *staging) change(ctx context.Context, ours *library.Staged) (bool, error) {
	before := w.st.staged[ours.Target]
	if before == nil {
		ours.Number = 1
		return true, nil
	}
	ours.Number = before.Number + 1
	if len(before.Bundles) == 0 {
		return true, nil
	}
	changed := false
	for i := range ours.Bundles {
		b := &ours.Bundles[i]
		staged := before.Find(b)
		intact := false
		if staged != nil && staged.BLAKE2b == b.BLAKE2b {
			var err error
			if intact, err = w.Library().Intact(ctx, w.o.Version, staged, b.Stored, w.o.AllowUnbound); err != nil {
				return false, err
			}
		}
		switch {
		case staged == nil:
			changed = true
		case staged.BLAKE2b != b.BLAKE2b && !w.o.Replace:
			return false, refuse(ErrStaged, "if it was built again on purpose, add --replace",
				"%s of %s was staged with another %s by %s at %s", ours.Target, w.o.Version, b.Type, before.Who, before.When.Format("2006-01-02 15:04:05 MST"))
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
	case before.Notes != "" && !w.o.Replace:
		return false, refuse(ErrNotes, "add --replace to change them", "%s of %s was staged with other notes", ours.Target, w.o.Version)
	default:
		changed = true
	}
	for _, b := range before.Bundles {
		switch {
		case ours.Find(&b) != nil:
		case w.o.Replace:
			changed = true
		default:
			ours.Bundles = append(ours.Bundles, b)
		}
	}
	return changed, nil
}

// putAll uploads the bundles of the targets that change, then records them in staged/. The error
// wraps library.ErrRaced if somebody else has changed one of them.
func (w *staging) putAll(ctx context.Context, ours map[string]*library.Staged, contents []bundle.Contents) error {
	releases := w.Library()
	_, files := storedOf(contents)
	var fresh []library.Stored
	for _, target := range slices.Sorted(maps.Keys(ours)) {
		for i := range ours[target].Bundles {
			b := &ours[target].Bundles[i].Stored
			if _, ok := files[b.BLAKE2b]; !ok {
				continue // staged before
			}
			if err := releases.Settle(ctx, w.o.Version, b, w.st.found, w.o.AllowUnbound); err != nil {
				return err
			}
			fresh = append(fresh, *b)
		}
	}
	if len(fresh) > 0 { // else the notes alone change
		w.step("uploading files: %d", len(fresh))
	}
	upload := library.Upload{Library: releases, Version: w.o.Version, Files: files, Sent: w.Uploaded}
	if err := upload.All(ctx, fresh); err != nil {
		return err
	}
	if err := upload.Prove(ctx, fresh); err != nil {
		return err
	}
	if w.st.Counts != nil && w.o.Replace && w.st.differs(ours) != nil {
		if err := w.reopen(ctx, ours); err != nil {
			return err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(ours)) {
		if err := releases.PutStaged(ctx, ours[target]); err != nil {
			return err
		}
	}
	return nil
}

// reopen makes room for new bundles in a complete release that no channel showed: a new record
// has only the bundles for which nothing is staged, or marks the version as discarded.
func (w *staging) reopen(ctx context.Context, ours map[string]*library.Staged) error {
	releases := w.Library()
	_, all, err := w.st.merged(ours, w.o.Rules)
	if err != nil {
		return err
	}
	rest := *w.st.Counts
	if rest.Bundles = rest.Without(all); !slices.ContainsFunc(rest.Bundles, func(b library.Stored) bool { return b.Updates() }) {
		return releases.MarkDiscarded(ctx, w.o.Version, w.st.Next(), w.Who, w.Now())
	}
	data, err := rest.Encode()
	if err != nil {
		return err
	}
	return releases.Create(ctx, library.RecordKey(w.o.Version, w.st.Next()), data, library.RecordAttributes)
}

// report reads the staged bundles again, and lists what the channel lacks. A publish that began
// meanwhile may have missed the change of this job. That is an error once a channel has shown the
// version, and a warning before.
func (w *staging) report(ctx context.Context, ours map[string]*library.Staged) (*StageReport, error) {
	st, err := w.Inspector().lookAtStage(ctx, w.o.Version)
	if err != nil {
		return nil, err
	}
	report := &StageReport{Version: w.o.Version, Channel: w.o.Channel, Changed: len(ours) > 0, Staged: append([]*library.Staged{}, library.Standing(st.staged)...)}
	if report.Missing, err = st.missing(w.pl, w.o.Channel, w.o.Rules); err != nil {
		return report, err
	}
	if w.o.Publish && len(report.Missing) > 0 {
		report.Hint = w.pl.waiting(st.view[w.o.Channel], w.o.Version, report.Missing)
	}
	if len(ours) == 0 || st.Counts == nil {
		return report, nil
	}
	together, all, err := st.merged(nil, w.o.Rules)
	if err != nil {
		return nil, err
	}
	late := st.late(ours, together, all)
	if st.Shown != "" {
		return report, late
	}
	if late != nil && !w.o.Publish {
		report.Warnings = append(report.Warnings, fmt.Sprintf("a publish of %s has begun without these bundles, or was interrupted; `tsmon release publish --version %s` includes them if it is not too late", w.o.Version, w.o.Version))
	}
	return report, nil
}

// publishStaged publishes the staged bundles if nothing is missing. If somebody else moves the channel
// meanwhile, it tries again, because they may have published the version.
func (w *staging) publishStaged(ctx context.Context, report *StageReport) error {
	if len(report.Missing) > 0 {
		return nil
	}
	publish := w.o.PublishOptions
	publish.Bundles, publish.Notes, publish.Unlock = nil, "", nil
	for attempt := 1; ; attempt++ {
		plan, err := w.Publish(ctx, publish)
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
		if s, err2 := w.Repository().Load(ctx, w.o.Channel); err2 == nil && s.Shown(w.o.Version) && !errors.Is(err, library.ErrOtherBytes) {
			if back := s.RolledBack(w.o.Version); back != nil {
				report.Warnings = append(report.Warnings, fmt.Sprintf("%s was published, and left %s with entry %d by %s: %s; it stays rolled back", w.o.Version, w.o.Channel, back.Sequence, back.Who, back.Why))
			}
			return nil
		}
		return err
	}
}

// stagedOf groups the bundles of a job by target.
func (p planner) stagedOf(o PublishOptions, contents []bundle.Contents) map[string]*library.Staged {
	targets := map[string]*library.Staged{}
	for _, c := range contents {
		target := c.Target
		if target == "" && len(c.Given) > 0 { // one file for several
			target = library.PlainKey(c.Given[0])
		}
		target = cmp.Or(target, library.AnyTarget)
		s := targets[target]
		if s == nil {
			s = &library.Staged{Version: o.Version, Target: target, Who: p.who, When: p.now.UTC().Truncate(time.Second), Notes: o.Notes}
			targets[target] = s
		}
		s.Bundles = append(s.Bundles, library.StagedBundle{Stored: library.StoredOf(c), File: path.Base(strings.ReplaceAll(c.Path, `\`, "/")), Given: c.Given})
	}
	return targets
}
