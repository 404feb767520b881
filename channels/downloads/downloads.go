// Package downloads is downloads.json: what new users of a channel download.
package downloads

import (
	"slices"
	"time"

	"tsmon/manifest"
)

// List is of the release that everybody gets, never of one that is being rolled out.
type List struct {
	Version string    `json:"version"`
	PubDate time.Time `json:"pub_date"` // UTC, whole seconds
	Files   []File    `json:"files"`    // sorted by name
	// Sequence is the number of the log entry, which makes the bytes of every state
	// of the channel unique.
	Sequence uint64 `json:"sequence"`
}

// File is one that new users download.
type File struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Size    int64    `json:"size"`    // bytes
	BLAKE2b string   `json:"blake2b"` // BLAKE2b-512 of the bytes, hex, as b2sum prints it
	Keys    []string `json:"keys"`    // OS-ARCH or OS-ARCH-TYPE, sorted; may be none
}

// Find returns the file with a key, nil if there is none.
func (l *List) Find(key string) *File {
	for i := range l.Files {
		if slices.Contains(l.Files[i].Keys, key) {
			return &l.Files[i]
		}
	}
	return nil
}

// Encode returns the bytes of downloads.json. Equal lists give equal bytes.
func (l *List) Encode() ([]byte, error) {
	return manifest.JSON(l)
}
