package servertest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// InfluxDB is an InfluxDB 1.8 with Flux.
type InfluxDB struct {
	Process
	URL string // http://127.0.0.1:…
}

// StartInfluxDB starts a server. TSMON_TEST_INFLUXD may name its program.
func StartInfluxDB(tb testing.TB) *InfluxDB {
	tb.Helper()
	s := new(InfluxDB)
	binary := Find(tb, "TSMON_TEST_INFLUXD", "influxd", "go install github.com/influxdata/influxdb/cmd/influxd@v1.8.10, or set TSMON_TEST_INFLUXD")
	s.Process = Process{tb: tb, dir: tb.TempDir(), stop: os.Kill, ready: s.ready, command: func(address string) *exec.Cmd {
		s.URL = "http://" + address
		s.write("influxdb.conf", fmt.Sprintf(influxConfiguration, address, filepath.ToSlash(s.dir)))
		return exec.Command(binary, "run", "-config", filepath.Join(s.dir, "influxdb.conf"))
	}}
	s.launch()
	return s
}

// influxConfiguration leaves influxd's other listeners off.
const influxConfiguration = `
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "%[2]s/meta"
[data]
dir = "%[2]s/data"
wal-dir = "%[2]s/wal"
cache-snapshot-write-cold-duration = "1s"
[monitor]
store-enabled = false
[http]
bind-address = %[1]q
flux-enabled = true
log-enabled = false
[logging]
level = "warn"
`

func (s *InfluxDB) ready() bool {
	header, ok := get(s.URL+"/ping", http.StatusNoContent)
	return ok && header.Get("X-Influxdb-Version") != ""
}

// Settle waits until the server has moved a database's values from memory to its
// files, where a running system has nearly all of them.
func (s *InfluxDB) Settle(database string) {
	s.tb.Helper()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !s.settled(database) {
		select {
		case <-deadline:
			s.fatal("settle", fmt.Errorf("influxd keeps the values of %s in memory", database))
		case <-tick.C:
		}
	}
}

func (s *InfluxDB) settled(database string) bool {
	glob := func(path ...string) []string {
		names, _ := filepath.Glob(filepath.Join(append([]string{s.dir}, path...)...))
		return names
	}
	shards := glob("data", database, "autogen", "*")
	files := glob("data", database, "autogen", "*", "*.tsm")
	logs := slices.DeleteFunc(glob("wal", database, "autogen", "*", "*.wal"), func(name string) bool {
		fi, err := os.Stat(name)
		return err != nil || fi.Size() == 0
	})
	return len(shards) > 0 && len(files) >= len(shards) && len(logs) == 0
}
