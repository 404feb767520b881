package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/manifest"
	"tsmon/store/object"
)

// ConflictError says that somebody else moved the channel first.
type ConflictError struct {
	Channel string
	Winner  Entry // what stands where ours should have been written
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("somebody else moved %s first: entry %d is %s of %s by %s at %s",
		e.Channel, e.Winner.Sequence, e.Winner.Action, e.Winner.Version, e.Winner.Who, e.Winner.When.Format(time.RFC3339))
}

// Repository reads and moves the channels of one store.
type Repository struct {
	Store object.Store
}

// CacheControl is the header of a manifest, wherever it is served: every cache
// asks again after a minute at the latest, and serves no stale one.
const CacheControl = "public, max-age=60, must-revalidate"

var manifestAttributes = object.Attributes{ContentType: "application/json", CacheControl: CacheControl}

var entryAttributes = object.Attributes{
	ContentType:  "application/json",
	CacheControl: "private, max-age=31536000, immutable",
}

// Names lists the channels that have a log, sorted.
func (r Repository) Names(ctx context.Context) ([]string, error) {
	var names []string
	after := ""
	for {
		name, err := r.nextName(ctx, after)
		if err != nil || name == "" {
			slices.Sort(names)
			return names, err
		}
		names = append(names, name)
		after = LogPrefix(name) + "~" // sorts behind every entry
	}
}

func (r Repository) nextName(ctx context.Context, after string) (string, error) {
	for info, err := range r.Store.List(ctx, logRoot, after) {
		if err != nil {
			return "", fmt.Errorf("list the channels: %w", err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(info.Key, logRoot), "/")
		if _, ok := sequenceOf(name, info.Key); ok && CheckName(name) == nil {
			return name, nil
		}
	}
	return "", nil
}

// Load reads the whole log of a channel and checks that it has no gap and that
// its hashes join. A channel that was never moved has an empty log. Errors wrap
// ErrLog where the log is at fault.
func (r Repository) Load(ctx context.Context, channel string) (*Log, error) {
	return r.Extend(ctx, &Log{Channel: channel})
}

// Extend reads what was added to a log since, and returns the longer one; log
// stays as it is. Otherwise it is like Load.
func (r Repository) Extend(ctx context.Context, log *Log) (*Log, error) {
	if err := CheckName(log.Channel); err != nil {
		return nil, err
	}
	known := uint64(len(log.Entries))
	count, err := r.count(ctx, log.Channel, known)
	if err != nil {
		return nil, err
	}
	raw := make([][]byte, count-known)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range raw {
		group.Go(func() (err error) {
			raw[i], err = r.read(ctx, entryKey(log.Channel, known+uint64(i)+1), maxEntry)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return log.join(raw)
}

// Moved reports whether there is an entry behind those of a log.
func (r Repository) Moved(ctx context.Context, log *Log) (bool, error) {
	_, err := r.Store.Stat(ctx, entryKey(log.Channel, uint64(len(log.Entries))+1))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// join decodes entries that follow those of a log, and follows their hashes.
func (l *Log) join(raw [][]byte) (*Log, error) {
	longer := &Log{Channel: l.Channel, Entries: slices.Clip(l.Entries), head: l.head}
	for _, data := range raw {
		sequence := uint64(len(longer.Entries)) + 1
		e, err := decodeEntry(data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: entry %d of %s: %w", ErrLog, sequence, l.Channel, err)
		case e.Sequence != sequence:
			return nil, fmt.Errorf("%w: entry %d of %s calls itself %d", ErrLog, sequence, l.Channel, e.Sequence)
		case e.Previous != longer.head:
			return nil, fmt.Errorf("%w: entry %d of %s does not join the one before it", ErrLog, sequence, l.Channel)
		}
		longer.Entries = append(longer.Entries, e)
		longer.head = hash(data)
	}
	return longer, nil
}

// count returns the number of the newest entry, given that entry known (0: none
// is known) stands. Entries behind known are checked for gaps.
func (r Repository) count(ctx context.Context, channel string, known uint64) (uint64, error) {
	after := ""
	if known > 0 {
		after = entryKey(channel, known)
	}
	newest := known
	for info, err := range r.Store.List(ctx, LogPrefix(channel), after) {
		if err != nil {
			return 0, fmt.Errorf("list the log of %s: %w", channel, err)
		}
		sequence, ok := sequenceOf(channel, info.Key)
		switch {
		case !ok:
			return 0, fmt.Errorf("%w: %s is no entry", ErrLog, info.Key)
		case sequence != newest+1:
			return 0, fmt.Errorf("%w: entry %d of %s is missing", ErrLog, newest+1, channel)
		}
		newest = sequence
	}
	return newest, nil
}

func (r Repository) read(ctx context.Context, key string, limit int64) ([]byte, error) {
	data, _, err := r.readTagged(ctx, key, limit)
	return data, err
}

// readTagged reads an object that is at most limit bytes long, with its ETag.
func (r Repository) readTagged(ctx context.Context, key string, limit int64) ([]byte, string, error) {
	body, info, err := r.Store.Get(ctx, key)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", key, err)
	}
	if int64(len(data)) > limit {
		return nil, "", fmt.Errorf("read %s: larger than %d bytes", key, limit)
	}
	return data, info.ETag, nil
}

// Append writes the next entry of a log: it sets the entry's number, its link
// to the entry before, and the manifest's sequence. The channel shows it once
// Repoint has run. A *ConflictError if somebody else wrote that number first.
func (r Repository) Append(ctx context.Context, log *Log, e Entry) (*Log, error) {
	e.Sequence = uint64(len(log.Entries)) + 1
	e.Manifest.Sequence = e.Sequence
	if e.Rollout != nil {
		rollout := *e.Rollout
		rollout.Manifest.Sequence = e.Sequence
		e.Rollout = &rollout
	}
	e.Previous = log.head
	e.Targets = e.Manifest.Keys()
	e.When = e.When.UTC().Truncate(time.Second)
	data, err := e.encode()
	if err != nil {
		return nil, err
	}
	if _, err := decodeEntry(data); err != nil {
		return nil, fmt.Errorf("the entry could not be read back: %w", err)
	}
	key := entryKey(log.Channel, e.Sequence)
	_, err = r.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), entryAttributes)
	switch {
	case errors.Is(err, fs.ErrExist):
		if err := r.compare(ctx, log.Channel, key, data); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("write entry %d of %s: %w", e.Sequence, log.Channel, err)
	}
	entries := append(log.Entries[:len(log.Entries):len(log.Entries)], e)
	return &Log{Channel: log.Channel, Entries: entries, head: hash(data)}, nil
}

// compare tells an entry of ours, whose answer was lost, from somebody else's.
func (r Repository) compare(ctx context.Context, channel, key string, ours []byte) error {
	theirs, err := r.read(ctx, key, maxEntry)
	if err != nil || bytes.Equal(theirs, ours) {
		return err
	}
	winner, err := decodeEntry(theirs)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLog, key, err)
	}
	return &ConflictError{Channel: channel, Winner: winner}
}

