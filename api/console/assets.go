package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// asset is an embedded file, ready to be sent.
type asset struct {
	contentType  string
	cacheControl string
	plain        []byte
	compressed   []byte // nil where compression gains nothing
}

// hashed matches the names that change with the content.
var hashed = regexp.MustCompile(`-[A-Z0-9]{8}\.[a-z]+$`)

// assets returns the embedded files by their path below /console/.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := dist.ReadFile(name)
		all[strings.TrimPrefix(name, "dist/")] = newAsset(name, data)
		return err
	})
	if err != nil {
		panic(err) // an embedded file system has no errors
	}
	return all
})

func newAsset(name string, data []byte) asset {
	a := asset{contentType: mime.TypeByExtension(path.Ext(name)), cacheControl: "no-store", plain: data}
	if path.Ext(name) != ".html" {
		a.cacheControl = "public, max-age=3600"
	}
	if hashed.MatchString(name) {
		a.cacheControl = "public, max-age=31536000, immutable"
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level has no error
	_, _ = z.Write(data)
	if z.Close() == nil && b.Len() < len(data) {
		a.compressed = b.Bytes()
	}
	return a
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", a.cacheControl)
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if a.compressed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.compressed
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may be gone; net/http drops the body of HEAD
}
