package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/servertest"
)

// TestWrittenIsSeen: a running server has cached a mean, and a command then changes it. The command
// counts its writes in the records, so the server returns the new mean. A test of api/monitor checks
// that a server drops its cache at its next check, at most a second later.
func TestWrittenIsSeen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts four servers")
	}
	t.Run("files", func(t *testing.T) { writtenIsSeen(t, nil) })
	t.Run("servers", func(t *testing.T) {
		writtenIsSeen(t, []string{"TSMON_RECORDS=" + servertest.SharedPostgres(t).Database(), "TSMON_SERIES_URL=" + servertest.StartInfluxDB(t).URL})
	})
}

func writtenIsSeen(t *testing.T, env []string) {
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data, env, "--demo")
	d := s.demoReady()
	token := s.login(d)
	mean := func() string {
		status, body := s.ask("POST", "/multipleDataTs", token, json.RawMessage(`[{"dataTs":{"id":"m","type":"mean","varsTs":{"measurement":"prueba","field":"v"}}}]`))
		var answer struct{ Data map[string]*float64 }
		if err := json.Unmarshal(body, &answer); status != 200 || err != nil {
			t.Fatalf("%d %s", status, body)
		}
		if answer.Data["m"] == nil {
			return "none"
		}
		return fmt.Sprint(*answer.Data["m"])
	}
	if got := mean(); got != "none" {
		t.Fatalf("before the first write: %s", got)
	}
	for i, want := range []string{"1", "2", "3"} {
		file := filepath.Join(t.TempDir(), "values")
		line := fmt.Sprintf("prueba v=%d %d\n", 2*i+1, time.Now().UnixNano())
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := command(t, append([]string{"TSMON_DATA=" + data}, env...), "tsmon", "series", "write", d.Schema, file); code != 0 || strings.Contains(stderr, "warning") {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if got := writesOf(t, data, env, d.TsName); got != int64(i+1) {
			t.Errorf("the records count %d writes after %d", got, i+1)
		}
		written := time.Now()
		until(t, "the mean is "+want, func() bool { return mean() == want })
		t.Logf("the mean is %s after %s", want, time.Since(written)) // what nobody writes to is cached for 30 s
	}
}

// writesOf reads from the records how often commands have written to a database.
func writesOf(t *testing.T, data string, env []string, database string) (n int64) {
	t.Helper()
	c, err := config.Load("", append([]string{"TSMON_DATA=" + data}, env...))
	if err == nil {
		err = cli.WithRecords(t.Context(), c, func(s record.Store) error {
			counts, err := s.Writes(t.Context())
			n = counts[database]
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
