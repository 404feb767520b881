package main

import (
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/servertest"
)

// TestUnreachableHints: a command that failed because a back end did not answer works once it does.
func TestUnreachableHints(t *testing.T) {
	t.Parallel()
	postgres, influx := servertest.StartPostgres(t), servertest.StartInfluxDB(t)
	env := []string{"TSMON_RECORDS=" + postgres.Database(), "TSMON_SERIES_URL=" + influx.URL, "TSMON_DATA=" + filepath.Join(t.TempDir(), "data")}
	must := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := command(t, env, "tsmon", args...)
		if code != 0 {
			t.Fatalf("tsmon %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	must("tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	for _, c := range []struct {
		server outage
		hint   string
		args   []string
	}{
		// follows: check that the database in server.records (TSMON_RECORDS) is up and reachable, then run the same command again
		{postgres, "check that the database in server.records (TSMON_RECORDS) is up and reachable, then run the same command again",
			[]string{"user", "create", "acueducto", "ana@example.com"}},
		// follows: check that the server in server.series (TSMON_SERIES_URL) is up and reachable, then run the same command again
		{influx, "check that the server in server.series (TSMON_SERIES_URL) is up and reachable, then run the same command again",
			[]string{"series", "write", "acueducto", manyValues(t)}},
	} {
		c.server.Stop()
		_, stderr, code := command(t, env, "tsmon", c.args...)
		if code != cli.ExitFailed || !strings.HasSuffix(stderr, "\nhint: "+c.hint+"\n") {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		c.server.Start()
		stdout := must(c.args...)
		if c.server == influx && !strings.Contains(stdout, "50000") {
			t.Errorf("the values were not written: %s", stdout)
		}
	}
	if users := must("user", "list", "acueducto"); !strings.Contains(users, "ana@example.com") {
		t.Errorf("the users are\n%s", users)
	}
}
