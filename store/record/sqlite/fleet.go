package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/store/record"
)

// Sight implements record.Installs.
func (f fleet) Sight(ctx context.Context, seen record.Sightings) error {
	if err := seen.Validate(); err != nil {
		return fmt.Errorf("sight clients: %w", err)
	}
	seen = seen.Merge()
	return f.do(ctx, "sight clients", f.Writer, func(ctx context.Context, tx *sql.Tx) error {
		for _, put := range []func(context.Context, *sql.Tx, record.Sightings) error{putInstalled, putTries, putDownloads} {
			if err := put(ctx, tx, seen); err != nil {
				return err
			}
		}
		return nil
	})
}

func putInstalled(ctx context.Context, tx *sql.Tx, s record.Sightings) error {
	return each(ctx, tx, s.Installed, func(i record.Installed) []any {
		return []any{i.Channel, i.Client[:], i.Version, i.Target, i.Cohort, i.Seen.UnixMicro()}
	}, `INSERT INTO clients (channel, client, version, target, cohort, seen) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel, client) DO UPDATE
		SET version = excluded.version, target = excluded.target, cohort = excluded.cohort, seen = excluded.seen
		WHERE (excluded.seen, excluded.version, excluded.target, excluded.cohort) > (clients.seen, clients.version, clients.target, clients.cohort)`)
}

// putTries merges a try without Asked into the existing row, if there is one.
func putTries(ctx context.Context, tx *sql.Tx, s record.Sightings) error {
	return each(ctx, tx, s.Tries, func(t record.Try) []any {
		return []any{t.Channel, t.Version, t.Client[:], record.Micros(t.Asked),
			record.Micros(t.Installed), record.Micros(t.Running), record.Micros(t.Failed), record.Micros(t.Crashed)}
	}, `INSERT INTO tries (channel, version, client, asked, installed, running, failed, crashed)
		SELECT ?1, ?2, ?3, asked, ?5, ?6, ?7, ?8
		FROM (SELECT coalesce(?4, (SELECT asked FROM tries WHERE channel = ?1 AND version = ?2 AND client = ?3)) AS asked)
		WHERE asked IS NOT NULL
		ON CONFLICT (channel, version, client) DO UPDATE SET asked = max(tries.asked, excluded.asked),
			installed = coalesce(max(tries.installed, excluded.installed), tries.installed, excluded.installed),
			running = coalesce(max(tries.running, excluded.running), tries.running, excluded.running),
			failed = coalesce(max(tries.failed, excluded.failed), tries.failed, excluded.failed),
			crashed = coalesce(max(tries.crashed, excluded.crashed), tries.crashed, excluded.crashed),
			(kept, kept_from) = (SELECT iif(again, excluded.asked, tries.kept), iif(again, tries.downloaded, tries.kept_from)
				FROM (SELECT excluded.asked > max(tries.downloaded, coalesce(tries.kept, tries.downloaded)) AS again))`)
}

// putDownloads follows putTries, since downloads are merged into tries.
func putDownloads(ctx context.Context, tx *sql.Tx, s record.Sightings) error {
	return each(ctx, tx, s.Downloads, func(d record.Download) []any {
		return []any{d.Client[:], d.Version, d.Time.UnixMicro()}
	}, `UPDATE tries SET downloaded = max(coalesce(downloaded, ?3), ?3),
			(kept, kept_from) = (SELECT iif(again, asked, kept), iif(again, ?3, kept_from)
				FROM (SELECT asked > ?3 AND (kept IS NULL OR (asked, ?3) > (kept, kept_from)) AS again))
		WHERE client = ?1 AND version = ?2`)
}

// Clients implements record.Installs.
func (f fleet) Clients(ctx context.Context, channel string, since time.Time) (all []record.ClientCount, err error) {
	err = f.do(ctx, "count clients", f.Readers, func(ctx context.Context, tx *sql.Tx) (err error) {
		all, err = list(ctx, tx, func(r record.Scanner) (c record.ClientCount, err error) {
			err = r.Scan(&c.Version, &c.Target, &c.Cohort, &c.Clients)
			return c, err
		}, `SELECT version, target, cohort, count(*) FROM clients WHERE channel = ? AND seen >= ?
			GROUP BY version, target, cohort ORDER BY version, target, cohort`, channel, since.UnixMicro())
		return err
	})
	return all, err
}

