package manifest

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a manifest.
type Problem struct {
	Place   string `json:"place"`   // member path such as platforms.linux-x86_64.url; empty for the document
	Line    int    `json:"line"`    // from 1
	Column  int    `json:"column"`  // from 1, in bytes
	Problem string `json:"problem"` // what is wrong
	Mend    string `json:"mend"`    // what to do about it
	// Trust marks a key or signature that is well-formed but not to be trusted.
	Trust bool `json:"trust"`
	// Err is the cause, where one has a name.
	Err error `json:"-"`
}

func (p Problem) String() string {
	place := p.Place
	if place == "" {
		place = "document"
	}
	return fmt.Sprintf("line %d, %s: %s", p.Line, place, p.Problem)
}

// Problems is everything that is wrong with a manifest, in the order of the
// document. It is an error when it is not empty.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// Unwrap gives errors.Is the causes.
func (ps Problems) Unwrap() []error {
	var errs []error
	for _, p := range ps {
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	return errs
}

// Trust reports whether any problem is one of trust.
func (ps Problems) Trust() bool {
	for _, p := range ps {
		if p.Trust {
			return true
		}
	}
	return false
}
