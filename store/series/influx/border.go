package influx

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"tsmon/store/series"
)

// rollups is what there is of them for a database.
type rollups struct {
	retention time.Duration // of the values, zero if they are kept for ever
	until     time.Time     // all is rolled up until this day, zero if nothing is
	grain     time.Duration // how long the parts are
	// kinds are those of all fields that are rolled up. The server forgets a field once none
	// of its values is kept.
	kinds map[series.Key]series.Kind
}

// border returns the time before which rollups are used instead of values, some of which may
// be deleted. It is zero if values are used for all times, because none are deleted or
// nothing has rolled them up.
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

// rollups returns the rollups of a database, as they were within kindsLife.
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

// bereft reports whether an error says that the rollups that are remembered have been
// dropped. Then values stand for all times: the question can be asked again.
func (s *Store) bereft(ctx context.Context, m *memory, known rollups, err error) bool {
	if err == nil || known.until.IsZero() || !errors.Is(s.server.translate(ctx, err), series.ErrNoDatabase) {
		return false
	}
	m.roll(rollups{retention: known.retention}, s.now())
	return true
}

// rollupsSeen returns the progress of rollups, of which there are none where the token may
// not see them.
func (s *Store) rollupsSeen(ctx context.Context, database string) (rollups, error) {
	found, err := s.server.progress(ctx, database)
	if err == nil && !found.until.IsZero() {
		found.kinds, err = s.server.rolledKinds(ctx, database)
	}
	return found, s.unlessHidden(ctx, err)
}

// rolledKinds returns the kinds of the fields that are rolled up: a boolean one has a last
// value, numbers are the same for rollups.
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

// remember adds the kinds of fields that are rolled up and that the server has forgotten.
func (r rollups) remember(kinds map[series.Key]series.Kind, keys []series.Key) {
	for _, k := range keys {
		if kind := r.kinds[k]; kinds[k] == 0 && kind != 0 {
			kinds[k] = kind
		}
	}
}

// unlessHidden returns nil for what a token that is good for reading alone may not see.
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

// progress returns how far the rollups of a database are. Its error is ErrNoDatabase if
// there never were any.
func (s *server) progress(ctx context.Context, database string) (rollups, error) {
	q := s.query()
	q.add(`SELECT last("grain"), "until" FROM "` + progress + `"`)
	rows, err := s.ask(ctx, s.rollupsOf(database), q)
	if err != nil || len(rows[0]) == 0 || len(rows[0][0].Values) == 0 || len(rows[0][0].Values[0]) != 3 {
		return rollups{}, err
	}
	cells := rows[0][0].Values[0]
	grain, _ := number(cells[1])
	until, _ := number(cells[2])
	if grain <= 0 || until <= 0 {
		return rollups{}, nil
	}
	return rollups{until: time.Unix(int64(until), 0).UTC(), grain: time.Duration(grain) * time.Second}, nil
}
