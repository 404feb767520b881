// Package mending works out how the log of a channel becomes whole again: which entries copies
// bring back, which ones somebody wrote who may not, and what is still missing then. It writes
// nothing.
//
// Nothing is taken out or replaced that carries the signatures of who were operators when it
// was made. Who they were is known from the entries that are signed: those of the store, of
// its segments and of copies, and from the operators that the reader trusts. Where an entry is
// missing that such a signed one follows, there is no way but to bring it.
package mending

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/channels/journal"
)

// Options say what there is besides the store, and what may be done.
type Options struct {
	Spares [][]byte // entries that may be put back; other bytes are passed over
	// Witnesses are entries that are put back nowhere: if operators signed one that the log
	// would go without, that is no way.
	Witnesses [][]byte
	// Seen are the views of the channel. A log that nobody signs is made no longer than they
	// show, unless nothing is left of it.
	Seen []channels.Pointer
	// Cut says that entries at the end may be taken out.
	Cut bool
}

// Mending is how a log becomes whole.
type Mending struct {
	Log  *channels.Log  // as it is then
	Gaps []channels.Gap // what is still missing, and no entry says to be lost
	// Doubt is why the reader does not believe the log then, nil if it does: the configured
	// operators are to be put in force. It wraps channels.ErrLog.
	Doubt error
	// Steps lead there. Between any two of them the log can't be read, or is whole: no part of
	// what comes back passes for all of it.
	Steps []Step
}

// Step is what is done about one object.
type Step struct {
	Key  string
	Out  bool   // what stands there is taken out
	Back []byte // the entry that is written, in place of other bytes if there are any; nil: none
}

// maxIntruders bounds the entries at the end of a log that are taken out.
const maxIntruders = 100

// Plan says how the log of a channel becomes whole. The error wraps channels.ErrLog, and is a
// *fault.Fault, if there is no way with what is at hand.
func Plan(ctx context.Context, r channels.Repository, channel string, o Options) (*Mending, error) {
	if err := channels.CheckName(channel); err != nil {
		return nil, err
	}
	m := &mender{Options: o, repository: r, channel: channel}
	if err := m.collect(ctx); err != nil {
		return nil, err
	}
	mending, err := m.plan(ctx, true)
	if err == nil && mending == nil && !o.Cut && r.Trust[channel].Operators != nil {
		mending, err = m.plan(ctx, false) // which leads on once the configured operators are in force
	}
	if mending != nil || err != nil && !errors.Is(err, channels.ErrLog) {
		return mending, err
	}
	_, broken := r.Load(ctx, channel)
	switch {
	case err == nil && broken == nil:
		err = fault.Distrust("the log of "+channel+" changed meanwhile", channel, channels.ErrLog)
	case err == nil, fault.Of(broken, channel).Blame == fault.Needed, errors.Is(broken, fault.ErrBare), errors.Is(broken, fault.ErrStrangers):
		err = broken // which tells more
	}
	return nil, err
}

// mender is one run of Plan.
type mender struct {
	Options
	repository channels.Repository
	channel    string
	found      journal.Listing
	top        uint64   // number of the newest entry of the store, but for those that can't be one
	far        []string // keys of those
	numbers    []uint64 // of options, rising
	options    map[uint64][]*option
	changes    []change // who is in force, once it was asked for
	asked      bool
}

// plan looks for the longest log that can be read, and that the reader believes if believed.
func (m *mender) plan(ctx context.Context, believed bool) (*Mending, error) {
	if len(m.far) > 0 && !m.Cut {
		return nil, nil
	}
	out := len(m.far)
	for _, n := range slices.Backward(append([]uint64{0}, m.numbers...)) {
		for _, end := range m.ends(n, believed) {
			mending, err := m.with(ctx, end, believed)
			if err != nil || mending != nil {
				return mending, err
			}
		}
		if stored := m.stored(n); stored != nil {
			if out++; stored.ok && !m.Cut || m.Cut && out > maxIntruders {
				return nil, nil
			}
		}
	}
	return nil, nil
}

// ends are the options for the newest entry, if it has number n; nil for an empty log.
func (m *mender) ends(n uint64, believed bool) (ends []*option) {
	if n == 0 {
		return []*option{nil}
	}
	for _, o := range m.options[n] {
		if o.ok && o.source != witness && (believed || o.source == stored) {
			ends = append(ends, o)
		}
	}
	return ends
}

