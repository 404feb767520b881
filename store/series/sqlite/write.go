package sqlite

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// streams caches the series of the file, none of which is ever deleted. It starts anew when
// it has more than maxStreams.
type streams struct {
	mu  sync.Mutex
	ids map[stream]source
}

const maxStreams = 200_000

type stream struct {
	database int64
	key      series.Key
	tags     string
}

func (s *streams) get(of stream) (source, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.ids[of]
	return k, ok
}

func (s *streams) add(found map[stream]source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) > maxStreams {
		s.ids = map[stream]source{}
	}
	maps.Copy(s.ids, found)
}

func (s *Store) Write(ctx context.Context, database string, samples []series.Sample) error {
	for _, sample := range samples {
		if err := series.ValidSample(sample); err != nil {
			return err
		}
	}
	return call(ctx, s.timeout, "write to "+database, func(ctx context.Context) error {
		b := batch{known: &s.known, found: map[stream]source{}, points: map[source][]point{}}
		err := transact(ctx, s.file.Writer, func(tx statements) error {
			b.statements = tx
			return b.write(ctx, database, samples, s.now())
		})
		if err != nil {
			return err
		}
		s.known.add(b.found)
		if err := s.packSome(ctx, b.count); err != nil || b.expired == 0 {
			return err
		}
		return fmt.Errorf("%w: %d samples", series.ErrExpired, b.expired)
	})
}

// batch is one transaction of Write.
type batch struct {
	statements
	database int64
	known    *streams
	found    map[stream]source // in this transaction; cached once it is committed
	points   map[source][]point
	count    int // of points
	expired  int // samples of days that the database no longer keeps
}

func (b *batch) write(ctx context.Context, database string, samples []series.Sample, now time.Time) (err error) {
	var first int64
	if b.database, first, err = b.statements.find(ctx, database); err != nil {
		return err
	}
	for _, sample := range samples {
		if dayOf(sample.Time.UnixNano()) < first {
			b.expired++
			continue
		}
		tags := string(series.AppendTags(nil, sample.Tags))
		for name, value := range sample.Fields {
			of := stream{b.database, series.Key{Measurement: sample.Measurement, Field: name}, tags}
			one, err := b.stream(ctx, of, value)
			if err != nil {
				return err
			}
			if text, ok := value.(string); ok {
				err = b.exec(ctx, putText, one.id, sample.Time.UnixNano(), text)
			} else {
				b.points[one] = append(b.points[one], point{sample.Time.UnixNano(), bitsOf(value)})
				b.count++
			}
			if err != nil {
				return err
			}
		}
	}
	return b.writeChunks(ctx, now.UnixNano())
}

const (
	putText  = "INSERT INTO texts (stream, time, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
	putChunk = "INSERT INTO chunks (stream, last, write, span, data) VALUES (?, ?, ?, ?, ?)"
)

// writeChunks writes the points of each series and day as a chunk. Points after now
// get chunks of their own, so that few chunks have points on both sides of a
// reader's clock.
func (b *batch) writeChunks(ctx context.Context, now int64) error {
	if len(b.points) == 0 {
		return nil
	}
	var write int64
	if err := b.tx.QueryRowContext(ctx, "UPDATE writes SET count = count + 1 RETURNING count").Scan(&write); err != nil {
		return err
	}
	var data []byte
	for of, points := range b.points {
		for points = inOrder(points); len(points) > 0; {
			end := (dayOf(points[0].time) + 1) * dayLength
			if points[0].time <= now {
				end = min(end, now+1)
			}
			some := points[:before(points, end)]
			points = points[len(some):]
			first, last := some[0].time, some[len(some)-1].time
			data = appendBlock(data[:0], of.kind, first, some)
			if err := b.exec(ctx, putChunk, of.id, last, write, last-first, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// bitsOf returns a value other than text as the file holds it.
func bitsOf(value any) uint64 {
	switch v := value.(type) {
	case float64:
		return math.Float64bits(v)
	case int64:
		return uint64(v)
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// stream finds or creates a series. ErrKind if the field has another kind than the value.
func (b *batch) stream(ctx context.Context, of stream, value any) (source, error) {
	kind, err := series.KindOf(value)
	if err != nil {
		return source{}, err
	}
	found, ok := b.found[of]
	if !ok {
		found, ok = b.known.get(of)
	}
	if !ok {
		if found, err = b.look(ctx, of, kind); err != nil {
			return source{}, err
		}
		b.found[of] = found
	}
	if found.kind != kind {
		return source{}, series.OtherKind(of.key, found.kind, kind)
	}
	return found, nil
}

const (
	findField = `INSERT INTO fields (database, measurement, name, kind) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET kind = kind RETURNING id, kind`
	findStream = "INSERT INTO streams (field, tags) VALUES (?, ?) ON CONFLICT DO UPDATE SET field = field RETURNING id"
)

// look finds or creates the field and the series in the file.
func (b *batch) look(ctx context.Context, of stream, kind series.Kind) (found source, err error) {
	var field int64
	err = b.each(ctx, func(r sqlitefile.Row) error { return r.Scan(&field, &found.kind) },
		findField, of.database, of.key.Measurement, of.key.Field, kind)
	if err != nil {
		return source{}, err
	}
	err = b.each(ctx, func(r sqlitefile.Row) error { return r.Scan(&found.id) }, findStream, field, of.tags)
	return found, err
}

func (s *Store) Fields(ctx context.Context, database string) (map[series.Key]series.Kind, error) {
	fields := map[series.Key]series.Kind{}
	err := s.read(ctx, s.timeout, "list fields of "+database, database, func(ctx context.Context, scan *scanner) error {
		return scan.each(ctx, func(r sqlitefile.Row) error {
			var key series.Key
			var kind series.Kind
			err := r.Scan(&key.Measurement, &key.Field, &kind)
			fields[key] = kind
			return err
		}, "SELECT measurement, name, kind FROM fields WHERE database = ?", scan.database)
	})
	return fields, err
}
