package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"tsmon/store/object"
)

// line is a header with its values, which are shared by all answers.
type line struct {
	name   string
	values []string
}

// entity is one representation of a resource, in the sense of HTTP.
type entity struct {
	etag     string // with its quotes
	modified time.Time
	size     int64  // bytes
	data     []byte // nil if it is in the store
	tag      []string
	content  []line // headers of 200 and 206, besides those of 304
}

// newEntity describes an object. suffix is appended to its ETag.
func newEntity(info object.Info, suffix string, size int64, contentType string) *entity {
	e := &entity{etag: strconv.Quote(info.ETag + suffix), modified: info.ModTime.UTC().Truncate(time.Second), size: size}
	e.tag = []string{e.etag}
	e.content = []line{
		{"Last-Modified", []string{e.modified.Format(http.TimeFormat)}}, {"X-Content-Type-Options", []string{"nosniff"}},
		{"Content-Type", []string{contentType}}, {"Content-Length", []string{strconv.FormatInt(size, 10)}},
	}
	return e
}

// begin writes the headers of an answer; the caller writes the body of a 200 or 206
// to a GET.
func (e *entity) begin(w http.ResponseWriter, v verdict, cacheControl []string) {
	header := w.Header()
	header["Etag"] = e.tag
	header["Cache-Control"] = cacheControl
	if v.status == http.StatusNotModified {
		if v.etag != e.etag {
			header["Etag"] = []string{v.etag}
		}
		w.WriteHeader(v.status)
		return
	}
	for _, l := range e.content {
		header[l.name] = l.values
	}
	if v.status == http.StatusPartialContent {
		header["Content-Length"] = []string{strconv.FormatInt(v.length, 10)}
		header["Content-Range"] = []string{fmt.Sprintf("bytes %d-%d/%d", v.offset, v.offset+v.length-1, e.size)}
		w.WriteHeader(v.status)
	}
}

// beyond answers a range that begins past the end.
func beyond(w http.ResponseWriter, r *http.Request, e *entity) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", e.size))
	Responder{}.Fail(w, r, Refuse(http.StatusRequestedRangeNotSatisfiable, "the file has %d bytes", e.size))
}

// Files serves objects of a store: conditional requests, single ranges and streams.
type Files struct {
	Responder
	Store    object.Store
	Deadline time.Duration // until the store has answered; the body may take longer
}

// ServeObject answers with an object, one range of it, or 304. It reports whether
// the client received the object's last bytes.
func (f *Files) ServeObject(w http.ResponseWriter, r *http.Request, key string, cacheControl []string, contentType string) (last bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	late := time.AfterFunc(f.Deadline, cancel)
	e, v, body, err := f.openObject(r.WithContext(ctx), key, contentType)
	if !late.Stop() && err != nil {
		err = fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	}
	switch {
	case err != nil:
		f.NoObject(w, r, err)
		return false
	case v.status == http.StatusRequestedRangeNotSatisfiable:
		beyond(w, r, e)
		return false
	}
	w.Header()["Accept-Ranges"] = acceptRanges
	e.begin(w, v, cacheControl)
	if body == nil {
		return false
	}
	defer body.Close()
	return stream(w, r, key, body, v.length) && v.offset+v.length == e.size
}

var acceptRanges = []string{"bytes"}

// NoObject answers why an object can't be served: 404 or 503.
func (f *Files) NoObject(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrBadKey) {
		f.Fail(w, r, Refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	failure := f.Explain(r, err)
	failure.Status = http.StatusServiceUnavailable
	f.Fail(w, r, failure)
}

// openObject opens the part of an object that the request gets. The body is nil if it gets none.
func (f *Files) openObject(r *http.Request, key, contentType string) (*entity, verdict, io.ReadCloser, error) {
	if conditional(r) {
		e, v, body, err := f.openRange(r, key, contentType)
		if v.status != http.StatusOK || r.Method == http.MethodHead || err != nil {
			return e, v, body, err
		}
	}
	body, info, err := f.Store.Get(r.Context(), key)
	if err != nil {
		return nil, verdict{}, nil, err
	}
	e := newEntity(info, "", info.Size, contentType)
	return e, e.whole(), body, nil
}

// openRange evaluates the conditions before it opens the object. If the object changes in
// between, the verdict is to send all of it.
func (f *Files) openRange(r *http.Request, key, contentType string) (*entity, verdict, io.ReadCloser, error) {
	info, err := f.Store.Stat(r.Context(), key)
	if err != nil {
		return nil, verdict{}, nil, err
	}
	e := newEntity(info, "", info.Size, contentType)
	v := e.judge(r, "")
	if v.status != http.StatusPartialContent {
		return e, v, nil, nil
	}
	body, err := f.Store.GetRange(r.Context(), key, info.ETag, v.offset, v.length)
	if errors.Is(err, object.ErrChanged) {
		return e, e.whole(), nil, nil
	}
	return e, v, body, err
}

const (
	writePiece = 128 << 10 // bytes that a client must take within writeTime
	sendPiece  = 256 << 10 // the same if the kernel sends them
)

// pieces are buffers for streams.
var pieces = sync.Pool{New: func() any { return new([writePiece]byte) }}

// stream copies a body of known length. Each piece must be taken within writeTime, the whole
// may take any time. It reports whether the connection took all of it.
func stream(w http.ResponseWriter, r *http.Request, key string, body io.Reader, length int64) (taken bool) {
	var err error
	if _, isFile := body.(syscall.Conn); isFile && r.ProtoMajor == 1 {
		taken, err = sendPieces(w, body, length)
	} else {
		taken, err = writePieces(w, body, length)
	}
	if err != nil && r.Context().Err() == nil {
		NoteOf(r).Fail(fmt.Errorf("%s broke off: %w", key, err))
		panic(http.ErrAbortHandler) // a short answer must not look whole
	}
	return taken
}

// writePieces copies through memory. Its errors are those of reading; if the client goes away,
// there is no error and taken is false.
func writePieces(w http.ResponseWriter, body io.Reader, length int64) (taken bool, err error) {
	buf := pieces.Get().(*[writePiece]byte)
	defer pieces.Put(buf)
	for length > 0 {
		n, err := io.ReadFull(body, buf[:min(length, writePiece)])
		extendDeadline(w, time.Now())
		if _, gone := w.Write(buf[:n]); gone != nil {
			return false, nil
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return false, err
		}
		length -= int64(n)
	}
	return true, nil
}

// sendPieces does the same, but lets the kernel copy a file if it can.
func sendPieces(w http.ResponseWriter, body io.Reader, length int64) (taken bool, err error) {
	for length > 0 {
		extendDeadline(w, time.Now())
		n, err := io.CopyN(w, body, min(length, sendPiece))
		var gone *net.OpError
		switch {
		case errors.Is(err, io.EOF):
			return false, io.ErrUnexpectedEOF
		case errors.As(err, &gone):
			return false, nil
		case err != nil:
			return false, err
		}
		length -= n
	}
	return true, nil
}
