package main

import (
	"path/filepath"
	"strings"
	"testing"

	"tsmon/store/servertest"
)

// TestBuckets runs a tenant on InfluxDB 2.x, first with a wrong token and a wrong organisation,
// then as the hints say, and then with a retention.
func TestBuckets(t *testing.T) {
	server := servertest.StartInfluxDB2(t)
	data := t.TempDir()
	token := server.Token
	run := func(org string, want int, args ...string) (stdout, stderr string) {
		t.Helper()
		env := []string{
			"TSMON_DATA=" + filepath.Join(data, "data"), "TSMON_SERIES_URL=" + server.URL,
			"TSMON_SERIES_ORG=" + org, "TSMON_SERIES_TOKEN=" + token,
		}
		stdout, stderr, code := command(t, env, "tsmon", args...)
		if code != want {
			t.Fatalf("tsmon %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
		}
		return stdout, stderr
	}
	create := []string{"tenant", "create", "acueducto", "--ts-name", "ts_acueducto", "--time-zone", "America/Bogota"}
	token = "of somebody else"
	// follows: check TSMON_SERIES_TOKEN and its rights, or the permissions of the file
	_, stderr := run(server.Org, 1, create...)
	if !strings.HasSuffix(stderr, "\nhint: check TSMON_SERIES_TOKEN and its rights, or the permissions of the file\n") {
		t.Errorf("it says %s", stderr)
	}
	token = server.Token
	// follows: set server.series.org (TSMON_SERIES_ORG) to the organisation of a token that may read organisations and create buckets
	_, stderr = run("nobody", 1, create...)
	for _, says := range []string{`organisation "nobody": not valid: there is no such organisation`, "hint: set server.series.org (TSMON_SERIES_ORG)"} {
		if !strings.Contains(stderr, says) {
			t.Errorf("it does not say %q: %s", says, stderr)
		}
	}
	run(server.Org, 0, create...)
	run(server.Org, 0, "series", "write", "acueducto", manyValues(t))
	_, stderr = run(server.Org, 3, "tenant", "update", "acueducto", "--retention", "30d")
	if !strings.Contains(stderr, "values from before") || !strings.Contains(stderr, "hint: add --yes") {
		t.Errorf("it says %s", stderr)
	}
	stdout, _ := run(server.Org, 0, "tenant", "update", "acueducto", "--retention", "30d", "--yes")
	if !strings.Contains(stdout, " values\n") {
		t.Errorf("it says %s", stdout)
	}
}
