package channels

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"tsmon/channels/fault"
	"tsmon/channels/journal"
	"tsmon/manifest"
	"tsmon/store/object"
)

// ConflictError means that somebody else moved the channel first.
type ConflictError struct {
	Channel string
	Winner  Entry // the entry that has the sequence number
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("somebody else moved %s first: entry %d is %s of %s by %s at %s",
		e.Channel, e.Winner.Sequence, e.Winner.Action, e.Winner.Version, e.Winner.Who, e.Winner.When.Format(time.RFC3339))
}

// Repository reads and moves the channels of one store.
type Repository struct {
	Store object.Store
	// PublicURL is the address of the store, which manifests are rendered with. Only
	// Current, Point and Repoint need it.
	PublicURL string
	// Trust is what is known of the operators of a channel, by name, besides its log.
	Trust map[string]Trust
	// Thorough verifies the signatures of every entry. Otherwise those before a verified
	// entry are taken as good, because whoever signs an entry has verified its predecessors.
	Thorough bool
	// AnyTime accepts entries from the future, so that Accept can append one that makes them
	// count.
	AnyTime bool
	// Known returns a log as it was read before, or nil; a follower's leader is then not read
	// again. Nil: none is known.
	Known func(channel string) *Log
	// Seen returns the end of a channel's log as servers have seen it, or the zero value. A log
	// that does not continue from there is ErrHistory. Nil: nothing was seen.
	Seen func(ctx context.Context, channel string) (Position, error)
	// Rings names the channels whose rings are kept.
	Rings []string

	leading bool // the log is read for its follower
}

// CacheControl is the header of a manifest, wherever it is served: caches keep it
// for a minute and then revalidate.
const CacheControl = "public, max-age=60, must-revalidate"

var manifestAttributes = object.Attributes{ContentType: "application/json", CacheControl: CacheControl}

// Names lists the channels that have a log, sorted.
func (r Repository) Names(ctx context.Context) ([]string, error) {
	var names []string
	after := ""
	for {
		name, err := nextName(ctx, r.Store, after)
		if err != nil || name == "" {
			slices.Sort(names)
			return names, err
		}
		names = append(names, name)
		after = LogPrefix(name) + "~" // sorts behind every entry
	}
}

// nextName returns a channel whose log lies behind a key, empty if there is none.
func nextName(ctx context.Context, store object.Store, after string) (string, error) {
	for info, err := range store.List(ctx, journal.Root, after) {
		if err != nil {
			return "", fmt.Errorf("list the channels: %w", err)
		}
		if name, _, ok := SequenceIn(info.Key); ok {
			return name, nil
		}
	}
	return "", nil
}

// All reads the logs of all channels, several at a time, and sorts them by name. With an error
// it returns those that can be read.
func (r Repository) All(ctx context.Context) ([]*Log, error) {
	names, err := r.Names(ctx)
	if err != nil {
		return nil, err
	}
	logs, errs := make([]*Log, len(names)), make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			if logs[i], errs[i] = r.Load(ctx, name); errs[i] != nil {
				logs[i] = nil // which may be a part of it
			}
		})
	}
	group.Wait()
	return slices.DeleteFunc(logs, func(log *Log) bool { return log == nil }), errors.Join(errs...)
}

// Load reads the whole log of a channel and checks that it has no gap and that
// its hashes match. The log of a channel that was never moved is empty. Errors wrap
// ErrLog if the log is at fault.
func (r Repository) Load(ctx context.Context, channel string) (*Log, error) {
	return r.Extend(ctx, &Log{Channel: channel})
}

// Extend reads the entries that follow a log and returns the longer log; log itself is not
// changed. Otherwise it works like Load. If the store fails in between, Extend returns the
// entries read so far together with the error.
func (r Repository) Extend(ctx context.Context, log *Log) (*Log, error) {
	if err := CheckName(log.Channel); err != nil {
		return nil, err
	}
	j, signed := r.journal(log.Channel), r.Trust[log.Channel].Operators != nil
	found, err := j.Numbers(ctx, log.last(), log.fed)
	if err != nil {
		return nil, err
	}
	longer, gaps, failed, err := j.extend(ctx, r.extension(log), found, true)
	switch {
	case errors.Is(err, ErrLog):
		if len(gaps) > 0 {
			err = fault.Worse(gaps[0].Problem, err)
		}
		return nil, fault.Accuse(err, signed || errors.Is(err, ErrUnsigned), false)
	case err == nil && len(gaps) > 0:
		err = cmp.Or(failed, fault.Accuse(gaps[0].Problem, signed, gaps[0].Hash != ""))
	}
	if err == nil {
		err = r.believe(ctx, log, longer)
	}
	if err == nil && failed == nil && r.Seen != nil {
		var seen Position
		if seen, err = r.Seen(ctx, log.Channel); err == nil {
			err = longer.GoesOn(seen, signed)
		}
	}
	if err != nil {
		return nil, err
	}
	return longer, failed
}

// believe checks what the entries alone don't prove: the configured operators, the logs of
// leaders, and that no entry is from the future.
func (r Repository) believe(ctx context.Context, before, log *Log) error {
	known := len(before.Entries)
	err := r.extension(log).vouched()
	if err == nil && !r.leading {
		err = r.led(ctx, log, before.last())
	}
	if err != nil || r.AnyTime || len(log.Entries) <= known {
		return err
	}
	now, err := r.Store.Now(ctx)
	if err != nil {
		return err
	}
	if e := early(log.Entries[known:], now); e != nil {
		return fmt.Errorf("%w: %w: entry %d of %s is of %s, and the store's time is %s", ErrLog, ErrFuture, e.Sequence, log.Channel, stamp(e.When), stamp(now))
	}
	return nil
}

