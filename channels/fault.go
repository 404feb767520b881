package channels

import (
	"errors"
	"fmt"
	"strings"
)

// Fault is why a log can't be read. It wraps ErrLog, and ErrUnsigned where signatures are
// missing.
type Fault struct {
	error
	Channel  string
	Sequence uint64 // of the entry at fault; 0 if it is no single one
	Blame    Blame
}

// Unwrap returns the error without the rest.
func (f *Fault) Unwrap() error { return f.error }

// Object returns the key of the entry at fault, or that of the log's folder.
func (f *Fault) Object() string {
	if f.Sequence == 0 {
		return strings.TrimSuffix(LogPrefix(f.Channel), "/")
	}
	return entryKey(f.Channel, f.Sequence)
}

// Blame says whether an entry at fault was written by somebody who may not, or is damaged.
type Blame int

const (
	Unclear  Blame = iota // it may be either: nobody signs the log
	Intruder              // it is behind the entries that operators have signed
	Damaged               // signed entries behind it say what it has to be
)

var (
	// ErrBare means that operators are configured, and no entry has put any in force. It
	// comes with ErrLog and ErrUnsigned.
	ErrBare = errors.New("they are not in force")
	// ErrStrangers means that operators are in force who are not the configured ones. It
	// comes with ErrLog and ErrUnsigned.
	ErrStrangers = errors.New("they are others")
)

// distrusted is why nobody's signatures count, in plain words.
type distrusted struct {
	text  string
	cause error
}

func (d distrusted) Error() string { return d.text }

// Unwrap returns what the error matches.
func (d distrusted) Unwrap() []error { return []error{ErrLog, ErrUnsigned, d.cause} }

func faulty(channel string, sequence uint64, format string, args ...any) *Fault {
	return &Fault{error: fmt.Errorf("%w: "+format, append([]any{ErrLog}, args...)...), Channel: channel, Sequence: sequence}
}

// faultOf returns the fault in an error, one of no entry if there is none.
func faultOf(err error) *Fault {
	fault := &Fault{}
	errors.As(err, &fault)
	return fault
}

// worse returns the one of two reasons for which a log can't be read that tells more: that
// of the later entry.
func worse(broken, other error) error {
	if faultOf(other).Sequence >= faultOf(broken).Sequence {
		return other
	}
	return broken
}
