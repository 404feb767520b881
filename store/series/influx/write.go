package influx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"tsmon/store/series"
)

// perRequest is about how many bytes of line protocol go in one request. Requests cost
// the server much more than lines: it syncs its log for each.
const perRequest = 4 << 20

// Write implements series.Store. It compares the kinds with the cached ones before
// it sends anything. If another writer has just created a field with another kind,
// the server rejects that field and keeps the other samples.
func (s *Store) Write(ctx context.Context, database string, samples []series.Sample) (err error) {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	if err := series.ValidSamples(samples); err != nil {
		return err
	}
	defer s.server.explain(ctx, "write to "+database, &err)
	kinds, err := kindsIn(samples)
	if err != nil {
		return err
	}
	m, known, err := s.kindsOf(ctx, database, slices.Collect(maps.Keys(kinds)))
	if err != nil {
		return err
	}
	for k, kind := range kinds {
		if have, ok := known[k]; ok && have != kind {
			return conflict(k, have, kind)
		}
	}
	err = s.server.send(ctx, database, samples)
	if err == nil || errors.Is(err, series.ErrExpired) {
		m.wrote(kinds)
	}
	return err
}

// send sends samples in order. It uses the address of 1.x: on 2.x too, that writes to
// the bucket which queries of the database read.
func (s *server) send(ctx context.Context, database string, samples []series.Sample) error {
	service := s.client.HTTPService()
	address := service.ServerURL() + "write?" + url.Values{"db": {database}, "precision": {"ns"}}.Encode()
	has := s.gemini.is.Load()
	if has {
		if err := s.gemini.storable(samples); err != nil {
			return err
		}
	}
	var lines []byte
	var expired error
	for i, sample := range samples {
		if lines = series.AppendLine(lines, sample); len(lines) < perRequest && i < len(samples)-1 {
			continue
		}
		// Its error has a type of its own, which is no nil error.
		if refused := service.DoPostRequest(ctx, address, bytes.NewReader(lines), nil, discard); refused != nil {
			if !errors.Is(meaning(refused), series.ErrExpired) {
				return refused
			}
			expired = fmt.Errorf("%w: %.200q", series.ErrExpired, refused.Message)
		}
		lines = lines[:0]
	}
	if has {
		return errors.Join(expired, s.awaitKept(ctx, database, samples, expired != nil))
	}
	return expired
}

// discard reads an answer that says nothing, so that the connection can be used again.
func discard(answer *http.Response) error {
	_, err := io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// kindsIn returns the kinds of the fields that samples hold.
func kindsIn(samples []series.Sample) (map[series.Key]series.Kind, error) {
	kinds := map[series.Key]series.Kind{}
	for _, sample := range samples {
		for field, value := range sample.Fields {
			k := series.Key{Measurement: sample.Measurement, Field: field}
			kind, err := series.KindOf(value)
			if err != nil {
				return nil, err
			}
			if have, ok := kinds[k]; ok && have != kind {
				return nil, conflict(k, have, kind)
			}
			kinds[k] = kind
		}
	}
	return kinds, nil
}

func conflict(k series.Key, have, kind series.Kind) error {
	return fmt.Errorf("%s holds %s, not %s: %w", k, have, kind, series.ErrKind)
}

// Fields implements series.Store. A field whose kind differs between shards has the
// first of its kinds in the order float, integer, boolean, text.
func (s *Store) Fields(ctx context.Context, database string) (_ map[series.Key]series.Kind, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return nil, err
	}
	defer s.server.explain(ctx, "fields of "+database, &err)
	return s.server.fieldKeys(ctx, database)
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
