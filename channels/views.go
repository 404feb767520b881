package channels

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"tsmon/channels/downloads"
	"tsmon/manifest"
	"tsmon/store/object"
)

// View is an object that is rendered from the log: the manifest of a channel or of one of its
// rings, or the list of downloads for new users.
type View struct {
	Key      string
	Sequence uint64 // of the entry that it shows
	release  *Release
	list     bool // it is the list of downloads
}

// Views returns the views of a log: the channel's manifest, those of its rings if it has any,
// and the list of downloads. A log without entries has none.
func (l *Log) Views(rings bool) []View {
	head := l.Head()
	if head == nil {
		return nil
	}
	views := []View{{Key: ManifestKey(l.Channel), Sequence: head.Sequence, release: &head.Release}}
	if rings {
		views = append(views, l.ringViews()...)
	}
	return append(views, View{Key: DownloadsKey(l.Channel), Sequence: head.Sequence, release: &head.Release, list: true})
}

// IsList reports whether a view is the list of downloads, and no manifest.
func (v View) IsList() bool { return v.list }

// Version is what the view shows.
func (v View) Version() string { return v.release.Version }

// current reports whether a view is up to date. A list of no downloads need not exist.
func (v View) current(want []byte, seen Pointer) bool {
	return bytes.Equal(want, seen.Data) || v.list && len(v.release.Files) == 0 && seen.ETag == ""
}

// Render returns the manifest that a view shows; publicURL as in Release.Render.
func (v View) Render(publicURL string) manifest.Manifest {
	return v.release.Render(publicURL, v.Sequence)
}

// Shows reports whether data is what the view shows, and the public URL that it was
// rendered with, empty if it lists nothing. No data is as good as an empty list.
func (v View) Shows(data []byte) (publicURL string, ok bool) {
	if v.list && data == nil {
		return "", len(v.release.Files) == 0
	}
	if v.list {
		publicURL, ok = v.release.listBase(data)
	} else if m, err := manifest.Decode(data); err == nil {
		publicURL, ok = v.release.base(m)
	}
	want, err := v.encode(publicURL)
	return publicURL, ok && err == nil && bytes.Equal(data, want)
}

func (v View) encode(publicURL string) ([]byte, error) {
	if v.list {
		list := v.release.downloads(publicURL, v.Sequence)
		return list.Encode()
	}
	m := v.Render(publicURL)
	return m.Encode()
}

// render returns the bytes of views. Those that show the same share them.
func render(views []View, publicURL string) ([][]byte, error) {
	if publicURL == "" {
		return nil, errors.New("the public URL of the store is not known")
	}
	known := map[View][]byte{} // without their keys
	all := make([][]byte, len(views))
	for i, v := range views {
		v.Key = ""
		if known[v] == nil {
			data, err := v.encode(publicURL)
			if err != nil {
				return nil, err
			}
			known[v] = data
		}
		all[i] = known[v]
	}
	return all, nil
}

// Pointer is a view as it was read: the zero value if there is none.
type Pointer struct {
	Data []byte
	ETag string
}

// Distinct returns one of the views with each content: most rings show the same, and it is
// decoded once.
func Distinct(seen []Pointer) []Pointer {
	var different []Pointer
	known := map[string]bool{}
	for _, p := range seen {
		if data := string(p.Data); !known[data] {
			known[data] = true
			different = append(different, p)
		}
	}
	return different
}

// atOnce is how many views are read or written at once.
const atOnce = 50

// Peek reads the views of a channel, in the order of Log.Views.
func (r Repository) Peek(ctx context.Context, channel string) ([]Pointer, error) {
	if err := CheckName(channel); err != nil {
		return nil, err
	}
	keys := []string{ManifestKey(channel)}
	if r.HasRings(channel) {
		for ring := range Rings {
			keys = append(keys, RingKey(channel, ring))
		}
	}
	keys = append(keys, DownloadsKey(channel))
	seen := make([]Pointer, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, key := range keys {
		group.Go(func() error {
			data, info, err := object.ReadAll(ctx, r.Store, key, manifest.MaxSize)
			seen[i] = Pointer{data, info.ETag}
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrTooLarge) { // nothing of ours
				return nil
			}
			return err
		})
	}
	return seen, group.Wait()
}

