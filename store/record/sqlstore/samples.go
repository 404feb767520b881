package sqlstore

import (
	"context"
	"fmt"

	"tsmon/store/record"
)

// sampled is a condition on the client of a row: that it is in the sample of the
// channel $1, and the version, which has to follow.
const sampled = `client < coalesce((SELECT below FROM tsmon.samples WHERE channel = $1 AND version = %s), $%d)`

// Bound implements record.Samples.
func (s Fleet) Bound(ctx context.Context, channel, version string, most int, known record.Sample) (record.Sample, error) {
	if most <= 0 || !record.Storable(channel) || !record.Storable(version) {
		return record.Sample{}, fmt.Errorf("bound clients: %w: %d clients", record.ErrInvalid, most)
	}
	b := s.bounding(channel, version)
	sample, sizes, err := b.look(ctx)
	smaller := sample.Within(known)
	for err == nil && (smaller != sample || sample.Rows > most && sample.Level < record.MaxLevel) {
		if smaller == sample {
			smaller = sample.Smaller(sizes, most)
		}
		if err = b.set(ctx, smaller); err == nil {
			sample, sizes, err = b.look(ctx)
			smaller = sample
		}
	}
	return sample, err
}

// Sweep implements record.Samples.
func (s Fleet) Sweep(ctx context.Context, channel, version string) error {
	b := s.bounding(channel, version)
	sample, err := b.sample(ctx)
	if err == nil {
		err = b.remove(ctx, `SELECT client FROM tsmon.`+b.table+` WHERE `+b.where+` AND client >= $3`, sample.Level.Below())
	}
	if err == nil && sample.OfNetwork > 0 {
		err = b.remove(ctx, `SELECT client FROM (SELECT client, row_number() OVER (PARTITION BY network ORDER BY client) AS nth
			FROM tsmon.tries WHERE channel = $1 AND version = $2) AS a WHERE nth > $3`, int64(sample.OfNetwork))
	}
	return err
}

// bounding is a call of Bound.
type bounding struct {
	Fleet
	table, where string
	args         []any // of where: $1 and $2
	tries        bool  // which have networks
}

func (s Fleet) bounding(channel, version string) *bounding {
	if version != "" {
		return &bounding{s, "tries", "channel = $1 AND version = $2", []any{channel, version}, true}
	}
	return &bounding{s, "clients", "channel = $1 AND $2 = ''", []any{channel, version}, false}
}

// Sample implements record.Samples.
func (s Fleet) Sample(ctx context.Context, channel, version string) (record.Sample, error) {
	sample, _, err := s.bounding(channel, version).look(ctx)
	return sample, err
}

// look returns the sample, with its rows, and how many rows each network has in it.
func (b *bounding) look(ctx context.Context) (sample record.Sample, sizes []int, err error) {
	var batch Batch
	b.queueSample(&batch, &sample)
	count, args := `SELECT count(*) FROM tsmon.`+b.table+` WHERE `+b.where+` AND `+fmt.Sprintf(sampled, "$2", 3), append(b.args[:2:2], record.Level(0).Below())
	if b.tries {
		batch.Query(collect(&sizes, scan(func(n *int) []any { return []any{n} })), count+` GROUP BY network`, args...)
	} else {
		batch.Query(func(row Scanner) error { return row.Scan(&sample.Rows) }, count, args...)
	}
	err = b.send(ctx, central("look at a sample", Read), &batch)
	for i, n := range sizes {
		if sample.OfNetwork > 0 { // the others wait for Sweep
			sizes[i] = min(n, sample.OfNetwork)
		}
		sample.Rows += sizes[i]
	}
	return sample, sizes, err
}

// sample returns the sample without its rows.
func (b *bounding) sample(ctx context.Context) (sample record.Sample, err error) {
	var batch Batch
	b.queueSample(&batch, &sample)
	return sample, b.send(ctx, central("look at a sample", Read), &batch)
}

func (b *bounding) queueSample(batch *Batch, into *record.Sample) {
	batch.Query(func(row Scanner) error { return row.Scan(&into.Level, &into.OfNetwork) },
		`SELECT level, of_network FROM tsmon.samples WHERE channel = $1 AND version = $2`, b.args...)
}

// set makes the sample smaller, unless it is that small.
func (b *bounding) set(ctx context.Context, s record.Sample) error {
	var batch Batch
	batch.Exec(`INSERT INTO tsmon.samples AS s (channel, version, level, below, of_network) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (channel, version) DO UPDATE SET level = greatest(s.level, excluded.level), below = CASE WHEN s.level > excluded.level THEN s.below ELSE excluded.below END,
			of_network = CASE WHEN s.of_network = 0 OR excluded.of_network > 0 AND excluded.of_network < s.of_network THEN excluded.of_network ELSE s.of_network END`,
		append(b.args[:2:2], int64(s.Level), s.Level.Below(), s.OfNetwork)...)
	return b.send(ctx, central("make a sample smaller", Write), &batch)
}

// remove deletes, in pieces, the clients that a statement with the parameter $3 selects.
func (b *bounding) remove(ctx context.Context, clients string, arg any) error {
	statement := `WITH few AS MATERIALIZED (` + clients + ` ORDER BY client LIMIT $4), gone AS MATERIALIZED (SELECT client FROM tsmon.` + b.table + `
			WHERE ` + b.where + ` AND client IN (SELECT client FROM few) ORDER BY client FOR UPDATE)
		DELETE FROM tsmon.` + b.table + ` WHERE ` + b.where + ` AND client IN (SELECT client FROM gone)`
	for gone := int64(Piece); gone == Piece; {
		var batch Batch
		batch.Count(&gone, statement, append(b.args[:2:2], arg, Piece)...)
		if err := b.send(ctx, central("sweep a sample", Write), &batch); err != nil {
			return err
		}
	}
	return nil
}
