// Package mending plans the repair of a channel's log: which entries copies can restore, which
// ones are forged, and what is still missing then. It writes nothing.
//
// An entry with the signatures of those who were operators when it was made is never removed or
// replaced. Who they were is known from the signed entries in the store, its segments and
// copies, and from the operators that the reader trusts. If an entry is missing that such a
// signed one follows, the log can only be repaired with a copy of it.
package mending

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/channels/journal"
)

// Options are the copies that are available, and what a plan may do.
type Options struct {
	Spares [][]byte // entries that may be restored; other bytes are ignored
	// Witnesses are entries that are only evidence: a plan must not leave out one that operators
	// signed.
	Witnesses [][]byte
	// Seen are the views of the channel. An unsigned log is not made longer than they show,
	// unless all of it is gone.
	Seen []channels.Pointer
	// Cut allows removing entries at the end.
	Cut bool
}

// Mending is a planned repair.
type Mending struct {
	Log  *channels.Log  // as it is after the repair
	Gaps []channels.Gap // entries that are still missing and not declared lost
	// Doubt is why the reader does not trust the log after the repair: the configured operators
	// must be put into force first. nil if it does. It wraps channels.ErrLog.
	Doubt error
	// Steps are the writes in order. Between any two of them the log is either unreadable or
	// complete, so that a partly restored log never passes for a complete one.
	Steps []Step
}

// Step is the change of one object.
type Step struct {
	Key  string
	Out  bool   // the stored object is removed
	Back []byte // the entry to write, replacing other bytes if there are any; nil for none
}

// maxIntruders bounds the entries at the end of a log that a plan removes.
const maxIntruders = 100

// Plan returns the repair of a channel's log. If it can't be repaired with the available
// copies, the error is a *fault.Fault that wraps channels.ErrLog.
func Plan(ctx context.Context, r channels.Repository, channel string, o Options) (*Mending, error) {
	if err := channels.CheckName(channel); err != nil {
		return nil, err
	}
	m := &mender{Options: o, repository: r, channel: channel, trust: r.Trust[channel]}
	m.know = sync.OnceFunc(m.learn)
	if err := m.collect(ctx); err != nil {
		return nil, err
	}
	mending, err := m.plan(ctx, true)
	if err == nil && mending == nil && !o.Cut && m.trust.Operators != nil {
		mending, err = m.plan(ctx, false) // which can be read once the configured operators are in force
	}
	if mending != nil || err != nil && !errors.Is(err, channels.ErrLog) {
		return mending, err
	}
	_, broken := r.Load(ctx, channel)
	switch {
	case err == nil && broken == nil:
		err = fault.Distrust("the log of "+channel+" changed meanwhile", channel, channels.ErrLog)
	case err == nil, fault.Of(broken, channel).Blame == fault.Needed, errors.Is(broken, fault.ErrBare), errors.Is(broken, fault.ErrStrangers):
		err = broken // which is more informative
	}
	return nil, err
}

// mender is one run of Plan.
type mender struct {
	Options
	repository channels.Repository
	channel    string
	trust      channels.Trust
	found      journal.Listing
	top        uint64   // highest plausible number of an entry in the store
	far        []string // keys of the implausible ones
	numbers    []uint64 // numbers with options, increasing
	options    map[uint64][]*option
	know       func()   // computes changes on first use
	changes    []change // operators in force over time
}

// plan finds the longest log that can be read and, if believed is set, that the reader trusts.
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

// ends returns the options for a newest entry with number n; nil stands for an empty log.
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

// with returns the repair that makes the log end with an option, nil if that log can't be read.
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
			continue // no signature proves that the entry before a gap belongs to the log
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

// beyond reports whether there is no evidence that the log ever reached an option that is not
// from the store.
func (m *mender) beyond(end *option, believed bool) bool {
	return end != nil && end.source != stored && len(m.found.Numbers) > 0 &&
		end.entry.Sequence > max(m.top, channels.Ahead(m.Seen, m.top)) && !(believed && m.signed())
}

// line returns the options that lead up to the newest entry, by number, nil where there is
// none. Each is named by the hash in the next one. With guess, the entry before a gap may be a
// copy; guessed reports whether one is.
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
		for ; n > before+1; n-- { // the entry declares them lost
			line[n-2] = m.stored(n - 1)
		}
		want, known = best.entry.Previous, true
	}
	return line, guessed
}

// bytes returns the entries of a line, and those after it that are kept.
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

// steps returns the changes that turn the stored log into a line.
func (m *mender) steps(log *channels.Log, line []*option) (steps []Step, err error) {
	end := uint64(len(line))
	bad := map[string]bool{} // hashes of removed entries
	for _, n := range m.numbers {
		for _, o := range m.options[n] {
			if n > end && (o.source == spare || o.source == witness) && m.carries(o, false) {
				return nil, m.dangling(o) // the log would leave it out
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

// dangling returns the error for an entry that operators signed and that therefore can't be
// left out.
func (m *mender) dangling(o *option) error {
	n := o.entry.Sequence
	return fault.Require(journal.Faulty(m.channel, n, "operators have signed entry %d of %s, and an entry before it is missing or was changed", n, m.channel))
}
