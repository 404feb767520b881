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

// OpenPresigner returns a presigner for the store that a URL names. Its addresses point to
// endpoint, where clients reach the bucket, or to the URL's endpoint if that is empty. A
// signature covers the host, so proxies must preserve Host and path. OpenPresigner makes no
// request.
//
// An endpoint needs a known region: from the URL, or because the URL's endpoint is
// not Amazon's.
func OpenPresigner(rawURL, endpoint string, limits Limits) (object.Presigner, error) {
	loc, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("storage url: %w", err)
	}
	if endpoint != "" {
		if loc.endpoint, err = parseEndpoint(endpoint); err == nil && loc.region == "" {
			err = errors.New("signing addresses for it needs region=REGION in the storage url")
		}
	}
	var s *Store
	if err == nil {
		s, err = openAt(loc, limits)
	}
	if err != nil {
		return nil, fmt.Errorf("presign endpoint: %w", err)
	}
	return s, nil
}

// notShared makes the store forbid shared caches to keep the object.
var notShared = url.Values{"response-cache-control": {"private"}}

// Presign makes no request, unless it has to ask Amazon for the bucket's region.
func (s *Store) Presign(ctx context.Context, key string, life time.Duration) (_ *url.URL, err error) {
	defer s.explain(ctx, "presign", key, &err, nil)
	if err := errors.Join(ctx.Err(), object.ValidKey(key)); err != nil {
		return nil, err
	}
	address, err := s.core.PresignedGetObject(ctx, s.bucket, s.path(key), life, notShared)
	if err != nil && s.identity.none.Load() {
		return nil, anonymous(s.place())
	}
	return address, err
}
