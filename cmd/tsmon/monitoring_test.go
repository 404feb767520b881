package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor"
	"tsmon/api/monitor/content"
	"tsmon/cmd/tsmon/admin"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
	"tsmon/store/servertest"
)

// TestMonitoring runs the story of one tenant on files, and on PostgreSQL and InfluxDB.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	t.Run("files", func(t *testing.T) {
		monitoringStory(t, []string{"TSMON_DATA=" + filepath.Join(t.TempDir(), "data")})
	})
	t.Run("servers", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		monitoringStory(t, []string{
			"TSMON_DATA=" + data, "TSMON_RECORDS=" + servertest.SharedPostgres(t).Database(), "TSMON_SERIES_URL=" + servertest.StartInfluxDB(t).URL,
		})
		if _, err := os.Stat(data); err == nil {
			t.Error("a data folder was made that nothing lies in")
		}
	})
}

// network returns the tenant file of the scripts as an export prints it.
func network(t *testing.T) []byte {
	t.Helper()
	const path = "testdata/content/network.yaml"
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := content.Read(path, file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := content.EncodeJSON(f.Owned)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func monitoringStory(t *testing.T, env []string) {
	run := func(want int, args ...string) string {
		t.Helper()
		stdout, stderr, code := command(t, env, "tsmon", args...)
		if code != want {
			t.Fatalf("tsmon %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
		}
		return stdout
	}
	for range 2 {
		run(0, "tenant", "create", "acueducto", "--ts-name", "ts_acueducto")
	}
	run(3, "tenant", "create", "acueducto", "--ts-name", "other")
	run(3, "tenant", "create", "second", "--ts-name", "ts_acueducto")
	run(1, "tenant", "export", "nobody")

	want := network(t)
	for range 2 {
		run(0, "tenant", "import", "acueducto", "testdata/content/network.yaml")
		if got := run(0, "tenant", "export", "acueducto", "--json"); got != string(want) {
			t.Fatalf("exported\n%s\nwant\n%s", got, want)
		}
	}

	restoreStory(t, run, want)

	var first, second admin.UserToken
	for _, c := range []struct {
		args []string
		into *admin.UserToken
	}{{[]string{"user", "create", "acueducto", "ana@example.com", "--json"}, &first}, {[]string{"user", "token", "acueducto", "ana@example.com", "--json"}, &second}} {
		if err := json.Unmarshal([]byte(run(0, c.args...)), c.into); err != nil {
			t.Fatal(err)
		}
	}
	run(3, "user", "create", "acueducto", "ANA@example.com")
	run(1, "user", "token", "acueducto", "bea@example.com")
	values := manyValues(t)
	run(0, "series", "write", "acueducto", values)
	run(1, "series", "write", "nowhere", values)

	c, err := config.Load("", env)
	if err != nil {
		t.Fatal(err)
	}
	checkUser(t, c, first, second)
	run(0, "user", "disable", "acueducto", "ana@example.com")
	checkValues(t, c)
	brokenBatch(t, run, c)
}

// restoreStory imports another diagram in place of one, and restores that.
func restoreStory(t *testing.T, run func(want int, args ...string) string, want []byte) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("diagrams: [{id: 1, title: other, texts: [{id: 9}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(0, "tenant", "import", "acueducto", other)
	run(0, "tenant", "diagrams", "acueducto", "restore", "1", "1", "--dry-run")
	if got := run(0, "tenant", "export", "acueducto", "--json"); got == string(want) {
		t.Fatal("the import changed nothing, or --dry-run restored")
	}
	run(0, "tenant", "diagrams", "acueducto", "restore", "1", "1")
	if got := run(0, "tenant", "export", "acueducto", "--json"); got != string(want) {
		t.Fatalf("restored\n%s\nwant\n%s", got, want)
	}
}

// checkUser checks that only the token that was printed last is valid.
func checkUser(t *testing.T, c *config.Config, first, second admin.UserToken) {
	t.Helper()
	err := cli.WithRecords(t.Context(), c, func(s record.Store) error {
		u, err := s.User(t.Context(), "acueducto", "ana@example.com")
		if sum := sha256.Sum256([]byte(second.TokenApp)); !u.HasToken(sum[:]) || u.HasToken(monitor.TokenDigest(first.TokenApp)) || u.ID != first.ID || u.ID == 0 {
			t.Errorf("the user is %+v", u)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// batchSize is the number of samples that the series commands write at once.
const batchSize = 20_000

// manyValues writes a file of two batches and a half.
func manyValues(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for i := range 2*batchSize + batchSize/2 {
		fmt.Fprintf(&text, "tank_north,site=a level=%d.5 %d\n", i, int64(i+1)*1e9)
	}
	path := filepath.Join(t.TempDir(), "values.txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func lastOf(t *testing.T, c *config.Config, measurement, field string) (value series.Value) {
	t.Helper()
	store, err := cli.OpenSeries(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	got, err := store.Current(t.Context(), "ts_acueducto", []series.Want{{Key: series.Key{Measurement: measurement, Field: field}, Timed: true}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func checkValues(t *testing.T, c *config.Config) {
	t.Helper()
	n := 2*batchSize + batchSize/2
	want := series.Value{Number: float64(n-1) + 0.5, Time: time.Unix(int64(n), 0).UTC(), Found: true}
	if got := lastOf(t, c, "tank_north", "level"); got.Number != want.Number || !got.Time.Equal(want.Time) || !got.Found {
		t.Errorf("the last value is %+v, want %+v", got, want)
	}
}

// brokenBatch checks that the error of a mistake after a whole batch says how much was written.
func brokenBatch(t *testing.T, run func(int, ...string) string, c *config.Config) {
	t.Helper()
	var text strings.Builder
	text.WriteString("time,measurement,field,value\n")
	for i := range batchSize + 10 {
		fmt.Fprintf(&text, "%d,pump_1,flow,%d.5\n", i+1, i)
	}
	text.WriteString("x,pump_1,flow,1\n")
	path := filepath.Join(t.TempDir(), "values.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	run(1, "series", "import", "acueducto", path, "--precision", "s")
	if got := lastOf(t, c, "pump_1", "flow"); got.Number != batchSize-0.5 {
		t.Errorf("the last value is %v", got.Number)
	}
}
