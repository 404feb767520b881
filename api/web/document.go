package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"

	"tsmon/store/object"
)

// Document is a small JSON text in memory, plain and compressed. Each form has its
// own ETag.
type Document struct {
	plain  *entity
	packed *entity // nil if it would not be smaller
}

// NewDocument compresses data, the content of the object that info describes.
func NewDocument(data []byte, info object.Info) *Document {
	d := &Document{plain: newEntity(info, "", int64(len(data)), "application/json")}
	d.plain.data = data
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails for unknown levels only
	_, _ = z.Write(data)                                  // a bytes.Buffer does not fail
	_ = z.Close()
	if b.Len() < len(data) {
		d.packed = newEntity(info, "-gzip", int64(b.Len()), "application/json")
		d.packed.data = b.Bytes()
		d.packed.content = append(d.packed.content, line{"Content-Encoding", []string{"gzip"}})
	}
	return d
}

// choose returns the form for a request, and the ETag of the other form if the client can use
// that too, as one that accepts gzip can.
func (d *Document) choose(r *http.Request) (e *entity, same string) {
	if d.packed != nil && takesGzip(r.Header["Accept-Encoding"]) {
		return d.packed, d.plain.etag
	}
	return d.plain, ""
}

// takesGzip reports whether Accept-Encoding headers allow gzip.
func takesGzip(headers []string) bool {
	any := false
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			name, params, _ := strings.Cut(part, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				return wanted(params)
			case name == "*":
				any = wanted(params)
			}
		}
	}
	return any
}

// wanted reports whether the parameters of a coding give it a quality above 0.
func wanted(params string) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(params), "=")
	if !strings.EqualFold(name, "q") {
		return true
	}
	q, err := strconv.ParseFloat(value, 64)
	return err == nil && q > 0
}

// documentVary has Origin, too, by which answers to web pages vary.
var documentVary = []string{"Origin, Accept-Encoding"}

// ServeDocument answers with a document, one range of it, or 304.
func ServeDocument(w http.ResponseWriter, r *http.Request, d *Document, cacheControl []string) {
	w.Header()["Vary"] = documentVary
	e, same := d.choose(r)
	v := e.judge(r, same)
	if v.status == http.StatusRequestedRangeNotSatisfiable {
		beyond(w, r, e)
		return
	}
	e.begin(w, v, cacheControl)
	if v.status != http.StatusNotModified && r.Method == http.MethodGet {
		_, _ = w.Write(e.data[v.offset : v.offset+v.length]) // fails if the client went away
	}
}
