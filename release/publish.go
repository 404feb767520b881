package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/signing"
)

// publishing is one run of Publish or Stage.
type publishing struct {
	*Publisher
	pl   planner
	o    PublishOptions
	read func() ([]bundle.Contents, error) // waits for the contents of the bundles
	st   *stage
}

// startPublishing makes the checks that need no reading, and then reads the bundles and the store at
// the same time. The caller must call stop at the end.
func startPublishing(ctx context.Context, p *Publisher, o PublishOptions) (w publishing, stop func(), err error) {
	o.AllowUnbound = o.AllowUnbound || p.Policies[o.Channel].AllowUnbound
	pl, err := p.planner(o.Channel)
	if err == nil {
		err = pl.checkPublish(o)
	}
	if err != nil {
		return w, nil, err
	}
	w = publishing{Publisher: p, pl: pl, o: o}
	ctx, cancel := context.WithCancel(ctx)
	readBundles := w.readBundles
	w.read = sync.OnceValues(func() ([]bundle.Contents, error) { return readBundles(ctx) })
	var background sync.WaitGroup
	background.Go(func() { _, _ = w.read() })
	return w, func() {
		cancel()
		background.Wait()
	}, nil
}

// retryRaced tries again if somebody else uploads the same version meanwhile.
func retryRaced[T any](try func() (T, error)) (result T, err error) {
	for range 10 {
		if result, err = try(); !errors.Is(err, library.ErrRaced) {
			break
		}
	}
	return result, err
}

// Publish uploads a release and moves a channel to it. The same call again completes an interrupted
// one, or does nothing. Errors are a *Refusal, a *channels.ConflictError, those of signing, or the
// store's.
func (p *Publisher) Publish(ctx context.Context, o PublishOptions) (*Plan, error) {
	w, stop, err := startPublishing(ctx, p, o)
	if err != nil {
		return nil, err
	}
	defer stop()
	return retryRaced(func() (*Plan, error) {
		plan, err := w.plan(ctx)
		if err != nil {
			return nil, err
		}
		return p.finish(ctx, plan, o.Options)
	})
}

// plan reads the store and plans. It waits for the contents of the bundles only once nothing
// else refuses the publish. Without bundles it publishes those that are staged: they complete
// w, which is a copy.
func (w publishing) plan(ctx context.Context) (*Plan, error) {
	st, err := w.Inspector().lookAtStage(ctx, w.o.Version)
	s := st.view[w.o.Channel]
	if err := cmp.Or(s.err, err); err != nil {
		return nil, err
	}
	w.st = st
	var ours []library.Stored
	if w.o.staged = len(w.o.Bundles) == 0; w.o.staged {
		if ours, err = st.take(&w.o); err != nil {
			return nil, err
		}
	}
	if err := w.pl.mayPublish(s, w.o); err != nil {
		return nil, err
	}
	var files map[string]bundle.Contents
	if !w.o.staged {
		contents, err := w.read()
		if err != nil {
			return nil, err
		}
		ours, files = storedOf(contents)
		if err := st.leavesNone(w.o, ours); err != nil {
			return nil, err
		}
	}
	record, err := w.record(ctx, ours)
	if err != nil {
		return nil, err
	}
	plan, err := w.pl.plan(st.view, s, w.pl.publish(s, w.o, record))
	if err == nil && plan.Entry != nil && w.otherwise(record) {
		return nil, refuse(ErrOtherwise, "leave out --watershed, --minimum-version, --critical and the notes to publish it as it is in the store, or publish a higher version", "%s would not get what is asked for", s.channel)
	}
	if err == nil && record != st.Counts {
		plan.record, plan.files = record, files
	}
	return plan, err
}

// record returns the record of the release: the store's, if it has these bundles and they are sound,
// else a new record.
func (w publishing) record(ctx context.Context, bundles []library.Stored) (*library.Record, error) {
	st := w.st
	if st.Counts == nil || st.Shown == "" && st.Counts.ExtendedBy(bundles) {
		return w.draft(ctx, bundles)
	}
	if err := st.Counts.SameBundles(bundles, st.Shown != ""); err != nil {
		return nil, err
	}
	w.step("%s is in the store already", w.o.Version)
	return w.recheck(ctx, bundles)
}

// otherwise reports whether something is asked for that the record of a release does not say.
func (w publishing) otherwise(record *library.Record) bool {
	return w.o.Extra != (manifest.Extra{}) && w.o.Extra != record.Extra || w.o.Notes != "" && w.o.Notes != record.Notes
}

