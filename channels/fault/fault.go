// Package fault says why the log of a channel can't be read: which entry is at fault, and
// whether somebody wrote it who may not, or it is damaged.
package fault

import (
	"errors"
)

var (
	// ErrBare means that operators are configured, and no entry has put any in force.
	ErrBare = errors.New("they are not in force")
	// ErrStrangers means that operators are in force who are not the configured ones.
	ErrStrangers = errors.New("they are others")
)

// Fault is why a log can't be read. It wraps the causes that the log's package names.
type Fault struct {
	error
	Channel  string
	Object   string // key of the entry at fault, or of the log's folder
	Sequence uint64 // of that entry, 0 if it is no single one
	Blame    Blame
}

// Unwrap returns the error without the rest.
func (f *Fault) Unwrap() error { return f.error }

// Blame says whether an entry at fault was written by somebody who may not, or is damaged.
type Blame int

const (
	Unclear  Blame = iota // it may be either: nobody signs the log
	Intruder              // it is behind the entries that operators have signed
	Damaged               // signed entries behind it say what it has to be
	Needed                // likewise, and it can't be said to be lost: it says who may sign those
)

// New returns the fault of an entry.
func New(err error, channel, object string, sequence uint64) *Fault {
	return &Fault{error: err, Channel: channel, Object: object, Sequence: sequence}
}

// Of returns the fault in an error, else one of the whole log of a channel.
func Of(err error, channel string) *Fault {
	fault := &Fault{Channel: channel, Object: "log/" + channel}
	errors.As(err, &fault)
	return fault
}

// Worse returns the one of two reasons for which a log can't be read that tells more: that
// of the later entry, or of one that it can't do without.
func Worse(broken, other error) error {
	if Of(other, "").Blame == Needed || Of(other, "").Sequence >= Of(broken, "").Sequence {
		return other
	}
	return broken
}

// Accuse returns a fault with who is to blame, if signatures tell: nobody, if a signed entry
// behind it has its hash, else somebody who wrote it.
func Accuse(err error, signed, hashed bool) error {
	switch f := Of(err, ""); {
	case !signed, f.Blame != Unclear:
	case hashed:
		f.Blame = Damaged
	default:
		f.Blame = Intruder
	}
	return err
}

// Require returns the fault of an entry that the log can't do without.
func Require(err error) error {
	Of(err, "").Blame = Needed
	return err
}

// Distrust is why nobody's signatures count, in plain words, with the causes that it wraps.
func Distrust(text, channel string, causes ...error) *Fault {
	return New(distrusted{text, causes}, channel, "log/"+channel, 0)
}

type distrusted struct {
	text   string
	causes []error
}

func (d distrusted) Error() string   { return d.text }
func (d distrusted) Unwrap() []error { return d.causes }
