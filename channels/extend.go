package channels

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"tsmon/channels/fault"
	"tsmon/channels/journal"
)

// extension extends a log by entries. Each entry must have the signatures that the entries
// before it and the reader's trust require.
type extension struct {
	*Log
	trust    Trust
	thorough bool // all signatures are verified
	loose    bool // the hash of the log's last entry is unknown
}

func (r Repository) extension(log *Log) extension {
	return extension{Log: log, trust: r.Trust[log.Channel], thorough: r.Thorough}
}

func (x extension) copied() extension {
	longer := *x.Log
	longer.Entries, longer.begun = slices.Clip(x.Entries), 0
	x.Log = &longer
	return x
}

// precede records the hash of the newest entry before lost ones.
func (x extension) precede(sequence uint64, hash string) {
	ends := map[uint64]string{sequence: hash}
	maps.Copy(ends, x.ends)
	x.ends = ends // other copies may share the old map
}

// span adds the entries that follow a log, checking from the newest back, because each entry
// has the hash of the previous one. Missing entries are empty. The gaps are those that no entry
// declares lost or, with an error, all of them.
func (x extension) span(raw [][]byte) (*Log, []Gap, error) {
	entries := make([]Entry, 0, len(raw)) // newest first
	var gaps []Gap
	want, known := "", false // the hash of the next entry to check, if known
	head := x.head
	longer := x.copied()
	for i, d := range slices.Backward(decodeAll(raw)) {
		sequence := x.last() + uint64(i) + 1
		problem := x.look(d, sequence, want, known)
		if problem == nil {
			switch {
			case len(entries) == 0:
				head = d.hash
			case !known:
				longer.precede(sequence, d.hash)
			}
			entries = append(entries, d.entry)
			want, known = d.entry.Previous, true
			continue
		}
		if n := len(gaps); n > 0 && gaps[n-1].From == sequence+1 {
			gaps[n-1].From, gaps[n-1].Problem = sequence, problem
		} else {
			gaps = append(gaps, Gap{Lost{From: sequence, To: sequence, Hash: want}, problem})
		}
		want, known = "", false
	}
	slices.Reverse(entries)
	slices.Reverse(gaps)
	if known && want != x.head && !x.loose {
		return nil, gaps, journal.Faulty(x.Channel, x.last()+1, "entry %d of %s does not match the hash of the one before it", x.last()+1, x.Channel)
	}
	if !known && len(entries) > 0 {
		longer.precede(x.last(), x.head)
	}
	longer.thorough = longer.thorough || len(gaps) > 0 // no hash connects what is before one
	if err := longer.admit(entries, head); err != nil {
		return nil, gaps, x.needs(err, entries, gaps)
	}
	gaps = slices.DeleteFunc(gaps, func(g Gap) bool { return longer.declares(g.Lost) })
	return longer.Log, gaps, nil
}

// needs explains why an entry after a gap is refused: if the configured operators signed it, the
// gap has the entry that put them in force.
func (x extension) needs(err error, entries []Entry, gaps []Gap) error {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Sequence == fault.Of(err, x.Channel).Sequence })
	if i < 0 || x.trust.Operators == nil || !x.configured(&entries[i]) {
		return err
	}
	for _, gap := range slices.Backward(gaps) {
		if gap.To < entries[i].Sequence {
			return fault.Require(journal.Faulty(x.Channel, gap.To, "entry %d of %s is missing or was changed, and says who may sign entry %d", gap.To, x.Channel, entries[i].Sequence))
		}
	}
	return err
}

