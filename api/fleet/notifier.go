package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tsmon/channels"
	"tsmon/store/record"
)

// NotifierOptions configure a Notifier.
type NotifierOptions struct {
	Webhook  Webhook
	Records  record.Outbox
	Channels func() map[string]Channel
	// Moves returns the entries of a channel's log after a number, oldest first.
	Moves    func(channel string, after uint64) []channels.Entry
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Notifier sends alarms and every move of a channel to a webhook, whoever made the move and
// whether or not a server ran at the time. It reads the moves from the logs of the channels.
// The records keep which moves have been queued, and each message until the webhook has
// accepted it. So each message arrives at least once, and usually once for all servers that
// share the records. Moves from before a webhook was first configured are not sent.
//
// A message that fails is sent again with increasing pauses, for noticeLife. At most maxWaiting
// messages wait at a time; further moves are queued when there is room.
type Notifier struct {
	NotifierOptions
	waiting prometheus.Gauge
	sent    *prometheus.CounterVec

	mu     sync.Mutex
	alarms []Notice // alarms that are not in the records yet, at most maxAlarms

	background

	// Only the goroutine uses these:
	told   map[string]uint64 // the last move that was queued, by channel
	looked time.Time         // when messages were last claimed
	forgot time.Time         // when old messages were last deleted
	said   said              // about the records, the webhook, and the room for messages
}

const (
	noticeEvery = time.Second // between looks at the channels
	noticeLife  = 7 * 24 * time.Hour
	maxWaiting  = 1000
	maxAlarms   = 100 // that wait for the records
	maxQueued   = 100 // messages of one transaction

	claimEvery = 5 * time.Second // between checks for messages of other servers and for failed ones
	claimed    = 2               // messages at a time
	claimTime  = 3 * webhookTime // time to send them; after that another server sends them
	firstPause = 5 * time.Second // after the first try; it doubles
	longPause  = time.Hour
)

// NewNotifier returns a notifier, which Start starts and Close stops.
func NewNotifier(o NotifierOptions) *Notifier {
	add := promauto.With(o.Registry)
	n := &Notifier{
		NotifierOptions: o, said: said{},
		waiting: add.NewGauge(prometheus.GaugeOpts{
			Name: "tsmon_webhook_waiting", Help: "Messages that the webhook has not taken yet, of all servers.",
		}),
		sent: add.NewCounterVec(prometheus.CounterOpts{
			Name: "tsmon_webhook_messages_total", Help: "Messages that this server sent to the webhook, by result: taken, failed, given_up.",
		}, []string{"result"}),
	}
	for _, result := range []string{"taken", "failed", "given_up"} {
		n.sent.WithLabelValues(result)
	}
	return n
}

// Alarm queues a message about an object that does not verify, once for each version of the
// object.
func (n *Notifier) Alarm(object, etag, problem string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Webhook.Address != "" && len(n.alarms) < maxAlarms {
		n.alarms = append(n.alarms, alarmOf(object, etag, problem, n.Now()))
	}
}

// Start begins to send messages if there is a webhook; only the first call has an effect. Close
// stops it; the end of the context does not.
func (n *Notifier) Start(ctx context.Context) {
	n.start(ctx, func(ctx context.Context) {
		if n.Webhook.Address != "" {
			n.running.Go(func() { every(ctx, noticeEvery, n.round) })
		}
	})
}

// Close stops the notifier after the message that is being sent. The remaining messages are
// sent by another server, or the next time one starts.
func (n *Notifier) Close() { n.close() }

func (n *Notifier) round(ctx context.Context) {
	queued, err := n.queue(ctx)
	if age := n.Now().Sub(n.looked); err == nil && (queued || age < 0 || age >= claimEvery) {
		n.looked = n.Now()
		err = n.deliver(ctx)
	}
	if ctx.Err() == nil {
		n.note(err)
	}
}

// queue puts messages about new moves and alarms into the records, and reports whether there
// were any.
func (n *Notifier) queue(ctx context.Context) (bool, error) {
	known := n.Channels()
	fresh := n.told == nil
	for name, c := range known {
		fresh = fresh || c.Sequence > n.told[name]
	}
	n.mu.Lock()
	alarms := slices.Clone(n.alarms)
	n.mu.Unlock()
	if !fresh && len(alarms) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	told, err := n.Records.Told(ctx, n.Now())
	if err != nil {
		return false, err
	}
	n.told = told.Moves
	room := maxWaiting - told.Waiting
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if room, err = n.queueMoves(ctx, name, told, room); err != nil {
			return false, err
		}
	}
	if take := min(len(alarms), room); take > 0 {
		if err := n.Records.Queue(ctx, "", 0, messagesOf(alarms[:take])); err != nil {
			return false, err
		}
		n.mu.Lock()
		n.alarms = n.alarms[take:]
		n.mu.Unlock()
		room -= take
	}
	if n.said.begins("room", room <= 0) {
		n.Log.Warn("no further messages are queued until the webhook accepts some", "waiting", maxWaiting)
	}
	return true, nil
}

