// Package approval stores moves that wait for signatures of operators, and signs with the keys
// at hand.
//
// A plan is a log entry that is not in the log yet. It is stored under plans/, named by the
// SHA-256 of what is signed, with an object beside it for each signature. Whoever adds the last
// signature also appends the entry to the log.
package approval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/store/object"
)

// ErrStale means that a plan can't be carried out any more: the channel has moved on, or too
// much time has passed.
var ErrStale = errors.New("the plan is out of date")

// ErrNoPlan means that no plan matches, ErrSeveral that several do, and ErrShort that the hash of
// a plan to be signed has fewer than Digits digits.
var (
	ErrNoPlan  = errors.New("no such plan")
	ErrSeveral = errors.New("several plans are meant")
	ErrShort   = errors.New("too few digits of a plan's hash")
)

const (
	// Folder is the prefix of the keys of all plans.
	Folder = "plans/"
	root   = "root" // name of a signer with a key of Plans.Root
	// Life is how long a plan may wait for signatures by default.
	Life    = 7 * 24 * time.Hour
	maxPlan = channels.MaxEntry // bytes
	maxSig  = 4096              // bytes per signature
	// Digits is how many digits of its hash name a plan that somebody signs. With half as many
	// a thief could make two plans that begin alike, and show the harmless one.
	Digits = 32
)

var planHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Waiting is a stored plan that waits for signatures of operators, with the entry byte for byte
// as they sign it.
type Waiting struct {
	Hash    string          `json:"hash"` // SHA-256 of what is signed, hex
	Channel string          `json:"channel"`
	Entry   *channels.Entry `json:"entry"`
	Signed  []string        `json:"signed"`  // operators who have signed it, sorted
	Missing []string        `json:"missing"` // who may sign it and has not, sorted
	Has     int             `json:"has"`     // number of valid signatures
	Needs   int             `json:"needs"`
	// Quorums are set if the plan replaces operators: those of the present and of the new
	// operators, all of which it needs.
	Quorums []Quorum  `json:"quorums,omitempty"`
	Expires time.Time `json:"expires"`
	// Stale says why it can't be carried out any more, empty if it can.
	Stale string `json:"stale,omitempty"`
	// Reach is what each kind of client gets once the plan is carried out. It is nil in lists,
	// and if the plan changes nothing for clients or can't be carried out.
	Reach []gate.Reach `json:"reach,omitempty"`

	// Log is the log that the plan was read for.
	Log  *channels.Log `json:"-"`
	keys []string      // keys that signed it
}

// Name returns the digits of the plan's hash that name it.
func (w *Waiting) Name() string { return w.Hash[:Digits] }

// Plans reads and writes the plans of a store's channels, and signs them.
type Plans struct {
	Store    object.Store
	Channels channels.Repository
	Root     []string // keys that may appoint operators
	Sign     Sign     // nil if there is no key to sign with
	Now      func() time.Time
}

func planKey(channel, hash string) string { return Folder + channel + "/" + hash + ".json" }

func sigKey(channel, hash, who string) string {
	return Folder + channel + "/" + hash + "." + who + ".sig"
}

// Appointed is the default reason of an entry that appoints operators.
const Appointed = "the configured operators"

// Outcome is the result for a plan: Log is the extended log if the entry was appended, else the
// plan still waits.
type Outcome struct {
	Log     *channels.Log
	Waiting *Waiting
	Warning string // empty: none
}

