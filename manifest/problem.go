package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one fault of a manifest.
type Problem struct {
	Place   string `json:"place"`   // member path such as platforms.linux-x86_64.url; empty for the document
	Line    int    `json:"line"`    // from 1
	Column  int    `json:"column"`  // from 1, in bytes
	Problem string `json:"problem"` // what is wrong
	Mend    string `json:"mend"`    // what to do about it
	// Trust marks a key or signature that is well-formed but not trusted.
	Trust bool  `json:"trust"`
	Err   error `json:"-"` // the cause of a Trust problem
}

func (p Problem) String() string {
	return fmt.Sprintf("line %d, %s: %s", p.Line, cmp.Or(p.Place, "document"), p.Problem)
}

// Problems are all faults of a manifest, in the order of the document. It is an
// error when it is not empty.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// Gist merges problems with the same text into the first of them, which counts the others.
func (ps Problems) Gist() Problems {
	var gist Problems
	count := map[string]int{}
	for _, p := range ps {
		if count[p.Problem]++; count[p.Problem] == 1 {
			gist = append(gist, p)
		}
	}
	for i, p := range gist {
		if more := count[p.Problem] - 1; more > 0 {
			gist[i].Problem = fmt.Sprintf("%s (and %d more)", p.Problem, more)
		}
	}
	return gist
}

// Unwrap lets errors.Is find each cause.
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
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Trust })
}
