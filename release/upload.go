package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsmon/release/bundle"
	"tsmon/store/object"
)

// upload brings the bundles of a version to the store.
type upload struct {
	Library
	version string
	files   map[string]bundle.Contents // at hand, by BLAKE2b
	sent    func(name string, n int, total int64)
}

// add uploads the bundles of a record that are at hand and creates the record. It
// also proves that the store honours the conditions that everything relies on.
// errStale if somebody else has begun the same release in another way.
func (u upload) add(ctx context.Context, r *Record) error {
	bundles := make([]*Stored, len(r.Bundles))
	for i := range r.Bundles {
		bundles[i] = &r.Bundles[i]
	}
	if err := u.all(ctx, bundles); err != nil {
		return err
	}
	data, err := r.encode()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return u.create(ctx, recordKey(r.Version, r.number), data, recordAttributes) })
	group.Go(func() error {
		b := r.Bundles[slices.IndexFunc(r.Bundles, func(b Stored) bool { return b.updates() })]
		return object.CheckConditions(ctx, u.Store, folder(r.Version)+b.Name+".sig", []byte(b.Signature), signatureAttributes)
	})
	return group.Wait()
}

// all uploads those of the bundles whose files are at hand, and the signatures
// of all.
func (u upload) all(ctx context.Context, bundles []*Stored) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for _, b := range bundles {
		if file, ok := u.files[b.BLAKE2b]; ok {
			group.Go(func() error { return u.one(ctx, *b, file) })
		}
		if b.Signature == "" {
			continue
		}
		group.Go(func() error {
			return u.create(ctx, folder(u.version)+b.Name+".sig", []byte(b.Signature), signatureAttributes)
		})
	}
	return group.Wait()
}

// atHand counts the bundles whose files are at hand.
func (u upload) atHand(bundles []Stored) (n int) {
	for _, b := range bundles {
		if _, ok := u.files[b.BLAKE2b]; ok {
			n++
		}
	}
	return n
}

// one creates the object of a bundle, or compares the one that exists.
func (u upload) one(ctx context.Context, b Stored, c bundle.Contents) error {
	key := folder(u.version) + b.Name
	counted := func(int) {}
	if u.sent != nil {
		counted = func(n int) { u.sent(b.Name, n, b.Size) }
	}
	file, err := c.Open(counted)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = u.Store.Create(ctx, key, file, b.Size, bundleAttributes)
	if errors.Is(err, fs.ErrExist) {
		err = compare(ctx, u.Store, key, c.Digest)
	}
	if err != nil && !errors.As(err, new(*Refusal)) {
		err = fmt.Errorf("%s: %w", c.Path, err)
	}
	return err
}
