package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tsmon/store/record"
)

// Sight implements record.Installs, in one round trip.
func (s fleet) Sight(ctx context.Context, seen record.Sightings) error {
	if err := seen.Validate(); err != nil {
		return fmt.Errorf("sight clients: %w", err)
	}
	seen = seen.Merge()
	return s.do(ctx, "sight clients", func(ctx context.Context, c *pgxpool.Conn) error {
		var b pgx.Batch
		lockClients(&b)
		queueInstalled(&b, seen.Installed)
		queueTries(&b, seen.Tries)
		queueDownloads(&b, seen.Downloads)
		b.Queue(`COMMIT`)
		return c.SendBatch(ctx, &b).Close()
	})
}

const clientsKey = lockKey + 1

// lockClients begins a transaction that is the only one to write clients. With row
// locks alone two servers could deadlock, since downloads and tries lock rows in
// different orders.
func lockClients(b *pgx.Batch) {
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	b.Queue(`SELECT pg_catalog.pg_advisory_xact_lock($1)`, int64(clientsKey))
}

func queueInstalled(b *pgx.Batch, list []record.Installed) {
	type i = record.Installed
	b.Queue(`
		INSERT INTO tsmon.clients AS c (channel, client, version, target, cohort, seen)
		SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::bigint[])
		ON CONFLICT (channel, client) DO UPDATE
		SET version = excluded.version, target = excluded.target, cohort = excluded.cohort, seen = excluded.seen
		WHERE (excluded.seen, excluded.version, excluded.target, excluded.cohort) > (c.seen, c.version, c.target, c.cohort)`,
		column(list, func(i i) string { return i.Channel }), column(list, func(i i) []byte { return i.Client[:] }),
		column(list, func(i i) string { return i.Version }), column(list, func(i i) string { return i.Target }),
		column(list, func(i i) string { return i.Cohort }), column(list, func(i i) int64 { return i.Seen.UnixMicro() }))
}

// queueTries merges a try without Asked into the existing row, if there is one.
// greatest ignores NULLs.
func queueTries(b *pgx.Batch, list []record.Try) {
	type t = record.Try
	b.Queue(`
		INSERT INTO tsmon.tries AS t (channel, version, client, asked, installed, running, failed, crashed)
		SELECT * FROM (
			SELECT channel, version, client, coalesce(asked, (SELECT there.asked FROM tsmon.tries there
				WHERE there.channel = n.channel AND there.version = n.version AND there.client = n.client)) AS asked,
				installed, running, failed, crashed
			FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
				AS n (channel, version, client, asked, installed, running, failed, crashed)) AS n
		WHERE asked IS NOT NULL
		ON CONFLICT (channel, version, client) DO UPDATE SET asked = greatest(t.asked, excluded.asked),
			installed = greatest(t.installed, excluded.installed), running = greatest(t.running, excluded.running),
			failed = greatest(t.failed, excluded.failed), crashed = greatest(t.crashed, excluded.crashed),
			kept = CASE WHEN excluded.asked > greatest(t.downloaded, t.kept) THEN excluded.asked ELSE t.kept END,
			kept_from = CASE WHEN excluded.asked > greatest(t.downloaded, t.kept) THEN t.downloaded ELSE t.kept_from END`,
		column(list, func(t t) string { return t.Channel }), column(list, func(t t) string { return t.Version }),
		column(list, func(t t) []byte { return t.Client[:] }), column(list, func(t t) *int64 { return record.Micros(t.Asked) }),
		column(list, func(t t) *int64 { return record.Micros(t.Installed) }), column(list, func(t t) *int64 { return record.Micros(t.Running) }),
		column(list, func(t t) *int64 { return record.Micros(t.Failed) }), column(list, func(t t) *int64 { return record.Micros(t.Crashed) }))
}

// queueDownloads follows queueTries, since downloads are merged into tries.
func queueDownloads(b *pgx.Batch, list []record.Download) {
	type d = record.Download
	b.Queue(`
		UPDATE tsmon.tries t SET downloaded = greatest(t.downloaded, d.at),
			kept = CASE WHEN t.asked > d.at AND (t.kept IS NULL OR (t.asked, d.at) > (t.kept, t.kept_from)) THEN t.asked ELSE t.kept END,
			kept_from = CASE WHEN t.asked > d.at AND (t.kept IS NULL OR (t.asked, d.at) > (t.kept, t.kept_from)) THEN d.at ELSE t.kept_from END
		FROM unnest($1::bytea[], $2::text[], $3::bigint[]) AS d (client, version, at)
		WHERE t.client = d.client AND t.version = d.version`,
		column(list, func(d d) []byte { return d.Client[:] }), column(list, func(d d) string { return d.Version }),
		column(list, func(d d) int64 { return d.Time.UnixMicro() }))
}

