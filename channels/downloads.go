package channels

import (
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

// listBase returns the public URL that a list of the release's downloads was rendered with,
// empty if it lists nothing.
func (r *Release) listBase(data []byte) (publicURL string, ok bool) {
	var d downloads.List
	if json.Unmarshal(data, &d) != nil {
		return "", false
	}
	if len(r.Files) > 0 && len(d.Files) > 0 {
		publicURL = strings.TrimSuffix(d.Files[0].URL, escaped(r.Files[0].Path))
	}
	return publicURL, true
}
