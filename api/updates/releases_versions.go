package updates

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/signing"
)

// maxVersions bounds the versions of an answer.
const maxVersions = 500

// Versions are the releases in the store.
type Versions struct {
	Versions []VersionRow `json:"versions"` // newest first
	More     int          `json:"more"`     // older ones that are left out
}

// VersionRow is a version in the store.
type VersionRow struct {
	Version    string         `json:"version"`
	Date       time.Time      `json:"date,omitzero"` // when it was published, or last staged
	Size       int64          `json:"size"`          // of everything in its folder, in bytes
	Channels   []string       `json:"channels"`      // that show it to everybody
	Rollouts   map[string]int `json:"rollouts"`      // percentage by channel that offers it to some; 0 while paused
	RolledBack []string       `json:"rolled_back"`   // channels that were rolled back from it
	Pruned     bool           `json:"pruned"`        // bundles of it were removed, and not put back
	Staged     []string       `json:"staged"`        // targets that wait to be published; empty if it is complete
}

func (s *Releases) versions(r *http.Request) (any, error) {
	return s.answers.get(r.Context(), "versions", func(ctx context.Context) (any, error) {
		found, err := s.Publisher.Library().Survey(ctx)
		if err != nil {
			return nil, readable(err)
		}
		v := Versions{Versions: []VersionRow{}, More: max(0, len(found)-maxVersions)}
		for i := len(found) - 1; i >= v.More; i-- {
			v.Versions = append(v.Versions, versionRow(&found[i]))
		}
		return v, nil
	})
}

func versionRow(f *library.Surveyed) VersionRow {
	row := VersionRow{Version: f.Version.Version, Date: f.Date, Size: f.Size, Channels: f.Channels, Rollouts: map[string]int{},
		RolledBack: append([]string{}, f.RolledBack...), Pruned: f.Pruned, Staged: []string{}}
	for name, rollout := range f.Rollouts {
		row.Rollouts[name] = rollout.Share()
	}
	for _, staged := range f.Staged {
		row.Staged = append(row.Staged, staged.Target)
	}
	return row
}

// VersionDetail is a release with its bundles.
type VersionDetail struct {
	Version string    `json:"version"`
	Notes   string    `json:"notes"`
	PubDate time.Time `json:"pub_date"`
	Who     string    `json:"who"`
	manifest.Extra
	Bundles []BundleRow `json:"bundles"`
}

// BundleRow is a bundle and what its signature says, which was verified when the release
// was published and whenever a channel moves to it.
type BundleRow struct {
	Name    string   `json:"name"`
	Keys    []string `json:"keys"`
	Size    int64    `json:"size"`
	BLAKE2b string   `json:"blake2b"`
	// KeyID names the key that signed it, empty for a file that updates nobody.
	KeyID   string `json:"key_id,omitempty"`
	Trusted bool   `json:"trusted"` // by this server
	Bound   bool   `json:"bound"`   // the signature names the version
}

func (s *Releases) version(r *http.Request) (any, error) {
	record, err := s.Publisher.Library().Record(r.Context(), chi.URLParam(r, "version"))
	if refusal, ok := errors.AsType[*release.Refusal](err); ok {
		return nil, web.Refuse(http.StatusNotFound, "%.300s", refusal.Error())
	}
	if err != nil {
		return nil, readable(err)
	}
	d := VersionDetail{Version: record.Version, Notes: record.Notes, PubDate: record.PubDate, Who: record.Who, Extra: record.Extra, Bundles: []BundleRow{}}
	for _, b := range record.Bundles {
		d.Bundles = append(d.Bundles, bundleRow(b, s.Publisher.Keys))
	}
	return d, nil
}

func bundleRow(b library.Stored, keys signing.Keyring) BundleRow {
	row := BundleRow{Name: b.Name, Keys: append([]string{}, b.Keys...), Size: b.Size, BLAKE2b: b.BLAKE2b}
	if sig, err := signing.ParseSignature(b.Signature); b.Signature != "" && err == nil {
		row.KeyID = sig.KeyID()
		_, row.Trusted = keys.Find(row.KeyID)
		_, row.Bound = sig.Version()
	}
	return row
}

// readable turns the error of a log or record that is not believed into an answer.
func readable(err error) error {
	if errors.Is(err, channels.ErrLog) || errors.Is(err, channels.ErrUnsigned) || errors.Is(err, library.ErrStored) {
		return &web.Failure{Status: http.StatusServiceUnavailable, Cause: err, Messages: []string{"what the store holds is not what was published, or can't be read: `tsmon channel verify` says what"}}
	}
	return err
}