// Wait stores an entry that follows a log as a plan for others to sign. If an equal plan waits
// already, that one is signed instead, and carried out if this was the last signature.
func (p Plans) Wait(ctx context.Context, log *channels.Log, e channels.Entry) (Outcome, error) {
	all, _, err := p.List(ctx, log.Channel)
	if err != nil {
		return Outcome{}, err
	}
	p.tidy(ctx, all)
	for _, w := range all {
		if w.Stale == "" && !w.Expires.After(e.Expires) && w.Entry.Action == e.Action && w.Entry.Release.Equal(&e.Release) && w.Entry.Rollout.Alike(e.Rollout) && w.Entry.Operators.Equal(e.Operators) && sameLosses(w.Entry, &e) && w.Entry.From == e.From {
			done, err := p.Complete(ctx, w)
			if e.Why != "" && e.Why != w.Entry.Why && e.Why != Appointed {
				done.Warning = "the plan stays as others signed it, and your reason is not kept; its own is: " + cmp.Or(w.Entry.Why, "none")
			}
			return done, err
		}
	}
	payload, err := e.Payload()
	if err != nil {
		return Outcome{}, err
	}
	hash := library.SumOf(payload)
	if _, err := p.Store.Create(ctx, planKey(log.Channel, hash), bytes.NewReader(payload), int64(len(payload)), library.RecordAttributes); err != nil && !errors.Is(err, fs.ErrExist) {
		return Outcome{}, err
	}
	w, err := p.keep(ctx, log, hash, &e)
	if err != nil {
		return Outcome{}, err
	}
	return p.Complete(ctx, w)
}

// sameLosses reports whether two entries give up and declare lost the same entries.
func sameLosses(a, b *channels.Entry) bool {
	if !slices.Equal(a.Lost, b.Lost) || !slices.Equal(a.Pruned, b.Pruned) {
		return false
	}
	if a.Accepted == nil || b.Accepted == nil {
		return a.Accepted == b.Accepted
	}
	return *a.Accepted == *b.Accepted
}

// Needs returns the signatures that an entry which follows a log needs, nil if it needs none.
func (p Plans) Needs(log *channels.Log, e *channels.Entry) (*Need, error) {
	if _, free := channels.Unanswered(log, *e); free {
		return nil, nil
	}
	_, n, err := p.trusting(log.Channel).Approvals(log, *e)
	if err != nil || n == 0 {
		return nil, err
	}
	return &Need{Approvals: n, MaySign: maySign(log.Operators(), e), Quorums: quorumsOf(log.Operators(), e, nil)}, nil
}

// Complete signs a waiting plan, and carries it out if it has all signatures.
func (p Plans) Complete(ctx context.Context, w *Waiting) (Outcome, error) {
	before := len(w.Entry.Signatures)
	err := p.AddSignature(ctx, w.Log, w.Entry)
	if err != nil && !errors.Is(err, ErrNoKey) {
		return Outcome{}, err
	}
	if len(w.Entry.Signatures) > before {
		if w, err = p.keep(ctx, w.Log, w.Hash, w.Entry); err != nil {
			return Outcome{}, err
		}
	}
	if w.Has < w.Needs {
		return Outcome{Waiting: w}, nil
	}
	if err := library.CheckClock(ctx, p.Store, p.Now()); err != nil {
		return Outcome{}, err
	}
	e := *w.Entry
	e.Entered = p.Now().UTC().Truncate(time.Second)
	if e.Entered.Before(e.When) {
		e.Entered = e.When // whose clock was ahead
	}
	log, err := p.Channels.Enter(ctx, w.Log, e)
	if err == nil {
		doomed := []string{planKey(w.Channel, w.Hash)}
		for _, who := range w.Signed {
			doomed = append(doomed, sigKey(w.Channel, w.Hash, who))
		}
		_ = p.Store.Delete(ctx, doomed...) // plans that remain are outdated
	}
	return Outcome{Log: log}, err
}

// Extend returns the log with the entries that follow it, read as Plans reads logs.
func (p Plans) Extend(ctx context.Context, log *channels.Log) (*channels.Log, error) {
	return p.trusting(log.Channel).Extend(ctx, log)
}

// load reads the log of a channel. If entries are missing it returns the rest, and the error: a
// plan may be waiting that declares them lost.
func (p Plans) load(ctx context.Context, channel string) (log *channels.Log, broken, err error) {
	r := p.trusting(channel)
	log, err = r.Load(ctx, channel)
	if !errors.Is(err, channels.ErrLog) {
		return log, nil, err
	}
	if around, _, failed := r.Salvage().Examine(ctx, channel); failed == nil {
		return around, err, nil
	}
	return nil, nil, err
}

