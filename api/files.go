package api

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

// entity is one form of what an address shows, as HTTP sees it.
type entity struct {
	etag     string // with its quotes
	modified time.Time
	size     int64  // bytes
	data     []byte // nil if it is in the store
	tag      []string
	content  []line // headers of 200 and 206, besides those of 304
}

// newEntity describes an object with this suffix to its ETag.
func newEntity(info object.Info, suffix string, size int64, contentType string) *entity {
	e := &entity{etag: strconv.Quote(info.ETag + suffix), modified: info.ModTime.UTC().Truncate(time.Second), size: size}
	e.tag = []string{e.etag}
	e.content = []line{
		{"Last-Modified", []string{e.modified.Format(http.TimeFormat)}}, {"X-Content-Type-Options", []string{"nosniff"}},
		{"Content-Type", []string{contentType}}, {"Content-Length", []string{strconv.FormatInt(size, 10)}},
	}
	return e
}

// begin writes the headers of an answer, which there is more to if it is 200 or
// 206 to a GET.
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

// beyond answers a range that lies behind the end.
func (s *Server) beyond(w http.ResponseWriter, r *http.Request, e *entity) {
	w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", e.size))
	s.fail(w, r, refuse(http.StatusRequestedRangeNotSatisfiable, "the file has %d bytes", e.size))
}

// serveObject answers with an object of the store, a part of it, or that the
// client has it. It reports whether the client got the object's last bytes.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, key string, cacheControl []string, contentType string) (last bool) {
	// The deadline is for the head of the answer; its body takes as long as it takes.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	late := time.AfterFunc(s.deadline, cancel)
	e, v, body, err := s.openObject(r.WithContext(ctx), key, contentType)
	if !late.Stop() && err != nil {
		err = fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	}
	switch {
	case err != nil:
		s.noObject(w, r, err)
		return false
	case v.status == http.StatusRequestedRangeNotSatisfiable:
		s.beyond(w, r, e)
		return false
	}
	w.Header()["Accept-Ranges"] = acceptRanges
	e.begin(w, v, cacheControl)
	if body == nil {
		return false
	}
	defer body.Close()
	return s.stream(w, r, key, body, v.length) && v.offset+v.length == e.size
}

var acceptRanges = []string{"bytes"}

// noObject answers why an object can't be served.
func (s *Server) noObject(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrBadKey) {
		s.fail(w, r, refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	f := s.explain(r, err)
	f.status = http.StatusServiceUnavailable
	s.fail(w, r, f)
}

// openObject opens as much of an object as a request gets; the body is nil if
// that is nothing.
func (s *Server) openObject(r *http.Request, key, contentType string) (*entity, verdict, io.ReadCloser, error) {
	if conditional(r) {
		e, v, body, err := s.openPart(r, key, contentType)
		if v.status != http.StatusOK || r.Method == http.MethodHead || err != nil {
			return e, v, body, err
		}
	}
	body, info, err := s.Objects.Get(r.Context(), key)
	if err != nil {
		return nil, verdict{}, nil, err
	}
	e := newEntity(info, "", info.Size, contentType)
	return e, e.whole(), body, nil
}

// openPart judges a request before anything is opened. An object that changes
// meanwhile is sent whole: nobody is owed a part.
func (s *Server) openPart(r *http.Request, key, contentType string) (*entity, verdict, io.ReadCloser, error) {
	info, err := s.Objects.Stat(r.Context(), key)
	if err != nil {
		return nil, verdict{}, nil, err
	}
	e := newEntity(info, "", info.Size, contentType)
	v := e.judge(r, "")
	if v.status != http.StatusPartialContent {
		return e, v, nil, nil
	}
	body, err := s.Objects.GetRange(r.Context(), key, info.ETag, v.offset, v.length)
	if errors.Is(err, object.ErrChanged) {
		return e, e.whole(), nil, nil
	}
	return e, v, body, err
}

const (
	writePiece = 128 << 10 // bytes that a client may take writeTime for
	sendPiece  = 256 << 10 // likewise, where the kernel sends them
)

// pieces are buffers for streams.
var pieces = sync.Pool{New: func() any { return new([writePiece]byte) }}

// stream copies a body of a length; each piece may take writeTime, the whole as
// long as it takes. It reports whether the connection took all of it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key string, body io.Reader, length int64) (taken bool) {
	var err error
	if _, isFile := body.(syscall.Conn); isFile && r.ProtoMajor == 1 {
		taken, err = sendPieces(w, body, length)
	} else {
		taken, err = writePieces(w, body, length)
	}
	if err != nil && r.Context().Err() == nil {
		noteOf(r).failed(fmt.Errorf("%s broke off: %w", key, err))
		panic(http.ErrAbortHandler) // a short answer must not look whole
	}
	return taken
}

// writePieces copies through memory. The errors are those of reading; a client
// that goes away is none, and has not taken it all.
func writePieces(w http.ResponseWriter, body io.Reader, length int64) (taken bool, err error) {
	buf := pieces.Get().(*[writePiece]byte)
	defer pieces.Put(buf)
	for length > 0 {
		n, err := io.ReadFull(body, buf[:min(length, writePiece)])
		allow(w)
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

// sendPieces likewise lets the kernel copy a file to the connection where it can.
func sendPieces(w http.ResponseWriter, body io.Reader, length int64) (taken bool, err error) {
	for length > 0 {
		allow(w)
		n, err := io.CopyN(w, body, min(length, sendPiece))
		var gone *net.OpError
		switch {
		case err == io.EOF:
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
