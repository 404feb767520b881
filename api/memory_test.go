package api_test

import (
	"fmt"
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
	w.BehindProxy = true
	apitest.WriteNetwork(t, w)
	apitest.ImportGrants(t, w)
	f := apitest.Unsteady(w)
	w.Memory = api.NewMemory(w.Clock.Now)
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

	second := apitest.Client{TB: t, Base: w.Serve(t).URL, Token: first.Token}
	second.Post("/loginPartner", w.Eva).WantFailure(t, 429)
	second.Post("/loginPartner", w.Ana).Data(t)
	f.Fail(fmt.Errorf("%w: %s", record.ErrUnavailable, apitest.Detail), "records.")
	for _, path := range paths {
		if got := ask(second, path); got.Status != 200 || string(got.Body) != want[path] {
			t.Errorf("%s without the records: %d %s, want %s", path, got.Status, got.Body, want[path])
		}
	}
	w.Clock.Move(time.Minute)
	for _, path := range paths {
		ask(second, path).WantFailure(t, 500)
	}
}
