package library

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"tsmon/channels"
	"tsmon/store/object"
)

// NamedFiles are the keys of the files of releases that logs of channels name. Where operators sign,
// nothing else among the releases is served, or sound.
type NamedFiles map[string]bool

// Add adds the files that the log of a channel names.
func (n NamedFiles) Add(log *channels.Log) {
	for r := range Releases(log.Entries) {
		for _, b := range r.Platforms {
			n[b.Path] = true
		}
		for _, f := range r.Files {
			n[f.Path] = true
		}
	}
}

// Has reports whether a log names the file with a key. A signature has the name of its bundle.
func (n NamedFiles) Has(key string) bool { return n[strings.TrimSuffix(key, ".sig")] }

// Releases returns the releases that entries offer, in their order, the same one as often as they
// do.
func Releases(entries []channels.Entry) iter.Seq[*channels.Release] {
	return func(yield func(*channels.Release) bool) {
		for i := range entries {
			e := &entries[i]
			if !yield(&e.Release) || e.Rollout != nil && !yield(&e.Rollout.Release) {
				return
			}
		}
	}
}

// VersionsOf returns the versions that a log offers or offered, in the order in which they were
// first offered.
func VersionsOf(log *channels.Log) []string {
	var versions []string
	seen := map[string]bool{}
	for r := range Releases(log.Entries) {
		if !seen[r.Version] {
			versions = append(versions, r.Version)
		}
		seen[r.Version] = true
	}
	return versions
}

// RecordOf returns the SHA-256 of a version's record that logs name, hex; the one asked for if
// that is among them, and empty if none has the version.
func RecordOf(logs []*channels.Log, version, sum string) (rightful string) {
	for _, log := range logs {
		switch named := log.Record(version); named {
		case "":
		case sum:
			return sum
		default:
			rightful = named
		}
	}
	return rightful
}

// Vouched compares the SHA-256 of a version's record, hex, with what logs name. named is false
// if none of them has the version; fault says that the store lacks the record that they name;
// err wraps fs.ErrNotExist if another one is it, else it is the store's.
func Vouched(ctx context.Context, l Library, logs []*channels.Log, version, sum string) (named bool, fault, err error) {
	rightful := RecordOf(logs, version, sum)
	if rightful == "" || rightful == sum {
		return rightful != "", nil, nil
	}
	switch _, err = l.Named(ctx, version, rightful); {
	case err == nil:
		return true, nil, fmt.Errorf("another record of %s: %w", version, fs.ErrNotExist)
	case errors.Is(err, ErrStored), errors.Is(err, ErrNoRelease), errors.Is(err, object.ErrTooLarge):
		return true, err, nil
	}
	return true, nil, err
}
