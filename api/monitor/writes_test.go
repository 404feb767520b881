package monitor_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/api/monitor"
)

func TestWritesOfCommands(t *testing.T) { testWritesOfCommands(t, apitest.Embedded(t)) }

// testWritesOfCommands: what a command says that it has written is answered after the next
// look, which is due within half of the two seconds that are promised. The clock stands
// nearly still, so that what is cached stays so.
func testWritesOfCommands(t *testing.T, w *apitest.World) {
	if monitor.WritesInterval > time.Second {
		t.Errorf("writes are looked for every %s", monitor.WritesInterval)
	}
	start, moved := w.Clock.Now(), atomic.Int64{}
	w.Now = func() time.Time { return start.Add(time.Duration(moved.Load())) }
	server := apitest.ServeWith(t, w, func(s *api.Server, _ *http.Server) { s.Watch(t.Context()) })
	c := w.LogIn(t, server, w.Ana)
	write := func(value int) {
		w.Write(t, w.Ana.TsName, fmt.Sprintf("pozo nivel=%d %d", value, start.Add(time.Duration(value)*time.Second-time.Minute).UnixMilli()))
	}
	mean := func() string {
		got := c.Post("/multipleDataTs", apitest.Raw(`[{"dataTs":{"id":"m","type":"mean","varsTs":{"measurement":"pozo","field":"nivel"}}}]`))
		return fmt.Sprint(got.Data(t))
	}
	write(1)
	if got := mean(); got != "map[m:1]" {
		t.Fatalf("the first value: %s", got)
	}
	for _, value := range []int{3, 5} {
		before := mean()
		write(value)
		if got := mean(); got != before {
			t.Errorf("before the command has said that it wrote: %s, cached %s", got, before)
		}
		if err := w.Records.Wrote(t.Context(), w.Ana.TsName); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("map[m:%d]", (value+1)/2)
		apitest.Eventually(t, want, func() bool { return mean() == want })
		moved.Add(1) // an answer of that moment may be of before, and is not cached
	}
}