// look checks the bytes, the number and, if known, the hash of an entry.
func (x extension) look(d decoded, sequence uint64, want string, known bool) error {
	switch {
	case d.hash == "":
		return journal.Faulty(x.Channel, sequence, "entry %d of %s is missing", sequence, x.Channel)
	case known && d.hash != want:
		return journal.Faulty(x.Channel, sequence, "entry %d of %s does not match the hash of the one before it", sequence+1, x.Channel)
	case d.err != nil:
		return journal.Faulty(x.Channel, sequence, "entry %d of %s: %w", sequence, x.Channel, d.err)
	case d.entry.Sequence != sequence:
		return journal.Faulty(x.Channel, sequence, "entry %d of %s has the number %d", sequence, x.Channel, d.entry.Sequence)
	}
	return nil
}

// lacks is Approvals for an entry whose signers are known.
func (x extension) lacks(e *Entry) (has, needs int, err error) {
	force := x.operators
	if force == nil && e.Operators == nil {
		return 0, 0, nil
	}
	if e.Channel != x.Channel {
		return 0, 0, fmt.Errorf("%w: it is an entry of %q", ErrUnsigned, e.Channel)
	}
	if e.Operators != nil {
		return x.lacksChange(e)
	}
	has, needs = force.Count(e.signers), force.Approvals
	switch {
	case e.Action == Advance && x.isStep(e):
		return 0, 0, nil
	case e.Action == Follow && e.Leader != "" && e.From == force.Follows && has < needs:
		led, needs, err := x.lacksLeader(e)
		return max(has, led), needs, err // its own operators may sign it, too
	case e.Action == Pause && x.isPause(e), e.Action == Prune && x.stays(e), e.Action == Rollback && x.isBack(e):
		has, needs = force.CountFor(e.Action, e.signers)
	}
	return has, needs, nil
}

