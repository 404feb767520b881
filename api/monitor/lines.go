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

	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Bounds of a request that writes time series.
const (
	maxLines  = 64 << 20 // bytes of line protocol, unpacked
	batchSize = 5000     // samples that are stored at a time
	linesTime = 2 * time.Minute
)

// lineWriter accepts line protocol for the embedded store.
type lineWriter struct {
	Options
	web.Responder
}

// write accepts line protocol as InfluxDB's own /api/v2/write does, so that Telegraf
// can feed the embedded store. Batches before a wrong line stay; writing all of them
// again changes nothing.
func (l *lineWriter) write(w http.ResponseWriter, r *http.Request) {
	err := l.writeLines(w, r)
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status, code := writeProblem(err)
	text := err.Error()
	if status >= http.StatusInternalServerError {
		web.NoteOf(r).Fail(err)
		text = l.Explain(r, err).Error()
	}
	web.Send(w, r, status, struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{code, text})
}

var (
	errWriteToken = errors.New("the token is missing or wrong")
	errBucket     = errors.New("this server has no such bucket")
	errGzip       = fmt.Errorf("%w: the body is not gzip, or not all of it", series.ErrInvalid)
)

// writeProblem returns the status and code that InfluxDB has for an error.
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
	case errors.Is(err, series.ErrKind), errors.Is(err, series.ErrExpired):
		return http.StatusUnprocessableEntity, "unprocessable entity"
	case errors.Is(err, series.ErrUnavailable):
		return http.StatusServiceUnavailable, "unavailable"
	}
	return http.StatusInternalServerError, "internal error"
}

func (l *lineWriter) writeLines(w http.ResponseWriter, r *http.Request) error {
	if !l.allowed(r) {
		return errWriteToken
	}
	query := r.URL.Query()
	unit, ok := precisions[query.Get("precision")]
	if !ok {
		return fmt.Errorf("%w: precision %.20q is none of ns, us, ms and s", series.ErrInvalid, query.Get("precision"))
	}
	bucket := query.Get("bucket")
	if err := l.isDatabase(r, bucket); err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(linesTime)) // unsupported by recorders alone
	lines, err := unpacked(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), linesTime)
	defer cancel()
	return l.storeAll(ctx, r, bucket, series.Lines(lines, unit, l.Now()))
}

// storeAll writes samples in batches until one can't be read or the database fails.
// Samples that are left out do not hold back the others.
func (l *lineWriter) storeAll(ctx context.Context, r *http.Request, bucket string, samples iter.Seq2[series.Sample, error]) error {
	var leftOut error
	err := series.WriteAll(samples, batchSize, func(batch []series.Sample) error {
		err := l.store(ctx, r, bucket, batch)
		if errors.Is(err, series.ErrKind) || errors.Is(err, series.ErrExpired) {
			leftOut, err = cmp.Or(leftOut, err), nil
		}
		return err
	})
	return cmp.Or(err, leftOut)
}

// store writes a batch. Points whose kind differs from their field's are left out, as
// InfluxDB does; the error names the first. Other errors of the database go to the
// log.
func (l *lineWriter) store(ctx context.Context, r *http.Request, bucket string, batch []series.Sample) error {
	err := l.Series.Write(ctx, bucket, batch)
	switch {
	case errors.Is(err, series.ErrKind) && len(batch) > 1:
		half := len(batch) / 2
		first := l.store(ctx, r, bucket, batch[:half])
		second := l.store(ctx, r, bucket, batch[half:])
		return cmp.Or(first, second)
	case errors.Is(err, series.ErrKind):
		names := slices.Sorted(maps.Keys(batch[0].Fields))
		return fmt.Errorf("%w: a point of %.80q with %.200q was left out (request %s)", series.ErrKind, batch[0].Measurement, names, web.NoteOf(r).ID)
	}
	for _, mistake := range []error{series.ErrNoDatabase, series.ErrTooLarge, series.ErrInvalid, series.ErrName, series.ErrExpired} {
		if errors.Is(err, mistake) {
			web.NoteOf(r).Fail(err)
			return fmt.Errorf("%w (request %s)", mistake, web.NoteOf(r).ID)
		}
	}
	return err
}

// allowed compares the token, which InfluxDB's clients send as Token.
func (l *lineWriter) allowed(r *http.Request) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	known := strings.EqualFold(scheme, "Token") || strings.EqualFold(scheme, "Bearer")
	return web.SameSecret(sent, l.WriteToken) && known
}

// isDatabase returns an error unless a bucket is a tenant's database.
func (l *lineWriter) isDatabase(r *http.Request, bucket string) error {
	tenants, err := l.Records.Tenants(r.Context())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(tenants, func(t record.Tenant) bool { return t.TsName == bucket }) {
		return errBucket
	}
	return nil
}

// precisions are the units of timestamps.
var precisions = map[string]time.Duration{
	"": time.Nanosecond, "ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
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

// gunzip turns errors of corrupt data into errGzip; others are of the connection.
type gunzip struct{ *gzip.Reader }

func (g gunzip) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(flate.CorruptInputError)) {
		err = errGzip
	}
	return n, err
}
