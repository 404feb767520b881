package updates_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
)

// TestAdoptionRoute: with the key everybody sees what is known of the clients, as the
// description says; without it nobody does, nor where there is none.
func TestAdoptionRoute(t *testing.T) {
	r := apitest.RollOut(t, apitest.Embedded(t))
	path := "/updates/" + r.Channel + "/adoption"
	for _, token := range []string{"", "another", "metrics-of-every-tes"} {
		c := r.Client
		c.Token = token
		if got := c.Get(path); got.Status != http.StatusForbidden {
			t.Errorf("token %q: status %d", token, got.Status)
		}
	}
	c := r.Client
	c.Token = apitest.MetricsKey
	var a fleet.Adoption
	for deadline := time.Now().Add(time.Minute); ; {
		got := c.Get(path)
		if got.Status == http.StatusOK {
			if err := json.Unmarshal(got.Body, &a); err != nil || got.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%v, %v", got.Header, err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %d: %s", got.Status, got.Body)
		}
	}
	if err := a.Check(r.Channel); err != nil || a.Rollout == nil {
		t.Errorf("%+v, %v", a, err)
	}
	for _, name := range []string{"nightly", "..%2f", "A"} {
		if got := c.Get("/updates/" + name + "/adoption"); got.Status != http.StatusNotFound {
			t.Errorf("%s: status %d", name, got.Status)
		}
	}
}
