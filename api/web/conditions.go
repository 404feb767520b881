package web

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// verdict is the answer to a request's conditions and range.
type verdict struct {
	status         int // 200, 206, 304 or 416
	etag           string
	offset, length int64 // of 200 and 206, in bytes
}

func (e *entity) whole() verdict { return verdict{http.StatusOK, e.etag, 0, e.size} }

// conditional reports whether a request may get less than the whole entity.
func conditional(r *http.Request) bool {
	h := r.Header
	return r.Method != http.MethodGet || h["Range"] != nil || h["If-None-Match"] != nil || h["If-Modified-Since"] != nil
}

// judge evaluates the conditions of a request and its range. same is the ETag of another form
// that the client can use as well, or empty. Several ranges, malformed ones, and those whose
// If-Range names another entity are ignored.
func (e *entity) judge(r *http.Request, same string) verdict {
	v := e.whole()
	if tags := r.Header["If-None-Match"]; tags != nil {
		switch {
		case matches(tags, e.etag):
			v.status = http.StatusNotModified
		case same != "" && matches(tags, same):
			v.status, v.etag = http.StatusNotModified, same
		}
	} else if since := r.Header.Get("If-Modified-Since"); since != "" {
		if t, err := http.ParseTime(since); err == nil && !e.modified.After(t) {
			v.status = http.StatusNotModified
		}
	}
	ranges, of := r.Header["Range"], r.Header["If-Range"]
	if v.status != http.StatusOK || r.Method != http.MethodGet || len(ranges) != 1 || of != nil && (len(of) > 1 || of[0] != e.etag) {
		return v
	}
	v.status, v.offset, v.length = cut(ranges[0], e.size)
	return v
}

// matches compares If-None-Match headers with an ETag, weakly.
func matches(headers []string, etag string) bool {
	if len(headers) == 1 && headers[0] == etag {
		return true // the usual case
	}
	for _, header := range headers {
		for candidate := range strings.SplitSeq(header, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == "*" || candidate == etag {
				return true
			}
		}
	}
	return false
}

// cut reads a Range header: 206 for one range, 416 if it begins after the end, and 200 with
// everything for any other header.
func cut(header string, size int64) (status int, offset, length int64) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, isRange := strings.Cut(spec, "-")
	from, hasFrom := position(first)
	to, hasTo := position(last)
	switch {
	case !isBytes || !isRange || !hasFrom && first != "" || !hasTo && last != "" || !hasFrom && !hasTo:
		return http.StatusOK, 0, size
	case !hasFrom: // the last bytes
		from, to = size-min(to, size), math.MaxInt64
	case !hasTo:
		to = math.MaxInt64
	case to < from:
		return http.StatusOK, 0, size
	}
	if from >= size {
		return http.StatusRequestedRangeNotSatisfiable, 0, 0
	}
	return http.StatusPartialContent, from, min(to, size-1) - from + 1
}

// position reads a number of bytes, at most math.MaxInt64.
func position(text string) (n int64, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(text, 10, 64) // math.MaxInt64 if it is out of range
	return n, true
}
