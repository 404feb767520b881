package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// Upload sends the bundles of a version to the store.
type Upload struct {
	Library
	Version string
	Files   map[string]bundle.Contents // at hand, by BLAKE2b
	// Sent, if not nil, is called with each piece of a bundle that was sent, concurrently.
	Sent func(name string, n int, total int64)
}

// Add uploads the bundles of a record that are at hand and creates the record. It
// also proves that the store honours the conditions that everything relies on.
// ErrRaced if somebody else has begun the same release in another way.
func (u Upload) Add(ctx context.Context, r *Record) error {
	if err := u.All(ctx, r.Bundles); err != nil {
		return err
	}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return u.Create(ctx, RecordKey(r.Version, r.Number), data, RecordAttributes) })
	group.Go(func() error { return u.Prove(ctx, r.Bundles) })
	return group.Wait()
}

// Prove has the store prove on the signature of an uploaded bundle that it honours conditions.
func (u Upload) Prove(ctx context.Context, bundles []Stored) error {
	i := slices.IndexFunc(bundles, func(b Stored) bool { return b.Updates() })
	if i < 0 {
		return nil
	}
	b := bundles[i]
	return object.CheckConditions(ctx, u.Store, BundleKey(u.Version, b.Name)+".sig", []byte(b.Signature), SignatureAttributes)
}

// All uploads the bundles whose files are at hand, and the signatures of all bundles.
func (u Upload) All(ctx context.Context, bundles []Stored) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for _, b := range bundles {
		if file, ok := u.Files[b.BLAKE2b]; ok {
			group.Go(func() error { return u.one(ctx, b, file) })
		}
		if b.Signature != "" {
			group.Go(func() error {
				return u.Create(ctx, BundleKey(u.Version, b.Name)+".sig", []byte(b.Signature), SignatureAttributes)
			})
		}
	}
	return group.Wait()
}

// AtHand counts the bundles whose files are at hand.
func (u Upload) AtHand(bundles []Stored) (n int) {
	for _, b := range bundles {
		if _, ok := u.Files[b.BLAKE2b]; ok {
			n++
		}
	}
	return n
}

// one creates the object of a bundle, or compares the one that exists.
func (u Upload) one(ctx context.Context, b Stored, c bundle.Contents) error {
	key := BundleKey(u.Version, b.Name)
	file, err := c.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = u.Store.Create(ctx, key, bundle.Counted(file, b.Name, b.Size, u.Sent), b.Size, BundleAttributes)
	if errors.Is(err, fs.ErrExist) {
		err = CompareDigest(ctx, u.Store, key, c.Digest)
	}
	if err != nil && !errors.As(err, new(*bundle.Refusal)) {
		err = fmt.Errorf("%s: %w", c.Path, err)
	}
	return err
}

// Create writes a small object, or accepts an equal one.
func (l Library) Create(ctx context.Context, key string, data []byte, attrs object.Attributes) error {
	_, err := l.Store.Create(ctx, key, bytes.NewReader(data), int64(len(data)), attrs)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	standing, err := l.Read(ctx, key, MaxRecord)
	if err == nil && !bytes.Equal(standing, data) {
		err = fmt.Errorf("write %s: %w", key, ErrRaced)
	}
	return err
}

// CompareDigest fetches a stored bundle and compares its digest.
func CompareDigest(ctx context.Context, store object.Store, key string, want signing.Digest) error {
	body, _, err := store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	digest, _, err := signing.HashReader(ctx, body)
	if err == nil && digest != want {
		err = ErrRaced
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}
