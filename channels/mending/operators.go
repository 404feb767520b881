package mending

import (
	"slices"

	"tsmon/channels"
)

// change records the operators in force after an entry, as far as signed entries show.
type change struct {
	sequence  uint64
	operators *channels.Operators
	by        *option
}

// learn determines which operators were in force when.
func (m *mender) learn() {
	for _, n := range slices.Backward(m.numbers) {
		for _, o := range m.options[n] {
			if !o.ok || !o.rightful && !m.configured(o) {
				continue
			}
			o.rightful = true
			for _, before := range m.options[o.before()] {
				before.rightful = before.rightful || before.ok && before.sum == o.entry.Previous
			}
		}
	}
	for _, n := range m.numbers {
		var by *option
		for _, o := range m.options[n] {
			if o.ok && (by == nil || o.rightful && !by.rightful) && m.appoints(o) {
				by = o
			}
		}
		if by != nil {
			m.changes = append(m.changes, change{n, by.entry.Operators, by})
		}
	}
}

// configured reports whether the configured operators, or a root key, signed an option.
func (m *mender) configured(o *option) bool {
	ours := m.trust.Operators
	return m.rooted(o) || ours != nil && len(o.entry.Signatures) >= ours.Approvals && ours.Count(o.entry.Signers()) >= ours.Approvals
}

func (m *mender) rooted(o *option) bool {
	return slices.ContainsFunc(m.trust.Root, func(key string) bool { return slices.Contains(o.entry.Signers(), key) })
}

// appoints reports whether an option puts operators into force. The new operators must have
// signed it, and the former ones as far as they are known. At least one of the first operators
// of a log must be trusted, since anybody can appoint himself.
func (m *mender) appoints(o *option) bool {
	if o.entry.Operators == nil || o.entry.Operators.Check() != nil {
		return false
	}
	signers, ours := o.entry.Signers(), m.trust.Operators
	force := m.inForce(o.entry.Sequence)
	switch {
	case o.entry.Operators.Count(signers) < o.entry.Operators.Approvals:
		return false
	case o.rightful, m.rooted(o):
		return true
	case force != nil:
		return force.Count(signers) >= force.Approvals
	}
	return ours == nil || ours.Count(signers) > 0
}

// signed reports whether the log is known to be signed: the reader trusts operators, or one of
// the log's entries puts some into force.
func (m *mender) signed() bool {
	m.know()
	return m.trust.Operators != nil || slices.ContainsFunc(m.changes, func(c change) bool { return c.by.source == stored })
}

// inForce returns the operators in force before an entry, nil if none are known.
func (m *mender) inForce(sequence uint64) (force *channels.Operators) {
	for _, c := range m.changes {
		if c.sequence < sequence {
			force = c.operators
		}
	}
	return force
}

// carries reports whether an option has enough signatures of those who were operators when it
// was made, or of the configured ones: as many as any move needs or, with fewer, as many as
// this kind of move needs. If no operators are known, every signature in the log counts.
func (m *mender) carries(o *option, fewer bool) bool {
	if !o.ok || len(o.entry.Signatures) == 0 || o.entry.Timely() != nil {
		return false
	}
	signers := o.entry.Signers()
	if len(signers) == 0 {
		return false
	}
	m.know()
	appoints := func(c change) bool { return c.by == o }
	if o.rightful || m.rooted(o) || slices.ContainsFunc(m.changes, appoints) {
		return true
	}
	nobody := o.source == stored
	for _, force := range []*channels.Operators{m.inForce(o.entry.Sequence), m.trust.Operators} {
		if force == nil {
			continue
		}
		nobody = false
		has, needs := force.Count(signers), force.Approvals
		if fewer {
			has, needs = force.CountFor(o.entry.Action, signers)
		}
		if has >= needs {
			return true
		}
	}
	return nobody
}

// refused reports whether an option follows the newest entry of a log but lacks signatures that
// it needs.
func (m *mender) refused(log *channels.Log, o *option) bool {
	if end := log.End(); !o.ok || o.entry.Sequence != end.Sequence+1 || o.entry.Previous != end.Hash {
		return false
	}
	has, needs, err := m.repository.Approvals(log, o.entry)
	return err != nil || has < needs
}
