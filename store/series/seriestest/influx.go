package seriestest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Server is an InfluxDB 1.8 that runs as a child process of a test. It listens
// on the loopback interface only and ends with the test.
type Server struct {
	URL string // http://127.0.0.1:…

	tb      testing.TB
	binary  string
	folder  string // of its data and its configuration
	output  bytes.Buffer
	process *os.Process   // nil while it is stopped
	ended   chan struct{} // closed when the process has ended
}

// Influx starts a server of its own for a test, which shares it with its
// subtests. The program is looked for in the variable TSMON_TEST_INFLUXD, in the
// PATH and at .tools/influxd beside go.mod. Where there is none the test is
// skipped, or fails if TSMON_TEST_REAL is 1.
func Influx(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, binary: findInflux(tb), folder: tb.TempDir()}
	tb.Cleanup(s.Stop)
	s.startOnFreePorts()
	return s
}

func findInflux(tb testing.TB) string {
	tb.Helper()
	if name := os.Getenv("TSMON_TEST_INFLUXD"); name != "" {
		return name
	}
	if name, err := exec.LookPath("influxd"); err == nil {
		return name
	}
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		if name := filepath.Join(dir, ".tools", "influxd"); isFile(name) {
			return name
		}
	}
	const hint = "there is no influxd: go install github.com/influxdata/influxdb/cmd/influxd@v1.8.10, or set TSMON_TEST_INFLUXD"
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
	return ""
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// startOnFreePorts tries again where another process took a port in between.
func (s *Server) startOnFreePorts() {
	s.tb.Helper()
	var err error
	for range 3 {
		listen, rpc := freePorts(s.tb)
		s.URL = "http://" + listen
		s.configure(listen, rpc)
		if err = s.start(); err == nil {
			return
		}
		s.Stop()
	}
	s.tb.Fatalf("start influxd: %v\n%s", err, s.output.String())
}

// freePorts returns two different addresses.
func freePorts(tb testing.TB) (string, string) {
	tb.Helper()
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses[0], addresses[1]
}

// configuration leaves every other listener that influxd knows switched off.
const configuration = `
reporting-disabled = true
bind-address = %[2]q
[meta]
dir = "%[3]s/meta"
[data]
dir = "%[3]s/data"
wal-dir = "%[3]s/wal"
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

func (s *Server) configure(listen, rpc string) {
	s.tb.Helper()
	text := fmt.Sprintf(configuration, listen, rpc, filepath.ToSlash(s.folder))
	if err := os.WriteFile(filepath.Join(s.folder, "influxdb.conf"), []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
}

// Start starts the server again after Stop, at the same URL and with the same
// data.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start influxd again: %v\n%s", err, s.output.String())
	}
}

func (s *Server) start() error {
	s.output.Reset()
	cmd := exec.Command(s.binary, "run", "-config", filepath.Join(s.folder, "influxdb.conf"))
	cmd.Env = []string{"HOME=" + s.folder, "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.ended = cmd.Process, make(chan struct{})
	go func(ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(s.ended)
	return s.await()
}

// await polls until the server answers.
func (s *Server) await() error {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return errors.New("it ended at once")
		case <-deadline:
			return errors.New("it does not get ready within a minute")
		case <-tick.C:
			if s.ready() {
				return nil
			}
		}
	}
}

func (s *Server) ready() bool {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(s.URL + "/ping")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusNoContent && answer.Header.Get("X-Influxdb-Version") != ""
}

// Settle waits until the server has moved a database's values from memory into
// its files, where a running system has nearly all of them.
func (s *Server) Settle(database string) {
	s.tb.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-deadline:
			s.tb.Fatalf("influxd keeps values in memory\n%s", s.output.String())
		case <-tick.C:
			shards, _ := filepath.Glob(filepath.Join(s.folder, "data", database, "autogen", "*"))
			files, _ := filepath.Glob(filepath.Join(s.folder, "data", database, "autogen", "*", "*.tsm"))
			logs, _ := filepath.Glob(filepath.Join(s.folder, "wal", database, "autogen", "*", "*.wal"))
			logs = slices.DeleteFunc(logs, func(name string) bool {
				fi, err := os.Stat(name)
				return err != nil || fi.Size() == 0
			})
			if len(shards) > 0 && len(files) >= len(shards) && len(logs) == 0 {
				return
			}
		}
	}
}

// Stop kills the server and waits for its end; its data stay. On a stopped
// server it does nothing.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	<-s.ended
	s.process = nil
}
