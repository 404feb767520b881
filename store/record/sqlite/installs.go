package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"tsmon/store/record"
)

// Sight implements record.Installs.
func (s *Store) Sight(ctx context.Context, seen record.Sightings) error {
	if err := seen.Validate(); err != nil {
		return fmt.Errorf("sight clients: %w", err)
	}
	seen = seen.Merge()
	return s.do(ctx, "sight clients", s.writer, func(ctx context.Context, tx *sql.Tx) error {
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

// putTries takes for a try that was not asked for the time of the row that is
// there; without one there is nothing to put.
func putTries(ctx context.Context, tx *sql.Tx, s record.Sightings) error {
	return each(ctx, tx, s.Tries, func(t record.Try) []any {
		return []any{t.Channel, t.Version, t.Client[:], record.Micros(t.Asked), record.Micros(t.Downloaded),
			record.Micros(t.Installed), record.Micros(t.Running), record.Micros(t.Failed), record.Micros(t.Crashed)}
	}, `INSERT INTO tries (channel, version, client, asked, downloaded, installed, running, failed, crashed)
		SELECT ?1, ?2, ?3, asked, ?5, ?6, ?7, ?8, ?9
		FROM (SELECT coalesce(?4, (SELECT asked FROM tries WHERE channel = ?1 AND version = ?2 AND client = ?3)) AS asked)
		WHERE asked IS NOT NULL
		ON CONFLICT (channel, version, client) DO UPDATE SET asked = max(tries.asked, excluded.asked),
			downloaded = coalesce(min(tries.downloaded, excluded.downloaded), tries.downloaded, excluded.downloaded),
			installed = coalesce(min(tries.installed, excluded.installed), tries.installed, excluded.installed),
			running = coalesce(min(tries.running, excluded.running), tries.running, excluded.running),
			failed = coalesce(min(tries.failed, excluded.failed), tries.failed, excluded.failed),
			crashed = coalesce(min(tries.crashed, excluded.crashed), tries.crashed, excluded.crashed)`)
}

func putDownloads(ctx context.Context, tx *sql.Tx, s record.Sightings) error {
	return each(ctx, tx, s.Downloads, func(d record.Download) []any {
		return []any{d.Client[:], d.Version, d.Time.UnixMicro()}
	}, `UPDATE tries SET downloaded = ?3 WHERE client = ?1 AND version = ?2 AND (downloaded IS NULL OR downloaded > ?3)`)
}

// Clients implements record.Installs.
func (s *Store) Clients(ctx context.Context, channel string, since time.Time) ([]record.ClientCount, error) {
	var list []record.ClientCount
	err := s.do(ctx, "count clients", s.readers, func(ctx context.Context, tx *sql.Tx) error {
		return rows(ctx, tx, func(r *sql.Rows) error {
			var c record.ClientCount
			err := r.Scan(&c.Version, &c.Target, &c.Cohort, &c.Clients)
			list = append(list, c)
			return err
		}, `SELECT version, target, cohort, count(*) FROM clients WHERE channel = ? AND seen >= ?
			GROUP BY version, target, cohort ORDER BY version, target, cohort`, channel, since.UnixMicro())
	})
	return list, err
}

// Progress implements record.Installs.
func (s *Store) Progress(ctx context.Context, channel, version string, since time.Time) (record.Progress, error) {
	var p record.Progress
	err := s.do(ctx, "count tries", s.readers, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			SELECT count(*) FILTER (WHERE stage = 'crashed'), count(*) FILTER (WHERE stage = 'running'),
				count(*) FILTER (WHERE stage = 'failed'), count(*) FILTER (WHERE stage = 'kept'),
				count(*) FILTER (WHERE stage = 'waiting'), count(*) FILTER (WHERE stage = 'offered')
			FROM (SELECT
				CASE WHEN crashed IS NOT NULL THEN 'crashed' WHEN running IS NOT NULL THEN 'running' WHEN failed IS NOT NULL THEN 'failed'
					WHEN asked > downloaded AND installed IS NULL THEN 'kept'
					WHEN coalesce(downloaded, installed) IS NOT NULL THEN 'waiting' ELSE 'offered' END AS stage,
				coalesce(crashed, running, failed, CASE WHEN asked > downloaded AND installed IS NULL THEN asked END,
					max(downloaded, installed), downloaded, installed, asked) AS at
				FROM tries WHERE channel = ? AND version = ?)
			WHERE at >= ?`, channel, version, since.UnixMicro()).Scan(&p.Crashed, &p.Running, &p.Failed, &p.Kept, &p.Waiting, &p.Offered)
	})
	return p, err
}

// ForgetClients implements record.Installs.
func (s *Store) ForgetClients(ctx context.Context, before time.Time) (int64, error) {
	total := int64(0)
	err := s.do(ctx, "forget clients", s.writer, func(ctx context.Context, tx *sql.Tx) error {
		for _, statement := range []string{`DELETE FROM clients WHERE seen < ?`, `DELETE FROM tries WHERE asked < ?`} {
			result, err := tx.ExecContext(ctx, statement, before.UnixMicro())
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return total, nil
}
