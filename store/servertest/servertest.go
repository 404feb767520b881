// Package servertest starts real servers for tests: MinIO, InfluxDB, openGemini,
// PostgreSQL, Mosquitto, Prometheus and nginx.
//
// A server is a child process with an empty data folder. It listens on a free port of the
// loopback interface and ends with the test that started it. If its program is not installed,
// the test is skipped, or fails where TSMON_TEST_REAL is 1.
package servertest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Find returns the path of a program: the value of the environment variable if that is set,
// else from the PATH, from .tools beside go.mod or from /usr/sbin. Without a program it calls
// Missing with hint.
func Find(tb testing.TB, variable, program, hint string) string {
	tb.Helper()
	if path := os.Getenv(variable); variable != "" && path != "" {
		return path
	}
	for _, candidate := range []string{program, filepath.Join(moduleRoot(), ".tools", program), filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	Missing(tb, "there is no "+program+": "+hint)
	return ""
}

// moduleRoot is the folder of go.mod. Tests run in the folder of their package.
func moduleRoot() string {
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return dir
}

// Missing skips the test, or fails it where TSMON_TEST_REAL is 1.
func Missing(tb testing.TB, hint string) {
	tb.Helper()
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
}

// Process is a server's process, which a test may stop and start again.
type Process struct {
	tb      testing.TB
	dir     string                         // configuration, data and output
	command func(address string) *exec.Cmd // to run the server at an address
	ready   func() bool                    // whether it serves requests
	stop    os.Signal

	address string      // 127.0.0.1:…
	process *os.Process // nil while it is stopped
	ended   chan struct{}
}

// startTimeout is generous: other tests may keep the machine busy.
const startTimeout = 2 * time.Minute

// launch starts the server on a free port. It tries another one if that was taken meanwhile.
func (p *Process) launch() {
	p.tb.Helper()
	p.tb.Cleanup(p.Stop)
	var err error
	for range 3 {
		if p.address, err = FreeAddress(); err == nil {
			err = p.start()
		}
		if err == nil {
			return
		}
		p.Stop()
	}
	p.fatal("start", err)
}

// FreeAddress returns a loopback address where nobody listens. Its port is below those of
// outgoing connections (from 32768 on Linux, 49152 elsewhere), so that a stopped server can
// start there again.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15_000+rand.N(17_000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// Start starts the server after Stop, at the same address and with the same data.
func (p *Process) Start() {
	p.tb.Helper()
	if err := p.start(); err != nil {
		p.fatal("restart", err)
	}
}

func (p *Process) start() error {
	output, err := os.Create(p.outputFile())
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := p.command(p.address)
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.Env == nil {
		cmd.Env = []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.process, p.ended = cmd.Process, make(chan struct{})
	go func(ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(p.ended)
	return p.await()
}

func (p *Process) outputFile() string { return filepath.Join(p.dir, "output") }

// await polls until the server is ready.
func (p *Process) await() error {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return errors.New("it exited")
		case <-deadline:
			return errors.New("it is not ready after " + startTimeout.String())
		case <-tick.C:
			if p.ready() {
				return nil
			}
		}
	}
}

// Stop ends the server, waits for its exit and keeps its data. Stopping a stopped server does
// nothing.
func (p *Process) Stop() {
	if p.process == nil {
		return
	}
	p.process.Signal(p.stop)
	<-p.ended
	p.process = nil
}

// fatal fails the test and shows what the server printed.
func (p *Process) fatal(what string, err error) {
	p.tb.Helper()
	p.tb.Fatalf("%s: %v\n%s", what, err, p.Output())
}

// Output returns what the server has printed since it was started.
func (p *Process) Output() string {
	output, _ := os.ReadFile(p.outputFile())
	return string(output)
}

// get returns the header of the answer, and whether the answer has the given status.
func get(url string, status int) (http.Header, bool) {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return nil, false
	}
	answer.Body.Close()
	return answer.Header, answer.StatusCode == status
}

// Fetch sends a request without a body and reads the whole answer.
func Fetch(tb testing.TB, method, address string, header http.Header) (*http.Response, string) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer, string(body)
}

// write writes a file that only the server's user may read.
func (p *Process) write(name, text string) {
	p.tb.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.tb.Fatal(err)
	}
}
