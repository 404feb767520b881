package sqlstore

import (
	"context"
	"fmt"

	"tsmon/store/record"
)

// sampled is the condition that the client of a row is in the sample of channel $1. It is
// formatted with the version, and with the number of the parameter that holds
// record.Level(0).Below().
const sampled = `client < coalesce((SELECT below FROM tsmon.samples WHERE channel = $1 AND version = %s), $%d)`

func (s fleet) Bound(ctx context.Context, channel, version string, most int, known record.Sample) (record.Sample, error) {
	if most <= 0 || !record.Storable(channel) || !record.Storable(version) {
		return record.Sample{}, fmt.Errorf("limit a sample: %w: at most %d clients of channel %.80q, version %.80q", record.ErrInvalid, most, channel, version)
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

func (s fleet) Sweep(ctx context.Context, channel, version string) error {
	b := s.bounding(channel, version)
	var sample record.Sample
	var batch Batch
	b.queueSample(&batch, &sample)
	err := b.send(ctx, central("read a sample", Read), &batch)
	if err == nil {
		err = b.remove(ctx, `SELECT client FROM tsmon.`+b.table+` WHERE `+b.where+` AND client >= $3`, sample.Level.Below())
	}
	if err == nil && sample.OfNetwork > 0 {
		err = b.remove(ctx, `SELECT client FROM (SELECT client, row_number() OVER (PARTITION BY network ORDER BY client) AS nth
			FROM tsmon.tries WHERE channel = $1 AND version = $2) AS a WHERE nth > $3`, int64(sample.OfNetwork))
	}
	return err
}

// bounding reads and writes the sample of a channel's clients, or of a release's tries.
type bounding struct {
	fleet
	table, where string
	args         []any // $1 and $2 of where
}

func (s fleet) bounding(channel, version string) *bounding {
	if version != "" {
		return &bounding{s, "tries", "channel = $1 AND version = $2", []any{channel, version}}
	}
	return &bounding{s, "clients", "channel = $1 AND $2 = ''", []any{channel, version}}
}

func (s fleet) Sample(ctx context.Context, channel, version string) (record.Sample, error) {
	sample, _, err := s.bounding(channel, version).look(ctx)
	return sample, err
}

// look returns the sample, and the number of rows of each network.
func (b *bounding) look(ctx context.Context) (sample record.Sample, sizes []int, err error) {
	var batch Batch
	b.queueSample(&batch, &sample)
	count, args := `SELECT count(*) FROM tsmon.`+b.table+` WHERE `+b.where+` AND `+fmt.Sprintf(sampled, "$2", 3), append(b.args[:2:2], record.Level(0).Below())
	if b.table == "tries" { // which have networks
		batch.Query(collect(&sizes, scan(func(n *int) []any { return []any{n} })), count+` GROUP BY network`, args...)
	} else {
		batch.Query(func(row Scanner) error { return row.Scan(&sample.Rows) }, count, args...)
	}
	err = b.send(ctx, central("read a sample", Read), &batch)
	for i, n := range sizes {
		if sample.OfNetwork > 0 { // the others wait for Sweep
			sizes[i] = min(n, sample.OfNetwork)
		}
		sample.Rows += sizes[i]
	}
	return sample, sizes, err
}

// queueSample reads the sample without its number of rows.
func (b *bounding) queueSample(batch *Batch, into *record.Sample) {
	batch.Query(func(row Scanner) error { return row.Scan(&into.Level, &into.OfNetwork) },
		`SELECT level, of_network FROM tsmon.samples WHERE channel = $1 AND version = $2`, b.args...)
}

// set shrinks the sample to s, unless it is smaller already.
func (b *bounding) set(ctx context.Context, s record.Sample) error {
	_, err := b.exec(ctx, central("shrink a sample", Write),
		`INSERT INTO tsmon.samples AS s (channel, version, level, below, of_network) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (channel, version) DO UPDATE SET level = greatest(s.level, excluded.level), below = CASE WHEN s.level > excluded.level THEN s.below ELSE excluded.below END,
			of_network = CASE WHEN s.of_network = 0 OR excluded.of_network > 0 AND excluded.of_network < s.of_network THEN excluded.of_network ELSE s.of_network END`,
		append(b.args[:2:2], int64(s.Level), s.Level.Below(), s.OfNetwork)...)
	return err
}

// remove deletes, in pieces, the clients that a statement with the parameter $3 selects.
func (b *bounding) remove(ctx context.Context, clients string, arg any) error {
	statement := `WITH few AS MATERIALIZED (` + clients + ` ORDER BY client LIMIT $4), gone AS MATERIALIZED (SELECT client FROM tsmon.` + b.table + `
			WHERE ` + b.where + ` AND client IN (SELECT client FROM few) ORDER BY client FOR UPDATE)
		DELETE FROM tsmon.` + b.table + ` WHERE ` + b.where + ` AND client IN (SELECT client FROM gone)`
	for {
		gone, err := b.exec(ctx, central("delete clients outside a sample", Write), statement, append(b.args[:2:2], arg, Piece)...)
		if err != nil || gone < Piece {
			return err
		}
	}
}