// lacksChange is lacks for an entry that puts operators in force. The former operators, or a
// root key, must approve it, and enough of the new ones must sign to show that they have their keys.
func (x extension) lacksChange(e *Entry) (has, needs int, err error) {
	if err := e.Operators.Check(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	has, needs = e.Operators.Count(e.signers), e.Operators.Approvals
	rooted := slices.ContainsFunc(x.trust.Root, func(key string) bool { return slices.Contains(e.signers, key) })
	if x.operators == nil || rooted {
		return has, needs, nil
	}
	if own := x.operators.Count(e.signers); x.operators.Approvals-own > needs-has {
		return own, x.operators.Approvals, nil
	}
	return has, needs, nil
}

// admits returns an error that wraps ErrUnsigned if an entry that follows the log lacks
// signatures.
func (x extension) admits(e *Entry) error {
	has, needs, err := x.lacks(e)
	if err == nil && has < needs {
		err = fmt.Errorf("%w: %d of %d", ErrUnsigned, has, needs)
	}
	return err
}

func (x extension) refused(e *Entry, err error) error {
	return journal.Faulty(x.Channel, e.Sequence, "entry %d of %s: %w", e.Sequence, x.Channel, err)
}

// admit appends entries that have the signatures that they need. head is the hash of the last.
//
// A signature covers the hash of the previous entry and so the whole log up to it, which the
// program reads and verifies before it signs. The newest entry with all signatures therefore
// vouches for those before it, and only the entries after it are verified one by one, unless
// the reader is thorough. Entries that put operators in force are always verified, because they
// say whose signatures count; otherwise the keys of removed operators could vouch for
// themselves. So if an entry lacks its quorum but a quorum signed a later one, only thorough
// readers find it. That takes a quorum that signs what its own program refuses.
func (x extension) admit(entries []Entry, head string) error {
	forces, err := x.forces(entries)
	if err != nil {
		return err
	}
	voucher, err := x.voucher(entries, forces)
	if err != nil {
		return err
	}
	if err := x.readSigners(entries[voucher+1:]); err != nil {
		return err
	}
	for i := range entries {
		if i > voucher {
			if err := x.admits(&entries[i]); err != nil {
				return x.refused(&entries[i], err)
			}
		}
		if err := entries[i].settle(); err != nil {
			return x.refused(&entries[i], err)
		}
		x.Entries = append(x.Entries, entries[i])
		x.operators = forces[i]
	}
	x.head = head
	return nil
}

// forces returns the operators in force after each entry. It verifies the entries that appoint them.
func (x extension) forces(entries []Entry) ([]*Operators, error) {
	all := make([]*Operators, len(entries))
	so := extension{Log: &Log{Channel: x.Channel, operators: x.operators}, trust: x.trust}
	for i := range entries {
		if e := &entries[i]; e.Operators != nil {
			if err := cmp.Or(e.readSigners(), so.admits(e)); err != nil {
				return nil, x.refused(e, err)
			}
			so.operators = e.Operators
		}
		all[i] = so.operators
	}
	return all, nil
}

// voucher returns the index of the newest entry that enough of the operators in force and of the
// configured ones have signed, -1 if there is none.
func (x extension) voucher(entries []Entry, forces []*Operators) (int, error) {
	for i := len(entries) - 1; i >= 0 && forces[i] != nil && !x.thorough; i-- {
		e, force := &entries[i], forces[i]
		if len(e.Signatures) < force.Approvals || e.Channel != x.Channel {
			continue
		}
		if err := e.readSigners(); err != nil {
			return 0, x.refused(e, err)
		}
		if force.Count(e.signers) >= force.Approvals && x.configured(e) {
			return i, nil
		}
	}
	return -1, nil
}

// configured reports whether enough of the reader's configured operators, or a root key, have
// signed an entry. Without configured operators it is true.
func (x extension) configured(e *Entry) bool {
	ours := x.trust.Operators
	return ours == nil || ours.Count(e.signers) >= ours.Approvals ||
		slices.ContainsFunc(x.trust.Root, func(key string) bool { return slices.Contains(e.signers, key) })
}

// vouched returns an error unless the reader may trust the operators that a log names.
func (x extension) vouched() error {
	ours := x.trust.Operators
	if ours == nil || x.Head() == nil {
		return nil
	}
	if x.operators == nil {
		return fault.Distrust("operators are configured, and no entry of "+x.Channel+" has put them in force", x.Channel, ErrLog, ErrUnsigned, fault.ErrBare)
	}
	for i := len(x.Entries) - 1; i >= 0; i-- {
		if x.configured(&x.Entries[i]) {
			return nil
		}
	}
	return fault.Distrust(fmt.Sprintf("no entry of %s has the signatures of %d configured operators: others sign it", x.Channel, ours.Approvals), x.Channel, ErrLog, ErrUnsigned, fault.ErrStrangers)
}

// vouchedWith is vouched for the log with another entry, whose signers are known.
func (x extension) vouchedWith(e Entry) error {
	longer := x.copied()
	longer.Entries = append(longer.Entries, e)
	if e.Operators != nil {
		longer.operators = e.Operators
	}
	return longer.vouched()
}

// lacksLeader is lacks for an entry that follows another channel: the signatures of the
// leader's entry count, if that entry brings the release, has the same author, reason and
// origin, and the follower moves forward.
func (x extension) lacksLeader(e *Entry) (has, needs int, err error) {
	force := x.operators
	if len(e.Leader) > journal.MaxEntry {
		return 0, 0, fmt.Errorf("%w: the entry that it follows has %d bytes", ErrUnsigned, len(e.Leader))
	}
	leader, err := decodeEntry([]byte(e.Leader))
	if err == nil {
		err = leader.readSigners()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: the entry that it follows: %w", ErrUnsigned, err)
	}
	var want Release
	if brought := leader.offered(e.Version); brought != nil {
		want = x.Carry(*brought)
	}
	head := x.Head()
	switch {
	case leader.Channel != e.From || leader.Channel == x.Channel:
		return 0, 0, fmt.Errorf("%w: it follows %s with an entry of %q", ErrUnsigned, e.From, leader.Channel)
	case !e.Release.Equal(&want) || len(e.Lost)+len(e.Pruned) > 0:
		return 0, 0, fmt.Errorf("%w: it is not what entry %d of %s brings", ErrUnsigned, leader.Sequence, e.From)
	case !e.saysWith(&leader):
		return 0, 0, fmt.Errorf("%w: its author, reason, origin or targets are not those of entry %d of %s", ErrUnsigned, leader.Sequence, e.From)
	case head != nil && (below(e.Version, head.Version) || e.made().Before(head.When)) || x.RolledBack(e.Version) != nil:
		return 0, 0, fmt.Errorf("%w: it follows %s back", ErrUnsigned, e.From)
	case e.Rollout != nil && !same(e.Rollout, head.Rollout), e.Rollout == nil && head != nil && head.Rollout != nil && below(e.Version, head.Rollout.Version):
		return 0, 0, fmt.Errorf("%w: it changes the rollout", ErrUnsigned)
	}
	return force.Count(leader.signers), force.Approvals, nil
}

// saysWith reports whether the signatures of a leader's entry prove all that the follower's says.
func (e *Entry) saysWith(leader *Entry) bool {
	said, proven := Entry{Who: e.Who, Why: e.Why, Origin: e.Origin, Targets: e.Targets, Halted: e.Halted, Accepted: e.Accepted},
		Entry{Who: leader.Who, Why: leader.Why, Origin: leader.Origin, Targets: slices.Sorted(maps.Keys(e.Release.Platforms))}
	return same(&said, &proven)
}

// stays reports whether an entry changes nothing for clients and declares nothing lost.
func (x extension) stays(e *Entry) bool {
	head := x.Head()
	return head != nil && len(e.Lost) == 0 && head.Release.Equal(&e.Release) && same(head.Rollout, e.Rollout)
}

// same reports whether two rollouts, or two entries, are equal in every member.
func same[T Rollout | Entry](a, b *T) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// isStep reports whether an entry is the next step of the current rollout, not before its time,
// and says nothing else: it needs no signature, so nothing would prove who made it, or why.
func (x extension) isStep(e *Entry) bool {
	head := x.Head()
	if head == nil || head.Rollout == nil || !head.Rollout.Due(e.When) || e.When.Before(head.When) {
		return false
	}
	next := head.Rollout.Step(e.When)
	if bare := e.unanswered(next); !same(e, &bare) {
		return false
	}
	next.Release = x.Carry(next.Release)
	if next.Complete() {
		return e.Rollout == nil && e.Release.Equal(&next.Release)
	}
	return e.Release.Equal(&head.Release) && same(e.Rollout, next)
}

// isPause reports whether all that an entry does is to stop offering the newest release.
func (x extension) isPause(e *Entry) bool {
	head, r := x.Head(), e.Rollout
	switch {
	case head == nil || r == nil || r.Paused.IsZero() || len(e.Lost)+len(e.Pruned) > 0:
		return false
	case head.Rollout != nil:
		return e.Release.Equal(&head.Release) && same(r, head.Rollout.Pause(r.Paused))
	}
	standing := x.Standing()
	for i := len(standing) - 1; i >= 0; i-- {
		if before := &standing[i]; before.Version != head.Version {
			want := x.Carry(before.Release)
			return r.Release.Equal(&head.Release) && e.Release.Equal(&want)
		}
	}
	return false
}

// isBack reports whether an entry takes all clients back to a release that was offered before and
// not rolled back since. Other rollbacks, such as one to a bad release, need all approvals.
func (x extension) isBack(e *Entry) bool {
	head := x.Head()
	if head == nil || e.Rollout != nil || len(e.Lost)+len(e.Pruned) > 0 ||
		!below(e.Version, head.Newest()) || below(head.Version, e.Version) || x.RolledBack(e.Version) != nil {
		return false
	}
	for i := len(x.Entries) - 1; i >= 0; i-- {
		if before := &x.Entries[i]; before.Version == e.Version {
			want := x.Carry(before.Release)
			return e.Release.Equal(&want)
		}
	}
	return false
}
