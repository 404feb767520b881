package mqtt_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"tsmon/api/monitor/mqtt"
)

// target is what the suite tests and the broker that devices connect to.
type target struct {
	publisher
	address string
	connect func() *paho.Connect // what a device says that the broker lets in
}

func (s target) device(t *testing.T) *device { return connect(t, s.address, s.connect()) }

// suite runs every test of the contract, each on a target of its own.
func suite(t *testing.T, open func(t *testing.T) target) {
	for _, c := range []struct {
		name string
		test func(*testing.T, target)
	}{
		{"Delivers", delivers},
		{"Payloads", payloads},
		{"NotRetained", notRetained},
		{"Matched", matched},
		{"HostileTopics", refusesHostileTopics},
		{"OddTopics", takesOddTopics},
		{"TooLarge", tooLarge},
		{"Concurrent", concurrent},
		{"Cancelled", cancelled},
		{"CallerReusesPayload", callerReusesPayload},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { s.Close() })
			c.test(t, s)
		})
	}
	t.Run("Goroutines", func(t *testing.T) { goroutines(t, open) })
}

func delivers(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "acueducto/#")
	for i := range 3 { // each once and in order
		mustPublish(t, s, fmt.Sprintf("acueducto/pozo %d/config", i), fmt.Sprintf(`{"source_%d":[1,2]}`, i))
	}
	mustPublish(t, s, "other", "not asked for")
	mustPublish(t, s, "acueducto/end", "")
	for i := range 3 {
		d.wantMessage(t, fmt.Sprintf("acueducto/pozo %d/config", i), fmt.Sprintf(`{"source_%d":[1,2]}`, i))
	}
	d.wantMessage(t, "acueducto/end", "")
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func payloads(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "p")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	largest := make([]byte, 256<<10)
	rand.Read(largest)
	for _, payload := range []string{"", "\x00", string(all), string(largest)} {
		mustPublish(t, s, "p", payload)
		d.wantMessage(t, "p", payload)
	}
}

func notRetained(t *testing.T, s target) {
	mustPublish(t, s, "r/1", "before")
	d := s.device(t).subscribe(t, "#")
	mustPublish(t, s, "r/2", "after")
	d.wantMessage(t, "r/2", "after")
}

func matched(t *testing.T, s target) {
	none, some := mqtt.Receipt{ReasonCode: 16}, mqtt.Receipt{Matched: true}
	want := func(topic string, want mqtt.Receipt) {
		t.Helper()
		if got := mustPublish(t, s, topic, "x"); got != want {
			t.Errorf("%s: the receipt is %+v, want %+v", topic, got, want)
		}
	}
	want("m/a", none)
	d := s.device(t).subscribe(t, "m/+")
	want("m/a", some)
	want("m/a/b", none)
	want("n", none)
	if _, err := d.Unsubscribe(t.Context(), &paho.Unsubscribe{Topics: []string{"m/+"}}); err != nil {
		t.Fatal(err)
	}
	want("m/a", none)
	d.subscribe(t, "$share/group/m/+")
	want("m/a", some)
}

func refusesHostileTopics(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "#")
	for _, topic := range mqtt.HostileTopics {
		_, err := s.Publish(t.Context(), topic, []byte("x"))
		wantError(t, err, mqtt.ErrTopic)
	}
	mustPublish(t, s, "end", "")
	d.wantMessage(t, "end", "")
}

// takesOddTopics holds ValidTopic to what a broker takes: one that is wrong
// costs the connection.
func takesOddTopics(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "#")
	topics := []string{"/", "//", "a//b", "/a/", " ", "ñ/日本/🚰", `"\`, strings.Repeat("a", 1024), strings.Repeat("/", 200), "\ufeff", "\u2028", "\ufffd"}
	for range 200 {
		var topic strings.Builder
		for range 1 + mathrand.N(40) {
			topic.WriteRune(rune(mathrand.N(1 << []int{7, 8, 11, 16, 21}[mathrand.N(5)])))
		}
		if mqtt.ValidTopic(topic.String()) == nil {
			topics = append(topics, topic.String())
		}
	}
	for _, topic := range topics {
		if _, err := s.Publish(t.Context(), topic, []byte("x")); err != nil {
			t.Fatalf("%q: %v", topic, err)
		}
		d.wantMessage(t, topic, "x")
	}
}

func tooLarge(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "#")
	_, err := s.Publish(t.Context(), "large", make([]byte, 256<<10+1))
	wantError(t, err, mqtt.ErrTooLarge)
	mustPublish(t, s, "end", "")
	d.wantMessage(t, "end", "")
}

func concurrent(t *testing.T, s target) {
	const publishers, each = 10, 5
	d := s.device(t).subscribe(t, "c/+")
	var group sync.WaitGroup
	for i := range publishers {
		group.Go(func() {
			for j := range each {
				if _, err := s.Publish(t.Context(), fmt.Sprintf("c/%d", i), []byte{byte(j)}); err != nil {
					t.Errorf("%d of %d: %v", j, i, err)
				}
			}
		})
	}
	group.Wait()
	next := map[string]byte{} // the order of each publisher is kept
	for range publishers * each {
		m := receive(t, d.messages)
		if len(m.Payload) != 1 || m.Payload[0] != next[m.Topic] {
			t.Fatalf("%v came on %s, want %d", m.Payload, m.Topic, next[m.Topic])
		}
		next[m.Topic]++
	}
	mustPublish(t, s, "c/end", "")
	d.wantMessage(t, "c/end", "")
}

func cancelled(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "#")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Publish(ctx, "a", []byte("x"))
	wantError(t, err, mqtt.ErrUnavailable)
	wantError(t, err, context.Canceled)
	wantError(t, s.Ping(ctx), context.Canceled)
	mustPublish(t, s, "end", "")
	d.wantMessage(t, "end", "")
}

func callerReusesPayload(t *testing.T, s target) {
	d := s.device(t).subscribe(t, "#")
	payload := []byte("first")
	for _, text := range []string{"first", "other", "third"} {
		copy(payload, text)
		if _, err := s.Publish(t.Context(), "a", payload); err != nil {
			t.Fatal(err)
		}
	}
	copy(payload, "gone!")
	for _, text := range []string{"first", "other", "third"} {
		d.wantMessage(t, "a", text)
	}
}

func closed(t *testing.T, s target) {
	mustPublish(t, s, "a", "x")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Publish(t.Context(), "a", []byte("x"))
	wantError(t, err, mqtt.ErrUnavailable)
	wantError(t, s.Ping(t.Context()), mqtt.ErrUnavailable)
}

// goroutines looks for any that are left, also of publishers that Close
// interrupts.
func goroutines(t *testing.T, open func(t *testing.T) target) {
	open(t).Close()
	before := runtime.NumGoroutine()
	for range 3 {
		s := open(t)
		var group sync.WaitGroup
		started := make(chan struct{}, 4)
		for range cap(started) {
			group.Go(func() {
				for i := 0; ; i++ {
					_, err := s.Publish(t.Context(), "a", []byte("x"))
					if i == 0 {
						started <- struct{}{}
					}
					if err != nil {
						ended := errors.Is(err, mqtt.ErrUnavailable) || errors.Is(err, mqtt.ErrUnknown)
						if !ended || errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("the error is %v", err)
						}
						return
					}
				}
			})
		}
		for range cap(started) {
			receive(t, started)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
