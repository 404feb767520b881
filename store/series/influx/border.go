package influx

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"tsmon/store/series"
)

// rollups is what is known of the rollups of a database.
type rollups struct {
	retention time.Duration // of the values, zero if they are kept for ever
	until     time.Time     // the day before which all is rolled up, zero if nothing is
	grain     time.Duration // how long the parts of an hour are
	mixed     bool          // some parts may be shorter: a change of grain has not ended
	// kinds are those of all fields that have rollups. The server itself forgets a field once
	// all its values are deleted.
	kinds map[series.Key]series.Kind
}

// border returns the time before which rollups are used instead of values, since some of
// the values may be deleted. It is zero if only values are used, because none are deleted or
// none are rolled up.
func (r rollups) border(now time.Time) time.Time {
	if r.retention == 0 || r.until.IsZero() {
		return time.Time{}
	}
	border := now.Add(day - r.retention).UTC().Truncate(day)
	if r.until.Before(border) {
		return r.until
	}
	return border
}

// known returns the memory of a database and the kinds of the keys that are fields. If the
// caller reads as far back as values may be deleted it also returns what is known of the
// rollups, and the kinds of fields that only they have.
func (s *Store) known(ctx context.Context, database string, keys []series.Key, far bool) (*memory, map[series.Key]series.Kind, rollups, error) {
	m, kinds, err := s.kindsOf(ctx, database, keys)
	if err != nil || !far {
		return m, kinds, rollups{}, err
	}
	made, err := s.rollups(ctx, database, m)
	for _, k := range keys {
		if kind := made.kinds[k]; kinds[k] == 0 && kind != 0 {
			kinds[k] = kind
		}
	}
	return m, kinds, made, err
}

// rollups returns what is known of the rollups of a database, at most kindsLife old.
func (s *Store) rollups(ctx context.Context, database string, m *memory) (rollups, error) {
	now := s.now()
	if known, ok := m.rolled(now); ok {
		return known, nil
	}
	retention, _, err := s.server.retention(ctx, database)
	if err = s.unlessHidden(ctx, err); err != nil {
		return rollups{}, err
	}
	var found rollups
	if retention > 0 {
		if found, err = s.rollupsSeen(ctx, database); err != nil {
			return rollups{}, err
		}
	}
	found.retention = retention
	m.roll(found, now)
	return found, nil
}

// bereft reports whether an error says that the known rollups have been dropped. It forgets
// them, so that the caller can ask again, for values only.
func (s *Store) bereft(ctx context.Context, m *memory, known rollups, err error) bool {
	if err == nil || known.until.IsZero() || !errors.Is(s.server.translate(ctx, err), series.ErrNoDatabase) {
		return false
	}
	m.roll(rollups{retention: known.retention}, s.now())
	return true
}

// rollupsSeen returns the rollups that the token may see.
func (s *Store) rollupsSeen(ctx context.Context, database string) (rollups, error) {
	found, err := s.server.progress(ctx, database)
	if err == nil && !found.until.IsZero() {
		found.kinds, err = s.server.rolledKinds(ctx, database)
	}
	return found, s.unlessHidden(ctx, err)
}

// rolledKinds returns the kinds of the fields that have rollups. Only those of a boolean
// have a last value; the rollups of floats and integers look the same.
func (s *server) rolledKinds(ctx context.Context, database string) (map[series.Key]series.Kind, error) {
	parts, err := s.fieldKeys(ctx, s.rollupsOf(database))
	kinds := map[series.Key]series.Kind{}
	for k := range parts {
		field, ok := strings.CutSuffix(k.Field, ".count")
		if !ok {
			continue
		}
		of := series.Key{Measurement: k.Measurement, Field: field}
		kinds[of] = series.Float
		if parts[series.Key{Measurement: k.Measurement, Field: field + ".last"}] != 0 {
			kinds[of] = series.Boolean
		}
	}
	return kinds, err
}

// unlessHidden returns nil for an error that a token which may only read gets for what it
// can't see.
func (s *Store) unlessHidden(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	said := s.server.translate(ctx, err)
	if errors.Is(said, ErrOrg) || errors.Is(said, fs.ErrPermission) || errors.Is(said, series.ErrNoDatabase) {
		return nil
	}
	return err
}

// progress returns how far a database is rolled up. The error is ErrNoDatabase if it never
// was.
func (s *server) progress(ctx context.Context, database string) (rollups, error) {
	q := s.query()
	q.add(`SELECT last("grain"), "until", "mixed" FROM "` + progress + `"`)
	rows, err := s.ask(ctx, s.rollupsOf(database), q)
	if err != nil || len(rows[0]) == 0 || len(rows[0][0].Values) == 0 || len(rows[0][0].Values[0]) != 4 {
		return rollups{}, err
	}
	cells := rows[0][0].Values[0]
	grain, _ := number(cells[1])
	until, _ := number(cells[2])
	mixed, _ := number(cells[3])
	if grain <= 0 || until <= 0 {
		return rollups{}, nil
	}
	return rollups{until: time.Unix(int64(until), 0).UTC(), grain: time.Duration(grain) * time.Second, mixed: mixed != 0}, nil
}
