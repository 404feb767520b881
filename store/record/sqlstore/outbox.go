package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsmon/store/record"
)

func (s fleet) Told(ctx context.Context, begin time.Time) (told record.Told, err error) {
	var b Batch
	sequences := map[string]int64{}
	b.Exec(`INSERT INTO tsmon.told (channel, sequence) VALUES ('', $1) ON CONFLICT (channel) DO NOTHING`, begin.UnixMicro())
	queueNumbers(&b, sequences, `SELECT channel, sequence FROM tsmon.told`)
	b.Query(func(row Scanner) error { return row.Scan(&told.Waiting) }, `SELECT count(*) FROM tsmon.outbox WHERE due IS NOT NULL`)
	if err := s.send(ctx, central("read the queued moves", Write), &b); err != nil {
		return record.Told{}, err
	}
	told.Begin, told.Moves = time.UnixMicro(sequences[""]).UTC(), map[string]uint64{}
	delete(sequences, "")
	for channel, sequence := range sequences {
		told.Moves[channel] = uint64(sequence)
	}
	return told, nil
}

func (s fleet) Queue(ctx context.Context, channel string, upTo uint64, messages []record.Message) error {
	if err := record.ValidateMessages(channel, messages); err != nil {
		return fmt.Errorf("queue messages: %w", err)
	}
	messages = slices.Clone(messages)
	slices.SortFunc(messages, func(x, y record.Message) int { return strings.Compare(x.ID, y.ID) }) // the order of locks
	var b Batch
	b.list("id text, made bigint, body bytea", rowsOf(messages, func(m record.Message) []any {
		return []any{m.ID, m.Made.UnixMicro(), append([]byte{}, m.Body...)}
	}), nil, `INSERT INTO tsmon.outbox (id, made, due, tries, body) SELECT n.id, n.made, 0, 0, n.body FROM {rows} WHERE true ON CONFLICT (id) DO NOTHING`)
	if channel != "" {
		b.Exec(`INSERT INTO tsmon.told AS t (channel, sequence) VALUES ($1, $2)
			ON CONFLICT (channel) DO UPDATE SET sequence = greatest(t.sequence, excluded.sequence)`, channel, int64(upTo))
	}
	return s.send(ctx, central("queue messages", Write), &b)
}

func (s fleet) Claim(ctx context.Context, now, again time.Time, limit int) ([]record.Message, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("claim messages: %w: a limit of %d", record.ErrInvalid, limit)
	}
	claimed, err := list(ctx, s.core, central("claim messages", Write), scan(func(m *record.Message) []any {
		return []any{&m.ID, micros(&m.Made), &m.Tries, &m.Body}
	}), `WITH few AS MATERIALIZED (SELECT id FROM tsmon.outbox WHERE due <= $1 ORDER BY made, id LIMIT $2 FOR UPDATE SKIP LOCKED)
		UPDATE tsmon.outbox SET due = $3, tries = tries + 1 WHERE id IN (SELECT id FROM few) RETURNING id, made, tries, body`,
		now.UnixMicro(), limit, again.UnixMicro())
	slices.SortFunc(claimed, func(x, y record.Message) int { return cmp.Or(x.Made.Compare(y.Made), strings.Compare(x.ID, y.ID)) })
	return claimed, err
}

func (s fleet) Settle(ctx context.Context, id string, due time.Time) error {
	_, err := s.exec(ctx, central("reschedule a message", Write),
		`UPDATE tsmon.outbox SET due = $2 WHERE id = $1`, id, record.Micros(due))
	return err
}

func (s fleet) ForgetMessages(ctx context.Context, before time.Time) (untaken int, err error) {
	var b Batch
	b.Query(func(row Scanner) error {
		var waits bool
		err := row.Scan(&waits)
		if waits {
			untaken++
		}
		return err
	}, `DELETE FROM tsmon.outbox WHERE made < $1 RETURNING due IS NOT NULL`, before.UnixMicro())
	return untaken, s.send(ctx, central("delete old messages", Write), &b)
}
