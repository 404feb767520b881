// Package channels keeps the channels of a release store: named pointers that
// installed applications follow.
//
// # Objects
//
//	stable/latest.json           the manifest
//	stable/rings/00/latest.json  … 99/, the same for one hundredth of the clients each
//	stable/downloads.json        what new users download, of a channel that has such files
//	log/stable/0000000001.json   the log, append-only, one entry per move
//	log/stable/0000000012-0000000040.part   which of them came together from another store
//	segments/stable/0000000001-0000000256.zst   the same entries packed
//
// # The log is the truth, manifests and downloads are its views
//
// An entry is created only where none exists, so of any number of writers one
// gets each sequence number. An entry holds the hash of the entry before it and
// the release that the channel shows from then on, with the paths of its bundles.
// Updating the view means rendering that with the public URL of the store, which
// anybody who finds it outdated may do at any time.
//
// Whoever updates the view reads the manifest with its ETag first, learns the
// head of the log second, and then swaps on the condition that the ETag still
// holds. Creating an entry is a way to learn the head: nothing can follow an entry
// that did not exist. In that order a slow writer can't put an older manifest
// back: if the log moved on before the head was read, the swap writes the newer
// manifest; if the manifest moved on afterwards, the swap fails. An ETag is a
// digest of the content, so this needs different bytes for different entries: the
// manifest's member sequence, the number of the entry, makes them differ.
//
// # Rings
//
// A ring is one of a hundred equal parts of the clients, chosen by a hash of the
// installation's ID. Where a channel keeps rings, each has a manifest that is a view of
// the log like the channel's own: it shows what the ring gets, under the number of the
// last entry that changed that. A rollout includes as many rings as its share, in an
// order of its own; a server decides by the same rings.
//
// # What is refused
//
// Nothing is deleted or rewritten, and a log has no gap but for entries that a later
// one says to be lost: Load fails on a log with another missing entry, or whose hashes
// don't match.
package channels

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/channels/journal"
	"tsmon/manifest"
)

var (
	// ErrName means that a text can't be the name of a channel.
	ErrName = errors.New("not a channel name")
	// ErrLog means that a log is not as this package wrote it: an entry is
	// missing, altered or unreadable, or the manifest is ahead of the log.
	ErrLog = journal.ErrLog
)

// Action is why a channel moved.
type Action string

const (
	Publish  Action = "publish"  // a new release
	Promote  Action = "promote"  // a release of another channel
	Follow   Action = "follow"   // a release of the channel that this one follows
	Rollback Action = "rollback" // back to an earlier release
	Advance  Action = "rollout"  // a rollout has another share, or has ended
	Pause    Action = "pause"    // the newest release is held back
	Resume   Action = "resume"   // it is no longer held back
	// The others change nothing for clients.
	Repair  Action = "repair"  // entries or bundles are declared lost
	Prune   Action = "prune"   // bundles of old releases are removed
	Appoint Action = "appoint" // other operators are in force
	Accept  Action = "accept"  // newer entries that were seen and are missing are given up
)

// Upkeep reports whether an entry changes nothing for clients.
func (a Action) Upkeep() bool { return slices.Contains([]Action{Repair, Prune, Appoint, Accept}, a) }

