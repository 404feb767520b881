package release

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// publishing is one run of Publish.
type publishing struct {
	*Publisher
	pl   planner
	o    PublishOptions
	read func() ([]bundle.Contents, error) // waits for the contents of the bundles
	st   *stage
}

// Publish uploads a release and moves a channel to it. The same call again finishes
// what an interrupted one began, or does nothing. Errors are a *Refusal, a
// *channels.ConflictError, those of signing, or the store's.
func (p *Publisher) Publish(ctx context.Context, o PublishOptions) (*Plan, error) {
	o.Options = o.under(p.Policies)
	pl, err := p.planner(o.Channel)
	if err == nil {
		err = pl.checkPublish(o)
	}
	if err != nil {
		return nil, err
	}
	w := publishing{Publisher: p, pl: pl, o: o}
	stop := w.start(ctx)
	defer stop()
	for attempt := 1; ; attempt++ {
		plan, err := w.plan(ctx)
		if err != nil {
			return nil, err
		}
		if plan, err = p.finish(ctx, plan, o.Options); !errors.Is(err, library.ErrRaced) || attempt == staleAttempts {
			return plan, err
		}
	}
}

// start reads bundles while the store answers. w.read waits for them; stop ends it.
func (w *publishing) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	early := *w
	w.read = sync.OnceValues(func() ([]bundle.Contents, error) { return early.readBundles(ctx) })
	var background sync.WaitGroup
	background.Go(func() { _, _ = w.read() })
	return func() {
		cancel()
		background.Wait()
	}
}

// staleAttempts bounds how often a publish is planned anew because somebody else
// uploads the same release.
const staleAttempts = 10

// plan reads the store and plans. The contents of the bundles are waited for only once
// nothing else refuses the publish. Without bundles, those that are staged are published:
// w is a copy, which they complete.
func (w publishing) plan(ctx context.Context) (*Plan, error) {
	st, err := w.Inspector().lookAtStage(ctx, w.o.Version)
	if s := st.view[w.o.Channel]; s != nil && s.err != nil {
		return nil, s.err
	}
	if err != nil {
		return nil, err
	}
	w.st = st
	s := st.view[w.o.Channel]
	var ours []library.Stored
	if w.o.staged = len(w.o.Bundles) == 0; w.o.staged {
		if ours, err = st.take(&w.o); err != nil {
			return nil, err
		}
	}
	if err := w.pl.mayPublish(s, w.o); err != nil {
		return nil, err
	}
	files := map[string]bundle.Contents{}
	if !w.o.staged {
		contents, err := w.read()
		if err != nil {
			return nil, err
		}
		for _, c := range contents {
			stored := library.StoredOf(c)
			ours = append(ours, stored)
			files[stored.BLAKE2b] = c
		}
		if err := st.leavesNone(w.o, ours); err != nil {
			return nil, err
		}
	}
	if st.Counts == nil || st.Shown == "" && st.Counts.ExtendedBy(ours) {
		record, err := w.draft(ctx, ours)
		if err != nil {
			return nil, err
		}
		return w.planOf(s, record, files)
	}
	if err := st.Counts.SameBundles(ours, st.Shown != ""); err != nil {
		return nil, err
	}
	w.step("%s is in the store already", w.o.Version)
	checked, err := w.recheck(ctx, ours)
	if err != nil {
		return nil, err
	}
	return w.planOf(s, checked, files)
}

// planOf returns the plan of a publish. A record that is not the store's is created.
func (w publishing) planOf(s *state, record *library.Record, files map[string]bundle.Contents) (*Plan, error) {
	plan, err := w.pl.plan(w.st.view, s, w.pl.publish(s, w.o, record))
	if err == nil && plan.Entry != nil && w.otherwise(record) {
		return nil, refuse(ErrOtherwise, "leave out --watershed, --minimum-version, --critical and the notes to have it as it is in the store, or publish a higher version", "%s would not get what is asked for", s.channel)
	}
	if err == nil && record != w.st.Counts {
		plan.record, plan.files = record, files
	}
	return plan, err
}

