// Package longtest divides what make test-long goes through into shares, so that CI can run
// one at a time.
//
// A test that has too many cases for make test numbers all of them, from 0. An ordinary run
// picks a few in its own way. A long run goes through its share of all: share 3/16 has the
// cases 2, 18, 34 and so on.
package longtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Variable names the share of this run in the environment: "3/16", or "1" for everything.
// Without it the run is an ordinary one.
const Variable = "TSMON_TEST_LONG"

// Share is the part of the cases that a run goes through. The zero value has all cases.
type Share struct {
	skip  int // cases before the first
	apart int // from one case to the next; 0 means 1
}

// Third is every third case, for ordinary runs of tests with many alike.
var Third = Share{apart: 3}

// Chosen returns the share of a long run, and whether this is one. If it is not, the share
// has all cases. A share that can't be read fails the test.
func Chosen(t testing.TB) (share Share, long bool) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return Share{}, false
	}
	share, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return share, true
}

func parse(text string) (Share, error) {
	number, of, parts := strings.Cut(text, "/")
	if !parts {
		of = "1"
	}
	n, err := strconv.Atoi(number)
	m, wrong := strconv.Atoi(of)
	if err != nil || wrong != nil || n < 1 || n > m {
		return Share{}, fmt.Errorf("%s=%q is no share, such as 3/16, or 1 for everything", Variable, text)
	}
	return Share{skip: n - 1, apart: m}, nil
}

// Has reports whether a case is in the share.
func (s Share) Has(number int) bool { return number%max(s.apart, 1) == s.skip }

// Needs skips a test, or a case of one, that is a single case of a long run and is not in
// the share. Tests with different numbers run in different shares.
func (s Share) Needs(t testing.TB, number int) {
	t.Helper()
	if !s.Has(number) {
		t.Skip("another share has it")
	}
}

// Count returns how many of the first n cases are in the share.
func (s Share) Count(n int) int {
	apart := max(s.apart, 1)
	return (max(n-s.skip, 0) + apart - 1) / apart
}

// Steps returns the first case of the share and how far the next ones are apart, for a test
// that goes on until there are no more. The cases of all shares are each step apart.
func (s Share) Steps(each int) (first, stride int) { return s.skip * each, max(s.apart, 1) * each }
