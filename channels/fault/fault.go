// Package fault describes why the log of a channel can't be read: which entry is at fault, and
// whether it is forged or damaged.
package fault

import "errors"

var (
	// ErrBare means that operators are configured, but no entry has put any into force.
	ErrBare = errors.New("they are not in force")
	// ErrStrangers means that the operators in force are not the configured ones.
	ErrStrangers = errors.New("they are others")
)

// Fault is the reason why a log can't be read. It wraps errors of the package of the log.
type Fault struct {
	error
	causes   []error // which the text of error leaves out
	Channel  string
	Object   string // key of the entry at fault, or of the log's folder
	Sequence uint64 // number of that entry, 0 if the fault is not in a single one
	Blame    Blame
}

// Unwrap returns the underlying errors.
func (f *Fault) Unwrap() []error { return append([]error{f.error}, f.causes...) }

// Blame says whether an entry at fault is forged or damaged.
type Blame int

const (
	Unclear  Blame = iota // unknown, because the log is not signed
	Intruder              // forged: it follows the entries that operators have signed
	Damaged               // damaged: signed entries after it have its original hash
	Needed                // damaged, and it can't be declared lost, because it says who may sign the entries after it
)

// New returns the fault of an entry.
func New(err error, channel, object string, sequence uint64) *Fault {
	return &Fault{error: err, Channel: channel, Object: object, Sequence: sequence}
}

// Of returns the fault in an error, or else a fault of the channel's whole log.
func Of(err error, channel string) *Fault {
	fault := &Fault{Channel: channel, Object: "log/" + channel}
	errors.As(err, &fault)
	return fault
}

// Worse returns the more informative of two faults: that of the later entry, or that of an
// entry which can't be declared lost.
func Worse(broken, other error) error {
	if Of(other, "").Blame == Needed || Of(other, "").Sequence >= Of(broken, "").Sequence {
		return other
	}
	return broken
}

// Accuse adds the blame to a fault if the log is signed: Damaged if a signed entry after it has
// its hash, else Intruder.
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

// Require marks the fault as that of an entry which can't be declared lost.
func Require(err error) error {
	Of(err, "").Blame = Needed
	return err
}

// Distrust returns a fault that says, with text, why no signatures count. It wraps the causes.
func Distrust(text, channel string, causes ...error) *Fault {
	return &Fault{error: errors.New(text), causes: causes, Channel: channel, Object: "log/" + channel}
}