// Stands returns an error unless the store still has the newest entry of a log, as it was
// read. It wraps ErrLog if the log was shortened or rewritten.
func (r Repository) Stands(ctx context.Context, log *Log) error {
	if log.head == "" {
		return nil // it has no entry, or the newest one is lost
	}
	data, err := r.journal(log.Channel).Read(ctx, journal.Key(log.Channel, log.last()), journal.MaxEntry)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: entry %d of %s is gone", ErrLog, log.last(), log.Channel)
	case errors.Is(err, object.ErrTooLarge), err == nil && journal.Hash(data) != log.head:
		return fmt.Errorf("%w: entry %d of %s is not the one that was read before", ErrLog, log.last(), log.Channel)
	}
	return err
}

// Exists reports whether the log of a channel has an entry of that number.
func (r Repository) Exists(ctx context.Context, channel string, sequence uint64) (bool, error) {
	_, err := r.Store.Stat(ctx, journal.Key(channel, sequence))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Next completes e as the entry that follows the log and the entries that e declares lost: with
// its number, the hash of the entry before, and its targets. e may be a copy of an entry that was
// read.
func (l *Log) Next(e Entry) Entry {
	e.Channel, e.Sequence, e.Previous = l.Channel, l.last()+1, l.head
	e.Version, e.Targets = e.Release.Version, slices.Sorted(maps.Keys(e.Release.Platforms))
	e.When = catchUp(l, e.When.UTC().Truncate(time.Second))
	e.Nonce, e.signed, e.signers, e.verified = "", nil, nil, false
	for _, lost := range e.Lost {
		e.Sequence = max(e.Sequence, lost.To+1)
	}
	return e
}

// Append writes the next entry of a log, completed by Next, and returns the longer
// log. The channel shows it once Point or Repoint has run. A *ConflictError if
// somebody else wrote that number first.
func (r Repository) Append(ctx context.Context, log *Log, e Entry) (*Log, error) {
	return r.Enter(ctx, log, log.Next(e))
}

// Enter is Append of an entry that Next completed. It writes nothing if the error wraps
// ErrUnsigned, for lack of signatures of the operators in force or, if no entry of the log has
// theirs, of the configured ones; ErrFed; or object.ErrClock, if the entry is from the future or
// older than the log.
func (r Repository) Enter(ctx context.Context, log *Log, e Entry) (*Log, error) {
	if log.fed {
		return nil, fmt.Errorf("%s can't be moved: %w", log.Channel, ErrFed)
	}
	e.verified = false // it may have got another signature
	if err := e.readSigners(); err != nil {
		return nil, err
	}
	longer := r.extension(log).copied()
	if err := cmp.Or(longer.admits(&e), e.Timely()); err != nil {
		return nil, fmt.Errorf("entry %d of %s: %w", e.Sequence, log.Channel, err)
	}
	if err := longer.vouchedWith(e); err != nil {
		return nil, err
	}
	now, err := r.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if !e.Entered.IsZero() {
		e.Entered = catchUp(log, e.Entered)
	}
	if err := mayEnter(log, &e, now); err != nil {
		return nil, err
	}
	e.Nonce = rand.Text()
	head, err := r.journal(log.Channel).create(ctx, e)
	if err != nil {
		return nil, err
	}
	if e.Sequence > log.last()+1 {
		longer.precede(log.last(), log.head)
	}
	return longer.Log, longer.admit([]Entry{e}, head)
}

// Shown returns the bytes of a channel's manifest; fs.ErrNotExist if it has
// none.
func (r Repository) Shown(ctx context.Context, channel string) ([]byte, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	return r.journal(channel).Read(ctx, ManifestKey(channel), manifest.MaxSize)
}

// chain is a journal whose bytes are entries.
type chain struct{ journal.Journal }

func (r Repository) journal(channel string) chain {
	return chain{journal.Journal{Store: r.Store, Channel: channel}}
}

// create writes an entry that Next completed, and returns the hash of its bytes. A
// *ConflictError if another entry has its number.
func (c chain) create(ctx context.Context, e Entry) (hashed string, err error) {
	data, err := e.encode()
	if err != nil {
		return "", err
	}
	if _, err := decodeEntry(data); err != nil {
		return "", fmt.Errorf("the entry could not be read back: %w", err)
	}
	return journal.Hash(data), c.put(ctx, e.Sequence, data)
}

// put writes the bytes of an entry, which may exist already. A *ConflictError if another
// entry has its number.
func (c chain) put(ctx context.Context, sequence uint64, data []byte) error {
	key := journal.Key(c.Channel, sequence)
	_, err := c.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), journal.Attributes)
	if errors.Is(err, fs.ErrExist) {
		return c.compare(ctx, key, data)
	}
	if err != nil && c.compare(ctx, key, data) != nil { // else only the answer was lost
		return fmt.Errorf("write entry %d of %s: %w", sequence, c.Channel, err)
	}
	return nil
}

// compare accepts an entry that has our bytes; another is a *ConflictError.
func (c chain) compare(ctx context.Context, key string, ours []byte) error {
	theirs, err := c.Read(ctx, key, journal.MaxEntry)
	if err != nil || bytes.Equal(theirs, ours) {
		return err
	}
	winner, err := decodeEntry(theirs)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLog, key, err)
	}
	return &ConflictError{Channel: c.Channel, Winner: winner}
}
