package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/cmd/tsmon/guarding"
	"tsmon/release"
	"tsmon/store/record"
	"tsmon/store/record/sqlite"
)

// TestChannelGuard: on a machine with the records, a step waits for the outcomes of the previous
// one, and the guard prints its judgment. On other machines only time decides.
func TestChannelGuard(t *testing.T) {
	t.Parallel()
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	k.must(t, "release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	k.must(t, "release", "publish", "--version", "1.1.0", "--steps", "5,25,50", "--every", "6h", bundles(t, "1.1.0", 100))
	elsewhere := append(k.env, "TSMON_DATA="+t.TempDir())
	if _, stderr, code := command(t, elsewhere, "tsmon", "channel", "guard", "stable"); code != 1 || !strings.Contains(stderr, "hint: set TSMON_DATA or TSMON_RECORDS as for tsmon serve") {
		t.Errorf("without records: code %d: %s", code, stderr)
	}
	later := func(env []string, ahead string) (plans []release.Plan) {
		t.Helper()
		stdout, stderr, code := command(t, append(env, "LATER="+ahead, "SKEW="), "tsmon", "channel", "advance", "stable", "--no-probe", "--json")
		if code != 0 {
			t.Fatalf("code %d: %s", code, stderr)
		}
		parse(t, stdout, &plans)
		return plans
	}
	if plans := later(elsewhere, "7h"); !plans[0].Changed || plans[0].Rollout.Percent != 25 {
		t.Errorf("by time alone: %+v", plans[0])
	}

	data := t.TempDir()
	records, err := sqlite.Open(t.Context(), filepath.Join(data, "records.db"), sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	seen := func(from, to int, now time.Time, event func(*record.Try)) {
		t.Helper()
		var s record.Sightings
		for i := range to - from {
			var id record.ClientID
			binary.BigEndian.PutUint32(id[:], uint32(from+i)*7919)
			try := record.Try{Channel: "stable", Client: id, Version: "1.1.0", Asked: now, Network: record.Network(from + i), Round: 2}
			event(&try)
			s.Tries = append(s.Tries, try)
			s.Downloads = append(s.Downloads, record.Download{Client: id, Version: "1.1.0", Time: now})
			s.Installed = append(s.Installed, record.Installed{Channel: "stable", Client: id, Version: "1.0.0", Target: "linux-x86_64", Seen: now})
		}
		if err := records.Sight(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	here := append(k.env, "TSMON_DATA="+data, "LATER=20h", "SKEW=-20h") // now, on a store that has moves of later
	guard := func() (s guarding.State) {
		t.Helper()
		stdout, stderr, code := command(t, here, "tsmon", "channel", "guard", "stable", "--json")
		if code != 0 {
			t.Fatalf("code %d: %s", code, stderr)
		}
		parse(t, stdout, &s)
		return s
	}
	if s := guard(); s.Decision != verdict.Continue || s.Limit != 2 || s.Required != 3 || s.Rollout.Percent != 25 {
		t.Errorf("before anybody fetched it: %+v", s)
	}
	now := time.Now()
	seen(0, 100, now, func(*record.Try) {})
	if s := guard(); s.Decision != verdict.Wait || s.Verdict.Cause != verdict.CauseEvidence || s.Clients.Waiting != 100 || s.Reach != 25 {
		t.Errorf("while all wait: %+v", s)
	}
	if plans := later(here, "20h"); plans[0].Changed || len(plans[0].Warnings) != 1 || !strings.Contains(plans[0].Warnings[0], "the next step waits: ") {
		t.Errorf("while all wait: %+v", plans[0])
	}
	testSharedRecords(t, k, data)
	seen(0, 90, now, func(t *record.Try) { t.Running = now })
	stdout, _, _ := command(t, here, "tsmon", "channel", "guard", "stable")
	for _, want := range []string{"stable: 1.1.0 for 25 % of the clients", "\ncontinue: 0 of 100 clients failed", "\nhealthy ", "\nfrom 100 networks, 0 of them with failures; a halt requires 3\n", "failures in a row that would halt it: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s lacks %q", stdout, want)
		}
	}
	if plans := later(here, "20h"); !plans[0].Changed || plans[0].Rollout.Percent != 50 {
		t.Errorf("when most run it: %+v", plans[0])
	}
	more := int(guard().Verdict.ToHalt)
	if more < 3 || more > 9 || !strings.Contains(stdout, fmt.Sprintf("failures in a row that would halt it: %d", more)) {
		t.Fatalf("%d more failures are said to halt it: %s", more, stdout)
	}
	seen(90, 90+more-1, now, func(t *record.Try) { t.Crashed = now })
	if s := guard(); s.Decision == verdict.Halt || s.Verdict.ToHalt != 1 {
		t.Errorf("one failure before it would halt: %+v", s)
	}
	seen(90, 90+more, now, func(t *record.Try) { t.Crashed = now })
	if s := guard(); s.Decision != verdict.Halt || s.Verdict.ToHalt != 0 {
		t.Errorf("after the failures that would halt it: %+v", s)
	}
	seen(90, 99, now, func(t *record.Try) { t.Crashed = now })
	if s := guard(); s.Decision != verdict.Halt || s.Verdict.Cause != verdict.CauseLimit || s.Networks.Failing != 9 {
		t.Errorf("when nine fail: %+v", s)
	}
	defer func() { // once everybody gets it there is no step to wait, and nothing to halt
		if _, stderr, code := command(t, append(here, "SKEW="), "tsmon", "channel", "rollout", "stable", "--percent", "100"); code != 0 {
			t.Fatal(stderr)
		}
		stdout, _, _ := command(t, here, "tsmon", "channel", "guard", "stable")
		if !strings.HasPrefix(stdout, "stable shows 1.1.0 to everybody: no step waits, and nothing is halted\n") || !strings.Contains(stdout, "\nfailing  ") {
			t.Errorf("after the rollout: %s", stdout)
		}
		adoption, _, _ := command(t, here, "tsmon", "channel", "adoption", "stable")
		if !strings.Contains(adoption, "\nguard: no rollout to judge; what is known of 1.1.0:\n") {
			t.Errorf("after the rollout: %s", adoption)
		}
		for _, word := range []string{"halt:", "wait:", "continue:", "a halt requires", "the next step"} {
			if strings.Contains(stdout+adoption, word) {
				t.Errorf("after the rollout it says %q: %s%s", word, stdout, adoption)
			}
		}
	}()
	var seenBy fleet.Adoption
	stdout, _, _ = command(t, here, "tsmon", "channel", "adoption", "stable", "--json")
	parse(t, stdout, &seenBy)
	if seenBy.Guard == nil || seenBy.Guard.Decision != verdict.Halt || seenBy.Guard.Clients.Failing != 9 {
		t.Errorf("the adoption has %+v", seenBy.Guard)
	}
	if v := seenBy.Guard.Verdict; v.Failing.Count != 9 || v.Failing.Of != 100 || v.Failing.Low <= 0.02 || v.Failing.High <= 0.09 || v.Doubt <= 0 || v.Doubt > verdict.LimitError || !v.First {
		t.Errorf("the adoption has the verdict %+v", v)
	}
	if groups := seenBy.Guard.Groups; len(groups) != 1 || groups[0] != (fleet.OutcomeGroup{Target: "linux-x86_64", Failing: 9, Waiting: 1, Healthy: 90, Doubt: groups[0].Doubt}) || groups[0].Doubt > 0.05 {
		t.Errorf("by target: %+v", groups)
	}
	if stdout, _, _ = command(t, here, "tsmon", "channel", "adoption", "stable"); !strings.Contains(stdout, "\nguard: halt: 9 of 100 clients failed") {
		t.Error(stdout)
	}
}

// testSharedRecords: a project without a name shares its records with all such projects, and says
// so if they make its step wait. A project with a name has its own records.
func testSharedRecords(t *testing.T, k *kit, data string) {
	t.Helper()
	home, settings := t.TempDir(), filepath.Join(t.TempDir(), "tsmon.yaml")
	if err := os.Symlink(data, filepath.Join(home, "tsmon")); err != nil {
		t.Fatal(err)
	}
	env := append(k.env, "TSMON_DATA=", "XDG_DATA_HOME="+home, "LATER=20h", "TSMON_CONFIG="+settings)
	for name, waits := range map[string]bool{"": true, "project: com.example.two\n": false} {
		if err := os.WriteFile(settings, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := command(t, env, "tsmon", "channel", "advance", "stable", "--dry-run", "--json")
		if code != 0 {
			t.Fatalf("code %d: %s", code, stderr)
		}
		var plans []release.Plan
		parse(t, stdout, &plans)
		warned := strings.Contains(strings.Join(plans[0].Warnings, "\n"), filepath.Join(home, "tsmon", "records.db")+", which all projects without a name share: if another project's tsmon serve wrote it, add project: NAME to this tsmon.yaml")
		if plans[0].Changed == waits || warned != waits {
			t.Errorf("%q: %+v", name, plans[0])
		}
	}
}
