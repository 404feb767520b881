package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/store/servertest"
)

// smallDisk mounts a file system of a given size. Processes that the test starts later use it for
// temporary files.
func smallDisk(t *testing.T, size string) (folder string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "tsmon-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(folder) })
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", folder).CombinedOutput(); err != nil {
		servertest.Missing(t, "no tmpfs can be mounted: "+err.Error()+" "+string(out))
	}
	t.Cleanup(func() { // once t.TempDir is removed, which comes to lie there
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Error("umount: ", err, " ", string(out))
		}
	})
	t.Setenv("TMPDIR", folder)
	return folder
}

// TestServeFullDisk fills the disk of PostgreSQL, InfluxDB and the uploads. All of them still answer
// reads. /readyz says which take no writes, until they do again.
func TestServeFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two servers")
	}
	data, err := os.MkdirTemp("", "tsmon-data-") // on another disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	disk := smallDisk(t, "300m")
	postgres, influx := servertest.StartPostgres(t), servertest.StartInfluxDB(t)
	env := []string{"TSMON_RECORDS=" + postgres.Database(), "TSMON_SERIES_URL=" + influx.URL, "TSMON_STORAGE=" + filepath.Join(disk, "store")}
	demo := serve(t, data, env, "--demo")
	demo.demoReady()
	ready(t, demo, "at first", http.StatusOK, `"status":"ok"`)
	demo.stop()

	filler := filepath.Join(disk, "filler")
	if out, err := exec.Command("sh", "-c", "cat /dev/zero >'"+filler+"'").CombinedOutput(); err == nil || !strings.Contains(string(out), "No space left") {
		t.Fatalf("the disk does not get full: %v %s", err, out)
	}
	s := serve(t, data, env)
	ready(t, s, "on a full disk", http.StatusServiceUnavailable, `"records":"failing"`, `"series":"failing"`, `"uploads":"failing"`, `"messages":"ok"`)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ready(t, s, "with room again", http.StatusServiceUnavailable, `"records":"ok"`, `"series":"failing"`, `"uploads":"ok"`)
	influx.Stop() // InfluxDB refuses writes until it is restarted
	influx.Start()
	ready(t, s, "with InfluxDB begun anew", http.StatusOK, `"status":"ok"`)
	s.stop()
}

// ready waits until a server is ready for monitoring, or not, with those words.
func ready(t *testing.T, s *served, when string, status int, words ...string) {
	t.Helper()
	var got int
	var text []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s: %d %s\n%s", when, got, text, &s.log)
		}
	}()
	until(t, when, func() bool {
		got, text = s.ask(http.MethodGet, "/readyz?for=monitoring", "", nil)
		for _, word := range words {
			if !strings.Contains(string(text), word) {
				return false
			}
		}
		return got == status
	})
}
