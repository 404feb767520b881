package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/store/record"
)

// Sight makes one round trip. Each statement is a transaction of its own and locks rows in
// the order of their keys, so that servers which write the same rows can't deadlock.
func (s fleet) Sight(ctx context.Context, seen record.Sightings) error {
	if err := seen.Validate(); err != nil {
		return fmt.Errorf("record clients: %w", err)
	}
	seen = seen.Merge()
	b := Batch{Apart: true}
	queueInstalled(&b, seen.Installed)
	queueTries(&b, seen.Tries)
	queueDownloads(&b, seen.Downloads)
	return s.send(ctx, central("record clients", Write), &b)
}

// queueInstalled merges by the rules of record.Installed.Merge. asked is NULL for reports.
func queueInstalled(b *Batch, installed []record.Installed) {
	const (
		later = `(excluded.seen, excluded.version, excluded.cohort) > (c.seen, c.version, c.cohort)`
		told  = `(coalesce(excluded.asked, 0), CASE WHEN excluded.asked IS NULL THEN excluded.seen ELSE 0 END, excluded.target)
			> (coalesce(c.asked, 0), CASE WHEN c.asked IS NULL THEN c.seen ELSE 0 END, c.target)`
	)
	b.list("channel text, client bytea, version text, target text, cohort text, seen bigint, asked bigint", rowsOf(installed, func(i record.Installed) []any {
		return []any{i.Channel, i.Client[:], i.Version, i.Target, i.Cohort, i.Seen.UnixMicro(), record.Micros(i.Asked)}
	}), nil, `
		INSERT INTO tsmon.clients AS c (channel, client, version, target, cohort, seen, asked)
		SELECT n.channel, n.client, n.version, n.target, n.cohort, n.seen, n.asked FROM {rows} WHERE true
		ON CONFLICT (channel, client) DO UPDATE SET
			version = CASE WHEN `+later+` THEN excluded.version ELSE c.version END,
			cohort = CASE WHEN `+later+` THEN excluded.cohort ELSE c.cohort END,
			target = CASE WHEN `+told+` THEN excluded.target ELSE c.target END,
			seen = greatest(c.seen, excluded.seen), asked = greatest(c.asked, excluded.asked)
		WHERE `+later+` OR `+told)
}

// queueTries merges a try without Asked into the existing row, if there is one.
// greatest ignores NULLs.
func queueTries(b *Batch, tries []record.Try) {
	b.list("channel text, version text, client bytea, network bigint, asked bigint, installed bigint, running bigint, failed bigint, crashed bigint, round bigint, fetched bigint, decided bigint, fell bigint",
		rowsOf(tries, func(t record.Try) []any {
			first := t.Firsts()
			return []any{t.Channel, t.Version, t.Client[:], int64(t.Network), record.Micros(t.Asked),
				record.Micros(t.Installed), record.Micros(t.Running), record.Micros(t.Failed), record.Micros(t.Crashed),
				int64(t.Round), record.Micros(first.Installed), record.Micros(first.Decided), record.Micros(first.Fell)}
		}), nil, `
		INSERT INTO tsmon.tries AS t (channel, version, client, network, asked, installed, running, failed, crashed, round, fetched, decided, fell)
		SELECT n.channel, n.version, n.client, CASE WHEN n.asked IS NULL THEN 0 ELSE n.network END, coalesce(n.asked, (SELECT o.asked FROM tsmon.tries o
			WHERE o.channel = n.channel AND o.version = n.version AND o.client = n.client)), n.installed, n.running, n.failed, n.crashed, n.round, n.fetched, n.decided, n.fell
		FROM {rows} WHERE n.asked IS NOT NULL OR EXISTS (SELECT 1 FROM tsmon.tries o
			WHERE o.channel = n.channel AND o.version = n.version AND o.client = n.client)
		ON CONFLICT (channel, version, client) DO UPDATE SET network = greatest(t.network, excluded.network), asked = greatest(t.asked, excluded.asked),
			installed = greatest(t.installed, excluded.installed), running = greatest(t.running, excluded.running),
			failed = greatest(t.failed, excluded.failed), crashed = greatest(t.crashed, excluded.crashed),
			kept = CASE WHEN excluded.asked > greatest(t.downloaded, t.kept) THEN excluded.asked ELSE t.kept END,
			kept_from = CASE WHEN excluded.asked > greatest(t.downloaded, t.kept) THEN t.downloaded ELSE t.kept_from END,
			round = greatest(t.round, excluded.round), `+firstOf("fetched")+`, `+firstOf("decided")+`, `+firstOf("fell"))
}

// firstOf sets a column to the first time in the latest round.
func firstOf(column string) string {
	return strings.ReplaceAll(`{} = CASE WHEN excluded.round > t.round THEN excluded.{} WHEN excluded.round < t.round THEN t.{} ELSE least(t.{}, excluded.{}) END`, "{}", column)
}

