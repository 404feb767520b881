package influx

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"
	"golang.org/x/sync/errgroup"

	"tsmon/store/series"
)

// perRequest is about how many bytes of line protocol go in one request. Requests cost
// the server much more than lines: it syncs its log for each.
const perRequest = 4 << 20

// Write compares the kinds with the cached ones before it sends anything. If another writer
// has just created a field with another kind, the server rejects that field and keeps the
// other samples.
func (s *Store) Write(ctx context.Context, database string, samples []series.Sample) error {
	var check series.Encoder
	text, err := encode(samples, check.Append)
	if err != nil {
		return err
	}
	return s.call(ctx, "write to", database, func() error {
		kinds := check.Kinds()
		m, known, err := s.kindsOf(ctx, database, slices.Collect(maps.Keys(kinds)))
		if err != nil {
			return err
		}
		for k, kind := range kinds {
			if have, ok := known[k]; ok && have != kind {
				return series.OtherKind(k, have, kind)
			}
		}
		err = s.server.send(ctx, database, samples, text)
		if err == nil || errors.Is(err, series.ErrExpired) {
			m.wrote(kinds)
		}
		return err
	})
}

// encoding is samples in line protocol: one text, or two that are sent at the same time.
// All lines of a measurement are in the same text, so that the later of two values with the
// same time wins.
type encoding []*lines

type lines struct {
	text []byte
	ends []int // of the requests that text is divided into
	sent int   // the last of ends
}

// cut ends a request with what has been appended since the last one.
func (l *lines) cut() {
	if len(l.text) > l.sent {
		l.sent = len(l.text)
		l.ends = append(l.ends, l.sent)
	}
}

// divided is the number of samples from which on two requests at once are faster than one.
// The server reads the lines of a request on one core.
const divided = 2000

// rooms are buffers to use again: new memory costs as much time as filling it.
var rooms = sync.Pool{New: func() any { return new(lines) }}

var seed = maphash.MakeSeed()

// encode appends samples to the texts of their measurements. The caller releases the texts
// once no request can read them any more.
func encode(samples []series.Sample, add func([]byte, series.Sample) ([]byte, error)) (encoding, error) {
	e := encoding{room()}
	if len(samples) >= divided {
		e = append(e, room())
	}
	for _, sample := range samples {
		l := e[0]
		if len(e) > 1 {
			l = e[maphash.String(seed, sample.Measurement)%2]
		}
		var err error
		if l.text, err = add(l.text, sample); err != nil {
			e.release()
			return nil, err
		}
		if len(l.text)-l.sent >= perRequest {
			l.cut()
		}
	}
	for _, l := range e {
		l.cut()
	}
	return e, nil
}

func room() *lines {
	l := rooms.Get().(*lines)
	l.text, l.ends, l.sent = l.text[:0], l.ends[:0], 0
	return l
}

func (e encoding) release() {
	for _, l := range e {
		rooms.Put(l)
	}
}

// unchecked encodes what this package has computed: its names may be longer and its sums
// larger than those of samples may be.
func unchecked(dst []byte, s series.Sample) ([]byte, error) { return series.AppendLine(dst, s), nil }

// post writes lines. It uses the address of 1.x, which on 2.x writes to the bucket that
// queries of the database read.
func (s *server) post(ctx context.Context, database string, lines []byte) error {
	address := s.client.HTTPService().ServerURL() + "write?" + url.Values{"db": {database}, "precision": {"ns"}}.Encode()
	err := s.do(ctx, http.MethodPost, address, bytes.NewReader(lines), discard)
	if refused, ok := errors.AsType[*client.Error](err); ok && errors.Is(s.meaning(refused), series.ErrExpired) {
		return fmt.Errorf("%w: %.200q", series.ErrExpired, refused.Message)
	}
	return err
}

// hidden is the measurement that TryWrite writes. Readers can't name it.
const hidden = "_tsmon"

// hiddenBytes is more than can be free in the last block of the server's log.
const hiddenBytes = 4200

// TryWrite leaves one point a day, of 4 KiB, in a measurement that nothing lists.
func (s *Store) TryWrite(ctx context.Context, database string) error {
	return s.call(ctx, "test a write to", database, func() error {
		filler := make([]byte, hiddenBytes*3/4)
		rand.Read(filler) // never fails; the log is compressed
		line := series.AppendLine(nil, series.Sample{
			Measurement: hidden, Fields: map[string]any{"filler": base64.StdEncoding.EncodeToString(filler)}, Time: s.now().Truncate(day),
		})
		if err := s.server.post(ctx, database, line); !errors.Is(err, series.ErrExpired) {
			return err
		}
		return nil // the database keeps less than a day
	})
}

// send sends the text of samples in order.
func (s *server) send(ctx context.Context, database string, samples []series.Sample, text encoding) error {
	gemini := s.gemini.is.Load()
	if gemini {
		if err := s.gemini.storable(samples); err != nil {
			return err
		}
		if fewer := latest(samples); fewer != nil {
			text.release()
			var err error
			if text, err = encode(fewer, unchecked); err != nil {
				return err
			}
		}
	}
	expired := make([]error, len(text))
	var all errgroup.Group
	for i, l := range text {
		all.Go(func() (err error) {
			expired[i], err = s.sendLines(ctx, database, l)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err // a request that was cut may go on reading its text
	}
	text.release()
	old := cmp.Or(expired...)
	if gemini {
		return errors.Join(old, s.awaitKept(ctx, database, samples, old != nil))
	}
	return old
}

// sendLines sends the requests of l in order. Lines that are older than the database's
// retention don't end it: expired is the first error about such lines.
func (s *server) sendLines(ctx context.Context, database string, l *lines) (expired, err error) {
	begin := 0
	for _, end := range l.ends {
		err := s.post(ctx, database, l.text[begin:end])
		if err != nil && !errors.Is(err, series.ErrExpired) {
			return expired, err
		}
		expired = cmp.Or(err, expired)
		begin = end
	}
	return expired, nil
}

// discard reads an answer to its end, so that the connection can be used again.
func discard(answer *http.Response) error {
	_, err := io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// Fields returns the first of float, integer, boolean and text for a field whose kind differs
// between shards.
func (s *Store) Fields(ctx context.Context, database string) (fields map[series.Key]series.Kind, err error) {
	err = s.call(ctx, "list fields of", database, func() (err error) {
		fields, err = s.server.fieldKeys(ctx, database)
		return err
	})
	return fields, err
}

func (s *server) fieldKeys(ctx context.Context, database string) (map[series.Key]series.Kind, error) {
	q := s.query()
	q.add("SHOW FIELD KEYS")
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return nil, err
	}
	kinds := map[series.Key]series.Kind{}
	for _, r := range rows[0] {
		if strings.HasPrefix(r.Name, "_") { // which no reader can name
			continue
		}
		for _, cells := range r.Values {
			if len(cells) != 2 {
				return nil, errIncomplete
			}
			field, _ := cells[0].(string)
			name, _ := cells[1].(string)
			k := series.Key{Measurement: r.Name, Field: field}
			if kind := kindNamed[name]; kind != 0 && (kinds[k] == 0 || kind < kinds[k]) {
				kinds[k] = kind
			}
		}
	}
	return kinds, nil
}

var kindNamed = map[string]series.Kind{
	"float": series.Float, "integer": series.Integer, "unsigned": series.Integer, "boolean": series.Boolean, "string": series.Text,
}
