package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tsmon/store/record"
)

// stage is the outcome of a row of tsmon.tries, as described at record.Counts.
const stage = `CASE WHEN fell IS NOT NULL AND (crashed >= fell OR running IS NULL OR failed >= running) THEN 'failing'
	WHEN decided IS NOT NULL THEN 'healthy' WHEN fetched IS NULL THEN 'offered'
	WHEN kept_from >= fetched AND coalesce(installed < kept_from, TRUE) THEN 'kept' ELSE 'waiting' END`

// stages are in the order of record.Counts.
var stages = []string{"offered", "waiting", "kept", "healthy", "failing"}

func (s fleet) Groups(ctx context.Context, r record.Round) ([]record.Group, error) {
	var counts []string
	for _, name := range stages {
		counts = append(counts, `count(*) FILTER (WHERE stage = '`+name+`')`)
	}
	return list(ctx, s.core, central("count tries by target", Read), scan(func(g *record.Group) []any {
		return []any{&g.Target, &g.Cohort, &g.Offered, &g.Waiting, &g.Kept, &g.Healthy, &g.Failing}
	}), `SELECT target, cohort, `+strings.Join(counts, ", ")+` FROM (
			SELECT coalesce(c.target, '') AS target, coalesce(c.cohort, '') AS cohort, a.stage AS stage FROM (
				SELECT client, `+stage+` AS stage FROM tsmon.tries WHERE channel = $1 AND version = $2 AND round >= $3 AND `+fmt.Sprintf(sampled, "$2", 4)+`) AS a
			LEFT JOIN tsmon.clients AS c ON c.channel = $1 AND c.client = a.client) AS b
		GROUP BY target, cohort ORDER BY target, cohort`, r.Channel, r.Version, int64(r.Round), record.Level(0).Below())
}

// Crowds groups networks by size, so that it reads few rows however many networks there are.
func (s fleet) Crowds(ctx context.Context, r record.Round, now time.Time, ages []time.Duration) (found record.Crowds, err error) {
	args := []any{r.Channel, r.Version, int64(r.Round), record.Level(0).Below()}
	var counts, sums []string
	count := func(condition string) {
		name := fmt.Sprint("c", len(counts))
		counts = append(counts, `count(*) FILTER (WHERE `+condition+`) AS `+name)
		sums = append(sums, `CAST(sum(`+name+`) AS bigint)`)
	}
	for _, name := range stages {
		count(`stage = '` + name + `'`)
	}
	for _, age := range ages {
		n := len(args) + 1
		args = append(args, now.Add(-age).UnixMicro(), age.Microseconds())
		count(fmt.Sprintf(`fetched <= $%d`, n))
		count(fmt.Sprintf(`fetched <= $%d AND (decided IS NULL OR decided > fetched + $%d)`, n, n+1))
		count(fmt.Sprintf(`fetched <= $%d AND stage = 'failing' AND fell <= fetched + $%d`, n, n+1))
	}
	var b Batch
	b.Query(func(row Scanner) error { return row.Scan(&found.Level, &found.OfNetwork, micros(&found.Refused)) },
		`SELECT level, of_network, refused FROM tsmon.samples WHERE channel = $1 AND version = $2`, r.Channel, r.Version)
	b.Query(collect(&found.List, scan(func(c *record.Crowd) []any {
		c.Ages = make([]record.AgeCounts, len(ages))
		into := []any{&c.Networks, &c.Failed, &c.Offered, &c.Waiting, &c.Kept, &c.Healthy, &c.Failing}
		for i := range c.Ages {
			into = append(into, &c.Ages[i].Reached, &c.Ages[i].Waiting, &c.Ages[i].Failing)
		}
		return into
	})), `SELECT count(*), count(*) FILTER (WHERE c4 > 0), `+strings.Join(sums, ", ")+`
		FROM (SELECT network, `+strings.Join(counts, ", ")+` FROM (
			SELECT network, fetched, decided, fell, `+stage+` AS stage
			FROM tsmon.tries WHERE channel = $1 AND version = $2 AND round >= $3 AND `+fmt.Sprintf(sampled, "$2", 4)+`) AS a
		GROUP BY network) AS b GROUP BY c1 + c2 + c3 + c4 ORDER BY c1 + c2 + c3 + c4`, args...)
	err = s.send(ctx, central("count tries by network", Read), &b) // sets found
	return found, err
}

func (s fleet) Refuse(ctx context.Context, channel, version string, at time.Time) error {
	if at.IsZero() || !record.Storable(channel) || !record.Storable(version) {
		return fmt.Errorf("record a refused client: %w: channel %.80q, version %.80q at %s", record.ErrInvalid, channel, version, at)
	}
	_, err := s.exec(ctx, central("record a refused client", Write),
		`INSERT INTO tsmon.samples AS s (channel, version, level, below, of_network, refused) VALUES ($1, $2, 0, $3, 0, $4)
		ON CONFLICT (channel, version) DO UPDATE SET refused = greatest(s.refused, excluded.refused)`,
		channel, version, record.Level(0).Below(), at.UnixMicro())
	return err
}

func (s fleet) KeepSummary(ctx context.Context, sum record.Summary) error {
	if err := sum.Validate(); err != nil {
		return fmt.Errorf("store a summary: %w", err)
	}
	_, err := s.exec(ctx, central("store a summary", Write),
		`INSERT INTO tsmon.summaries AS s (channel, version, clients, counted, sums) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (channel, version) DO UPDATE SET clients = excluded.clients, counted = excluded.counted, sums = excluded.sums
		WHERE excluded.clients > s.clients OR excluded.clients = s.clients AND excluded.counted > s.counted AND excluded.sums <> s.sums`,
		sum.Channel, sum.Version, sum.Clients, sum.Counted.UnixMicro(), string(sum.Sums))
	return err
}

func (s fleet) Summary(ctx context.Context, channel, version string) (record.Summary, error) {
	return one(ctx, s.core, central("read a summary", Read), scan(func(sum *record.Summary) []any {
		return []any{&sum.Channel, &sum.Version, &sum.Clients, micros(&sum.Counted), (*[]byte)(&sum.Sums)}
	}), `SELECT channel, version, clients, counted, sums FROM tsmon.summaries WHERE channel = $1 AND version = $2`, channel, version)
}
