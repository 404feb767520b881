package release

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
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/quorum"
	"tsmon/signing"
	"tsmon/store/object"
)

// ErrStale means that a plan can't be made any more: the channel has moved on, or too
// much time has passed.
var ErrStale = errors.New("the plan is out of date")

// ErrNoPlan means that no such plan waits, ErrSeveral that several do.
var (
	ErrNoPlan  = errors.New("no such plan")
	ErrSeveral = errors.New("several plans are meant")
)

// ErrNoKey means that no private key of an operator is here. ErrNotOperator wraps it: a key
// was named, and its owner may not sign.
var (
	ErrNoKey       = errors.New("nobody who may sign does so here")
	ErrNotOperator = fmt.Errorf("%w: the key is no operator's", ErrNoKey)
)

const (
	planRoot = "plans/"
	root     = "root" // who signs with a key of Publisher.Root
	// planLife is how long a plan may wait for signatures where the policy does not say.
	planLife = 7 * 24 * time.Hour
	maxPlan  = channels.MaxEntry // bytes
	maxSig   = 4096              // bytes of a signature
)

var planHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Waiting is a plan that waits for signatures of operators in the store: the entry that it
// makes, byte for byte as they sign it.
type Waiting struct {
	Hash    string          `json:"hash"` // SHA-256 of what is signed, hex
	Channel string          `json:"channel"`
	Entry   *channels.Entry `json:"entry"`
	Signed  []string        `json:"signed"`  // operators who have signed it, sorted
	Missing []string        `json:"missing"` // who may sign it and has not, sorted
	Has     int             `json:"has"`     // signatures that count
	Needs   int             `json:"needs"`
	// Quorums are, of a plan that puts operators in force while others are, those of both:
	// it needs them all.
	Quorums []quorum.Quorum `json:"quorums,omitempty"`
	Expires time.Time       `json:"expires"`
	// Stale says why it can't be made any more, empty if it can.
	Stale string `json:"stale,omitempty"`
	// Reach is who gets what once it is made; nil where clients get what they got, where it
	// can't be made, and in a list.
	Reach []gate.Reach `json:"reach,omitempty"`

	log  *channels.Log
	keys []string // that signed it
}

// Plans are the moves of a store's channels that wait for signatures of operators, and who
// signs them here.
type Plans struct {
	store    object.Store
	channels channels.Repository
	root     []string // keys that may appoint operators
	sign     Sign     // nil: nobody signs here
	now      func() time.Time
}

// Plans returns the plans of the publisher's store.
func (p *Publisher) Plans() Plans {
	return Plans{store: p.Store, channels: p.Repository(), root: p.Root, sign: p.Sign, now: p.Now}
}

func planKey(channel, hash string) string { return planRoot + channel + "/" + hash + ".json" }

// wait leaves the entry of a plan in the store for others to sign. One that says the same
// and waits already is signed instead, and made if that was the last signature.
func (p Plans) wait(ctx context.Context, plan *Plan, e channels.Entry) (*channels.Log, error) {
	all, _, err := p.List(ctx, plan.Channel)
	if err != nil {
		return nil, err
	}
	p.tidy(ctx, all)
	for _, w := range all {
		if w.Stale == "" && !w.Expires.After(e.Expires) && w.Entry.Action == e.Action && w.Entry.Release.Equal(&e.Release) && sameRollout(w.Entry.Rollout, e.Rollout) && w.Entry.Operators.Equal(e.Operators) && sameLosses(w.Entry, &e) && w.Entry.From == e.From {
			if e.Why != "" && e.Why != w.Entry.Why {
				plan.Warnings = append(plan.Warnings, "the plan stays as others signed it, and your reason is not kept; its own is: "+cmp.Or(w.Entry.Why, "none"))
			}
			return p.complete(ctx, plan, w)
		}
	}
	signatures := e.Signatures
	e.Signatures = nil
	payload, err := e.Payload()
	if err != nil {
		return nil, err
	}
	hash := library.SumOf(payload)
	key := planKey(plan.Channel, hash)
	if _, err := p.store.Create(ctx, key, bytes.NewReader(payload), int64(len(payload)), library.RecordAttributes); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	e.Signatures = signatures
	if err := p.keep(ctx, plan.log, hash, &e); err != nil {
		return nil, err
	}
	w, err := p.read(ctx, plan.log, hash)
	if err != nil {
		return nil, err
	}
	return p.complete(ctx, plan, w)
}