// Entry is one move of a channel.
type Entry struct {
	Channel  string    `json:"channel"`        // so that no entry passes for one of another channel
	Sequence uint64    `json:"sequence"`       // from 1, without a gap but for lost ones
	Previous string    `json:"previous"`       // hex SHA-256 of the previous entry's bytes, empty for the first
	Action   Action    `json:"action"`         //
	Version  string    `json:"version"`        // what the channel shows from then on
	From     string    `json:"from,omitempty"` // promote, follow: the other channel; rollback, pause: the version left
	Targets  []string  `json:"targets"`        // platform keys, sorted
	Who      string    `json:"who"`
	When     time.Time `json:"when"`
	Why      string    `json:"why,omitempty"`
	// Halted says that a guard decided the pause.
	Halted bool `json:"halted,omitempty"`
	// Origin is the CI job that made the entry, nil if it was made elsewhere.
	Origin *Origin `json:"origin,omitempty"`
	// Release is what the channel shows.
	Release Release `json:"release"`
	// Rollout is a newer release that only some clients get; nil if there is none.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Pruned are versions whose bundles are removed from the store, or lost.
	Pruned []string `json:"pruned,omitempty"`
	Lost   []Lost   `json:"lost,omitempty"` // entries before this one
	// Accepted is the end of a log whose newest entries are given up, as it was seen before they
	// were lost. It counts where operators are in force.
	Accepted *Position `json:"accepted,omitempty"`
	// Operators, if set, must sign the entries from this one on, except those that follow from
	// the log itself, such as the steps of a rollout.
	Operators *Operators `json:"operators,omitempty"`
	// Leader is the entry of the channel that this one follows, byte for byte, whose
	// signatures count for this one. Empty where there are no operators.
	Leader string `json:"leader,omitempty"`
	// Expires is until when an entry that waits for signatures may be made, zero for one
	// that did not wait. Entered is when it was made, between When and Expires; it is not
	// signed, and the times of the entry count from it.
	Expires time.Time `json:"expires,omitzero"`
	Entered time.Time `json:"entered,omitzero"`
	// Nonce is a random text that is not signed. It distinguishes two writers who make the
	// same move in the same second.
	Nonce string `json:"nonce,omitempty"`
	// Signatures are those of operators over Payload, armored as OpenSSH writes them.
	Signatures []string `json:"signatures,omitempty"`

	signers  []string // keys whose signatures are good
	verified bool     // signers is known
	signed   *Entry   // with the times that were signed, if they differ
}

// Origin is the CI job that made an entry, as its environment variables describe it.
type Origin struct {
	Repository string `json:"repository,omitempty"` // its address
	Commit     string `json:"commit,omitempty"`     // hash, as the environment has it
	Run        string `json:"run,omitempty"`        // address of the job or workflow run
}

// Newest is the newest version that any client gets.
func (e *Entry) Newest() string {
	if e.Rollout != nil {
		return e.Rollout.Version
	}
	return e.Version
}

// offered returns a version as clients get it from the entry on, nil if none does.
func (e *Entry) offered(version string) *Release {
	switch {
	case e.Version == version:
		return &e.Release
	case e.Rollout != nil && e.Rollout.Version == version:
		return &e.Rollout.Release
	}
	return nil
}

// WentBack reports whether e is a rollback to a lower version than the channel had: one
// with a version may also restore a higher one.
func (e *Entry) WentBack() bool { return e.Action == Rollback && below(e.Version, e.From) }

// Log is the history of one channel, oldest first.
type Log struct {
	Channel string
	Entries []Entry
	head    string // hash of the last entry's bytes
	// ends has the hashes of the entries before lost ones, by number: no other entry has them.
	ends map[uint64]string
	// operators are those in force after the last entry, nil if there are none.
	operators *Operators
	deliveries
}

// Head returns the newest entry, nil for a channel that was never moved.
func (l *Log) Head() *Entry {
	if len(l.Entries) == 0 {
		return nil
	}
	return &l.Entries[len(l.Entries)-1]
}

// Decided returns the newest entry that is neither a repair nor a prune, or else the newest;
// nil for a channel that was never moved.
func (l *Log) Decided() *Entry {
	for i := len(l.Entries) - 1; i >= 0; i-- {
		if e := &l.Entries[i]; e.Action != Prune && e.Action != Repair {
			return e
		}
	}
	return l.Head()
}

// Shown reports whether any client got a version at any time.
func (l *Log) Shown(version string) bool { return l.Release(version) != nil }

// Standing returns the entries whose releases were not rolled back, oldest first:
// a rollback removes every version above its target. The last entry is the head.
func (l *Log) Standing() []Entry {
	var stack []Entry
	for _, e := range l.Entries {
		if e.Action == Rollback {
			stack = slices.DeleteFunc(stack, func(s Entry) bool { return !below(s.Version, e.Version) })
			for i := range stack {
				if r := stack[i].Rollout; r != nil && !below(r.Version, e.Version) {
					stack[i].Rollout = nil
				}
			}
		}
		stack = append(stack, e)
	}
	return stack
}

// Round returns the number of the entry that last published, promoted or resumed the newest
// release, 0 if there is none.
func (l *Log) Round() uint64 {
	for i := len(l.Entries) - 1; i >= 0; i-- {
		e := &l.Entries[i]
		if e.Newest() == l.Head().Newest() && slices.Contains([]Action{Publish, Promote, Follow, Resume}, e.Action) {
			return e.Sequence
		}
	}
	return 0
}

