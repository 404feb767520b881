package updater

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/manifest"
)

// ErrStale means that an address still shows an older state of a channel.
var ErrStale = errors.New("an older manifest is served")

// errOther means that an address shows the published entry with other content. A server that
// has not refreshed yet may still use addresses from before the store moved.
var errOther = errors.New("other content than was published")

// Prober fetches a manifest and its bundles as clients do, and verifies the
// signatures. Each bundle is downloaded once, however many channels show it.
type Prober struct {
	Updater // as the applications have it; it needs no endpoints
	// Patience is how long Probe waits for servers and caches to drop an older manifest; 0: 15 s.
	Patience time.Duration

	verified sync.Map // releases
}

// release identifies a verified bundle. Its signature may not be valid for another
// version.
type release struct {
	version  string
	platform manifest.Platform
}

// Probe fetches a manifest until it is want, or a later state of the channel, and
// verifies its bundles as a client does. Errors wrap ErrStale or are those of Check
// and Fetch.
func (p *Prober) Probe(ctx context.Context, address string, want manifest.Manifest) error {
	shown, err := p.Await(ctx, address, want)
	if err != nil {
		return err
	}
	return p.Bundles(ctx, shown, func(_ string, err error) error { return err })
}

// Await is Probe without the bundles. It returns what is shown.
func (p *Prober) Await(ctx context.Context, address string, want manifest.Manifest) (*manifest.Manifest, error) {
	patience := time.After(cmp.Or(p.Patience, 15*time.Second))
	pause := 250 * time.Millisecond
	for {
		shown, err := p.Manifest(ctx, address, want)
		// A server may cache for a moment that there was no such manifest.
		missing := errors.Is(err, ErrStatus) && !errors.Is(err, ErrDenied)
		if !errors.Is(err, ErrStale) && !errors.Is(err, errOther) && !missing {
			return shown, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-patience:
			return nil, err
		case <-time.After(pause):
			pause = min(2*pause, 2*time.Second)
		}
	}
}

// Manifest fetches a manifest and compares it with want.
func (p *Prober) Manifest(ctx context.Context, address string, want manifest.Manifest) (*manifest.Manifest, error) {
	body, err := p.FetchManifest(ctx, address)
	if err != nil {
		return nil, err
	}
	shown, err := manifest.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if shown.Sequence < want.Sequence {
		return nil, fmt.Errorf("%s: %w: version %s, entry %d", address, ErrStale, shown.Version, shown.Sequence)
	}
	expected, err := want.Encode()
	if err != nil || shown.Sequence > want.Sequence || bytes.Equal(body, expected) {
		return shown, err
	}
	err = fmt.Errorf("%s: shows entry %d with %w", address, want.Sequence, errOther)
	if changes := manifest.Diff(&want, shown); len(changes) > 0 {
		first := changes[0]
		err = fmt.Errorf("%w: %s is %.300q, not %.300q", err, first.Place, first.After, first.Before)
	}
	return shown, err
}

// FetchManifest fetches the bytes of a manifest, at most manifest.MaxSize of
// them, within CheckTimeout. Every status but 2xx with a body is an error.
func (u *Updater) FetchManifest(ctx context.Context, address string) ([]byte, error) {
	got, err := u.ask(ctx, address, manifest.MaxSize)
	if err == nil && got.status == http.StatusNoContent {
		err = fmt.Errorf("%w %d", ErrStatus, got.status)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return got.body, nil
}

// Bundles downloads every bundle of a manifest, two at a time, and verifies it as a
// client does. It calls verdict with the result for each platform key, one call at a
// time, and stops when verdict returns an error.
func (p *Prober) Bundles(ctx context.Context, m *manifest.Manifest, verdict func(key string, err error) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	var mu sync.Mutex
	keys := map[manifest.Platform][]string{} // sorted
	for _, key := range m.Keys() {
		keys[m.Platforms[key]] = append(keys[m.Platforms[key]], key)
	}
	for _, key := range m.Keys() {
		platform := m.Platforms[key]
		if keys[platform][0] != key {
			continue // a universal bundle stands under two keys
		}
		group.Go(func() error {
			err := p.bundle(ctx, release{m.Version, platform})
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys[platform] {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := verdict(key, err); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *Prober) bundle(ctx context.Context, of release) error {
	if _, done := p.verified.Load(of); done {
		return nil
	}
	offer := &manifest.Offer{Version: of.version, Platform: of.platform}
	if err := p.Fetch(ctx, offer, io.Discard, func(Event) {}); err != nil {
		return err
	}
	p.verified.Store(of, true)
	return nil
}
