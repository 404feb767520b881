package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tsmon/store/series"
	"tsmon/store/sqlitefile"
)

// perDelete is how many rows one transaction deletes at most, so that other writers
// don't wait long.
const perDelete = 2000

// countTime is how long values of a database may be counted.
const countTime = 10 * time.Minute

// Keep implements series.Store. The next hours' writes delete what it does not delete
// within the store's timeout.
func (s *Store) Keep(ctx context.Context, database string, k series.Keeping) error {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	if err := series.ValidKeeping(k); err != nil {
		return err
	}
	return call(ctx, s.timeout, "keep values of "+database, func(within context.Context) error {
		done, err := s.file.Writer.ExecContext(within, setKeeping, int64(k.Retention), int(time.Hour/series.Grain(k.Zone)), database)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, series.ErrNoDatabase)
		}
		s.packing.mu.Lock()
		defer s.packing.mu.Unlock()
		if err := s.upkeep(within, s.now().Truncate(time.Hour)); err != nil && within.Err() == nil {
			return err
		}
		return ctx.Err()
	})
}

// CountBefore implements series.Store.
func (s *Store) CountBefore(ctx context.Context, database string, t time.Time) (count int64, err error) {
	err = s.read(ctx, max(s.timeout, countTime), "count values of "+database, database, func(ctx context.Context, scan *scanner) error {
		day, until := dayOf(t.UnixNano()), t.UnixNano()
		err := scan.each(ctx, func(r sqlitefile.Row) error { return r.Scan(&count) }, countOld,
			sql.Named("database", scan.database), sql.Named("day", blockID(0, day)), sql.Named("time", until))
		if err != nil {
			return err
		}
		all, err := scan.sources(ctx, allStreams, scan.database, series.Text)
		for _, of := range all {
			if err != nil {
				break
			}
			var more int64
			more, err = scan.countLoose(ctx, of, day, until)
			count += more
		}
		return err
	})
	return count, err
}

const (
	setKeeping = "UPDATE databases SET retention = iif(?1 < 0, retention, ?1), stale = stale OR parts <> ?2, parts = ?2 WHERE name = ?3"

	// The series of a database that hold no text.
	allStreams = "SELECT s.id, f.kind" + ofSeries + "WHERE f.database = ? AND f.kind <> ?"

	// Points of whole days, and text.
	countOld = `
SELECT coalesce(sum((SELECT sum(b.count) FROM blocks b WHERE b.id >= s.id << 18 AND b.id < (s.id << 18) + @day)), 0)
	+ coalesce(sum((SELECT count(*) FROM texts t WHERE t.stream = s.id AND t.time < @time)), 0)` + ofSeries + "WHERE f.database = @database"
)

// countLoose returns how many points of a series before a time are not counted with a
// whole block: those of the time's own day, and those in chunks. A point in a chunk that
// replaces one of a block counts twice.
func (s *scanner) countLoose(ctx context.Context, of source, day, until int64) (count int64, err error) {
	loose, err := s.loose(ctx, of, math.MinInt64, until)
	if err != nil {
		return 0, err
	}
	if day*dayLength < until {
		err = s.scan(ctx, of, day*dayLength, until, visitor{points: func(some []point) error {
			count += int64(len(some))
			return nil
		}})
	}
	return count + int64(before(loose, day*dayLength)), err
}

// upkeep packs what ended before a time, remakes rollups whose parts are not those of their
// database, and then deletes what is too old. It can end anywhere, and be called again.
// A retention that changes while it packs has to wait for the next call: what that database
// holds may not be packed yet, and what is deleted unpacked has no rollup.
func (s *Store) upkeep(ctx context.Context, until time.Time) error {
	before, err := s.databases(ctx)
	if err == nil {
		err = s.pack(ctx, until)
	}
	if err != nil {
		return err
	}
	databases, err := s.databases(ctx)
	for _, d := range databases {
		if err == nil && d.stale {
			err = s.remake(ctx, d)
		}
		same := func(old kept) bool { return old.id == d.id && old.retention == d.retention }
		if err == nil && d.retention > 0 && slices.ContainsFunc(before, same) {
			err = s.expire(ctx, d)
		}
	}
	if err != nil {
		return err
	}
	return s.shrink(ctx)
}

// shrink returns free pages to the file system.
func (s *Store) shrink(ctx context.Context) error {
	rows, err := s.file.Writer.QueryContext(ctx, "PRAGMA incremental_vacuum") //nolint:rowserrcheck // Scan checks it; a row is a page
	return sqlitefile.Scan(rows, err, func(sqlitefile.Row) error { return nil })
}

// kept is a row of databases.
type kept struct {
	id        int64
	retention int64
	parts     int
	stale     bool
}

