package api

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"

	"tsmon/store/object"
)

// document is a small JSON text in memory, as it is and compressed. Each form is
// an entity with an ETag of its own.
type document struct {
	plain  *entity
	packed *entity // nil if it would not be smaller
}

func newDocument(data []byte, info object.Info) *document {
	d := &document{plain: newEntity(info, "", int64(len(data)), "application/json")}
	d.plain.data = data
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // which is a level
	_, _ = z.Write(data)                                  // a buffer takes everything
	_ = z.Close()
	if b.Len() < len(data) {
		d.packed = newEntity(info, "-gzip", int64(b.Len()), "application/json")
		d.packed.data = b.Bytes()
		d.packed.content = append(d.packed.content, line{"Content-Encoding", []string{"gzip"}})
	}
	return d
}

// choose returns the form that a request gets, and the ETag of the one that it
// could do with as well: a client that takes gzip reads plain text too.
func (d *document) choose(r *http.Request) (e *entity, same string) {
	if d.packed != nil && takesGzip(r.Header["Accept-Encoding"]) {
		return d.packed, d.plain.etag
	}
	return d.plain, ""
}

// takesGzip reads Accept-Encoding headers.
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

// wanted says that the parameters of a coding do not give it the quality 0.
func wanted(params string) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(params), "=")
	if !strings.EqualFold(name, "q") {
		return true
	}
	q, err := strconv.ParseFloat(value, 64)
	return err == nil && q > 0
}

// documentVary adds to what answers to web pages vary by.
var documentVary = []string{"Origin, Accept-Encoding"}

// serveDocument answers with a document, a part of it, or that the client has
// it.
func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request, d *document, cacheControl []string) {
	w.Header()["Vary"] = documentVary
	e, same := d.choose(r)
	v := e.judge(r, same)
	if v.status == http.StatusRequestedRangeNotSatisfiable {
		s.beyond(w, r, e)
		return
	}
	e.begin(w, v, cacheControl)
	if v.status != http.StatusNotModified && r.Method == http.MethodGet {
		_, _ = w.Write(e.data[v.offset : v.offset+v.length]) // a client that went away
	}
}