// HasRings reports whether the rings of a channel are kept.
func (r Repository) HasRings(channel string) bool { return slices.Contains(r.Rings, channel) }

// Behind returns the keys of the views that were seen and are not those of a log.
func (r Repository) Behind(log *Log, seen []Pointer) ([]string, error) {
	views := log.Views(r.HasRings(log.Channel))
	want, err := render(views, r.PublicURL)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i, v := range views {
		if !v.current(want[i], seen[i]) {
			keys = append(keys, v.Key)
		}
	}
	return keys, nil
}

// Point updates the views of a log whose last entry was written after the views were seen. If
// one has changed since, it works like Repoint.
func (r Repository) Point(ctx context.Context, log *Log, seen []Pointer) (shown *Log, moved bool, err error) {
	moved, err = r.swap(ctx, log, seen)
	if errors.Is(err, object.ErrChanged) {
		shown, again, err := r.Repoint(ctx, log)
		return shown, moved || again, err
	}
	return log, moved, err
}

// swap writes the outdated views, several at a time. The error is object.ErrChanged only if
// nothing else failed.
func (r Repository) swap(ctx context.Context, log *Log, seen []Pointer) (moved bool, err error) {
	views := log.Views(r.HasRings(log.Channel))
	want, err := render(views, r.PublicURL)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var changed, failed error
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, v := range views {
		if v.current(want[i], seen[i]) {
			continue
		}
		group.Go(func() error {
			_, err := r.Store.Swap(ctx, v.Key, seen[i].ETag, want[i], manifestAttributes)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, object.ErrChanged):
				changed = err
			case err != nil:
				failed = errors.Join(failed, fmt.Errorf("move %s: %w", v.Key, err))
			default:
				moved = true
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in changed and failed
	if failed != nil {
		return moved, failed
	}
	return moved, changed
}

// repointAttempts bounds how often views are written while others move the channel;
// each failure means that somebody else made progress.
const repointAttempts = 50

// Repoint brings the views of a channel up to date with its log. log is the part of it that
// is already known, and may be empty. Repoint returns the log that is shown now, and whether
// a view changed. The error wraps ErrLog if a view shows an entry that the log lacks, unless
// operators are in force: views are not signed, and prove nothing against a signed log.
func (r Repository) Repoint(ctx context.Context, log *Log) (shown *Log, moved bool, err error) {
	for range repointAttempts {
		var once bool
		shown, once, err = r.repoint(ctx, log)
		moved = moved || once
		if !errors.Is(err, object.ErrChanged) {
			return shown, moved, err
		}
	}
	return nil, moved, err
}

// repoint is one attempt: the ETags first, the head second, then the swaps.
func (r Repository) repoint(ctx context.Context, log *Log) (*Log, bool, error) {
	seen, err := r.Peek(ctx, log.Channel)
	if err != nil {
		return nil, false, err
	}
	if log, err = r.Extend(ctx, log); err != nil {
		return nil, false, err
	}
	if shown := Ahead(seen, log.last()); shown > log.last() && log.operators == nil {
		return nil, false, fmt.Errorf("%w: %s shows entry %d, which is missing", ErrLog, log.Channel, shown)
	}
	moved, err := r.swap(ctx, log, seen)
	return log, moved, err
}

// Sequence returns the entry that a manifest or a list of downloads shows, 0 if it is
// unreadable.
func (p Pointer) Sequence() uint64 {
	if m, err := manifest.Decode(p.Data); err == nil {
		return m.Sequence
	}
	var d downloads.List
	if json.Unmarshal(p.Data, &d) != nil || d.Files == nil {
		return 0
	}
	return d.Sequence
}
