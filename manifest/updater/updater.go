// Package updater is the network side of the desktop updater: it asks endpoints for
// a release and downloads bundles as installed applications do, within bounds of
// time and size. The decisions are those of package manifest.
//
// # Endpoints
//
// They are asked in order. 204 means "no update" at once. Any other status outside
// 2xx, a transport error, or JSON of the wrong shape goes on to the next endpoint; a
// 2xx answer that is not JSON aborts, as does an endpoint that is not a URL. If no
// endpoint gave a release, the last transport or shape error is reported.
//
// # Downloads
//
// Answers and bundles are requested without content coding: clients undo none, so a
// bundle served as gzip must fail its signature. Up to ten redirects are followed;
// Authorization and cookies are sent only to the scheme, host and port that the
// address names.
//
// A download must start within StartTimeout and never stall for longer than
// StallTimeout. A file gets its name only after the signature of the whole bundle
// was verified.
package updater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsmon/manifest"
	"tsmon/signing"
)

// userAgent is that of the updater plugin whose behavior this package follows.
const userAgent = "tauri-plugin-updater/2.14.1"

var (
	// ErrNoRelease means that every endpoint answered, none of them with 2xx.
	ErrNoRelease = errors.New("no endpoint has a release")
	// ErrStatus means that an address answered with a status outside 2xx.
	ErrStatus = errors.New("unexpected status")
	// ErrWithheld is ErrStatus of 503, with which tsmon serve answers for a channel that it
	// does not believe.
	ErrWithheld = fmt.Errorf("%w", ErrStatus)
	// ErrDenied is an ErrStatus of 401 or 403.
	ErrDenied = fmt.Errorf("access denied: %w", ErrStatus)
	// ErrForbidden is an ErrDenied of 403, as buckets answer what nobody may read.
	ErrForbidden = fmt.Errorf("%w", ErrDenied)
	// ErrTimeout means that an answer or a download did not start, or stalled.
	ErrTimeout = errors.New("time-out")

	errAddress = errors.New("not an address")
	errLong    = errors.New("the answer is longer")
)

// Updater is an installed application and its update endpoints.
type Updater struct {
	Endpoints []string // with the updater's {{variables}}
	Client    manifest.Client
	Keys      signing.Keyring
	// RequireVersion is the application's requireSignedVersion.
	RequireVersion bool
	HTTP           *http.Client // nil for the default; CheckRedirect is ignored
	Header         http.Header  // the application's own, for checks and downloads
	Token          Token
	CheckTimeout   time.Duration // for one endpoint's whole answer; 0: 30 s
	StartTimeout   time.Duration // until the first bytes of a download; 0: 20 s
	StallTimeout   time.Duration // between two reads of a download; 0: 30 s
}

// Attempt is the request to one endpoint.
type Attempt struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"` // 0 without an answer
	Err    error  `json:"-"`
}

// Result is the outcome of a check.
type Result struct {
	Offer    *manifest.Offer    // nil: no update
	Response *manifest.Response // nil after a 204
	// Shows is the version that the endpoint has for the client, also when that is no
	// update; empty if it does not say.
	Shows    string
	URL      string // of the endpoint that decided
	Attempts []Attempt
}

// Check asks the endpoints for an update. Errors wrap those of package manifest,
// ErrNoRelease or ErrTimeout; the result holds the attempts even then.
func (u *Updater) Check(ctx context.Context) (*Result, error) {
	result := &Result{}
	var last error
	for _, endpoint := range u.Endpoints {
		address := u.expand(endpoint)
		got, err := u.ask(ctx, address, manifest.MaxSize)
		var response *manifest.Response
		if err == nil && got.status != http.StatusNoContent {
			response, err = manifest.ParseResponse(got.body)
		}
		result.Attempts = append(result.Attempts, Attempt{address, got.status, err})
		switch failed := fmt.Errorf("%s: %w", address, err); {
		case ctx.Err() != nil:
			return result, ctx.Err()
		case got.status == http.StatusNoContent:
			result.URL, result.Shows = address, got.shows
			return result, nil
		case err == nil:
			result.URL, result.Response, result.Shows = address, response, response.Version.String()
			result.Offer, err = response.OfferTo(u.Client)
			return result, err
		case errors.Is(err, ErrStatus):
		case errors.Is(err, manifest.ErrShape), got.status == 0 && !errors.Is(err, errAddress):
			last = failed
		default: // not an address, not JSON, or a 2xx answer that broke off
			return result, failed
		}
	}
	return result, cmp.Or(last, ErrNoRelease)
}

// expand replaces the endpoint variables, also with percent-encoded braces.
func (u *Updater) expand(endpoint string) string {
	os, arch, _ := strings.Cut(u.Client.Target, "-")
	values := map[string]string{
		"current_version": strings.ReplaceAll(strings.TrimLeft(u.Client.Version, "v"), "+", "%2B"),
		"target":          cmp.Or(u.Client.Named, os),
		"arch":            arch,
		"bundle_type":     cmp.Or(u.Client.BundleType, "unknown"),
	}
	for name, value := range values {
		endpoint = strings.NewReplacer("{{"+name+"}}", value, "%7B%7B"+name+"%7D%7D", value).Replace(endpoint)
	}
	return endpoint
}

// answer is what an endpoint answered; status is 0 without one.
type answer struct {
	status int
	shows  string // X-Tsmon-Shows of tsmon serve, a version; empty if there is none
	body   []byte
}

// ask fetches JSON of at most limit bytes.
func (u *Updater) ask(ctx context.Context, address string, limit int64) (got answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(u.CheckTimeout, 30*time.Second), ErrTimeout)
	defer cancel()
	response, err := u.get(ctx, address, "application/json")
	if err != nil {
		return got, cause(ctx, err)
	}
	defer response.Body.Close()
	got.status = response.StatusCode
	if version, err := manifest.ParseVersion(response.Header.Get("X-Tsmon-Shows")); err == nil {
		got.shows = version.String()
	}
	if err := checkStatus(got.status); err != nil {
		return got, err
	}
	got.body, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(got.body)) > limit {
		err = fmt.Errorf("%w than %d bytes", errLong, limit)
	}
	return got, cause(ctx, err)
}

func (u *Updater) get(ctx context.Context, address, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAddress, err)
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", userAgent)
	maps.Copy(request.Header, u.Header)
	if u.Token.covers(request.URL) && request.Header.Get("Authorization") == "" {
		request.Header.Set("Authorization", "Bearer "+u.Token.Secret)
	}
	client := *cmp.Or(u.HTTP, http.DefaultClient)
	client.CheckRedirect = redirected
	response, err := client.Do(request)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // the caller adds the address
	}
	return response, err
}

func checkStatus(status int) error {
	switch {
	case status == http.StatusForbidden:
		return fmt.Errorf("%w %d", ErrForbidden, status)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w %d", ErrDenied, status)
	case status == http.StatusServiceUnavailable:
		return fmt.Errorf("%w %d", ErrWithheld, status)
	case status < 200 || status > 299:
		return fmt.Errorf("%w %d", ErrStatus, status)
	}
	return nil
}

// cause returns the context's cause in place of an error that it led to.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
