package servertest

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// InfluxDB is an InfluxDB 1.8 without Flux, which takes seconds to start.
type InfluxDB struct {
	Process
	URL string // http://127.0.0.1:…
}

// StartInfluxDB starts a server. TSMON_TEST_INFLUXD may name the program.
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
[retention]
check-interval = "1s"
[monitor]
store-enabled = false
[http]
bind-address = %[1]q
log-enabled = false
[logging]
level = "warn"
`

func (s *InfluxDB) ready() bool {
	header, ok := get(s.URL+"/ping", http.StatusNoContent)
	return ok && header.Get("X-Influxdb-Version") != ""
}

// Settle waits until the server has moved a database's values from memory to its files, where
// a long-running server has nearly all of them.
func (s *InfluxDB) Settle(database string) {
	s.tb.Helper()
	s.settle(filepath.Join("data", database, "autogen"), filepath.Join("wal", database, "autogen"))
}

// Used returns the bytes on disk of all values.
func (s *InfluxDB) Used() int64 { return s.used("data") }

// settle waits until the shards below data have files and those below wal have no log.
func (p *Process) settle(data, wal string) {
	p.tb.Helper()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !p.settled(data, wal) {
		select {
		case <-deadline:
			p.fatal("settle", fmt.Errorf("influxd keeps values of %s in memory", data))
		case <-tick.C:
		}
	}
}

func (p *Process) settled(data, wal string) bool {
	glob := func(path ...string) []string {
		names, _ := filepath.Glob(filepath.Join(append([]string{p.dir}, path...)...))
		return names
	}
	shards, files := glob(data, "*"), glob(data, "*", "*.tsm")
	logs := slices.DeleteFunc(glob(wal, "*", "*.wal"), func(name string) bool {
		fi, err := os.Stat(name)
		return err != nil || fi.Size() == 0
	})
	return len(shards) > 0 && len(files) >= len(shards) && len(logs) == 0
}

// used returns the bytes of all files below a folder.
func (p *Process) used(folder string) (size int64) {
	// Files may disappear in the meantime.
	_ = filepath.WalkDir(filepath.Join(p.dir, folder), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if fi, err := entry.Info(); err == nil && fi.Mode().IsRegular() {
			size += fi.Size()
		}
		return nil
	})
	return size
}

// InfluxDB2 is an InfluxDB 2.7 with one organisation.
type InfluxDB2 struct {
	Process
	URL   string // http://127.0.0.1:…
	Org   string
	Token string // of the operator, who has all permissions
}

// StartInfluxDB2 starts a server. TSMON_TEST_INFLUXD2 may name the program, which
// influxdb2.sh builds in a quarter of an hour for `make test-engines`. Without a program the
// test is skipped, even where TSMON_TEST_REAL is 1.
func StartInfluxDB2(tb testing.TB) *InfluxDB2 {
	tb.Helper()
	s := &InfluxDB2{Org: "water", Token: "operator-token-of-tests"}
	binary := os.Getenv("TSMON_TEST_INFLUXD2")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath(filepath.Join(moduleRoot(), ".tools", "influxd2")); err != nil {
			tb.Skip("there is no influxd2: make test-engines builds it")
		}
	}
	s.Process = Process{tb: tb, dir: tb.TempDir(), stop: os.Kill, ready: s.ready, command: func(address string) *exec.Cmd {
		s.URL = "http://" + address
		return exec.Command(binary, "--http-bind-address", address, "--reporting-disabled", "--log-level", "warn",
			"--bolt-path", filepath.Join(s.dir, "influxd.bolt"), "--sqlite-path", filepath.Join(s.dir, "influxd.sqlite"),
			"--engine-path", filepath.Join(s.dir, "engine"), "--storage-retention-check-interval", "1s",
			"--storage-cache-snapshot-write-cold-duration", "1s")
	}}
	s.launch()
	s.setUp()
	return s
}

func (s *InfluxDB2) ready() bool {
	_, ok := get(s.URL+"/health", http.StatusOK)
	return ok
}

func (s *InfluxDB2) setUp() {
	s.tb.Helper()
	body := fmt.Sprintf(`{"username":"admin","password":"password-of-tests","org":%q,"bucket":"first","token":%q}`, s.Org, s.Token)
	answer, err := http.Post(s.URL+"/api/v2/setup", "application/json", strings.NewReader(body))
	if err != nil {
		s.fatal("set up", err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		s.fatal("set up", fmt.Errorf("status %d", answer.StatusCode))
	}
}

// Settle is like InfluxDB.Settle, for all databases.
func (s *InfluxDB2) Settle(string) {
	s.tb.Helper()
	s.settle(filepath.Join("engine", "data", "*", "autogen"), filepath.Join("engine", "wal", "*", "autogen"))
}

// Used is like InfluxDB.Used.
func (s *InfluxDB2) Used() int64 { return s.used(filepath.Join("engine", "data")) }
