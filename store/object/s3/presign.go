package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"tsmon/store/object"
)

var _ object.Presigner = (*Store)(nil)

// OpenPresigner returns what makes addresses of the objects of the store that a
// URL names. They lead to endpoint, by which clients reach the bucket, or where it
// is empty to that of the URL; a signature holds for one host alone, so that what
// stands in between has to pass Host and path on. Like Open it makes no request.
//
// For an endpoint of its own the region has to be known: from the URL, or because
// the URL's own endpoint is not Amazon's.
func OpenPresigner(rawURL, endpoint string, limits Limits) (object.Presigner, error) {
	loc, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	if endpoint != "" {
		if loc.endpoint, err = parseEndpoint(endpoint); err == nil && loc.region == "" {
			err = errors.New("addresses there can't be signed without region=REGION in the storage url")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("presign endpoint: %w", err)
	}
	s, err := openAt(loc, limits.orDefaults())
	if err != nil {
		return nil, fmt.Errorf("presign endpoint: %w", err)
	}
	return s, nil
}

// forTheAsker has the store answer that no cache but the client's own may keep
// what an address gives, whatever the object says of itself.
var forTheAsker = url.Values{"response-cache-control": {"private"}}

// Presign implements object.Presigner. It makes no request, unless the region is
// not known: Amazon is asked for that of the bucket, until it has answered once.
func (s *Store) Presign(ctx context.Context, key string, life time.Duration) (*url.URL, error) {
	address, err := s.presign(ctx, key, life)
	if err != nil {
		return nil, s.explain(ctx, "presign", key, err, nil)
	}
	return address, nil
}

func (s *Store) presign(ctx context.Context, key string, life time.Duration) (*url.URL, error) {
	if err := errors.Join(ctx.Err(), object.ValidKey(key)); err != nil {
		return nil, err
	}
	address, err := s.core.PresignedGetObject(ctx, s.bucket, s.path(key), life, forTheAsker)
	if err != nil && s.identity.none.Load() {
		return nil, s.anonymous()
	}
	return address, err
}
