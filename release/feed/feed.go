// Package feed carries channels from one store to another, byte for byte: in a file, for
// sites without internet, or from store to store.
//
// # The file
//
// A tar archive (POSIX.1-2001), compressed with Zstandard (RFC 8878). The same history
// gives the same bytes. Its members are, in this order:
//
//	tsmon-export.json              the Header: which channels, from which entry to which
//	log/stable/0000000001.json …   the entries of each channel behind Since
//	releases/1.4.0/release.json …  the records of the releases that they are about
//	releases/1.4.0/<bundle>.sig    the signature of a bundle, followed by
//	releases/1.4.0/<bundle>        its bytes, of what a store at Since does not have
//
// # What is promised
//
// Nothing is believed because it is in the file, or in the other store. Entries must
// follow those that the store has, hash by hash, with the signatures that its own
// configuration and log ask for; records must be those that the entries name, bundles those
// of the records, and signatures those of keys that the store's owner trusts. Only then do
// the entries count, all at once, and manifests are rendered with the store's own public
// URL. Interrupted anywhere, the channel is as it was before, and the same call again
// completes it.
//
// A channel that is fed is moved by nobody else: the log is the other store's.
//
// # What is refused
//
// A state that is older than the one that the store has, a log that forks off from it, a
// version whose bytes are others there, and whatever does not belong to the file.
package feed

import (
	"cmp"
	"errors"
	"slices"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/library"
)

var (
	// ErrOlder means that what comes is older than what is there.
	ErrOlder = errors.New("it is older than what is here")
	// ErrForked means that two logs differ in an entry that both have.
	ErrForked = errors.New("it has another history")
	// ErrAhead means that entries are missing between what is here and what comes.
	ErrAhead = errors.New("it begins too late")
	// ErrDamaged means that a file is not as Export wrote it.
	ErrDamaged = errors.New("the file is damaged")
	// ErrMissing means that objects are missing.
	ErrMissing = errors.New("objects are missing")
)

// Header is the first member of a file.
type Header struct {
	Format   string  `json:"format"`  // "tsmon-export"
	Version  int     `json:"version"` // of the format, 1
	Channels []Range `json:"channels"`
}

// Range is the part of a log that a file holds.
type Range struct {
	Channel string            `json:"channel"`
	Since   channels.Position `json:"since"` // the entry before the first one
	Until   channels.Position `json:"until"` // the last entry
}

const (
	headerName    = "tsmon-export.json"
	headerFormat  = "tsmon-export"
	headerVersion = 1
	maxHeader     = 64 << 10 // bytes
	maxChannels   = 100
	maxRecords    = 256 << 20 // bytes of all records
)

// Report is the result of an Export, Import or Mirror.
type Report struct {
	Changed  bool      `json:"changed"` // false: there was nothing to do
	DryRun   bool      `json:"dry_run,omitempty"`
	File     string    `json:"file,omitempty"`
	Channels []Channel `json:"channels"`
	Releases []Release `json:"releases"` // whose bundles were carried
}

// Channel is what was carried of a channel.
type Channel struct {
	Channel  string `json:"channel"`
	Version  string `json:"version"`  // that it shows in the end
	Since    uint64 `json:"since"`    // the entry before the first one that was carried
	Sequence uint64 `json:"sequence"` // the last entry
}

// Release is what was carried of a release.
type Release struct {
	Version string `json:"version"`
	Bundles int    `json:"bundles"`
	Bytes   int64  `json:"bytes"`
}

// carried counts a bundle.
func (r *Report) carried(version string, bytes int64) {
	i := slices.IndexFunc(r.Releases, func(known Release) bool { return known.Version == version })
	if i < 0 {
		i = len(r.Releases)
		r.Releases = append(r.Releases, Release{Version: version})
	}
	r.Releases[i].Bundles++
	r.Releases[i].Bytes += bytes
}

func refuse(cause error, mend, format string, args ...any) error {
	return bundle.Refuse(cause, mend, format, args...)
}

// lasting returns the versions whose bundles a store with a log has, in the order in which
// they were first shown.
func lasting(log *channels.Log) []string {
	return slices.DeleteFunc(library.VersionsOf(log), log.Pruned)
}

// until returns the part of a log up to an entry.
func until(log *channels.Log, sequence uint64) *channels.Log {
	n, _ := slices.BinarySearchFunc(log.Entries, sequence+1, func(e channels.Entry, number uint64) int { return cmp.Compare(e.Sequence, number) })
	return &channels.Log{Channel: log.Channel, Entries: log.Entries[:n]}
}
