package updater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"tsmon/manifest"
)

// maxBundle bounds a download, in bytes.
const maxBundle = 16 << 30

// maxDownload bounds a download that never quite stalls.
const maxDownload = 4 * time.Hour

// chunk is how much of a download is read at a time, in bytes.
const chunk = 256 << 10

// Event is one step of a download, in the shape that the updater gives to its
// callback: Started with contentLength when the first bytes are there, Progress
// with chunkLength for each read, and Finished after the last one, before the
// signature is verified.
type Event struct {
	Event string    `json:"event"`
	Data  EventData `json:"data"`
}

// EventData is what comes with an Event; only the event's own members are set.
type EventData struct {
	ContentLength int64 `json:"contentLength,omitempty"` // Started: total bytes, absent if unknown
	ChunkLength   int   `json:"chunkLength,omitempty"`   // Progress: bytes of this chunk
	Downloaded    int64 `json:"downloaded,omitempty"`    // Progress: bytes so far
	// Percent of a Progress: floor(downloaded / contentLength × 100); absent if
	// the length is unknown.
	Percent *int64 `json:"percent,omitempty"`
}

// Download fetches an offer's bundle, verifies it as the updater does, and only
// then gives the file its name, with mode 0644. An existing file is replaced.
func (u *Updater) Download(ctx context.Context, offer *manifest.Offer, path string, events func(Event)) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".download-*")
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err // the temporary name tells nobody anything
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := u.Fetch(ctx, offer, tmp, events); err != nil {
		return err
	}
	if err := finish(tmp); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func finish(tmp *os.File) error {
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return tmp.Close()
}

// Fetch writes an offer's bundle to w and verifies it. What w holds is to be
// trusted only when Fetch returns nil.
func (u *Updater) Fetch(ctx context.Context, offer *manifest.Offer, w io.Writer, events func(Event)) error {
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
	body := &meter{r: response.Body, total: response.ContentLength, events: events, alive: alive}
	if err := body.copy(io.MultiWriter(w, verifier)); err != nil {
		return fmt.Errorf("%s: %w", offer.URL, cause(ctx, err))
	}
	events(Event{Event: "Finished"})
	if err := verifier.Verify(); err != nil {
		return fmt.Errorf("%s: %w", offer.URL, err)
	}
	return nil
}

// watch cancels the context when no byte came within the start time-out, or none
// for the stall time-out after that; alive is called with each arrival.
func (u *Updater) watch(parent context.Context) (ctx context.Context, alive, stop func()) {
	start, stall := cmp.Or(u.StartTimeout, 20*time.Second), cmp.Or(u.StallTimeout, 30*time.Second)
	parent, end := context.WithTimeoutCause(parent, maxDownload, fmt.Errorf("%w: the download took longer than %s", ErrTimeout, maxDownload))
	ctx, cancel := context.WithCancelCause(parent)
	var started atomic.Bool
	timer := time.AfterFunc(start, func() {
		if started.Load() {
			cancel(fmt.Errorf("%w: nothing came for %s", ErrTimeout, stall))
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

// meter reports what passes through it.
type meter struct {
	r      io.Reader
	total  int64 // -1 if unknown
	done   int64
	events func(Event)
	alive  func()
}

func (m *meter) copy(w io.Writer) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(m, maxBundle+1), make([]byte, chunk))
	if err == nil && n > maxBundle {
		err = fmt.Errorf("larger than %d bytes", int64(maxBundle))
	}
	return err
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