// queueDownloads follows queueTries, since downloads are merged into tries.
func queueDownloads(b *Batch, downloads []record.Download) {
	b.list("client bytea, version text, at bigint", rowsOf(downloads, func(d record.Download) []any {
		return []any{d.Client[:], d.Version, d.Time.UnixMicro()}
	}), nil, `
		UPDATE tsmon.tries AS t SET downloaded = greatest(t.downloaded, d.at), fetched = least(t.fetched, d.at),
			kept = CASE WHEN t.asked > d.at AND (t.kept IS NULL OR (t.asked, d.at) > (t.kept, t.kept_from)) THEN t.asked ELSE t.kept END,
			kept_from = CASE WHEN t.asked > d.at AND (t.kept IS NULL OR (t.asked, d.at) > (t.kept, t.kept_from)) THEN d.at ELSE t.kept_from END
		FROM (SELECT o.channel, o.version, o.client, n.at AS at FROM tsmon.tries o, {rows} WHERE o.client = n.client AND o.version = n.version
			ORDER BY o.channel, o.version, o.client FOR UPDATE) AS d
		WHERE t.channel = d.channel AND t.version = d.version AND t.client = d.client`)
}

func (s fleet) Clients(ctx context.Context, channel string, since time.Time) ([]record.ClientCount, error) {
	return list(ctx, s.core, central("count clients", Read), scan(func(c *record.ClientCount) []any {
		return []any{&c.Version, &c.Target, &c.Cohort, &c.Clients, &c.Level}
	}), `SELECT version, target, cohort, count(*), coalesce((SELECT level FROM tsmon.samples WHERE channel = $1 AND version = ''), 0)
		FROM tsmon.clients WHERE channel = $1 AND seen >= $2 AND `+fmt.Sprintf(sampled, "''", 3)+`
		GROUP BY version, target, cohort ORDER BY version, target, cohort`, channel, since.UnixMicro(), record.Level(0).Below())
}

func (s fleet) Progress(ctx context.Context, channel, version string) (record.Progress, error) {
	return one(ctx, s.core, central("count tries", Read), scan(func(p *record.Progress) []any {
		return []any{&p.Crashed, &p.Running, &p.Failed, &p.Kept, &p.Waiting, &p.Offered}
	}), `
		SELECT count(*) FILTER (WHERE stage = 'crashed'), count(*) FILTER (WHERE stage = 'running'),
			count(*) FILTER (WHERE stage = 'failed'), count(*) FILTER (WHERE stage = 'kept'),
			count(*) FILTER (WHERE stage = 'waiting'), count(*) FILTER (WHERE stage = 'offered')
		FROM (SELECT
			CASE WHEN crashed IS NOT NULL THEN 'crashed' WHEN failed = last THEN 'failed' WHEN stuck = last THEN 'kept' WHEN running = last THEN 'running'
				WHEN coalesce(downloaded, installed) IS NOT NULL THEN 'waiting' ELSE 'offered' END AS stage
			FROM (SELECT *, greatest(unwell, running) AS last
				FROM (SELECT *, greatest(failed, stuck) AS unwell
					FROM (SELECT downloaded, installed, running, failed, crashed,
						CASE WHEN coalesce(installed < kept_from, TRUE) THEN kept END AS stuck
						FROM tsmon.tries WHERE channel = $1 AND version = $2 AND `+fmt.Sprintf(sampled, "$2", 3)+`) AS a) AS b) AS c) AS d`,
		channel, version, record.Level(0).Below())
}

// ForgetClients deletes in several transactions. What it deleted before an error stays
// deleted, and is counted. It also deletes the samples of releases without tries.
func (s fleet) ForgetClients(ctx context.Context, before time.Time) (total int64, err error) {
	walks := []*Walk{
		{Table: "tsmon.clients", Key: "channel, client", Last: []any{"", []byte{}}},
		{Table: "tsmon.tries", Key: "channel, version, client", Last: []any{"", "", []byte{}}},
	}
	for len(walks) > 0 {
		err := s.run(ctx, central("delete old clients", Write), func(ctx context.Context, tx Tx) error {
			n, err := s.db.Forget(ctx, tx, walks, before)
			if err == nil {
				total += n
			}
			return err
		})
		if err != nil {
			return total, err
		}
		walks = slices.DeleteFunc(walks, func(w *Walk) bool { return w.Done })
	}
	_, err = s.exec(ctx, central("delete unused samples", Write),
		`DELETE FROM tsmon.samples AS s WHERE s.version <> '' AND NOT EXISTS (
		SELECT 1 FROM tsmon.tries AS t WHERE t.channel = s.channel AND t.version = s.version)`)
	return total, err
}