// storedOf describes bundles as a record does, and returns their contents by BLAKE2b.
func storedOf(contents []bundle.Contents) (stored []library.Stored, files map[string]bundle.Contents) {
	files = map[string]bundle.Contents{}
	for _, c := range contents {
		s := library.StoredOf(c)
		stored, files[s.BLAKE2b] = append(stored, s), c
	}
	return stored, files
}

// readBundles hashes the bundles and signs those that have no signature.
func (w publishing) readBundles(ctx context.Context) ([]bundle.Contents, error) {
	if len(w.o.Bundles) == 0 {
		return nil, nil
	}
	w.step("reading bundles: %d", len(w.o.Bundles))
	reader := bundle.Reader{Version: w.o.Version, Keys: w.Keys, Now: w.Now, Transferred: w.Transferred, Unlock: w.unlock}
	return reader.Read(ctx, w.o.Bundles)
}

// unlock opens the private key, and refuses a key that clients don't trust.
func (w publishing) unlock() (signing.PrivateKey, error) {
	key, err := w.o.Unlock()
	if err == nil && !w.Keys.Trusts(key.Public()) {
		err = &Refusal{Cause: signing.ErrUntrustedKey, Text: "the private key " + key.Public().ID() + " is not among trusted_keys",
			Mend: "sign with a key that installed applications trust, or add its public key to trusted_keys"}
	}
	return key, err
}

// recheck verifies a release in the store that is published again. If no channel showed it, and
// its signatures are by other keys than those of the bundles now, or worse, the result is a
// record that takes its place.
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

// draft returns the record of a release that no channel showed yet. Notes and members that are
// not given are those of the record that it replaces.
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

// mayPublish refuses a publish that the bundles can't save.
func (p planner) mayPublish(s *state, o PublishOptions) error {
	if err := p.forward(s, o.Version, o.Rollout); err != nil {
		return err
	}
	offered := manifest.Manifest{Version: o.Version, Platforms: map[string]manifest.Platform{}}
	for _, b := range o.Bundles {
		for _, key := range b.Keys {
			offered.Platforms[key] = manifest.Platform{}
		}
	}
	return p.move(s, gate.Move{Action: channels.Publish, Manifest: offered, AllowMissing: o.AllowMissing, Staged: o.staged}).Covers()
}

// forward refuses a version that doesn't move the channel forward.
func (p planner) forward(s *state, version string, rollout *channels.Rollout) error {
	v, err := manifest.ParseVersion(version)
	if err != nil {
		return err
	}
	if v.Prerelease() != "" && !p.policies[s.channel].Prerelease {
		return refuse(ErrPrerelease, "publish it to a channel with prerelease: true, such as beta", "%s on %s", version, s.channel)
	}
	head := s.log.Head()
	if rollout != nil && head == nil {
		err = refuse(channels.ErrRollout, "publish the first release to everybody", "%s shows nothing that the other clients could keep", s.channel)
	}
	before := p.before(s)
	if before == nil {
		return err
	}
	newest := before.Version.String()
	if head != nil {
		newest = head.Newest()
	}
	order := library.CompareVersions(version, newest)
	if order < 0 {
		return refuse(ErrBelowHead, "publish a higher version; `tsmon release rollback --to` goes back", "%s shows %s, above %s", s.channel, newest, version)
	}
	if back := s.log.RolledBack(version); back != nil && order > 0 {
		return refuse(ErrRolledBack, fmt.Sprintf("publish a higher version, or restore it with `tsmon release rollback --channel %s --to %s --reason TEXT`", s.channel, version),
			"%s left %s with entry %d by %s: %s", version, s.channel, back.Sequence, back.Who, back.Why)
	}
	return err
}

// publish returns the change to a release that mayPublish accepted.
func (p planner) publish(s *state, o PublishOptions, record *library.Record) change {
	c := p.changeTo(record.Version, channels.Publish, o.Options)
	c.take(record)
	c.Staged = o.staged
	p.begin(s, &c, o.Rollout)
	if o.Extra != record.Extra {
		c.warnings = append(c.warnings, "--watershed, --minimum-version or --critical differ from what "+o.Version+" was published with, which stays")
	}
	if o.Notes != "" && o.Notes != record.Notes {
		c.warnings = append(c.warnings, "the notes differ from those that "+o.Version+" was published with, which stay")
	}
	return c
}

// record puts together the record of a release.
func (p planner) record(o PublishOptions, bundles []library.Stored) *library.Record {
	return &library.Record{Version: o.Version, Notes: cmp.Or(o.Notes, o.DefaultNotes), PubDate: p.now.UTC().Truncate(time.Second), Who: p.who, Extra: o.Extra, Bundles: bundles}
}