// Progress implements record.Installs. Of several arguments max is NULL if one of
// them is. Where all tries count it reads them in the order of the table, since
// going by the index takes longer.
func (f fleet) Progress(ctx context.Context, channel, version string, since, decided time.Time) (record.Progress, error) {
	var p record.Progress
	inWindow := ` AND seen >= ?3`
	if since.IsZero() {
		inWindow = ``
	}
	err := f.do(ctx, "count tries", f.Readers, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT count(*) FILTER (WHERE stage = 'crashed'), count(*) FILTER (WHERE stage = 'running'),
				count(*) FILTER (WHERE stage = 'failed'), count(*) FILTER (WHERE stage = 'kept'),
				count(*) FILTER (WHERE stage = 'waiting'), count(*) FILTER (WHERE stage = 'offered')
			FROM (SELECT
				CASE WHEN crashed >= ?3 THEN 'crashed' WHEN failed = last THEN 'failed' WHEN stuck = last THEN 'kept' WHEN running = last THEN 'running'
					WHEN fetched IS NOT NULL THEN 'waiting' ELSE 'offered' END AS stage,
				CASE WHEN crashed >= ?3 THEN crashed ELSE coalesce(last, fetched, asked) END AS at
				FROM (SELECT *, coalesce(max(unwell, running), unwell, running) AS last
					FROM (SELECT *, coalesce(max(failed, stuck), failed, stuck) AS unwell
						FROM (SELECT asked, running, failed, crashed, coalesce(max(downloaded, installed), downloaded, installed) AS fetched,
							CASE WHEN kept_from >= ?4 AND coalesce(installed < kept_from, TRUE) THEN kept END AS stuck
							FROM tries WHERE channel = ?1 AND version = ?2`+inWindow+`))))
			WHERE at >= ?3`, channel, version, since.UnixMicro(), decided.UnixMicro()).Scan(&p.Crashed, &p.Running, &p.Failed, &p.Kept, &p.Waiting, &p.Offered)
	})
	return p, err
}

// forgetPiece bounds the rows that one transaction looks at.
const forgetPiece = 5000

// ForgetClients implements record.Installs. It walks through the tables in order
// of their keys, a piece in each transaction, so that others can write in between.
// What was deleted before an error stays deleted, and is counted.
func (f fleet) ForgetClients(ctx context.Context, before time.Time) (total int64, err error) {
	for _, w := range []walk{
		{table: "clients", key: "channel, client", last: []any{"", []byte{}}},
		{table: "tries", key: "channel, version, client", last: []any{"", "", []byte{}}},
	} {
		for !w.done && err == nil {
			var n int64
			err = f.do(ctx, "forget clients", f.Writer, func(ctx context.Context, tx *sql.Tx) (err error) {
				n, err = w.forget(ctx, tx, before)
				return err
			})
			if err == nil {
				total += n
			}
		}
	}
	return total, err
}

// walk is how far ForgetClients came with a table.
type walk struct {
	table, key string
	last       []any // the key that the last piece ended with
	done       bool
}

// forget deletes, of the next piece, the rows of which nothing was seen since a time.
func (w *walk) forget(ctx context.Context, tx *sql.Tx, before time.Time) (int64, error) {
	end, into := make([]any, len(w.last)), make([]any, len(w.last))
	for i := range end {
		into[i] = &end[i]
	}
	after := fmt.Sprintf(`FROM %s WHERE (%s) > (?%s)`, w.table, w.key, strings.Repeat(", ?", len(w.last)-1))
	err := tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT %s %s ORDER BY %[1]s LIMIT 1 OFFSET %[3]d`, w.key, after, forgetPiece-1), w.last...).Scan(into...)
	statement, args := `DELETE `+after, w.last
	switch {
	case errors.Is(err, sql.ErrNoRows):
		w.done = true
	case err != nil:
		return 0, err
	default:
		statement += fmt.Sprintf(` AND (%s) <= (?%s)`, w.key, strings.Repeat(", ?", len(w.last)-1))
		args, w.last = slices.Concat(args, end), end
	}
	result, err := tx.ExecContext(ctx, statement+` AND seen < ?`, append(slices.Clip(args), before.UnixMicro())...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