// with is the mending with which a log ends with an option, nil if that can't be read.
func (m *mender) with(ctx context.Context, end *option, believed bool) (*Mending, error) {
	for _, guess := range []bool{true, false} {
		line, guessed := m.line(end, guess)
		log, gaps, err := m.repository.Salvage().Span(m.channel, m.bytes(line), m.found)
		var doubt error
		if err == nil {
			doubt = m.repository.Salvage().Believe(ctx, log)
		}
		if believed || !errors.Is(doubt, channels.ErrLog) {
			err, doubt = cmp.Or(err, doubt), nil
		}
		signed := err == nil && log.Operators() != nil
		above := func(g channels.Gap) bool { return g.To > m.top && g.From <= uint64(len(line)) }
		switch {
		case err != nil && !errors.Is(err, channels.ErrLog):
			return nil, err
		case guessed && (err != nil || !signed && len(gaps) > 0):
			continue // no signature says that what stands before a gap is the log's
		case err != nil, m.Cut && !signed && len(gaps) > 0, slices.ContainsFunc(gaps, above), m.beyond(end, believed):
			return nil, nil //nolint:nilerr // that is the answer
		}
		steps, err := m.steps(log, line)
		if err != nil {
			return nil, err
		}
		return &Mending{log, gaps, doubt, steps}, nil
	}
	return nil, nil
}

// beyond reports whether nothing tells that a log went as far as an option from elsewhere.
func (m *mender) beyond(end *option, believed bool) bool {
	return end != nil && end.source != stored && len(m.found.Numbers) > 0 &&
		end.entry.Sequence > max(m.top, channels.Ahead(m.Seen, m.top)) && !(believed && m.signed())
}

// line returns the options that lead up to the newest entry, by number, nil where there is
// none: those that the next one names by their hashes. With guess what stands before a gap may
// be from elsewhere; guessed says that some is.
func (m *mender) line(end *option, guess bool) (line []*option, guessed bool) {
	if end == nil {
		return nil, false
	}
	line = make([]*option, end.entry.Sequence)
	want, known := end.sum, true
	for n := end.entry.Sequence; n > 0; n-- {
		best := m.stored(n)
		if named := m.named(n, want); known && named != nil {
			best = named
		} else if all := m.options[n]; !known && guess && best == nil && len(all) == 1 && all[0].source != witness {
			best, guessed = all[0], true
		}
		line[n-1] = best
		fits := best != nil && best.ok && (!known || best.sum == want)
		if !fits {
			known = false
			continue
		}
		before := best.before()
		for ; n > before+1; n-- { // it says that they are lost
			line[n-2] = m.stored(n - 1)
		}
		want, known = best.entry.Previous, true
	}
	return line, guessed
}

// bytes are those of a line, and of what stands behind it and stays.
func (m *mender) bytes(line []*option) [][]byte {
	raw := make([][]byte, len(line))
	if !m.Cut && m.top > uint64(len(line)) {
		raw = make([][]byte, m.top)
	}
	for i := range raw {
		o := m.stored(uint64(i) + 1)
		if i < len(line) {
			o = line[i]
		}
		raw[i] = []byte{}
		if o != nil {
			raw[i] = o.raw
		}
	}
	return raw
}

// steps lead from what is in the store to a line, which makes a log.
func (m *mender) steps(log *channels.Log, line []*option) (steps []Step, err error) {
	end := uint64(len(line))
	bad := map[string]bool{} // hashes of what is taken out
	for _, n := range m.numbers {
		if n > end {
			if err := m.spares(n); err != nil {
				return nil, err
			}
		}
		now := m.stored(n)
		switch {
		case n > end && now != nil && m.Cut:
			if !m.refused(log, now) && (m.carries(now, false) || m.carries(now, true) && !bad[now.entry.Previous]) {
				return nil, m.dangling(now)
			}
			bad[now.sum] = true
			steps = append(steps, Step{Key: journal.Key(m.channel, n), Out: true})
		case n <= end && line[n-1] != nil && line[n-1].source == spare:
			if now != nil && m.carries(now, true) {
				return nil, m.dangling(now)
			}
			steps = append(steps, Step{journal.Key(m.channel, n), now != nil && m.Cut, line[n-1].raw})
		}
	}
	for _, key := range m.far {
		steps = append(steps, Step{Key: key, Out: true})
	}
	slices.Reverse(steps)
	return steps, nil
}

// spares returns an error if operators signed an entry from elsewhere that the log would go
// without.
func (m *mender) spares(n uint64) error {
	for _, o := range m.options[n] {
		if (o.source == spare || o.source == witness) && m.carries(o, false) {
			return m.dangling(o)
		}
	}
	return nil
}

// dangling says why an entry that operators signed stays, and the log can't go without.
func (m *mender) dangling(o *option) error {
	n := o.entry.Sequence
	return fault.Require(journal.Faulty(m.channel, n, "operators have signed entry %d of %s, and an entry before it is missing or was changed", n, m.channel))
}
