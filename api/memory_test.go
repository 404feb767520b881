package api_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/store/record"
)

// TestMemory: a server that takes another's place knows of wrong logins what that knew, and
// goes on for a minute without the records.
func TestMemory(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	f := apitest.Unsteady(w)
	testMemory(t, w, func() { f.Fail(fmt.Errorf("%w: %s", record.ErrUnavailable, apitest.Detail), "records.") })
}

// TestMemoryOfPostgres stops a real PostgreSQL.
func TestMemoryOfPostgres(t *testing.T) {
	servers := apitest.StartServers(t)
	testMemory(t, servers.World(t), servers.Postgres.Stop)
}

// testMemory takes the records away. Nothing but the test moves the clock.
func testMemory(t *testing.T, w *apitest.World, away func()) {
	w.BehindProxy = true
	apitest.WriteNetwork(t, w)
	apitest.ImportGrants(t, w)
	start, moved := w.Clock.Now(), atomic.Int64{}
	w.Now = func() time.Time { return start.Add(time.Duration(moved.Load())) }
	w.Memory = api.NewMemory(w.Now)
	first := w.LogIn(t, w.Serve(t), w.Ana)
	const unnamed = `[{"measurement":"tanque","field":"nivel","samplingPeriod":"1h"}]`
	want := map[string]string{}
	ask := func(c apitest.Client, path string) apitest.Answer {
		if path == "/seriesDataTs" {
			return c.Post(path, apitest.Raw(unnamed))
		}
		return c.Get(path)
	}
	paths := []string{"/seriesDataTs", "/getVarsTs"}
	for _, path := range paths {
		got := ask(first, path)
		got.Data(t)
		want[path] = string(got.Body)
	}
	guess := w.Eva
	guess.TokenApp = "a guess"
	for range 10 {
		first.Post("/loginPartner", guess).WantFailure(t, 401)
	}

	refusals := func() int {
		return len(apitest.Must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), w.Ana.Schema, 100)))
	}
	logged := refusals()
	second := apitest.Client{TB: t, Base: w.Serve(t).URL, Token: first.Token}
	second.Post("/loginPartner", w.Eva).WantFailure(t, 429)
	other := w.Luis
	other.TokenApp = "another guess"
	if second.Post("/loginPartner", other).WantFailure(t, 401); refusals() != logged {
		t.Errorf("%d rows of wrong logins within a minute, %d before", refusals(), logged)
	}
	second.Post("/loginPartner", w.Ana).Data(t)
	away()
	for _, wait := range []time.Duration{0, time.Minute - 1} {
		moved.Store(int64(wait))
		for _, path := range paths {
			if got := ask(second, path); got.Status != 200 || string(got.Body) != want[path] {
				t.Errorf("%s without the records for %s: %d %s, want %s", path, wait, got.Status, got.Body, want[path])
			}
		}
	}
	moved.Store(int64(time.Minute))
	for _, path := range paths {
		if said := ask(second, path).WantFailure(t, 500); !strings.Contains(said, "records can't be reached") {
			t.Errorf("%s after a minute: %s", path, said)
		}
	}
}
