package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

const (
	// maxPlans bounds the plans of a channel that are read, and maxListed the objects that are
	// listed to find them. Anybody with access to the store can leave any number.
	maxPlans  = 100
	maxListed = 10_000
	// planRest is how long an outdated plan is kept, so that an operator who comes to sign it
	// learns why it is outdated.
	planRest = 24 * time.Hour
)

var planDigits = regexp.MustCompile(`^[0-9a-f]{1,64}$`)

// List returns the plans of a channel that wait for signatures, including outdated ones, sorted
// by hash. If there are too many, it returns a hundred: signed plans before unsigned ones, and
// newer before older; more is then true. Find finds any plan by its hash.
func (p Plans) List(ctx context.Context, channel string) (all []*Waiting, more bool, err error) {
	return p.list(ctx, channel, "")
}

// list is List for the plans whose hash begins with a text.
func (p Plans) list(ctx context.Context, channel, hash string) (all []*Waiting, more bool, err error) {
	log, broken, err := p.load(ctx, channel)
	if err != nil {
		return nil, false, err
	}
	hashes, more, err := p.hashes(ctx, channel, hash)
	if err != nil {
		return nil, false, err
	}
	read := make([]*Waiting, len(hashes))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, hash := range hashes {
		group.Go(func() error {
			w, err := p.Read(reading, log, hash)
			if errors.Is(err, library.ErrStored) || errors.Is(err, ErrNoPlan) {
				return nil // anybody who can write to the store may have put it there, or it was carried out in the meantime
			}
			read[i] = w
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, false, err
	}
	all = slices.DeleteFunc(read, func(w *Waiting) bool { return w == nil })
	for _, w := range all {
		if broken != nil && w.Stale == "" && w.Entry.Action != channels.Repair {
			w.Stale = broken.Error()
		}
	}
	return all, more, nil
}

// hashes returns the hashes of the plans to read that begin with a text, sorted.
func (p Plans) hashes(ctx context.Context, channel, text string) (hashes []string, more bool, err error) {
	folder := Folder + channel + "/"
	if len(text) == 64 { // even if somebody has put too many signatures beside it
		return []string{text}, false, nil
	}
	type plan struct {
		hash     string
		unsigned int // 0 if there is an object named like a signature
		newest   time.Time
	}
	var found []plan
	listed, after := 0, ""
	for again := true; again; {
		again = false
		beside := 0 // number of objects of one plan
		for info, err := range p.Store.List(ctx, folder+text, after) {
			if err != nil {
				return nil, false, err
			}
			if listed++; listed > maxListed {
				more = true
				break
			}
			hash, kind, _ := strings.Cut(strings.TrimPrefix(info.Key, folder), ".")
			if !planHash.MatchString(hash) {
				continue
			}
			if len(found) == 0 || found[len(found)-1].hash != hash {
				found, beside = append(found, plan{hash: hash, unsigned: 1}), 0
			}
			last := &found[len(found)-1]
			if strings.HasSuffix(kind, ".sig") {
				last.unsigned = 0
			}
			if last.newest.Before(info.ModTime) {
				last.newest = info.ModTime
			}
			if beside++; beside > maxPlans { // a plan never has so many signatures
				again, after = true, folder+hash+"/"
				break
			}
		}
	}
	slices.SortStableFunc(found, func(a, b plan) int {
		return cmp.Or(cmp.Compare(a.unsigned, b.unsigned), b.newest.Compare(a.newest))
	})
	if len(found) > maxPlans {
		found, more = found[:maxPlans], true
	}
	for _, f := range found {
		hashes = append(hashes, f.hash)
	}
	slices.Sort(hashes)
	return hashes, more, nil
}

// tidy removes plans that have been outdated for a day. Errors are ignored, since an outdated
// plan does no harm.
func (p Plans) tidy(ctx context.Context, all []*Waiting) {
	for _, w := range all {
		since := w.Expires
		if first := w.Log.At(w.Entry.Sequence); first != nil && first.When.Before(since) {
			since = first.When
		}
		if w.Stale != "" && p.Now().Sub(since) > planRest {
			_ = p.remove(ctx, w.Channel, w.Hash)
		}
	}
}

// Find returns the plan of a channel whose hash begins with a text, ErrNoPlan if there is
// none, and ErrSeveral if there are more. Without a text it is the only one that is not out
// of date; ErrStale if all are.
func (p Plans) Find(ctx context.Context, channel, hash string) (*Waiting, error) {
	if hash != "" && !planDigits.MatchString(hash) {
		return nil, noPlan(channel, hash)
	}
	all, _, err := p.list(ctx, channel, hash)
	if err != nil {
		return nil, err
	}
	found := all
	if hash == "" {
		found = slices.DeleteFunc(slices.Clone(all), func(w *Waiting) bool { return w.Stale != "" })
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && hash == "":
		return nil, several("%d of %s wait", len(found), channel)
	case len(found) > 1:
		return nil, several("%d of %s begin with %s", len(found), channel, hash)
	case hash != "":
		return nil, noPlan(channel, hash)
	case len(all) > 0:
		return nil, bundle.Refuse(ErrStale, "run the command that made it again, for a new plan; `tsmon plan withdraw "+all[0].Name()+" --channel "+channel+"` removes it", "none of %s waits but %s: %s", channel, all[0].Name(), all[0].Stale)
	}
	return nil, bundle.Refuse(ErrNoPlan, "`tsmon plan list` shows the plans that wait", "none of %s waits", channel)
}

// FindToSign is Find for whoever signs or makes the plan that he has looked at: the hash has at
// least Digits digits, or is empty.
func (p Plans) FindToSign(ctx context.Context, channel, hash string) (*Waiting, error) {
	if hash != "" && len(hash) < Digits {
		return nil, bundle.Refuse(ErrShort, fmt.Sprintf("name at least %d digits of its HASH, as `tsmon plan list` prints them: another plan whose hash begins with the same few digits is easily made", Digits),
			"%.64s", hash)
	}
	return p.Find(ctx, channel, hash)
}

func noPlan(channel, hash string) error {
	return bundle.Refuse(ErrNoPlan, "`tsmon plan list` shows the plans that wait", "none of %s begins with %.64s", channel, hash)
}

func several(format string, args ...any) error {
	return bundle.Refuse(ErrSeveral, "`tsmon plan list` shows them; name more digits of its hash", format, args...)
}

// Withdraw removes a plan, outdated or not, with its signatures, and returns it. A dry run
// removes nothing.
func (p Plans) Withdraw(ctx context.Context, channel, hash string, dry bool) (*Waiting, error) {
	w, err := p.Find(ctx, channel, hash)
	if err != nil || dry {
		return w, err
	}
	return w, p.remove(ctx, channel, w.Hash)
}

// remove removes a plan and its signatures; the plan itself last, so that the call can be
// repeated.
func (p Plans) remove(ctx context.Context, channel, hash string) error {
	var signatures []string
	for info, err := range p.Store.List(ctx, Folder+channel+"/"+hash+".", "") {
		if err != nil {
			return err
		}
		if strings.HasSuffix(info.Key, ".sig") && len(signatures) < maxListed {
			signatures = append(signatures, info.Key)
		}
	}
	if err := p.Store.Delete(ctx, signatures...); err != nil {
		return err
	}
	return p.Store.Delete(ctx, planKey(channel, hash))
}