// otherwise reports whether something is asked for that the record of a release does not say.
// What is left out is as the record says.
func (w publishing) otherwise(record *library.Record) bool {
	return w.o.Extra != (manifest.Extra{}) && w.o.Extra != record.Extra || w.o.Notes != "" && w.o.Notes != record.Notes
}

// readBundles hashes the bundles and signs those that have no signature.
func (w publishing) readBundles(ctx context.Context) ([]bundle.Contents, error) {
	if len(w.o.Bundles) == 0 {
		return nil, nil
	}
	w.step("reading bundles: %d", len(w.o.Bundles))
	reader := bundle.Reader{Version: w.o.Version, Keys: w.Keys, Now: w.Now, Transferred: w.Transferred,
		Unlock: func() (signing.PrivateKey, error) {
			key, err := w.o.Unlock()
			if err == nil {
				err = w.pl.trusted(key)
			}
			return key, err
		}}
	return reader.Read(ctx, w.o.Bundles)
}

// recheck verifies a release in the store that is published again. If its signatures
// are not as good as those of the bundles now, or by other keys, and no channel ever showed it, the
// result is a record that takes the place of the one in the store.
func (w publishing) recheck(ctx context.Context, bundles []library.Stored) (*library.Record, error) {
	record := w.st.Counts
	unbound := slices.ContainsFunc(bundles, func(b library.Stored) bool { return !b.Bound() })
	err := w.Library().VerifyStored(ctx, record, w.o.AllowUnbound && unbound)
	again := w.st.Shown == "" && slices.ContainsFunc(bundles, func(b library.Stored) bool { return !record.Signed(b) })
	if !(again && err == nil) && !slices.ContainsFunc(signatureErrors, func(cause error) bool { return errors.Is(err, cause) }) {
		return record, err
	}
	if w.st.Shown != "" {
		return record, w.Library().VerifyStored(ctx, record, w.o.AllowUnbound)
	}
	next := *record
	next.Number, next.Sum = w.st.Next(), ""
	next.Bundles, err = w.settleAll(ctx, bundles)
	return &next, err
}

// signatureErrors are the faults of a signature that signing again repairs.
var signatureErrors = []error{signing.ErrSignature, signing.ErrUntrustedKey, signing.ErrBound, signing.ErrUnbound, signing.ErrLegacy}

// draft puts together the record of a release that no channel showed yet, around what
// lies in its folder. What the release is added to keeps its notes and members.
func (w publishing) draft(ctx context.Context, bundles []library.Stored) (*library.Record, error) {
	var err error
	if w.o.staged {
		slices.SortFunc(bundles, func(a, b library.Stored) int { return strings.Compare(a.Name, b.Name) })
	} else if bundles, err = w.settleAll(ctx, bundles); err != nil {
		return nil, err
	}
	if before := w.st.Counts; before != nil {
		w.o.Notes = cmp.Or(w.o.Notes, before.Notes)
		w.o.Extra = cmp.Or(w.o.Extra, before.Extra)
	}
	record := w.pl.record(w.o, bundles)
	record.Number = w.st.Next()
	if !w.o.staged {
		return record, nil
	}
	err = w.Library().VerifyStored(ctx, record, w.o.AllowUnbound)
	if errors.Is(err, library.ErrStored) {
		err = &Refusal{Cause: err, Mend: "run `tsmon release stage` again on the machine that built it"}
	}
	return record, err
}

// settleAll settles bundles and sorts them by name.
func (w publishing) settleAll(ctx context.Context, bundles []library.Stored) ([]library.Stored, error) {
	releases := w.Library()
	for i := range bundles {
		if err := releases.Settle(ctx, w.o.Version, &bundles[i], w.st.found, w.o.AllowUnbound); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(bundles, func(a, b library.Stored) int { return strings.Compare(a.Name, b.Name) })
	return bundles, nil
}