// Clients implements record.Installs.
func (s fleet) Clients(ctx context.Context, channel string, since time.Time) (all []record.ClientCount, err error) {
	if !record.Storable(channel) {
		return nil, nil
	}
	err = s.do(ctx, "count clients", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, `SELECT version, target, cohort, count(*) FROM tsmon.clients WHERE channel = $1 AND seen >= $2
			GROUP BY version, target, cohort ORDER BY version, target, cohort`, channel, since.UnixMicro())
		if err != nil {
			return err
		}
		all, err = pgx.AppendRows(all, rows, pgx.RowToStructByPos[record.ClientCount])
		return err
	})
	return all, err
}

// Progress implements record.Installs.
func (s fleet) Progress(ctx context.Context, channel, version string, since, decided time.Time) (record.Progress, error) {
	var p record.Progress
	if !record.Storable(channel) || !record.Storable(version) {
		return p, nil
	}
	err := s.do(ctx, "count tries", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, `
			SELECT count(*) FILTER (WHERE stage = 'crashed'), count(*) FILTER (WHERE stage = 'running'),
				count(*) FILTER (WHERE stage = 'failed'), count(*) FILTER (WHERE stage = 'kept'),
				count(*) FILTER (WHERE stage = 'waiting'), count(*) FILTER (WHERE stage = 'offered')
			FROM (SELECT
				CASE WHEN crashed >= $3 THEN 'crashed' WHEN failed = last THEN 'failed' WHEN stuck = last THEN 'kept' WHEN running = last THEN 'running'
					WHEN fetched IS NOT NULL THEN 'waiting' ELSE 'offered' END AS stage,
				CASE WHEN crashed >= $3 THEN crashed ELSE coalesce(last, fetched, asked) END AS at
				FROM (SELECT *, greatest(running, failed, stuck) AS last
					FROM (SELECT asked, running, failed, crashed, greatest(downloaded, installed) AS fetched,
						CASE WHEN kept_from >= $4 AND coalesce(installed < kept_from, TRUE) THEN kept END AS stuck
						FROM tsmon.tries WHERE channel = $1 AND version = $2 AND seen >= $3) AS t) AS t) AS t
			WHERE at >= $3`, channel, version, since.UnixMicro(), decided.UnixMicro()).Scan(&p.Crashed, &p.Running, &p.Failed, &p.Kept, &p.Waiting, &p.Offered)
	})
	return p, err
}

// ForgetClients implements record.Installs, in several transactions, so that others
// can write in between. What was deleted before an error stays deleted, and is counted.
func (s fleet) ForgetClients(ctx context.Context, before time.Time) (int64, error) {
	total := int64(0)
	for more := true; more; {
		var n int64
		err := s.do(ctx, "forget clients", func(ctx context.Context, c *pgxpool.Conn) (err error) {
			n, more, err = forget(ctx, c, before)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// forgetPiece bounds the rows that one transaction deletes from a table.
const forgetPiece = 5000

// forget deletes a piece, which the index on seen finds, and reports how many rows
// that were and whether there may be more. No row moves meanwhile: writers wait.
func forget(ctx context.Context, c *pgxpool.Conn, before time.Time) (n int64, more bool, err error) {
	var b pgx.Batch
	lockClients(&b)
	for _, table := range []string{"tsmon.clients", "tsmon.tries"} {
		b.Queue(fmt.Sprintf(`DELETE FROM %[1]s WHERE ctid = ANY(ARRAY(SELECT ctid FROM %[1]s WHERE seen < $1 ORDER BY seen LIMIT $2))`, table),
			before.UnixMicro(), forgetPiece).Exec(func(deleted pgconn.CommandTag) error {
			n += deleted.RowsAffected()
			more = more || deleted.RowsAffected() == forgetPiece
			return nil
		})
	}
	b.Queue(`COMMIT`)
	err = c.SendBatch(ctx, &b).Close() // counts
	return n, more, err
}
