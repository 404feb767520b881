package updater

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"tsmon/manifest"
)

// maxBundle bounds a bundle, in bytes.
const maxBundle = 16 << 30

// maxUnstated bounds a bundle whose release states no size, in bytes. The updater holds
// a bundle in memory.
const maxUnstated = 2 << 30

// maxRecord bounds the record of a release, in bytes.
const maxRecord = 4 << 20

// ErrSize is the error of a bundle that is larger than its release states.
var ErrSize = errors.New("the bundle is too large")

// maxDownload bounds the time of a download that never quite stalls.
const maxDownload = 4 * time.Hour

// chunk is the size of one read, in bytes.
const chunk = 256 << 10

// Event is one step of a download, in the shape that the updater passes to its
// callback: Started with contentLength when the first bytes arrive, Progress with
// chunkLength for each read, and Finished after the last, before the signature is
// verified.
type Event struct {
	Event string    `json:"event"`
	Data  EventData `json:"data"`
}

// EventData are the details of an Event.
type EventData struct {
	ContentLength int64 `json:"contentLength,omitempty"` // Started: total bytes, absent if unknown
	ChunkLength   int   `json:"chunkLength,omitempty"`   // Progress: bytes of this chunk
	Downloaded    int64 `json:"downloaded,omitempty"`    // Progress: bytes so far
	// Percent of a Progress: floor(downloaded / contentLength × 100); absent if
	// the length is unknown.
	Percent *int64 `json:"percent,omitempty"`
}

// Download fetches an offer's bundle to a temporary file, verifies it as the updater
// does, and renames it to path, with mode 0644. An existing file is replaced. It takes no
// more than the size that the record of the release states beside the bundle, or 2 GiB
// where there is none. Errors wrap ErrSize where the bundle is larger.
func (u *Updater) Download(ctx context.Context, offer *manifest.Offer, path string, events func(Event)) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".download-*")
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err // without the temporary name
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	limit, err := u.stated(ctx, offer)
	if err != nil {
		return fmt.Errorf("%s: %w", offer.URL, err)
	}
	if err := u.fetch(ctx, offer, tmp, events, limit); err != nil {
		return err
	}
	if err := cmp.Or(tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// Fetch writes an offer's bundle to w and verifies it. Nothing written can be
// trusted unless Fetch returns nil.
func (u *Updater) Fetch(ctx context.Context, offer *manifest.Offer, w io.Writer, events func(Event)) error {
	return u.fetch(ctx, offer, w, events, maxBundle)
}

// fetch is Fetch of at most limit bytes.
func (u *Updater) fetch(ctx context.Context, offer *manifest.Offer, w io.Writer, events func(Event), limit int64) error {
	verifier, err := offer.Verifier(u.Keys, u.RequireVersion)
	if err != nil {
		return fmt.Errorf("%s: %w", offer.URL, err)
	}
	ctx, alive, stop := u.watch(ctx)
	defer stop()
	response, err := u.get(ctx, offer.URL, "application/octet-stream")
	if err != nil {
		return fmt.Errorf("%s: %w", offer.URL, cause(ctx, err))
	}
	defer response.Body.Close()
	if err := checkStatus(response.StatusCode); err != nil {
		return fmt.Errorf("%s: %w", offer.URL, err)
	}
	if response.ContentLength > limit {
		return fmt.Errorf("%s: %w: it has %d bytes, at most %d were expected", offer.URL, ErrSize, response.ContentLength, limit)
	}
	body := &meter{r: response.Body, total: response.ContentLength, events: events, alive: alive}
	if err := body.copy(io.MultiWriter(w, verifier), limit); err != nil {
		return fmt.Errorf("%s: %w", offer.URL, cause(ctx, err))
	}
	events(Event{Event: "Finished"})
	if err := verifier.Verify(); err != nil {
		return fmt.Errorf("%s: %w", offer.URL, err)
	}
	return nil
}

// stated returns how many bytes an offer's bundle may have: what release.json beside it
// says, or maxUnstated where there is none, as with a manifest that somebody wrote by hand.
// The error is why a record could not be read.
func (u *Updater) stated(ctx context.Context, offer *manifest.Offer) (int64, error) {
	address, err := url.Parse(offer.URL)
	if err != nil {
		return maxUnstated, nil //nolint:nilerr // the download says what is wrong with it
	}
	folder, name := path.Split(address.Path)
	if path.Base(path.Dir(path.Clean(folder))) != "releases" {
		return maxUnstated, nil
	}
	address = &url.URL{Scheme: address.Scheme, Host: address.Host, Path: folder + "release.json"}
	got, err := u.ask(ctx, address.String(), maxRecord)
	if err != nil && !errors.Is(err, ErrStatus) && !errors.Is(err, errLong) {
		return 0, err
	}
	var record struct {
		Bundles []struct {
			Name string `json:"name"`
			Size int64  `json:"size"`
		} `json:"bundles"`
	}
	if json.Unmarshal(got.body, &record) != nil {
		return maxUnstated, nil //nolint:nilerr // nothing, or no record
	}
	for _, b := range record.Bundles {
		if b.Name == name && b.Size > 0 {
			return min(b.Size, maxBundle), nil
		}
	}
	return maxUnstated, nil
}

// watch cancels the context when no byte arrives within the start time-out, or for
// the stall time-out after that. alive must be called whenever bytes arrive.
func (u *Updater) watch(parent context.Context) (ctx context.Context, alive, stop func()) {
	start, stall := cmp.Or(u.StartTimeout, 20*time.Second), cmp.Or(u.StallTimeout, 30*time.Second)
	parent, end := context.WithTimeoutCause(parent, maxDownload, fmt.Errorf("%w: the download took longer than %s", ErrTimeout, maxDownload))
	ctx, cancel := context.WithCancelCause(parent)
	var started atomic.Bool
	timer := time.AfterFunc(start, func() {
		if started.Load() {
			cancel(fmt.Errorf("%w: no data for %s", ErrTimeout, stall))
		} else {
			cancel(fmt.Errorf("%w: the download did not start within %s", ErrTimeout, start))
		}
	})
	alive = func() {
		started.Store(true)
		timer.Reset(stall)
	}
	return ctx, alive, func() { timer.Stop(); cancel(nil); end() }
}

// meter reports the bytes read through it.
type meter struct {
	r      io.Reader
	total  int64 // -1 if unknown
	done   int64
	events func(Event)
	alive  func()
}

// copy copies at most limit bytes to w.
func (m *meter) copy(w io.Writer, limit int64) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(m, limit), make([]byte, chunk))
	if err != nil || n < limit {
		return err
	}
	switch n, err := io.ReadFull(m.r, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w: at most %d bytes were expected", ErrSize, limit)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 {
		m.alive()
		if m.done == 0 {
			m.events(Event{"Started", EventData{ContentLength: max(m.total, 0)}})
		}
		m.done += int64(n)
		m.events(Event{"Progress", EventData{ChunkLength: n, Downloaded: m.done, Percent: m.percent()}})
	}
	return n, err
}

func (m *meter) percent() *int64 {
	if m.total <= 0 {
		return nil
	}
	p := m.done * 100 / m.total
	return &p
}
