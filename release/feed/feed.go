// Package feed carries channels from one store to another, byte for byte: in a file, for
// sites without internet, or from store to store.
//
// # The file
//
// A tar archive (POSIX.1-2001), compressed with Zstandard (RFC 8878). The same history
// gives the same bytes. Its members are, in this order:
//
//	tsmon-export.json              the Header: which channels, from which entry to which
//	log/stable/0000000001.json …   the entries of each channel after Since
//	releases/1.4.0/release.json …  the records of the releases in these entries
//	releases/1.4.0/<bundle>.sig    the signature of a bundle that a store at Since lacks,
//	releases/1.4.0/<bundle>        followed by the bundle itself
//
// # What is promised
//
// Nothing in the file or the other store is trusted unchecked:
//
//   - Entries must follow the store's own entries, hash by hash. They need the signatures
//     that the store's own configuration and log demand.
//   - Records must have the hashes in the entries, and bundles the hashes in the records.
//   - Bundles must be signed by keys that the store's owner trusts.
//
// The entries count only after all of these checks, and then all at once. Manifests are
// rendered with the store's own public URL. If a call is interrupted, the channel stays as
// it was, and the same call completes it later.
//
// A channel that is fed can't be moved here: its log belongs to the other store.
//
// # What is refused
//
// The package refuses a log that is older than the store's or forks off from it, a version
// that has other bytes in the store, and members that don't belong in the file.
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
	// ErrOlder means that the log there ends before the log here.
	ErrOlder = errors.New("the log there is older than the log here")
	// ErrForked means that two logs differ in an entry that both have.
	ErrForked = errors.New("the logs have different histories")
	// ErrAhead means that entries are missing between the end of the log here and the first
	// entry that was received.
	ErrAhead = errors.New("entries are missing in between")
	// ErrDamaged means that a file is not as Export wrote it.
	ErrDamaged = errors.New("the file is damaged")
	// ErrMissing means that the new entries need objects that neither side has.
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
	Releases []Release `json:"releases"` // the releases whose bundles were carried
}

// Channel describes the entries of a channel that were carried.
type Channel struct {
	Channel  string `json:"channel"`
	Version  string `json:"version"`  // the version that the last entry shows
	Since    uint64 `json:"since"`    // the entry before the first one that was carried
	Sequence uint64 `json:"sequence"` // the last entry
}

// Release counts the bundles of a release that were carried.
type Release struct {
	Version string `json:"version"`
	Bundles int    `json:"bundles"`
	Bytes   int64  `json:"bytes"`
}

// carried adds a bundle to the report.
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

// lasting returns the versions of a log that were not pruned, in the order in which they were
// first shown. A store with this log has their bundles.
func lasting(log *channels.Log) []string {
	return slices.DeleteFunc(library.VersionsOf(log), log.Pruned)
}

// until returns the part of a log up to the entry with the number sequence.
func until(log *channels.Log, sequence uint64) *channels.Log {
	n, _ := slices.BinarySearchFunc(log.Entries, sequence+1, func(e channels.Entry, number uint64) int { return cmp.Compare(e.Sequence, number) })
	return &channels.Log{Channel: log.Channel, Entries: log.Entries[:n]}
}
