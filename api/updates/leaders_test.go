package updates_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/upkeep"
)

// TestForgedFollowers: somebody with the store, the key of one of two operators and a plan of
// stable that both had signed and that was never made has beta follow that. No server shows
// it, verification names it, no move goes on from it, and once it is taken out all goes on.
func TestForgedFollowers(t *testing.T) { testForgedFollowers(t, apitest.Embedded(t)) }

func testForgedFollowers(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	following := *g.desk.Policies["stable"].Operators
	following.Follows = "stable"
	both := &following
	g.desk.Policies["beta"] = release.Policy{Follows: "stable", Prerelease: true, Operators: both}
	g.Trust["beta"] = channels.Trust{Operators: both}
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.desk.Sign = g.ann.sign // its first entry puts operators in force, which takes both
	if plan, err := g.desk.Approve(t.Context(), "beta", "", false); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	g.publish(t, "1.1.0", g.ann, g.bob)
	r := channels.Repository{Store: w.Objects, Trust: g.Trust}
	load := func(channel string) *channels.Log {
		return apitest.Must[*channels.Log](t)(r.Load(t.Context(), channel))
	}
	beta, stable := load("beta"), load("stable")
	if beta.Head().Version != "1.1.0" || beta.Head().Leader == "" {
		t.Fatalf("beta does not follow: %+v", beta.Head())
	}
	shown := func(u *apitest.Updates, version string) {
		t.Helper()
		u.Heads.Round(t.Context())
		got := u.Get("/updates/beta/latest.json")
		if version == "" {
			got.WantFailure(t, 503)
			return
		}
		var m struct{ Version string }
		if apitest.ReadJSON(t, got.Body, &m); got.Status != 200 || m.Version != version {
			t.Errorf("beta shows %d %s, want %s", got.Status, m.Version, version)
		}
	}
	plan := *stable.Head()
	plan.Signatures, plan.Operators, plan.Release.Notes = nil, nil, "by hand"
	plan = stable.Next(plan)
	borrowed := plan
	borrowed.Signatures = stable.Head().Signatures
	for name, c := range map[string]struct {
		names channels.Entry
		why   string
	}{
		"signed by both, and never made": {approved(t, plan, g.ann, g.bob), "entry 3 of beta follows entry 3 of stable, which is not there"},
		"signed by one":                  {approved(t, plan, g.ann), "the operators have not signed it: 1 of 2"},
		"signed by nobody":               {plan, "the operators have not signed it: 1 of 2"}, // ann signed what follows
		"with the signatures of another": {borrowed, "signature is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			names := c.names
			known := serveStill(t, w)
			shown(known, "1.1.0")
			e := *beta.Head()
			e.Action, e.From, e.Release = channels.Follow, "stable", names.Release
			e.Leader = string(apitest.Must[[]byte](t)(json.Marshal(names)))
			e.Signatures, e.Operators = nil, nil
			e = approved(t, beta.Next(e), g.ann)
			older, _ := w.Stored(t, "beta/latest.json")
			plant(t, w, "log/beta/0000000003.json", apitest.Must[[]byte](t)(json.Marshal(e)))
			m := e.Render(g.Options.PublicURL)
			plant(t, w, "beta/latest.json", apitest.Must[[]byte](t)(m.Encode()))

			fresh := still(t, w)
			shown(known, "1.1.0")
			shown(fresh, "")
			for _, u := range []*apitest.Updates{known, fresh} {
				if n := u.Metric(`tsmon_updates_alarms{channel="beta",kind="unsigned"}`); n != "1" {
					t.Errorf("the alarm: %q", n)
				}
			}
			report := apitest.Must[*upkeep.VerifyReport](t)(g.desk.Keeper().Verify(t.Context(), "beta"))
			if !slices.ContainsFunc(report.Findings, func(f upkeep.Finding) bool {
				return strings.HasPrefix(f.Object, "log/beta") && strings.Contains(f.Problem, c.why) && strings.Contains(f.Mend, "--take-out")
			}) {
				t.Errorf("findings: %+v", report.Findings)
			}
			g.desk.Sign = g.ann.sign
			if _, err := g.desk.TryPublish(t, "1.2.0-beta.1", "", func(o *release.PublishOptions) { o.Channel = "beta" }); !errors.Is(err, channels.ErrUnsigned) {
				t.Errorf("a move goes on from it: %v", err)
			}
			repaired, err := g.desk.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "beta", TakeOut: filepath.Join(t.TempDir(), "forged")})
			if err != nil || repaired.Findings.Err() != nil || !repaired.Changed {
				t.Errorf("%+v, %v", repaired, err)
			}
			if data, _ := w.Stored(t, "beta/latest.json"); string(data) != string(older) {
				t.Errorf("the manifest is %s", data)
			}
			for _, u := range []*apitest.Updates{known, fresh} {
				shown(u, "1.1.0")
				wantUnverified(t, w, u, 0)
			}
		})
	}

	// What is rightful goes on: the server reads nothing of stable but what it knows.
	store := w.WatchObjects()
	u := still(t, w)
	shown(u, "1.1.0")
	u.Heads.Round(t.Context())
	clear(store.Asked)
	u.Heads.Round(t.Context())
	if len(store.Asked) != 2 {
		t.Errorf("a round without news asked for %v", store.Asked)
	}
	g.publish(t, "1.2.0", g.bob, g.ann)
	for range 2 {
		shown(u, "1.2.0")
	}
	wantUnverified(t, w, u, 0)
}
