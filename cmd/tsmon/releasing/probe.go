package releasing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/signing"
)

// probePatience is how long a probe waits for the new manifest: longer than a
// server with the default refresh needs.
const probePatience = 8 * time.Second

// probe returns the fetch of what clients get. It shows the token, if there is one,
// and asks caches to revalidate. An address that still shows the old state, asks for a
// token, or answers too slowly is release.ErrUnseen.
func probe(client *http.Client, token string, keys signing.Keyring, allowUnbound bool) func(context.Context, string, manifest.Manifest, bool) error {
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	past := &pastCaches{next: client.Transport}
	client.Transport = past
	prober := &updater.Prober{Updater: updater.Updater{HTTP: client, Keys: keys, RequireVersion: !allowUnbound, Header: header}, Patience: probePatience}
	return func(ctx context.Context, address string, want manifest.Manifest, bundles bool) error {
		var err error
		if bundles {
			err = prober.Probe(ctx, address, want)
		} else {
			_, err = prober.Await(ctx, address, want)
		}
		denied := past.denied.Swap(nil)
		switch {
		case err == nil:
			return nil
		case denied != nil && token != "":
			return fmt.Errorf("%w: public_url refuses the configured token (status %d)", release.ErrUnseen, denied.status)
		case denied != nil && denied.status == http.StatusForbidden:
			return fmt.Errorf("%w: clients may not read %s (status 403): let everybody read releases/ and the folder of each channel in the storage, this one, too, or set server.updates.token (TSMON_UPDATES_TOKEN) if the server there wants one",
				release.ErrUnseen, denied.address)
		case denied != nil:
			return fmt.Errorf("%w: public_url asks for a token (status %d), set server.updates.token or TSMON_UPDATES_TOKEN", release.ErrUnseen, denied.status)
		case errors.Is(err, updater.ErrStale) && keys.Spanned():
			return fmt.Errorf("%w: %w; a server or a cache may keep it for up to a minute, and a tsmon serve for good, if its trusted_keys lack the key of the new one", release.ErrUnseen, err)
		case errors.Is(err, updater.ErrStale):
			return fmt.Errorf("%w: %w; a server or a cache may keep it for up to a minute", release.ErrUnseen, err)
		case errors.Is(err, updater.ErrWithheld):
			return fmt.Errorf("%w: %w", release.ErrWithheld, err)
		case errors.Is(err, updater.ErrTimeout):
			return fmt.Errorf("%w: %w", release.ErrUnseen, err)
		}
		return err
	}
}

// readable returns the function that checks, before a channel moves, whether clients may read
// a file. Only status 403 says that they may not: servers other than the store may learn
// later which files exist. The query keeps caches from remembering that a file was missing;
// if a server refuses it, the file is requested without.
func readable(client *http.Client) func(ctx context.Context, address string) error {
	client.Timeout = probePatience
	return func(ctx context.Context, address string) error {
		for _, query := range []string{"?fresh=" + strconv.FormatInt(time.Now().UnixNano(), 36), ""} {
			if !forbids(ctx, client, address+query) {
				return nil
			}
		}
		return fmt.Errorf("%s answers with status %d", address, http.StatusForbidden)
	}
}

func forbids(ctx context.Context, client *http.Client, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusForbidden
}

// pastCaches sends requests for manifests past caches: with no-cache, and with a
// query that no cache has seen, unless the server refuses that.
type pastCaches struct {
	next   http.RoundTripper
	denied atomic.Pointer[denial] // the last answer that asked for credentials
}

type denial struct {
	status  int
	address string
}

func (p *pastCaches) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/latest.json") {
		return p.ask(r)
	}
	plain := r.Clone(r.Context())
	plain.Header.Set("Cache-Control", "no-cache")
	if r.URL.RawQuery != "" {
		return p.ask(plain) // which a signature may cover
	}
	fresh := plain.Clone(r.Context())
	fresh.URL.RawQuery = "fresh=" + strconv.FormatInt(time.Now().UnixNano(), 36)
	response, err := p.next.RoundTrip(fresh)
	if err != nil || response.StatusCode < 400 {
		return response, err
	}
	response.Body.Close()
	return p.ask(plain)
}

// ask sends a request and records responses that demand credentials.
func (p *pastCaches) ask(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	if err == nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
		p.denied.Store(&denial{response.StatusCode, r.URL.Redacted()})
	}
	return response, err
}
