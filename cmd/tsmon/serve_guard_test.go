package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/showing"
	"tsmon/store/servertest"
)

// TestServeGuardSurvives: one of two servers on MinIO and PostgreSQL is killed while clients report
// that a release fails. The other halts the rollout once, and tells the webhook once. The killed
// server learns of it when it is back.
func TestServeGuardSurvives(t *testing.T) {
	t.Parallel()
	objects, records := servertest.SharedMinIO(t), servertest.SharedPostgres(t)
	objects.MakeBucket("fleet")
	for dies := range 2 {
		t.Run(fmt.Sprint("without server ", dies), func(t *testing.T) {
			h := newHook(t)
			h.open = true
			k := newKitOn(t, apitest.Embedded(t), objects.URL(fmt.Sprintf("fleet/%d", dies)), objects.Env())
			settings := filepath.Join(t.TempDir(), "tsmon.yaml")
			text := "channels:\n  stable: {guard: {failures: 10%, networks: 1}}\n  beta: {follows: stable, prerelease: true}\n"
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k.env = append(k.env, "TSMON_CONFIG="+settings, "TSMON_RECORDS="+records.Database())
			k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
			k.must(t, "release", "publish", "--version", "1.1.0", "--percent", "99", "--cohort", "internal", bundles(t, "1.1.0", 100))
			env := append(k.env, "TSMON_REFRESH=50ms", "TSMON_WEBHOOK="+h.URL, "TSMON_WEBHOOK_SECRET="+h.secret)
			servers := []*served{serve(t, t.TempDir(), env), serve(t, t.TempDir(), env)}
			testGuardSurvives(t, k, env, servers, dies)
			if halts := slices.DeleteFunc(h.told("stable"), func(e string) bool { return e != "halt 1.1.0" }); len(halts) != 1 || len(h.wrong) > 0 {
				t.Errorf("the webhook was told %q; wrong: %q", h.told("stable"), h.wrong)
			}
		})
	}
}

// asInternal sends a request of one of the clients of the cohort internal, and returns the
// status.
func asInternal(t *testing.T, s *served, client int, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Tsmon-Client", fmt.Sprint("client ", client))
	r.Header.Set("X-Tsmon-Cohort", "internal")
	status, _ := s.do(r)
	return status
}

// reportsFailure reports that 1.1.0 failed for such a client.
func reportsFailure(t *testing.T, s *served, client int) {
	t.Helper()
	body := `{"channel":"stable","version":"1.1.0","target":"linux-x86_64","event":"failed"}`
	if status := asInternal(t, s, client, "POST", "/updates/report", body); status != http.StatusNoContent {
		t.Fatalf("the report is answered %d", status)
	}
}

func testGuardSurvives(t *testing.T, k *kit, env []string, servers []*served, dies int) {
	const clients = 12
	asks := func(s *served, i int) int {
		return asInternal(t, s, i, "GET", "/updates/stable/linux/x86_64/1.0.0", "")
	}
	fails := func(s *served, i int) { reportsFailure(t, s, i) }
	newest := func() fleet.NewestCounts {
		var a fleet.Adoption
		parse(t, k.must(t, "channel", "adoption", "stable", "--json"), &a)
		return a.Newest
	}
	log := func() (rows []showing.LogRow) {
		parse(t, k.must(t, "channel", "log", "stable", "--json"), &rows)
		return rows
	}
	dying, living := servers[dies], servers[1-dies]
	for i := range clients {
		until(t, "an offer", func() bool { return asks(servers[i%2], i) == http.StatusOK })
	}
	until(t, "the clients in the records", func() bool { return newest().Offered == clients })
	fails(dying, 0) // one failure is no reason to halt
	until(t, "the first report in the records", func() bool { return newest().Failed == 1 })
	if err := dying.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dying.cmd.Wait() // it was killed
	for i := range clients - 2 {
		fails(living, 1+i)
	}
	until(t, "the halt", func() bool { return len(log()) == 3 })
	back := serve(t, t.TempDir(), env)
	for _, s := range []*served{living, back} {
		until(t, "the pause", func() bool { return asks(s, clients-1) == http.StatusNoContent })
	}
	fails(back, clients-1) // the guard of the server that is back has something new to judge
	until(t, "the last report in the records", func() bool { return newest().Failed == clients })
	living.stop()
	back.stop()
	rows := log()
	if last := rows[len(rows)-1]; len(rows) != 3 || last.Action != "pause" || !strings.Contains(last.Why, " clients failed") || !strings.Contains(last.Who, strings.TrimPrefix(living.base, "http://")+",") {
		t.Errorf("%d entries, the last %+v; the server is at %s", len(rows), last, living.base)
	}
	k.must(t, "channel", "verify", "stable")
}
