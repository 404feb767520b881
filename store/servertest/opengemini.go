package servertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// OpenGemini is a cluster of openGemini on one machine: one ts-meta, two ts-store with a folder
// as their shared storage, and one ts-sql, which answers queries.
type OpenGemini struct {
	Meta, SQL Process
	Stores    [2]Process
	URL       string // http://127.0.0.1:…, of SQL
}

// StartOpenGemini starts a cluster. TSMON_TEST_OPENGEMINI may name the folder of its programs,
// which opengemini.sh builds in ten minutes for `make test-engines`. Without programs the test
// is skipped, even where TSMON_TEST_REAL is 1.
func StartOpenGemini(tb testing.TB) *OpenGemini {
	tb.Helper()
	programs := os.Getenv("TSMON_TEST_OPENGEMINI")
	if programs == "" {
		programs = filepath.Join(moduleRoot(), ".tools", "opengemini")
		if _, err := exec.LookPath(filepath.Join(programs, "ts-sql")); err != nil {
			tb.Skip("there is no openGemini: make test-engines builds it")
		}
	}
	ports, shared := freePorts(tb, 13), tb.TempDir()
	s := &OpenGemini{URL: "http://" + ports[0]}
	metaHTTP := ports[3]
	s.SQL.ready = func() bool { return listens(ports[0]) }
	s.Meta.ready = func() bool { return listens(metaHTTP) && listens(ports[4]) }
	for i := range s.Stores {
		s.Stores[i].ready = func() bool { return listens(ports[7+i]) && listens(ports[9+i]) }
	}
	for i, p := range []*Process{&s.Meta, &s.Stores[0], &s.Stores[1], &s.SQL} {
		program := [...]string{"ts-meta", "ts-store", "ts-store", "ts-sql"}[i]
		store := max(i-1, 0) % 2
		*p = Process{tb: tb, dir: tb.TempDir(), stop: os.Kill, ready: p.ready, address: ports[0]}
		p.write("conf.toml", fmt.Sprintf(geminiConfiguration, ports[4], ports[2], metaHTTP, filepath.ToSlash(p.dir),
			ports[0], ports[1], ports[7+store], ports[9+store], filepath.ToSlash(shared),
			port(ports[5]), port(ports[11+store]), port(ports[6]), ports[5]))
		p.command = func(string) *exec.Cmd {
			return exec.Command(filepath.Join(programs, program), "-config", filepath.Join(p.dir, "conf.toml"), "-pidfile", filepath.Join(p.dir, "pid"))
		}
		tb.Cleanup(p.Stop)
		p.Start()
	}
	return s
}

// A process that is silent for suspicion-mult seconds, as on a busy machine, counts as dead.
const geminiConfiguration = `
[common]
meta-join = [%[1]q]
ha-policy = "shared-storage"
pprof-enabled = false
report-enable = false
[meta]
bind-address = %[2]q
http-bind-address = %[3]q
rpc-bind-address = %[1]q
dir = "%[4]s/meta"
[http]
bind-address = %[5]q
flight-address = %[6]q
[data]
store-ingest-addr = %[7]q
store-select-addr = %[8]q
store-data-dir = "%[9]s"
store-wal-dir = "%[9]s"
store-meta-dir = "%[4]s/meta"
[retention]
check-interval = "1s"
[logging]
path = "%[4]s/logs"
[gossip]
enabled = true
log-enabled = false
suspicion-mult = 12
bind-address = "127.0.0.1"
meta-bind-port = %[10]s
store-bind-port = %[11]s
sql-bind-port = %[12]s
members = [%[13]q]
`

// freePorts returns n different addresses.
func freePorts(tb testing.TB, n int) (addresses []string) {
	tb.Helper()
	for len(addresses) < n {
		address, err := FreeAddress()
		if err != nil {
			tb.Fatal(err)
		}
		if !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func listens(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	return err == nil && c.Close() == nil
}
