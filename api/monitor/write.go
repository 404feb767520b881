package monitor

import (
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"tsmon/store/series"
)

// Bounds of a request that writes time series.
const (
	maxLines  = 64 << 20 // bytes of line protocol, unpacked
	batchSize = 5000     // samples that are stored at a time
	linesTime = 2 * time.Minute
)

// write takes line protocol as InfluxDB's own /api/v2/write does, so that
// Telegraf can feed the embedded store. Batches before a line that is wrong
// stay; writing all of them again changes nothing.
func (s *Server) write(w http.ResponseWriter, r *http.Request) {
	err := s.writeLines(w, r)
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status, code := writeProblem(err)
	text := err.Error()
	if status >= http.StatusInternalServerError {
		noteOf(r).failed(err)
		text = s.explain(r, err).Error()
	}
	s.send(w, r, status, struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{code, text})
}

var (
	errWriteToken = errors.New("the token is missing or wrong")
	errBucket     = errors.New("bucket is none of this server")
	errGzip       = fmt.Errorf("%w: the body is not gzip, or not all of it", series.ErrInvalid)
)

// writeProblem gives errors the status and code that InfluxDB has for them.
func writeProblem(err error) (status int, code string) {
	switch {
	case errors.Is(err, errWriteToken):
		return http.StatusUnauthorized, "unauthorized"
	case errors.Is(err, errBucket), errors.Is(err, series.ErrNoDatabase):
		return http.StatusNotFound, "not found"
	case errors.Is(err, series.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge, "request too large"
	case errors.Is(err, series.ErrInvalid), errors.Is(err, series.ErrName):
		return http.StatusBadRequest, "invalid"
	case errors.Is(err, series.ErrKind):
		return http.StatusUnprocessableEntity, "unprocessable entity"
	case errors.Is(err, series.ErrUnavailable):
		return http.StatusServiceUnavailable, "unavailable"
	}
	return http.StatusInternalServerError, "internal error"
}

func (s *Server) writeLines(w http.ResponseWriter, r *http.Request) error {
	if !s.mayWrite(r) {
		return errWriteToken
	}
	query := r.URL.Query()
	unit, err := precision(query.Get("precision"))
	if err != nil {
		return err
	}
	bucket := query.Get("bucket")
	if err := s.isDatabase(r, bucket); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(linesTime)) // unsupported by recorders alone
	lines, err := unpacked(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), linesTime)
	defer cancel()
	return s.storeAll(ctx, r, bucket, series.Lines(lines, unit, s.Now()))
}

// storeAll writes samples in batches until one can't be read, or the database
// fails. Those that are left out keep none of the others back.
func (s *Server) storeAll(ctx context.Context, r *http.Request, bucket string, samples iter.Seq2[series.Sample, error]) error {
	var leftOut error
	batch := make([]series.Sample, 0, batchSize)
	flush := func() error {
		err := s.store(ctx, r, bucket, batch)
		batch = batch[:0]
		if errors.Is(err, series.ErrKind) {
			leftOut, err = cmp.Or(leftOut, err), nil
		}
		return err
	}
	for sample, err := range samples {
		if err != nil {
			return err
		}
		if batch = append(batch, sample); len(batch) == batchSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(batch) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return leftOut
}

// store writes a batch. Points of another kind than their field's are left out,
// as InfluxDB does, and who sent them is told which was the first. What else the
// database says goes to the log.
func (s *Server) store(ctx context.Context, r *http.Request, bucket string, batch []series.Sample) error {
	err := s.Series.Write(ctx, bucket, batch)
	switch {
	case errors.Is(err, series.ErrKind) && len(batch) > 1:
		half := len(batch) / 2
		first := s.store(ctx, r, bucket, batch[:half])
		second := s.store(ctx, r, bucket, batch[half:])
		return cmp.Or(first, second)
	case errors.Is(err, series.ErrKind):
		names := slices.Sorted(maps.Keys(batch[0].Fields))
		return fmt.Errorf("%w: a point of %.80q with %.200q was left out (request %s)", series.ErrKind, batch[0].Measurement, names, noteOf(r).id)
	}
	for _, mistake := range []error{series.ErrNoDatabase, series.ErrTooLarge, series.ErrInvalid, series.ErrName} {
		if errors.Is(err, mistake) {
			noteOf(r).failed(err)
			return fmt.Errorf("%w (request %s)", mistake, noteOf(r).id)
		}
	}
	return err
}

// mayWrite compares the token, which comes as InfluxDB's clients send it.
func (s *Server) mayWrite(r *http.Request) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	known := strings.EqualFold(scheme, "Token") || strings.EqualFold(scheme, "Bearer")
	return sameSecret(sent, s.WriteToken) && known
}

// isDatabase checks that a bucket is a tenant's database.
func (s *Server) isDatabase(r *http.Request, bucket string) error {
	tenants, err := s.Records.Tenants(r.Context())
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t.TsName == bucket {
			return nil
		}
	}
	return errBucket
}

func precision(text string) (time.Duration, error) {
	switch text {
	case "", "ns":
		return time.Nanosecond, nil
	case "us":
		return time.Microsecond, nil
	case "ms":
		return time.Millisecond, nil
	case "s":
		return time.Second, nil
	}
	return 0, fmt.Errorf("%w: precision %.20q is none of ns, us, ms and s", series.ErrInvalid, text)
}

// unpacked returns the body, at most maxLines of it.
func unpacked(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	body := http.MaxBytesReader(w, r.Body, maxLines)
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return body, nil
	case "gzip":
		packed, err := gzip.NewReader(body)
		if err != nil {
			return nil, errGzip
		}
		return http.MaxBytesReader(w, gunzip{packed}, maxLines), nil
	}
	return nil, fmt.Errorf("%w: Content-Encoding is none of gzip and identity", series.ErrInvalid)
}

// gunzip tells what is wrong with the packed bytes from what keeps them from
// arriving.
type gunzip struct{ *gzip.Reader }

func (g gunzip) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(flate.CorruptInputError)) {
		err = errGzip
	}
	return n, err
}