func (s *Store) databases(ctx context.Context) (all []kept, err error) {
	rows, err := s.file.Readers.QueryContext(ctx, "SELECT id, retention, parts, stale FROM databases") //nolint:rowserrcheck // Scan checks it
	err = sqlitefile.Scan(rows, err, func(r sqlitefile.Row) error {
		var one kept
		err := r.Scan(&one.id, &one.retention, &one.parts, &one.stale)
		all = append(all, one)
		return err
	})
	return all, err
}

const (
	raiseFirst = "UPDATE databases SET first = ?1 WHERE id = ?2 AND first < ?1"

	// Joins the series of fields.
	ofSeries = " FROM fields f CROSS JOIN streams s ON s.field = f.id "

	// Blocks that have no rollup.
	oldAlone = "SELECT b.id, f.kind, b.data" + ofSeries + `
		CROSS JOIN blocks b ON b.id >= s.id << 18 AND b.id < (s.id << 18) + @day
		WHERE f.database = @database AND NOT EXISTS (SELECT 1 FROM rollups r WHERE r.id = b.id) LIMIT @limit`
	// Deletes blocks or rollups.
	dropDays = "DELETE FROM %[1]s WHERE id IN (SELECT b.id" + ofSeries + `
		CROSS JOIN %[1]s b ON b.id >= s.id << 18 AND b.id < (s.id << 18) + @day WHERE f.database = @database LIMIT @limit)`
	dropTexts = "DELETE FROM texts WHERE (stream, time) IN (SELECT t.stream, t.time" + ofSeries + `
		CROSS JOIN texts t ON t.stream = s.id AND t.time < @time WHERE f.database = @database LIMIT @limit)`

	staleRollups = "SELECT b.id, f.kind, b.data" + ofSeries + `
		CROSS JOIN rollups r ON r.id BETWEEN s.id << 18 AND (s.id << 18) + 262143 AND r.parts <> @parts
		CROSS JOIN blocks b ON b.id = r.id WHERE f.database = @database LIMIT @limit`
)

// expire deletes whole days that lie before the retention, and keeps their rollups. From its
// first transaction on nothing can be written there.
func (s *Store) expire(ctx context.Context, d kept) error {
	now := s.now().UnixNano()
	day := dayOf(now - d.retention)
	if _, err := s.file.Writer.ExecContext(ctx, raiseFirst, day, d.id); err != nil {
		return err
	}
	if err := s.remakeAll(ctx, d, oldAlone, day); err != nil {
		return err
	}
	for text, day := range map[string]int64{
		fmt.Sprintf(dropDays, "blocks"):  day,
		fmt.Sprintf(dropDays, "rollups"): dayOf(now - d.retention*series.RollupFactor),
		dropTexts:                        day,
	} {
		for deleted := int64(perDelete); deleted == perDelete; {
			done, err := s.file.Writer.ExecContext(ctx, text, sql.Named("database", d.id), sql.Named("limit", perDelete),
				sql.Named("day", blockID(0, day)), sql.Named("time", day*dayLength))
			if err == nil {
				deleted, err = done.RowsAffected()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// remake makes the rollups of a database anew, except for days whose points are deleted.
func (s *Store) remake(ctx context.Context, d kept) error {
	if err := s.remakeAll(ctx, d, staleRollups, 0); err != nil {
		return err
	}
	_, err := s.file.Writer.ExecContext(ctx, "UPDATE databases SET stale = 0 WHERE id = ? AND parts = ?", d.id, d.parts)
	return err
}

// remakeAll makes rollups of the blocks that a query returns, until there are none.
func (s *Store) remakeAll(ctx context.Context, d kept, query string, day int64) error {
	for n := 1; n > 0; {
		err := transact(ctx, s.file.Writer, func(tx statements) (err error) {
			n, err = tx.remakeSome(ctx, d, query, day)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remakeSome makes rollups of the first blocks that a query returns, and returns their
// number. A damaged block gets a rollup that is damaged too.
func (s statements) remakeSome(ctx context.Context, d kept, query string, day int64) (int, error) {
	made := map[int64][]byte{}
	var points []point
	err := s.each(ctx, func(r sqlitefile.Row) error {
		var id int64
		var kind series.Kind
		var data sql.RawBytes
		err := r.Scan(&id, &kind, &data)
		if err != nil {
			return err
		}
		midnight := dayOfBlock(id) * dayLength
		made[id] = []byte{}
		if points, err = readBlock(points[:0], kind, midnight, data); err == nil {
			made[id] = encodeRollup(kind, d.parts, midnight, points)
		}
		return nil
	}, query, sql.Named("database", d.id), sql.Named("parts", d.parts), sql.Named("day", blockID(0, day)), sql.Named("limit", perDelete))
	for _, id := range slices.Sorted(maps.Keys(made)) {
		if err == nil {
			err = s.exec(ctx, putRollup, id, d.parts, made[id])
		}
	}
	return len(made), err
}
