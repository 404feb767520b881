package recordtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/record"
)

func message(id string, made int) record.Message {
	return record.Message{ID: id, Made: moment(made), Body: []byte(`{"id":"` + id + `"}`)}
}

func queue(t *testing.T, s record.Store, channel string, upTo uint64, messages ...record.Message) {
	t.Helper()
	check(t, s.Queue(t.Context(), channel, upTo, messages))
}

func told(t *testing.T, s record.Store) record.Told {
	t.Helper()
	return must(s.Told(t.Context(), moment(99)))(t)
}

// claim returns the IDs of claimed messages.
func claim(t *testing.T, s record.Store, now, again, limit int) (ids []string) {
	t.Helper()
	all := must(s.Claim(t.Context(), moment(now), moment(again), limit))(t)
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids
}

// outbox follows messages until they are delivered.
func outbox(t *testing.T, s record.Store) {
	equal(t, "the state at first", must(s.Told(t.Context(), moment(5)))(t), record.Told{Begin: moment(5), Moves: map[string]uint64{}})
	queue(t, s, stable, 2, message("b", 11), message("a", 10))
	queue(t, s, stable, 1, message("a", 10)) // from a server that is behind
	queue(t, s, beta, 1<<40, message("c", 12))
	queue(t, s, "", 7, message("alarm", 1)) // no channel
	queue(t, s, "quiet", 3)                 // no messages
	equal(t, "the state with messages", told(t, s), record.Told{Begin: moment(5), Moves: map[string]uint64{stable: 2, beta: 1 << 40, "quiet": 3}, Waiting: 4})

	equal(t, "the oldest", claim(t, s, 20, 30, 2), []string{"alarm", "a"})
	equal(t, "the unclaimed messages", claim(t, s, 20, 30, 9), []string{"b", "c"})
	equal(t, "nothing", claim(t, s, 29, 30, 9), []string(nil))
	check(t, s.Settle(t.Context(), "a", time.Time{}))
	check(t, s.Settle(t.Context(), "b", moment(25)))
	check(t, s.Settle(t.Context(), "nobody", moment(25)))
	check(t, s.Settle(t.Context(), "a\x00", moment(25)))
	equal(t, "the message to be sent again", claim(t, s, 25, 40, 9), []string{"b"})
	again := must(s.Claim(t.Context(), moment(30), moment(50), 9))(t) // the earlier claims have expired
	want := []record.Message{message("alarm", 1), message("c", 12)}
	want[0].Tries, want[1].Tries = 2, 2
	equal(t, "the messages whose claims expired", again, want)
	queue(t, s, stable, 2, message("a", 10))
	equal(t, "the number of waiting messages", told(t, s).Waiting, 3)
	equal(t, "the messages without the delivered one", claim(t, s, 60, 70, 9), []string{"alarm", "b", "c"})

	equal(t, "forgotten messages that were not delivered", must(s.ForgetMessages(t.Context(), moment(12)))(t), 2)
	equal(t, "the remaining messages", claim(t, s, 80, 90, 9), []string{"c"})
	equal(t, "the state in the end", told(t, s), record.Told{Begin: moment(5), Moves: map[string]uint64{stable: 2, beta: 1 << 40, "quiet": 3}, Waiting: 1})
}

// outboxInvalid: a batch with an invalid message is refused as a whole.
func outboxInvalid(t *testing.T, s record.Store) {
	right := message("right", 1)
	for name, c := range map[string]struct {
		channel string
		message record.Message
	}{
		"no id":        {stable, record.Message{Made: moment(1)}},
		"no time":      {stable, record.Message{ID: "a"}},
		"a long id":    {stable, message(strings.Repeat("a", 300), 1)},
		"a NUL":        {stable, message("a\x00", 1)},
		"a channel":    {"\xff", message("a", 1)},
		"a large body": {stable, record.Message{ID: "a", Made: moment(1), Body: bytes.Repeat([]byte("a"), 1<<16+1)}},
	} {
		demand(t, s.Queue(t.Context(), c.channel, 3, []record.Message{right, c.message}), record.ErrInvalid, name)
	}
	demand(t, errorOf(s.Claim(t.Context(), moment(1), moment(2), 0)), record.ErrInvalid, "Claim")
	equal(t, "the state after invalid messages", told(t, s), record.Told{Begin: moment(99), Moves: map[string]uint64{}})
	hostile := record.Message{ID: `'; DROP TABLE outbox; --`, Made: moment(1), Body: []byte{0, 0xff, '\''}}
	queue(t, s, `"; --`, 1, hostile)
	all := must(s.Claim(t.Context(), moment(1), moment(2), 1))(t)
	hostile.Tries = 1
	equal(t, "what was claimed", all, []record.Message{hostile})
}

// OutboxRace has several servers queue the same messages and send them concurrently. No claim
// expires, so each message must be sent once.
func OutboxRace(t *testing.T, stores ...record.Store) {
	t.Helper()
	const messages = 60
	var mu sync.Mutex
	sent := map[string]int{}
	raceAll(t, sighters, func(i int) error {
		s := stores[i%len(stores)]
		for n := range messages {
			if err := s.Queue(t.Context(), stable, uint64(n+1), []record.Message{message(fmt.Sprint(n), n), message(fmt.Sprint((n+i)%messages), (n+i)%messages)}); err != nil {
				return err
			}
			claimed, err := s.Claim(t.Context(), moment(100), moment(200), 3)
			if err != nil {
				return err
			}
			for _, m := range slices.Backward(claimed) {
				mu.Lock()
				sent[m.ID]++
				mu.Unlock()
				if err := s.Settle(t.Context(), m.ID, time.Time{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	equal(t, "messages", len(sent), messages)
	for id, n := range sent {
		equal(t, "servers that sent "+id, n, 1)
	}
	equal(t, "the state in the end", told(t, stores[0]), record.Told{Begin: moment(99), Moves: map[string]uint64{stable: messages}})
}

func outboxRace(t *testing.T, s record.Store) { OutboxRace(t, s) }
