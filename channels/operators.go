package channels

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels/journal"
	"tsmon/signing"
)

// ErrUnsigned means that an entry lacks the signatures of operators that it needs.
var ErrUnsigned = errors.New("the operators have not signed it")

// Namespace is the namespace of the signatures, for `ssh-keygen -Y verify -n`.
const Namespace = "tsmon-log"

const (
	maxOperators  = 50
	maxSignatures = 20
)

// Operators say whose signatures the entries of a channel need, from the entry that holds them.
type Operators struct {
	Keys map[string]string `json:"keys"` // OpenSSH public keys by name, without comments
	// Servers are keys of servers by name, which may sign pauses only.
	Servers map[string]string `json:"servers,omitempty"`
	// Approvals is how many operators must sign a move. Rollbacks is how many must sign a
	// rollback to a lower version, unless that was itself rolled back before.
	Approvals int `json:"approvals"`
	Rollbacks int `json:"rollbacks"`
	// Follows is the channel whose signed entries count here too, empty if none do.
	Follows string `json:"follows,omitempty"`
}

// Check returns what is wrong with operators: there must be 1 to 50, each with a different
// key, and no more approvals than operators.
func (o *Operators) Check() error {
	seen := map[string]string{}
	for _, keys := range []map[string]string{o.Keys, o.Servers} {
		for who, text := range keys {
			key, err := signing.ParseSSHKey(text)
			switch other := seen[text]; {
			case !name.MatchString(who):
				return fmt.Errorf("%.40q can't be a name: use lower-case letters, digits and hyphens", who)
			case err != nil:
				return fmt.Errorf("the key of %s: %w", who, err)
			case key.String() != text:
				return fmt.Errorf("the key of %s has a comment", who)
			case other != "":
				return fmt.Errorf("%s and %s have the same key", min(who, other), max(who, other))
			}
			seen[text] = who
		}
	}
	switch n := len(o.Keys); {
	case n == 0 || n+len(o.Servers) > maxOperators:
		return fmt.Errorf("there are %d operators, 1 to %d are possible", n, maxOperators)
	case o.Approvals < 1 || o.Approvals > n:
		return fmt.Errorf("%d approvals are asked of %d operators", o.Approvals, n)
	case o.Rollbacks < 1 || o.Rollbacks > o.Approvals:
		return fmt.Errorf("%d approvals are asked for a rollback, 1 to %d are possible", o.Rollbacks, o.Approvals)
	case o.Follows != "":
		return CheckName(o.Follows)
	}
	return nil
}

// Equal compares operators; either may be nil.
func (o *Operators) Equal(other *Operators) bool {
	if o == nil || other == nil {
		return o == other
	}
	return maps.Equal(o.Keys, other.Keys) && maps.Equal(o.Servers, other.Servers) && o.Approvals == other.Approvals && o.Rollbacks == other.Rollbacks && o.Follows == other.Follows
}

// NameOf returns the name of the operator or server with a key, empty if there is none.
func (o *Operators) NameOf(key string) string {
	for _, keys := range []map[string]string{o.Keys, o.Servers} {
		for who, text := range keys {
			if text == key {
				return who
			}
		}
	}
	return ""
}

// Count returns how many operators are among the signers.
func (o *Operators) Count(signers []string) (n int) {
	for _, key := range o.Keys {
		if slices.Contains(signers, key) {
			n++
		}
	}
	return n
}

// CountFor is Count for a kind of move that may need fewer signatures than others, with how many
// it needs. Servers count for a pause.
func (o *Operators) CountFor(action Action, signers []string) (has, needs int) {
	has = o.Count(signers)
	switch action {
	case Rollback:
		return has, o.Rollbacks
	case Prune:
		return has, 1
	case Pause:
		for _, key := range o.Servers {
			if slices.Contains(signers, key) {
				has++
			}
		}
		return has, 1
	}
	return has, o.Approvals
}

// Trust is what a reader knows of a channel's operators apart from its log. The zero value
// accepts logs without operators and with any.
type Trust struct {
	// Operators are the configured ones, nil if there are none. A log must hold an entry that
	// enough of them have signed, which vouches for all entries before it.
	Operators *Operators
	// Root are keys each of which may put other operators in force, for when the operators
	// have lost too many keys.
	Root []string
}

// Payload returns what operators sign: the bytes of an entry without the signatures and
// without what is known only when it is made.
func (e *Entry) Payload() ([]byte, error) {
	bare := *e
	if e.signed != nil {
		bare = *e.signed
	}
	bare.Signatures, bare.Entered, bare.Nonce = nil, time.Time{}, ""
	return bare.encode()
}