// queueMoves queues messages about the moves of a channel that were not queued before, as
// long as there is room, and returns the room that is left.
func (n *Notifier) queueMoves(ctx context.Context, channel string, told record.Told, room int) (int, error) {
	begin, oldest := told.Begin.Truncate(time.Second), n.Now().Add(-noticeLife) // the log has seconds
	moves := n.Moves(channel, told.Moves[channel])
	for len(moves) > 0 && room > 0 {
		var notices []Notice
		upTo := uint64(0)
		for len(moves) > 0 && len(notices) < min(room, maxQueued) {
			e := moves[0]
			if moves, upTo = moves[1:], e.Sequence; !e.Action.Upkeep() && !e.When.Before(begin) && e.When.After(oldest) {
				notices = append(notices, noticeOf(channel, e))
			}
		}
		if err := n.Records.Queue(ctx, channel, upTo, messagesOf(notices)); err != nil {
			return room, err
		}
		n.told[channel] = upTo
		room -= len(notices)
	}
	return room, nil
}

func messagesOf(notices []Notice) []record.Message {
	messages := make([]record.Message, len(notices))
	for i, n := range notices {
		body, _ := json.Marshal(n) // does not fail
		messages[i] = record.Message{ID: n.ID, Made: n.Time, Body: body}
	}
	return messages
}

func (n *Notifier) deliver(ctx context.Context) error {
	if age := n.Now().Sub(n.forgot); age < 0 || age >= time.Hour {
		untaken, err := n.Records.ForgetMessages(ctx, n.Now().Add(-noticeLife))
		if err != nil {
			return err
		}
		if n.forgot = n.Now(); untaken > 0 {
			n.sent.WithLabelValues("given_up").Add(float64(untaken))
			n.Log.Error("messages that the webhook did not take are given up", "messages", untaken, "after", noticeLife)
		}
	}
	for {
		messages, err := n.Records.Claim(ctx, n.Now(), n.Now().Add(claimTime), claimed)
		all := len(messages) == claimed
		for _, m := range messages {
			arrived, failed := n.send(ctx, m)
			all, err = all && arrived, errors.Join(err, failed)
		}
		if err != nil {
			return err
		}
		if !all || ctx.Err() != nil { // there are no more, or the webhook is down
			break
		}
	}
	told, err := n.Records.Told(ctx, n.Now())
	n.waiting.Set(float64(told.Waiting))
	return err
}

// send sends a message, and records and returns whether it arrived. After the end of the
// context it leaves the message to other servers. The error is that of the records.
func (n *Notifier) send(ctx context.Context, m record.Message) (arrived bool, err error) {
	due := n.Now()
	if ctx.Err() == nil {
		failed := n.Webhook.post(context.WithoutCancel(ctx), m, n.Now())
		n.notePost(m, failed)
		arrived, due = failed == nil, n.Now().Add(pauseAfter(m.Tries))
	}
	if arrived {
		due = time.Time{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sightTime)
	defer cancel()
	return arrived, n.Records.Settle(ctx, m.ID, due)
}

// pauseAfter returns how long a message waits after so many tries.
func pauseAfter(tries int) time.Duration {
	return min(firstPause<<min(max(tries, 1)-1, 16), longPause)
}

// notePost logs a message that arrived, and when the webhook begins to fail.
func (n *Notifier) notePost(m record.Message, failed error) {
	log := n.Log.With("message", m.ID, "try", m.Tries)
	if failed == nil {
		n.said.news("webhook", "")
		n.sent.WithLabelValues("taken").Inc()
		log.Info("webhook posted")
		return
	}
	n.sent.WithLabelValues("failed").Inc()
	if n.said.news("webhook", failed.Error()) {
		log.Warn("webhook failed; it is tried again", "error", failed)
	}
}

// note logs when the records begin to fail, and when they work again.
func (n *Notifier) note(err error) {
	switch began, ended := n.said.turns("records", err != nil); {
	case began:
		n.Log.Warn("no messages are sent to the webhook until the records answer", "error", err)
	case ended:
		n.Log.Info("messages are sent to the webhook again")
	}
}