// Before returns the version that everybody had before the newest one, empty if none.
func (l *Log) Before() string {
	head, standing := l.Head(), l.Standing()
	for i := len(standing) - 1; i >= 0; i-- {
		if standing[i].Version != head.Newest() {
			return standing[i].Version
		}
	}
	return ""
}

// below reports whether version a is below b; both are versions of entries.
func below(a, b string) bool {
	v, errA := manifest.ParseVersion(a)
	w, errB := manifest.ParseVersion(b)
	return errA == nil && errB == nil && v.Compare(w) < 0
}

// RolledBack returns the rollback that removed a version from the channel, nil if
// the version still stands or was never offered.
func (l *Log) RolledBack(version string) *Entry {
	var off *Entry
	offered := false
	for i := range l.Entries {
		e := &l.Entries[i]
		switch {
		case e.offered(version) != nil:
			offered, off = true, nil
		case e.Action == Rollback && off == nil && offered && below(e.Version, version):
			off = e
		}
	}
	return off
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// CheckName reports why a text can't be the name of a channel, which consists of at
// most 32 lower-case letters, digits and hyphens, begins with a letter, and is not
// a folder of the store. Errors wrap ErrName.
func CheckName(channel string) error {
	switch {
	case !name.MatchString(channel):
		return fmt.Errorf("%w: %q; use lower-case letters, digits and hyphens", ErrName, channel)
	case slices.Contains([]string{"releases", "staged", "log", "segments", "plans", "uploads"}, channel):
		return fmt.Errorf("%w: %q is a folder of the store", ErrName, channel)
	}
	return nil
}

// DownloadsKey returns the key of the list of what new users download.
func DownloadsKey(channel string) string { return channel + "/downloads.json" }

// ManifestKey returns the key of a channel's manifest.
func ManifestKey(channel string) string { return channel + "/latest.json" }

func (e *Entry) encode() ([]byte, error) {
	if e.signed != nil {
		e = e.signed
	}
	data, err := manifest.JSON(e)
	if err == nil && len(data) > journal.MaxEntry {
		err = fmt.Errorf("%w: an entry has %d bytes, at most %d are allowed", ErrLog, len(data), journal.MaxEntry)
	}
	return data, err
}

// decodeEntry reads an entry and checks that clients can read its manifests. Stricter rules
// for new manifests don't apply: a log outlives them.
func decodeEntry(data []byte) (Entry, error) { return decodeAfter(data, nil) }

// decodeAfter is decodeEntry of an entry that follows one that was checked, nil if none
// was. Most entries show the releases of the one before, which are not checked again.
func decodeAfter(data []byte, before *Entry) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, err
	}
	if _, err := manifest.ParseVersion(e.Version); err != nil {
		return Entry{}, err
	}
	if before == nil || !before.Release.Equal(&e.Release) {
		if err := e.Release.check(e.Sequence); err != nil {
			return Entry{}, fmt.Errorf("its release: %w", err)
		}
	}
	if e.Release.Version != e.Version {
		return Entry{}, fmt.Errorf("its release is %s, not %s", e.Release.Version, e.Version)
	}
	if e.Rollout == nil {
		return e, nil
	}
	known := before != nil && before.Rollout != nil && before.Rollout.Release.Equal(&e.Rollout.Release)
	return e, e.Rollout.verify(e.Sequence, known)
}

type decoded struct {
	entry Entry
	hash  string
	err   error
}

// decodeAll decodes entries that follow one another, of which missing ones are empty, on
// all processors.
func decodeAll(raw [][]byte) []decoded {
	const atOnce = 64 // enough that entries with one release come together
	all := make([]decoded, len(raw))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for begin := 0; begin < len(raw); begin += atOnce {
		group.Go(func() error {
			var before *Entry
			for i := begin; i < min(begin+atOnce, len(raw)); i++ {
				if len(raw[i]) == 0 {
					continue
				}
				d := &all[i]
				d.hash = journal.Hash(raw[i])
				if d.entry, d.err = decodeAfter(raw[i], before); d.err == nil {
					before = &d.entry
				}
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	return all
}