// trusting returns the repository without the checks that the configured operators are in force
// and that entries are not from the future: a plan may be waiting that appoints those operators
// or accepts those entries.
func (p Plans) trusting(channel string) channels.Repository {
	r := p.Channels
	r.Trust = maps.Clone(r.Trust)
	r.Trust[channel], r.AnyTime = channels.Trust{Root: p.Root}, true
	return r
}

// Read reads a plan and its signatures.
func (p Plans) Read(ctx context.Context, log *channels.Log, hash string) (*Waiting, error) {
	key := planKey(log.Channel, hash)
	data, _, err := object.ReadAll(ctx, p.Store, key, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bundle.Refuse(ErrNoPlan, "`tsmon plan list` shows the plans that wait", "%s of %s was withdrawn, or made", hash[:Digits], log.Channel)
	}
	if errors.Is(err, object.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %s is not a plan of %s", library.ErrStored, key, log.Channel)
	}
	if err != nil {
		return nil, err
	}
	e, sum, ok := channels.Candidate(data) // as strict as for an entry of the log
	if payload, err := e.Payload(); !ok || sum != hash || e.Channel != log.Channel || err != nil || !bytes.Equal(payload, data) {
		return nil, fmt.Errorf("%w: %s is not a plan of %s", library.ErrStored, key, log.Channel)
	}
	w := &Waiting{Hash: hash, Channel: log.Channel, Entry: &e, Signed: []string{}, Missing: []string{}, Expires: e.Expires, Log: log}
	if err := p.readSignatures(ctx, w); err != nil {
		return nil, err
	}
	if !slices.Contains(w.Signed, root) { // who signs in place of those in force
		w.Quorums = quorumsOf(log.Operators(), w.Entry, w.keys)
	}
	if w.Stale = misplaced(log, &e); w.Stale == "" && p.Now().After(e.Expires) {
		w.Stale = "it expired at " + e.Expires.Format(time.RFC3339)
	}
	w.Has, w.Needs, err = p.trusting(log.Channel).Approvals(log, e)
	if w.Stale == "" && err != nil {
		w.Stale = err.Error()
	}
	return w, nil
}

// misplaced returns why an entry does not follow a log, empty if it does.
func misplaced(log *channels.Log, e *channels.Entry) string {
	end := log.End()
	switch next := log.Next(*e); {
	case e.Sequence != next.Sequence:
		return fmt.Sprintf("another entry came first: %s ends with entry %d, and the plan would follow entry %d", log.Channel, end.Sequence, e.Sequence-1)
	case e.Previous != next.Previous:
		return fmt.Sprintf("entry %d of %s is another than the one that the plan would follow", end.Sequence, log.Channel)
	}
	for _, lost := range e.Lost {
		at, _ := slices.BinarySearchFunc(log.Entries, lost.From, func(e channels.Entry, n uint64) int { return cmp.Compare(e.Sequence, n) })
		if at < len(log.Entries) && log.Entries[at].Sequence <= lost.To {
			return fmt.Sprintf("it says that entry %d of %s is lost, which is there", log.Entries[at].Sequence, log.Channel)
		}
	}
	return ""
}

// Made reports whether an entry of a channel was a plan whose hash begins with a text; without
// hash, whether the newest entry was a plan. It removes what is left of that plan.
func (p Plans) Made(ctx context.Context, channel, hash string) (bool, error) {
	log, err := p.Channels.Load(ctx, channel)
	if err != nil {
		return false, err
	}
	for i := range log.Entries {
		e := &log.Entries[len(log.Entries)-1-i]
		if !e.Entered.IsZero() {
			payload, err := e.Payload()
			if err != nil {
				return false, err
			}
			if sum := library.SumOf(payload); strings.HasPrefix(sum, hash) {
				_ = p.remove(ctx, channel, sum) // what stays is out of date
				return true, nil
			}
		}
		if hash == "" {
			break
		}
	}
	return false, nil
}
