package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// streams caches the series of the file, none of which is ever deleted. It is
// emptied when it has grown to maxStreams.
type streams struct {
	mu  sync.Mutex
	ids map[stream]known
}

const maxStreams = 200_000

type stream struct {
	database int64
	key      series.Key
	tags     string
}

type known struct {
	id   int64
	kind series.Kind
}

func (s *streams) get(of stream) (known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.ids[of]
	return k, ok
}

func (s *streams) add(found map[stream]known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) > maxStreams {
		s.ids = map[stream]known{}
	}
	maps.Copy(s.ids, found)
}

// Write implements series.Store.
func (s *Store) Write(ctx context.Context, database string, samples []series.Sample) (err error) {
	if err := series.ValidSamples(samples); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer explain(ctx, "write to "+database, &err)
	tx, err := s.file.Writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b := batch{tx: tx, known: &s.known, found: map[stream]known{}}
	if err = b.write(ctx, database, samples); err == nil {
		err = tx.Commit()
	}
	if err == nil {
		s.known.add(b.found)
	}
	return err
}

// batch is one transaction of Write.
type batch struct {
	tx       *sql.Tx
	database int64
	known    *streams
	found    map[stream]known // in this transaction; cached once it is committed
}

func (b *batch) write(ctx context.Context, database string, samples []series.Sample) (err error) {
	if b.database, err = find(ctx, b.tx, database); err != nil {
		return err
	}
	insert, err := b.tx.PrepareContext(ctx, "INSERT INTO points (stream, time, value) VALUES (?, ?, ?) "+
		"ON CONFLICT DO UPDATE SET value = excluded.value")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, sample := range samples {
		tags := string(series.AppendTags(nil, sample.Tags))
		for name, value := range sample.Fields {
			of := stream{b.database, series.Key{Measurement: sample.Measurement, Field: name}, tags}
			id, err := b.stream(ctx, of, value)
			if err != nil {
				return err
			}
			if _, err := insert.ExecContext(ctx, id, sample.Time.UnixNano(), stored(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// stored returns a value as the file holds it.
func stored(value any) any {
	switch value {
	case true:
		return int64(1)
	case false:
		return int64(0)
	}
	return value
}

// stream returns the id of a series, which it creates if it is new. ErrKind if the
// field has another kind than the value.
func (b *batch) stream(ctx context.Context, of stream, value any) (int64, error) {
	kind, err := series.KindOf(value)
	if err != nil {
		return 0, err
	}
	found, ok := b.found[of]
	if !ok {
		found, ok = b.known.get(of)
	}
	if !ok {
		if found, err = b.look(ctx, of, kind); err != nil {
			return 0, err
		}
		b.found[of] = found
	}
	if found.kind != kind {
		return 0, fmt.Errorf("%s holds %s, not %s: %w", of.key, found.kind, kind, series.ErrKind)
	}
	return found.id, nil
}

// look finds or creates the field and the series in the file.
func (b *batch) look(ctx context.Context, of stream, kind series.Kind) (found known, err error) {
	var field int64
	err = b.tx.QueryRowContext(ctx, "SELECT id, kind FROM fields WHERE database = ? AND measurement = ? AND name = ?",
		of.database, of.key.Measurement, of.key.Field).Scan(&field, &found.kind)
	if errors.Is(err, sql.ErrNoRows) {
		found.kind = kind
		err = b.tx.QueryRowContext(ctx, "INSERT INTO fields (database, measurement, name, kind) VALUES (?, ?, ?, ?) RETURNING id",
			of.database, of.key.Measurement, of.key.Field, kind).Scan(&field)
	}
	if err != nil {
		return known{}, err
	}
	err = b.tx.QueryRowContext(ctx, "SELECT id FROM streams WHERE field = ? AND tags = ?", field, of.tags).Scan(&found.id)
	if errors.Is(err, sql.ErrNoRows) {
		err = b.tx.QueryRowContext(ctx, "INSERT INTO streams (field, tags) VALUES (?, ?) RETURNING id", field, of.tags).Scan(&found.id)
	}
	return found, err
}

// Fields implements series.Store.
func (s *Store) Fields(ctx context.Context, database string) (_ map[series.Key]series.Kind, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer explain(ctx, "fields of "+database, &err)
	tx, id, err := s.begin(ctx, database)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	fields := map[series.Key]series.Kind{}
	err = sqlitefile.Query(ctx, tx, func(r sqlitefile.Row) error {
		var key series.Key
		var kind series.Kind
		err := r.Scan(&key.Measurement, &key.Field, &kind)
		fields[key] = kind
		return err
	}, "SELECT measurement, name, kind FROM fields WHERE database = ?", id)
	return fields, err
}
