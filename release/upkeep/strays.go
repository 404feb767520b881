package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

// deliveryRest is how old what a delivery left must be before it is taken for abandoned.
const deliveryRest = time.Hour

// abandoned returns what no reader of a channel's log heeds, but for what may be of a delivery
// that is still under way.
func (k Keeper) abandoned(ctx context.Context, channel string) ([]channels.Stray, error) {
	strays, err := k.Channels.Salvage().Strays(ctx, channel)
	if err != nil || len(strays) == 0 {
		return nil, err
	}
	now, err := k.Library.Store.Now(ctx) // which dated them
	var old []channels.Stray
	for _, s := range strays {
		if !s.Begun || now.Sub(s.Written) > deliveryRest {
			old = append(old, s)
		}
	}
	return old, err
}

// Strangers finds what lies among the objects of a channel and belongs to no part of it: somebody
// wrote it who may not, or did not end. log is nil if it can't be read.
func (k Keeper) Strangers(ctx context.Context, channel string, log *channels.Log) ([]Finding, error) {
	report := &VerifyReport{Channel: channel}
	found, err := k.abandoned(ctx, channel)
	if err == nil && log != nil {
		var wrong []channels.Stray
		wrong, err = k.Channels.Salvage().WrongSegments(ctx, log)
		found = append(found, wrong...)
	}
	for _, s := range found {
		report.find(s.Key, s.Problem, "`tsmon channel repair "+channel+"` removes it")
	}
	if err == nil && log != nil && log.Fed() {
		err = k.marks(ctx, report)
	}
	return report.Findings, err
}

// marks finds what has a log pass for that of another store and was no delivery.
func (k Keeper) marks(ctx context.Context, report *VerifyReport) error {
	_, late, err := k.Channels.Salvage().Marks(ctx, report.Channel)
	for _, p := range late {
		key := p.Key(report.Channel)
		report.find(key, fmt.Errorf("%w: %s says that entries %d to %d come from another store, and was written after they were here", channels.ErrLog, key, p.From, p.To),
			"`tsmon channel repair "+report.Channel+" --own` removes it, and the channel is moved here; if another store does feed this one, its next delivery says so again")
	}
	return err
}

// strays adds what Strangers finds to the report.
func (v *verification) strays(ctx context.Context) error {
	found, err := v.Strangers(ctx, v.report.Channel, v.log)
	v.report.Findings = append(v.report.Findings, found...)
	return err
}

// dropStrays removes what verification.strays finds.
func (r *repair) dropStrays(ctx context.Context) error {
	found, err := r.abandoned(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	wrong, err := r.Channels.Salvage().WrongSegments(ctx, r.log)
	if err != nil {
		return err
	}
	for _, s := range append(found, wrong...) {
		if err := r.do(s.Key, "removed: nothing heeds it", func() error { return r.Library.Store.Delete(ctx, s.Key) }); err != nil {
			return err
		}
	}
	if len(wrong) > 0 && !r.o.DryRun {
		return r.Channels.PackAll(ctx, r.log)
	}
	return nil
}

// own has a channel moved here again that passes for one that is fed.
func (r *repair) own(ctx context.Context) error {
	if !r.o.Own {
		return nil
	}
	marks, _, err := r.Channels.Salvage().Marks(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		key := mark.Key(r.o.Channel)
		if err := r.do(key, "removed: the channel is moved here", func() error { return r.Library.Store.Delete(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}

// takeOut moves the entries at the end of the log that keep it from being read to a folder,
// and has clients read what the log shows without them. done says that nothing can be said of
// the rest, because only the report is wanted.
func (r *repair) takeOut(ctx context.Context) (done bool, err error) {
	if r.o.TakeOut == "" {
		return false, nil
	}
	repository := r.Channels
	seen, err := repository.Peek(ctx, r.o.Channel)
	if err != nil {
		return false, err
	}
	log, keys, err := repository.Salvage().Rightful(ctx, r.o.Channel)
	if err == nil {
		err = r.unsigned(ctx, log, keys)
	}
	if errors.Is(err, channels.ErrLog) {
		return false, &bundle.Refusal{Cause: err, Mend: mendWith(r.o.Channel)}
	}
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		file := filepath.Join(r.o.TakeOut, strings.ReplaceAll(path.Clean(key), "/", "-"))
		if err := r.do(key, "moved to "+file, func() error { return r.moveTo(ctx, key, file) }); err != nil {
			return false, err
		}
	}
	if len(keys) > 0 && r.o.DryRun {
		return true, nil
	}
	if len(keys) > 0 {
		r.log = log
		_, last, _ := channels.SequenceIn(keys[len(keys)-1])
		if err := r.putBackEnd(ctx, last); err != nil {
			return false, err
		}
		log = r.log
	}
	ahead := channels.Ahead(seen, log.End().Sequence) > log.End().Sequence
	if ahead && log.Head() != nil {
		err = r.do(channels.ManifestKey(r.o.Channel), "rendered anew", func() error {
			_, _, err := repository.Point(ctx, log, seen)
			return err
		})
	}
	return false, err
}

// unsigned returns an error if one of the entries that stand behind a log has the signatures
// of its operators, or of those that are configured: then what is before it was changed or is
// lost. It wraps ErrLog.
func (r *repair) unsigned(ctx context.Context, log *channels.Log, keys []string) error {
	for _, key := range keys {
		data, _, err := object.ReadAll(ctx, r.Library.Store, key, channels.MaxEntry)
		if err != nil && !errors.Is(err, object.ErrTooLarge) {
			return err
		}
		e, _, ok := channels.Candidate(data)
		if channel, sequence, _ := channels.SequenceIn(key); !ok || e.Channel != channel || e.Sequence != sequence {
			continue
		}
		signers := e.Signers()
		for _, force := range []*channels.Operators{log.Operators(), r.Channels.Trust[log.Channel].Operators} {
			if force == nil {
				continue
			}
			signed := 0
			for _, key := range force.Keys {
				if slices.Contains(signers, key) {
					signed++
				}
			}
			if signed >= force.Approvals {
				return fmt.Errorf("%w: entry %d of %s has the signatures of operators and does not follow from those before it", channels.ErrLog, e.Sequence, e.Channel)
			}
		}
	}
	return nil
}

// moveTo moves an object to a new file.
func (r *repair) moveTo(ctx context.Context, key, file string) error {
	data, _, err := object.ReadAll(ctx, r.Library.Store, key, channels.MaxEntry)
	if err != nil && !errors.Is(err, object.ErrTooLarge) { // what is too large is no entry
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	kept, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &bundle.Refusal{Cause: err, Mend: "name another folder, or move that file away"}
	}
	_, err = kept.Write(data)
	if err = errors.Join(err, kept.Sync(), kept.Close()); err != nil {
		return err
	}
	return r.Library.Store.Delete(ctx, key)
}