// repointAttempts bounds how often a swap is tried while others move the
// channel; each failure means that somebody else made progress.
const repointAttempts = 50

// Repoint brings the manifest of a channel up to date with its log. It returns
// the head and whether the manifest changed.
func (r Repository) Repoint(ctx context.Context, channel string) (head *Entry, moved bool, err error) {
	for range repointAttempts {
		head, moved, err = r.repoint(ctx, channel)
		if !errors.Is(err, object.ErrChanged) {
			return head, moved, err
		}
	}
	return nil, false, fmt.Errorf("move %s: %w", ManifestKey(channel), err)
}

// repoint is one attempt: the ETag first, the head second, then the swap.
func (r Repository) repoint(ctx context.Context, channel string) (*Entry, bool, error) {
	current, etag, err := r.readTagged(ctx, ManifestKey(channel), manifest.MaxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	head, err := r.head(ctx, channel, shownSequence(current))
	if err != nil || head == nil {
		return nil, false, err
	}
	data, err := head.Manifest.Encode()
	if err != nil || bytes.Equal(data, current) {
		return head, false, err
	}
	_, err = r.Store.Swap(ctx, ManifestKey(channel), etag, data, manifestAttributes)
	if err != nil {
		return nil, false, fmt.Errorf("move %s: %w", ManifestKey(channel), err)
	}
	return head, true, nil
}

// shownSequence returns the log number that a manifest shows, 0 if it can't be
// told: then the whole log is looked through.
func shownSequence(data []byte) uint64 {
	m, err := manifest.Decode(data)
	if err != nil {
		return 0
	}
	return m.Sequence
}

// head reads the newest entry; shown is the number that the manifest shows.
func (r Repository) head(ctx context.Context, channel string, shown uint64) (*Entry, error) {
	known := uint64(0)
	if shown > 1 {
		known = shown - 1 // so that the shown entry itself must be there
	}
	newest, err := r.count(ctx, channel, known)
	switch {
	case err != nil:
		return nil, err
	case newest < shown:
		return nil, fmt.Errorf("%w: %s shows entry %d, which is missing", ErrLog, ManifestKey(channel), shown)
	case newest == 0:
		return nil, nil
	}
	data, err := r.read(ctx, entryKey(channel, newest), maxEntry)
	if err != nil {
		return nil, err
	}
	e, err := decodeEntry(data)
	if err != nil {
		return nil, fmt.Errorf("%w: entry %d of %s: %w", ErrLog, newest, channel, err)
	}
	return &e, nil
}

// Shown returns the bytes of a channel's manifest; fs.ErrNotExist if it has
// none.
func (r Repository) Shown(ctx context.Context, channel string) ([]byte, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	return r.read(ctx, ManifestKey(channel), manifest.MaxSize)
}
