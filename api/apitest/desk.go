package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
)

// Desk publishes to the store of a world.
type Desk struct {
	*release.Publisher
	Key signing.PrivateKey
}

// Desk returns a desk with a new key, which servers of the world will trust.
func (w *World) Desk(tb testing.TB) Desk {
	tb.Helper()
	key := Must[signing.PrivateKey](tb)(signing.GenerateKey())
	w.Keys = append(w.Keys, signing.TrustedKey{PublicKey: key.Public()})
	publisher := &release.Publisher{
		Store: w.Objects, PublicURL: "https://releases.example.com/app", Keys: w.Keys, Who: "test", Now: w.Clock.Now,
		Policies:    map[string]release.Policy{"stable": {}, "beta": {Prerelease: true}},
		Transferred: func(string, int, int64) {}, Step: func(string) {},
	}
	w.Publisher = publisher
	return Desk{publisher, key}
}

func (d Desk) unlock() (signing.PrivateKey, error) { return d.Key, nil }

// PublishVersion publishes a version with three bundles.
func (d Desk) PublishVersion(tb testing.TB, channel, version string) {
	tb.Helper()
	_, err := d.Publish(tb.Context(), release.PublishOptions{
		Options: release.Options{Channel: channel}, Version: version, Unlock: d.unlock,
		Bundles: Bundles(tb, version, "App_"+version+"_x64_en-US.msi.zip", "App_universal.app.tar.gz", "App_"+version+"_amd64.AppImage.tar.gz"),
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Bundles returns freshly made bundles of a version.
func Bundles(tb testing.TB, version string, names ...string) []bundle.Bundle {
	tb.Helper()
	return Must[[]bundle.Bundle](tb)(gather(tb.TempDir(), version, version, names...))
}

// gather makes files with a content of their own and returns them as bundles.
func gather(folder, version, content string, names ...string) ([]bundle.Bundle, error) {
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name+content), 0o600); err != nil {
			return nil, err
		}
	}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	return bundles, err
}

// Stored reads an object of the world's store.
func (w *World) Stored(tb testing.TB, key string) ([]byte, object.Info) {
	tb.Helper()
	body, info, err := w.Objects.Get(tb.Context(), key)
	if err != nil {
		tb.Fatal(err)
	}
	defer body.Close()
	return Must[[]byte](tb)(io.ReadAll(body)), info
}

// PlainBodies is a store whose bodies can only be read in order, as those of a network.
type PlainBodies struct{ object.Store }

func (p PlainBodies) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	body, info, err := p.Store.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	return struct {
		io.Reader
		io.Closer
	}{body, body}, info, nil
}

// PublishWith publishes a version to stable with changed options.
func (d Desk) PublishWith(tb testing.TB, version string, change func(*release.PublishOptions)) {
	tb.Helper()
	if _, err := d.TryPublish(tb, version, "", change); err != nil {
		tb.Fatal(err)
	}
}

// TryPublish is PublishWith for goroutines, which must not end the test, and for
// bundles with more content.
func (d Desk) TryPublish(tb testing.TB, version, content string, change func(*release.PublishOptions)) (*release.Plan, error) {
	bundles, err := gather(tb.TempDir(), version, content, "App_"+version+"_amd64.AppImage.tar.gz")
	if err != nil {
		return nil, err
	}
	o := release.PublishOptions{Options: release.Options{Channel: "stable", AllowMissing: []string{"windows-x86_64", "darwin-x86_64", "darwin-aarch64"}},
		Version: version, Bundles: bundles, Unlock: d.unlock}
	change(&o)
	return d.Publish(tb.Context(), o)
}

// Version returns the version that an answer offers, "none" for 204.
func (a Answer) Version(tb testing.TB) string {
	tb.Helper()
	if a.Status == http.StatusNoContent && len(a.Body) == 0 {
		return "none"
	}
	var offer struct {
		Version, URL, Signature string
		PubDate                 time.Time `json:"pub_date"`
	}
	if err := json.Unmarshal(a.Body, &offer); a.Status != 200 || err != nil || offer.URL == "" || offer.Signature == "" || offer.PubDate.IsZero() {
		tb.Errorf("%d %.300s: %v", a.Status, a.Body, err)
	}
	// The updater has to read it as the dynamic form.
	response, err := manifest.ParseResponse(a.Body)
	if err != nil || response.Platforms != nil || response.Version.String() != offer.Version {
		tb.Errorf("the updater makes of %.300s: %+v, %v", a.Body, response, err)
	}
	return offer.Version
}