// InForce returns the operators in force after the entry with a number, nil if there are none.
func (l *Log) InForce(sequence uint64) (force *Operators) {
	for i := range l.Entries {
		if e := &l.Entries[i]; e.Sequence <= sequence && e.Operators != nil {
			force = e.Operators
		}
	}
	return force
}

// SignedBy names those who signed an entry, in the order of its signatures: the operators in
// force by name, others by key.
func (e *Entry) SignedBy(force *Operators) []string {
	names := slices.Clone(e.Signers())
	for i, key := range names {
		if force != nil {
			names[i] = cmp.Or(force.NameOf(key), key)
		}
	}
	return names
}

// Signers returns the keys that signed an entry, operators' or not, each once.
func (e *Entry) Signers() []string {
	if e.verified {
		return e.signers
	}
	own := *e
	_ = own.readSigners() // a signature that is not good is nobody's
	return own.signers
}

// readSigners verifies the signatures of an entry and keeps who made them.
func (e *Entry) readSigners() error {
	if e.verified {
		return nil
	}
	if e.signers, e.verified = nil, len(e.Signatures) == 0; e.verified {
		return nil
	}
	if len(e.Signatures) > maxSignatures {
		return fmt.Errorf("%w: it has %d signatures, at most %d are read", ErrUnsigned, len(e.Signatures), maxSignatures)
	}
	payload, err := e.Payload()
	if err != nil {
		return err
	}
	for _, armored := range e.Signatures {
		key, err := signing.VerifySSH(Namespace, payload, armored)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnsigned, err)
		}
		if text := key.String(); !slices.Contains(e.signers, text) {
			e.signers = append(e.signers, text)
		}
	}
	e.verified = true
	return nil
}

// readSigners verifies the signatures of entries, several at a time.
func (x extension) readSigners(entries []Entry) error {
	var group errgroup.Group
	group.SetLimit(journal.SideBySide / 4)
	for i := range entries {
		if e := &entries[i]; len(e.Signatures) > 0 {
			group.Go(func() error {
				if err := e.readSigners(); err != nil {
					return x.refused(e, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// Timely returns an error if an entry was made before it was planned, or after it expired.
func (e *Entry) Timely() error {
	if !e.Entered.IsZero() && (e.Entered.Before(e.When) || e.Entered.After(e.Expires)) {
		return fmt.Errorf("%w: it was made at %s, and may be made from %s to %s", ErrUnsigned, e.Entered.Format(time.RFC3339), e.When.Format(time.RFC3339), e.Expires.Format(time.RFC3339))
	}
	return nil
}

// settle shifts the times of an entry that waited for signatures to when it was made.
func (e *Entry) settle() error {
	if err := e.Timely(); err != nil || e.Entered.IsZero() {
		return err
	}
	signed := *e
	e.signed = &signed
	if r := e.Rollout; r != nil {
		later := *r
		if r.Since.Equal(e.When) {
			later.Since = e.Entered
		}
		if r.Paused.Equal(e.When) {
			later.Paused = e.Entered
		}
		e.Rollout = &later
	}
	e.When = e.Entered
	return nil
}

// Operators returns those who must sign the next entry, nil if nobody must.
func (l *Log) Operators() *Operators { return l.operators }

// Approvals returns how many signatures of an entry that follows the log count, and how many it
// needs. The error wraps ErrUnsigned if more signatures would not help.
func (r Repository) Approvals(log *Log, e Entry) (has, needs int, err error) {
	e.verified = false // it may have got another
	if err := e.readSigners(); err != nil {
		return 0, 0, err
	}
	return r.extension(log).lacks(&e)
}

// Witness completes an entry of a channel that follows the log: Leader is the entry that let
// its release out, such as the one that began the rollout, and the author, the reason and the
// origin are Leader's, whose signatures prove them. If the operators in force have not signed
// that entry, as after a change of keys, Leader is the newest entry that they have signed and
// that offers the release. Without any, the follower stays as it is.
func (l *Log) Witness(follow *Entry) error {
	var leader *Entry
	for i := len(l.Entries) - 1; i >= 0 && l.operators != nil; i-- {
		e := &l.Entries[i]
		release := e.offered(follow.Version)
		if release == nil || l.operators.Count(e.Signers()) < l.operators.Approvals {
			continue
		}
		out := slices.Contains([]Action{Publish, Promote, Follow, Rollback}, e.Action)
		if leader == nil || out && release.Equal(leader.offered(follow.Version)) {
			leader = e
		}
		if out {
			break
		}
	}
	if leader == nil {
		return nil
	}
	data, err := leader.encode()
	follow.Leader, follow.Who, follow.Why, follow.Origin = string(data), leader.Who, leader.Why, leader.Origin
	return err
}
