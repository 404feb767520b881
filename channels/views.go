package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"tsmon/manifest"
	"tsmon/store/object"
)

// Pointer is what shows the head of a channel's log, as it was read: the manifest and
// the list of downloads. The zero value if there is nothing.
type Pointer struct {
	Data []byte // the manifest
	ETag string

	downloads stored
}

// stored is an object as it was read; the zero value if there is none.
type stored struct {
	data []byte
	etag string
}

// Peek reads what shows the head of a channel's log, for Point.
func (r Repository) Peek(ctx context.Context, channel string) (Pointer, error) {
	if err := CheckName(channel); err != nil {
		return Pointer{}, err
	}
	var shown stored
	var p Pointer
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { shown, err = r.peek(ctx, ManifestKey(channel), manifest.MaxSize); return err })
	group.Go(func() (err error) { p.downloads, err = r.peek(ctx, DownloadsKey(channel), object.MaxSwap); return err })
	err := group.Wait()
	p.Data, p.ETag = shown.data, shown.etag
	return p, err
}

func (r Repository) peek(ctx context.Context, key string, limit int64) (stored, error) {
	data, info, err := object.ReadAll(ctx, r.Store, key, limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrTooLarge) { // nothing of ours
		err = nil
	}
	return stored{data, info.ETag}, err
}

// view is the bytes of an object that shows an entry.
type view struct {
	key    string
	data   []byte
	before stored
}

// outdated renders what shows an entry, and returns what differs from what was seen.
func (r Repository) outdated(channel string, seen Pointer, e *Entry) ([]view, error) {
	if r.PublicURL == "" {
		return nil, errors.New("the public URL of the store is not known")
	}
	shown, list := e.Render(r.PublicURL), e.Downloads(r.PublicURL)
	data, err := shown.Encode()
	if err != nil {
		return nil, err
	}
	views := []view{{ManifestKey(channel), data, stored{seen.Data, seen.ETag}}}
	if data, err = list.Encode(); err != nil {
		return nil, err
	}
	if len(list.Files) > 0 || seen.downloads.etag != "" {
		views = append(views, view{DownloadsKey(channel), data, seen.downloads})
	}
	var behind []view
	for _, v := range views {
		if !bytes.Equal(v.data, v.before.data) {
			behind = append(behind, v)
		}
	}
	return behind, nil
}

// Current reports whether what was seen shows an entry.
func (r Repository) Current(channel string, seen Pointer, e *Entry) (bool, error) {
	behind, err := r.outdated(channel, seen, e)
	return len(behind) == 0, err
}

// swap shows an entry that was written or read after seen was. object.ErrChanged if
// something has changed since.
func (r Repository) swap(ctx context.Context, channel string, seen Pointer, e *Entry) (moved bool, err error) {
	behind, err := r.outdated(channel, seen, e)
	if err != nil {
		return false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, v := range behind {
		group.Go(func() error {
			if _, err := r.Store.Swap(ctx, v.key, v.before.etag, v.data, manifestAttributes); err != nil {
				return fmt.Errorf("move %s: %w", v.key, err)
			}
			return nil
		})
	}
	err = group.Wait()
	return err == nil && len(behind) > 0, err
}