// sameLosses reports whether two entries give up the same, and say the same to be lost.
func sameLosses(a, b *channels.Entry) bool {
	if !slices.Equal(a.Lost, b.Lost) || !slices.Equal(a.Pruned, b.Pruned) {
		return false
	}
	if a.Accepted == nil || b.Accepted == nil {
		return a.Accepted == b.Accepted
	}
	return *a.Accepted == *b.Accepted
}

// needs returns whose signatures an entry that follows a log takes, nil if it takes none.
func (p Plans) needs(log *channels.Log, e *channels.Entry) (*quorum.Need, error) {
	_, n, err := p.trusting(log.Channel).Approvals(log, *e)
	if err != nil || n == 0 {
		return nil, err
	}
	return &quorum.Need{Approvals: n, MaySign: quorum.MaySign(log.Operators(), e), Quorums: quorum.Of(log.Operators(), e, nil)}, nil
}

// rehearse marks a plan, which is not to be applied, with whose signatures it takes.
func (p Plans) rehearse(plan *Plan) (err error) {
	plan.DryRun = true
	if plan.Entry != nil && plan.Action != channels.Follow { // which goes by the signatures of its leader's
		plan.Needs, err = p.needs(plan.log, plan.Entry)
	}
	return err
}

// complete signs a plan that waits, and makes it if it has all signatures. Else the log is
// nil and plan says what it waits for.
func (p Plans) complete(ctx context.Context, plan *Plan, w *Waiting) (*channels.Log, error) {
	before := len(w.Entry.Signatures)
	if err := p.AddSignature(ctx, w.log, w.Entry); err != nil && !errors.Is(err, ErrNoKey) {
		return nil, err
	}
	if len(w.Entry.Signatures) > before {
		if err := p.keep(ctx, w.log, w.Hash, w.Entry); err != nil {
			return nil, err
		}
		again, err := p.read(ctx, w.log, w.Hash)
		if err != nil {
			return nil, err
		}
		w = again
	}
	if w.Has < w.Needs {
		plan.Waiting = w
		return nil, nil
	}
	if err := library.CheckClock(ctx, p.store, p.now()); err != nil {
		return nil, err
	}
	e := *w.Entry
	e.Entered = p.now().UTC().Truncate(time.Second)
	if e.Entered.Before(e.When) {
		e.Entered = e.When // whose clock was ahead
	}
	log, err := p.channels.Enter(ctx, w.log, e)
	if err == nil {
		doomed := []string{planKey(w.Channel, w.Hash)}
		for _, who := range w.Signed {
			doomed = append(doomed, planRoot+w.Channel+"/"+w.Hash+"."+who+".sig")
		}
		_ = p.store.Delete(ctx, doomed...) // what stays is out of date
	}
	return log, err
}

// signer names who made a signature of a plan.
func (p Plans) signer(w *Waiting, armored string) (string, error) {
	payload, err := w.Entry.Payload()
	if err != nil {
		return "", err
	}
	key, err := signing.VerifySSH(channels.Namespace, payload, armored)
	if err != nil {
		return "", err
	}
	return cmp.Or(quorum.SignerOf(w.log.Operators(), w.Entry, key.String()), root), nil
}

