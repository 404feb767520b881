// Package updater is the network side of the desktop updater: it asks endpoints
// for a release and downloads bundles, as installed applications do, within
// bounds of time and size. The decisions themselves are those of package
// manifest.
//
// # Endpoints
//
// They are asked in order. 204 means "no update" at once. Any other status
// outside 2xx, a transport error, or JSON of the wrong shape goes on to the next
// endpoint; a 2xx answer that is not JSON aborts. When no endpoint gave a
// release, the last transport or shape error is reported. An endpoint that is no
// address at all aborts.
//
// # Downloads
//
// Answers and bundles are asked for as they are: clients undo no content coding,
// so a bundle that is served as gzip would fail its signature if it was undone.
// Up to ten redirects are followed; Authorization and cookies are sent only to the
// scheme, host and port that the address names.
//
// The download must start within StartTimeout and never stall for longer than
// StallTimeout. The signature is verified over the whole bundle before the file
// gets its name; nothing unverified ever has it.
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

// userAgent is what the updater plugin, whose behaviour this follows, sends.
const userAgent = "tauri-plugin-updater/2.14.1"

var (
	// ErrNoRelease says that every endpoint answered, none of them with 2xx.
	ErrNoRelease = errors.New("no endpoint has a release")
	// ErrStatus says that an address answered with a status outside 2xx.
	ErrStatus = errors.New("unexpected status")
	// ErrDenied is an ErrStatus of 401 or 403.
	ErrDenied = fmt.Errorf("access denied: %w", ErrStatus)
	// ErrTimeout says that an answer or a download did not start, or stalled.
	ErrTimeout = errors.New("time-out")

	errAddress = errors.New("not an address")
)

// Updater is an installed application and where it asks.
type Updater struct {
	Endpoints []string // with the updater's {{variables}}
	Client    manifest.Client
	Keys      signing.Keyring
	// RequireVersion is the application's requireSignedVersion.
	RequireVersion bool
	HTTP           *http.Client // whose CheckRedirect is not asked
	Header         http.Header  // that the application adds to checks and downloads
	Token          Token
	CheckTimeout   time.Duration // for one endpoint's whole answer; 0: 30 s
	StartTimeout   time.Duration // until the first bytes of a download; 0: 20 s
	StallTimeout   time.Duration // between two reads of a download; 0: 30 s
}

// Attempt is one endpoint's part in a check.
type Attempt struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"` // 0 if nothing came
	Err    error  `json:"-"`
}

// Result is what a check ended with.
type Result struct {
	Offer    *manifest.Offer    // nil: no update
	Response *manifest.Response // nil after a 204
	URL      string             // of the endpoint that decided
	Attempts []Attempt
}

// Check asks the endpoints for an update. Errors wrap those of package manifest,
// ErrNoRelease or ErrTimeout; the result holds the attempts also then.
func (u *Updater) Check(ctx context.Context) (*Result, error) {
	result := &Result{}
	var last error
	for _, endpoint := range u.Endpoints {
		address := u.expand(endpoint)
		status, body, err := u.ask(ctx, address)
		result.Attempts = append(result.Attempts, Attempt{address, status, err})
		switch {
		case ctx.Err() != nil:
			return result, ctx.Err()
		case status == http.StatusNoContent:
			result.URL = address
			return result, nil
		case errors.Is(err, ErrStatus):
			continue
		case errors.Is(err, errAddress), err != nil && status != 0: // a 2xx answer that broke off
			return result, fmt.Errorf("%s: %w", address, err)
		case err != nil:
			last = fmt.Errorf("%s: %w", address, err)
			continue
		}
		response, err := manifest.ParseResponse(body)
		result.Attempts[len(result.Attempts)-1].Err = err
		if errors.Is(err, manifest.ErrShape) {
			last = fmt.Errorf("%s: %w", address, err)
			continue
		}
		if err != nil {
			return result, fmt.Errorf("%s: %w", address, err)
		}
		result.URL, result.Response = address, response
		result.Offer, err = response.OfferTo(u.Client)
		return result, err
	}
	return result, cmp.Or(last, ErrNoRelease)
}

// expand fills in the endpoint variables, also where a URL library has
// percent-encoded their braces.
func (u *Updater) expand(endpoint string) string {
	os, arch, _ := strings.Cut(u.Client.Target, "-")
	values := map[string]string{
		"current_version": strings.ReplaceAll(strings.TrimLeft(u.Client.Version, "v"), "+", "%2B"),
		"target":          os,
		"arch":            arch,
		"bundle_type":     cmp.Or(u.Client.BundleType, "unknown"),
	}
	for name, value := range values {
		endpoint = strings.NewReplacer("{{"+name+"}}", value, "%7B%7B"+name+"%7D%7D", value).Replace(endpoint)
	}
	return endpoint
}

func (u *Updater) ask(ctx context.Context, address string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(u.CheckTimeout, 30*time.Second), ErrTimeout)
	defer cancel()
	response, err := u.get(ctx, address, "application/json")
	if err != nil {
		return 0, nil, cause(ctx, err)
	}
	defer response.Body.Close()
	status = response.StatusCode
	if err := checkStatus(status); err != nil {
		return status, nil, err
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, manifest.MaxSize+1))
	if err == nil && len(body) > manifest.MaxSize {
		err = fmt.Errorf("the answer is longer than %d bytes", manifest.MaxSize)
	}
	return status, body, cause(ctx, err)
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
		err = wrapped.Err // the address is named once, by the caller
	}
	return response, err
}

func checkStatus(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w %d", ErrDenied, status)
	case status < 200 || status > 299:
		return fmt.Errorf("%w %d", ErrStatus, status)
	}
	return nil
}

// cause prefers a context's own reason over "context canceled".
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
