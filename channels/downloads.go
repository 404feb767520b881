package channels

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"
)

// Downloads is downloads.json: what new users of a channel download. It is of the
// release that everybody gets, never of one that is being rolled out.
type Downloads struct {
	Version string     `json:"version"`
	PubDate time.Time  `json:"pub_date"` // UTC, whole seconds
	Files   []Download `json:"files"`    // sorted by name
	// Sequence is the number of the log entry, which makes the bytes of every state
	// of the channel unique.
	Sequence uint64 `json:"sequence"`
}

// Download is a file that new users download.
type Download struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Size    int64    `json:"size"`    // bytes
	BLAKE2b string   `json:"blake2b"` // BLAKE2b-512 of the bytes, hex, as b2sum prints it
	Keys    []string `json:"keys"`    // OS-ARCH or OS-ARCH-TYPE, sorted; may be none
}

// Downloads returns what new users get of the release that an entry shows to
// everybody; publicURL as in Release.Render.
func (e *Entry) Downloads(publicURL string) Downloads {
	return e.Release.downloads(publicURL, e.Sequence)
}

func (r *Release) downloads(publicURL string, sequence uint64) Downloads {
	d := Downloads{Version: r.Version, PubDate: r.PubDate, Files: []Download{}, Sequence: sequence}
	for _, f := range r.Files {
		d.Files = append(d.Files, Download{Name: path.Base(f.Path), URL: publicURL + escaped(f.Path), Size: f.Size, BLAKE2b: f.BLAKE2b, Keys: append([]string{}, f.Keys...)})
	}
	return d
}

// Find returns the file with a key, nil if there is none.
func (d *Downloads) Find(key string) *Download {
	for i := range d.Files {
		if slices.Contains(d.Files[i].Keys, key) {
			return &d.Files[i]
		}
	}
	return nil
}

// Encode returns the bytes of downloads.json. Equal lists give equal bytes.
func (d *Downloads) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(d)
	return buf.Bytes(), err
}

// lists reports whether data is the list of downloads that a view shows, and the
// public URL that it was rendered with, empty if it lists nothing. Nothing is as good
// as an empty list.
func (v View) lists(data []byte) (publicURL string, ok bool) {
	if data == nil {
		return "", len(v.release.Files) == 0
	}
	var d Downloads
	if json.Unmarshal(data, &d) != nil {
		return "", false
	}
	if files := v.release.Files; len(files) > 0 && len(d.Files) > 0 {
		publicURL = strings.TrimSuffix(d.Files[0].URL, escaped(files[0].Path))
	}
	shown := v.release.downloads(publicURL, v.Sequence)
	want, err := shown.Encode()
	return publicURL, err == nil && bytes.Equal(data, want)
}
