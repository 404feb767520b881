package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tsmon/store/sqlitefile"
)

const (
	// perPack is how many values are written before all are packed, whatever their time, so
	// that a long import is packed as it goes on.
	perPack = 200_000
	// perStep is about how many points are packed in one transaction, so that other
	// writers don't wait long.
	perStep = 20_000
)

// packing is what decides when a store packs.
type packing struct {
	mu      sync.Mutex
	hour    time.Time    // all before it is packed
	written atomic.Int64 // values since everything was packed
}

// packSome packs if it is time to: in a new hour what lies before it, with all upkeep, and
// after many values everything. One call packs while others write. If the context ends the
// next call goes on; that is no error, since what was written stays written.
func (s *Store) packSome(ctx context.Context, written int) error {
	many := s.packing.written.Add(int64(written)) >= perPack
	if !s.packing.mu.TryLock() {
		return nil
	}
	defer s.packing.mu.Unlock()
	now := s.now()
	hour := now.Truncate(time.Hour)
	var err error
	switch {
	case !hour.Equal(s.packing.hour):
		if err = s.upkeep(ctx, hour); err == nil {
			s.packing.hour = hour
		}
	case many:
		s.packing.written.Store(0)
		if err = s.pack(ctx, now.Add(1)); err == nil {
			err = s.shrink(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pack moves points from chunks to blocks: all days of a series that have a chunk which
// ends before a time. Readers see the same points before and after each of its transactions.
func (s *Store) pack(ctx context.Context, until time.Time) error {
	p := packer{until: until.UnixNano(), after: -1, points: perStep}
	for p.points >= perStep {
		p.points = 0
		err := transact(ctx, s.file.Writer, func(tx statements) error {
			p.statements = tx
			return p.pack(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	nextSeries = `SELECT s.id, f.kind, d.parts, d.first
		FROM streams s JOIN fields f ON f.id = s.field JOIN databases d ON d.id = f.database
		WHERE s.id = (SELECT min(stream) FROM chunks WHERE stream > ?)`
	chunkEnds = "SELECT last FROM chunks WHERE stream = ? AND last < ? ORDER BY last"
	putBlock  = `INSERT INTO blocks (id, last, count, data) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last = excluded.last, count = excluded.count, data = excluded.data`
	putRollup = `INSERT INTO rollups (id, parts, data) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET parts = excluded.parts, data = excluded.data`
	dropChunks = "DELETE FROM chunks WHERE stream = ? AND last BETWEEN ? AND ?"
)

// packer packs in one transaction after another.
type packer struct {
	scanner
	until  int64
	after  int64 // the last series that is done
	points int   // packed in this transaction
	parts  int   // of an hour, for this series
	first  int64 // day from which on it keeps points
}

// pack packs some series, in the order of their IDs.
func (p *packer) pack(ctx context.Context) error {
	for p.points < perStep {
		one := source{}
		err := p.each(ctx, func(r sqlitefile.Row) error { return r.Scan(&one.id, &one.kind, &p.parts, &p.first) }, nextSeries, p.after)
		if err != nil || one.id == 0 {
			return err
		}
		if err := p.series(ctx, one); err != nil {
			return err
		}
		p.after = one.id
	}
	return nil
}

// series packs one series. A day is packed with all its chunks: a chunk that stayed
// would hide points of later writes.
func (p *packer) series(ctx context.Context, of source) error {
	var days []int64
	err := p.each(ctx, func(r sqlitefile.Row) error {
		var last int64
		err := r.Scan(&last)
		if day := dayOf(last); len(days) == 0 || days[len(days)-1] != day {
			days = append(days, day)
		}
		return err
	}, chunkEnds, of.id, p.until)
	for _, day := range days {
		if err == nil {
			err = p.day(ctx, of, day)
		}
	}
	return err
}

// day packs one day of a series. It leaves a day that is damaged, which readers get as an
// error, or that has more than maxBlock points.
func (p *packer) day(ctx context.Context, of source, day int64) error {
	midnight := day * dayLength
	if day < p.first { // written while the block was being deleted
		return p.exec(ctx, dropChunks, of.id, midnight, midnight+dayLength-1)
	}
	var points []point
	err := p.scan(ctx, of, midnight, midnight+dayLength, visitor{points: func(some []point) error {
		points = append(slices.Clone(some), points...)
		return nil
	}})
	if errors.Is(err, errDamaged) || err == nil && len(points) > maxBlock {
		return nil
	}
	if err != nil {
		return err
	}
	p.points += len(points)
	err = p.exec(ctx, putBlock, blockID(of.id, day), points[len(points)-1].time, len(points), appendBlock(nil, of.kind, midnight, points))
	if err == nil && len(points) >= minRollup {
		err = p.exec(ctx, putRollup, blockID(of.id, day), p.parts, encodeRollup(of.kind, p.parts, midnight, points))
	}
	if err == nil {
		err = p.exec(ctx, dropChunks, of.id, midnight, midnight+dayLength-1)
	}
	return err
}