// keep writes the signatures of an entry beside its plan, in the place of whatever else lies
// there under the names of those who signed.
func (p Plans) keep(ctx context.Context, log *channels.Log, hash string, e *channels.Entry) error {
	payload, err := e.Payload()
	if err != nil {
		return err
	}
	for _, armored := range e.Signatures {
		key, err := signing.VerifySSH(channels.Namespace, payload, armored)
		if err != nil {
			return err
		}
		at := planRoot + log.Channel + "/" + hash + "." + cmp.Or(quorum.SignerOf(log.Operators(), e, key.String()), root) + ".sig"
		data, _, err := object.ReadAll(ctx, p.store, at, maxSig)
		if there := err == nil || errors.Is(err, object.ErrTooLarge); there {
			if standing, bad := signing.VerifySSH(channels.Namespace, payload, string(data)); bad == nil && standing.String() == key.String() {
				continue
			}
			if err := p.store.Delete(ctx, at); err != nil {
				return err
			}
		}
		if _, err := p.store.Create(ctx, at, strings.NewReader(armored), int64(len(armored)), library.RecordAttributes); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// load reads the log of a channel. Of one that lacks entries it returns what there is, and why
// it is broken: a plan may wait to say that those are lost.
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

// trusting is the channels, without insisting that the configured operators of one are in
// force, nor on the times of entries: a plan may be there to appoint them, or to accept those.
func (p Plans) trusting(channel string) channels.Repository {
	r := p.channels
	r.Trust = maps.Clone(r.Trust)
	r.Trust[channel], r.AnyTime = channels.Trust{Root: p.root}, true
	return r
}

// waiting reads a plan and its signatures.
func (p Plans) read(ctx context.Context, log *channels.Log, hash string) (*Waiting, error) {
	key := planKey(log.Channel, hash)
	data, _, err := object.ReadAll(ctx, p.store, key, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(ErrNoPlan, "`tsmon plan list` shows the plans that wait", "%s of %s was withdrawn, or made", hash[:12], log.Channel)
	}
	if errors.Is(err, object.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %s is not a plan of %s", library.ErrStored, key, log.Channel)
	}
	if err != nil {
		return nil, err
	}
	e, sum, ok := channels.Candidate(data) // as strict as with an entry of the log
	if payload, err := e.Payload(); !ok || sum != hash || e.Channel != log.Channel || err != nil || !bytes.Equal(payload, data) {
		return nil, fmt.Errorf("%w: %s is not a plan of %s", library.ErrStored, key, log.Channel)
	}
	w := &Waiting{Hash: hash, Channel: log.Channel, Entry: &e, Signed: []string{}, Missing: []string{}, Expires: e.Expires, log: log}
	if err := p.readSignatures(ctx, w); err != nil {
		return nil, err
	}
	if !slices.Contains(w.Signed, root) { // who does for those in force
		w.Quorums = quorum.Of(log.Operators(), w.Entry, w.keys)
	}
	if w.Stale = misplaced(log, &e); w.Stale == "" && p.now().After(e.Expires) {
		w.Stale = "it expired at " + e.Expires.Format(time.RFC3339)
	}
	w.Has, w.Needs, err = p.trusting(log.Channel).Approvals(log, e)
	if w.Stale == "" && err != nil {
		w.Stale = err.Error()
	}
	return w, nil
}

// misplaced says why an entry does not follow a log, empty if it does.
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

// readSignatures reads the good signatures of those who may sign a plan, one of each.
func (p Plans) readSignatures(ctx context.Context, w *Waiting) error {
	payload, err := w.Entry.Payload()
	if err != nil {
		return err
	}
	may := map[string]bool{} // by name: has signed
	for _, who := range quorum.MaySign(w.log.Operators(), w.Entry) {
		may[who] = false
	}
	names := slices.Sorted(maps.Keys(may))
	if _, taken := may[root]; !taken {
		names = append(names, root)
	}
	for _, who := range names {
		data, _, err := object.ReadAll(ctx, p.store, planRoot+w.Channel+"/"+w.Hash+"."+who+".sig", maxSig)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrTooLarge) {
			continue
		}
		if err != nil {
			return err
		}
		key, err := signing.VerifySSH(channels.Namespace, payload, string(data))
		if err != nil {
			continue // anybody who can write to the store may have put it there
		}
		if signer := quorum.SignerOf(w.log.Operators(), w.Entry, key.String()); cmp.Or(signer, root) != who || signer == "" && !slices.Contains(p.root, key.String()) {
			continue // not by whom its name says
		}
		w.keys = append(w.keys, key.String())
		w.Entry.Signatures = append(w.Entry.Signatures, string(data))
		may[who] = true
	}
	for _, who := range names {
		switch signed, operator := may[who]; {
		case signed:
			w.Signed = append(w.Signed, who)
		case operator:
			w.Missing = append(w.Missing, who)
		}
	}
	return nil
}

// made reports whether an entry of a channel is a plan whose hash begins with a text;
// without hash, whether the newest one is a plan.
func (p Plans) made(ctx context.Context, channel, hash string) (bool, error) {
	log, err := p.channels.Load(ctx, channel)
	if err != nil {
		return false, err
	}
	for i := range log.Entries {
		e := &log.Entries[len(log.Entries)-1-i]
		if !e.Entered.IsZero() {
			payload, err := e.Payload()
			if err != nil || strings.HasPrefix(library.SumOf(payload), hash) {
				return err == nil, err
			}
		}
		if hash == "" {
			break
		}
	}
	return false, nil
}
