// Package manifest is latest.json, the update manifest of a Tauri desktop
// application: its type, strict decoding, canonical encoding, and the rules by
// which an installed application reads it.
//
// # Two readers
//
// Manifests that this project writes follow the strict rules of Check: no unknown,
// duplicate or missing member, a version without a leading v, a UTC date, absolute
// http(s) addresses of files that the platform can install, signatures that are the
// content of a .sig file. An installed application is looser in some ways and
// stricter in others: one bad platform breaks the update for every platform.
// ParseResponse, Lookup and OfferTo follow the updater plugin 2.14.1 step by step,
// so that a manifest can be tried before any client sees it.
//
// # Shape
//
//	{
//	  "version": "1.4.0",
//	  "notes": "…",
//	  "pub_date": "2026-11-21T10:00:00Z",
//	  "platforms": {
//	    "windows-x86_64": {"signature": "<content of .sig>", "url": "https://…"}
//	  },
//	  "minimum_version": "1.2.0",
//	  "critical": true,
//	  "critical_below": "1.4.0",
//	  "watershed": true,
//	  "sequence": 12
//	}
//
// The last five are ours and optional. The updater ignores members that it does
// not know, and the application can read them (rawJson).
//
// sequence is the number of the channel's log entry that the manifest shows. It
// makes the bytes of every state of a channel unique, and with them the ETag that
// conditional replacement relies on.
package manifest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// MaxSize bounds a manifest, in bytes.
const MaxSize = 1 << 20

// MaxSequence is the largest sequence that every JSON reader represents exactly.
const MaxSequence = 1<<53 - 1

// Manifest is one state of a channel as clients see it.
type Manifest struct {
	Version   string              `json:"version"`   // semantic version, no leading v
	Notes     string              `json:"notes"`     // release notes, may be empty
	PubDate   time.Time           `json:"pub_date"`  // UTC, whole seconds
	Platforms map[string]Platform `json:"platforms"` // by platform key, see ParseKey
	Extra
	// CriticalBelow is the newest version up to this one that was Critical, empty if there
	// is none: clients below it lack that update.
	CriticalBelow string `json:"critical_below,omitempty"`
	Sequence      uint64 `json:"sequence,omitempty"` // number of the log entry, from 1
}

// Extra holds members for the application, which the updater ignores.
type Extra struct {
	// MinimumVersion is the oldest version that may remain in use; empty for any.
	// The application decides what to do with an older one.
	MinimumVersion string `json:"minimum_version,omitempty"`
	// Critical means that the update should not be postponed.
	Critical bool `json:"critical,omitempty"`
	// Watershed means that older versions must install this one first: a server
	// offers them nothing newer.
	Watershed bool `json:"watershed,omitempty"`
}

// Platform is what clients of one platform key download.
type Platform struct {
	Signature string `json:"signature"` // content of the bundle's .sig file
	URL       string `json:"url"`       // absolute http(s) address of the bundle
}

// Keys returns the platform keys in byte order.
func (m *Manifest) Keys() []string {
	return slices.Sorted(maps.Keys(m.Platforms))
}

// Encode returns the canonical bytes: members in the order of the type, platform
// keys sorted, two spaces of indentation, one newline at the end. Equal manifests
// give equal bytes.
func (m *Manifest) Encode() ([]byte, error) {
	canonical := *m
	canonical.PubDate = m.PubDate.UTC().Truncate(time.Second)
	if canonical.Platforms == nil {
		canonical.Platforms = map[string]Platform{} // null would be the dynamic form
	}
	return JSON(canonical)
}

// JSON returns a value as the store keeps it and as people read it: with two spaces of
// indentation, one newline at the end, and <, > and & as they are.
func JSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return buf.Bytes(), err
}
