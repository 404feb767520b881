package channels

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"

	"tsmon/channels/downloads"
)

// Downloads returns what new users get of the release that an entry shows to
// everybody; publicURL as in Release.Render.
func (e *Entry) Downloads(publicURL string) downloads.List {
	return e.Release.downloads(publicURL, e.Sequence)
}

func (r *Release) downloads(publicURL string, sequence uint64) downloads.List {
	d := downloads.List{Version: r.Version, PubDate: r.PubDate, Files: []downloads.File{}, Sequence: sequence}
	for _, f := range r.Files {
		d.Files = append(d.Files, downloads.File{Name: path.Base(f.Path), URL: publicURL + escaped(f.Path), Size: f.Size, BLAKE2b: f.BLAKE2b, Keys: append([]string{}, f.Keys...)})
	}
	return d
}

// lists reports whether data is the list of downloads that a view shows, and the
// public URL that it was rendered with, empty if it lists nothing. Nothing is as good
// as an empty list.
func (v View) lists(data []byte) (publicURL string, ok bool) {
	if data == nil {
		return "", len(v.release.Files) == 0
	}
	var d downloads.List
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
