package recordtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL that runs as a child process of a test. It listens on
// the loopback interface only and ends with the test.
type Server struct {
	tb       testing.TB
	bin      string // folder of its programs
	folder   string // of its data, password and socket
	port     string
	password string
	output   bytes.Buffer
	process  *os.Process   // nil while it is stopped
	ended    chan struct{} // closed when the process has ended
}

// Postgres starts a server of its own for a test, which shares it with its
// subtests. The programs are looked for in the folder that TSMON_TEST_PGBIN
// names, beside the pg_ctl in the PATH and in /usr/lib/postgresql/*/bin. Where
// there are none the test is skipped, or fails if TSMON_TEST_REAL is 1.
//
// PostgreSQL refuses to run as root: then it runs as the user postgres.
func Postgres(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: findPostgres(tb), password: rand.Text()}
	s.makeFolder()
	tb.Cleanup(s.Stop)
	s.initdb()
	s.startOnFreePort()
	return s
}

func findPostgres(tb testing.TB) string {
	tb.Helper()
	if bin := os.Getenv("TSMON_TEST_PGBIN"); bin != "" {
		return bin
	}
	if name, err := exec.LookPath("pg_ctl"); err == nil {
		if name, err = filepath.EvalSymlinks(name); err == nil {
			return filepath.Dir(name)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
	}
	const hint = "there is no postgresql: install it, or set TSMON_TEST_PGBIN to the folder of initdb and postgres"
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
	return ""
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// makeFolder makes a folder that the server's user can reach, which tb.TempDir
// is not when it is another user's.
func (s *Server) makeFolder() {
	s.tb.Helper()
	folder, err := os.MkdirTemp("", "tsmon-pg-")
	if err != nil {
		s.tb.Fatal(err)
	}
	s.folder = folder
	s.tb.Cleanup(func() { os.RemoveAll(folder) })
	err = os.WriteFile(s.path("password"), []byte(s.password), 0o600)
	if err = errors.Join(err, s.handOver(folder, s.path("password"))); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.folder, "LC_ALL=C"}
	cmd.SysProcAttr = s.attributes()
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	return cmd
}

func (s *Server) initdb() {
	s.tb.Helper()
	cmd := s.command("initdb", "--pgdata", s.path("data"), "--username", "tsmon", "--pwfile", s.path("password"),
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync")
	if err := cmd.Run(); err != nil {
		s.tb.Fatalf("initdb: %v\n%s", err, s.output.String())
	}
}

// startOnFreePort tries again where another process took the port in between.
func (s *Server) startOnFreePort() {
	s.tb.Helper()
	var err error
	for range 3 {
		s.port = freePort(s.tb)
		if err = s.start(); err == nil {
			return
		}
		s.Stop()
	}
	s.tb.Fatalf("start postgresql: %v\n%s", err, s.output.String())
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Start starts the server again after Stop, at the same port and with the same
// data.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start postgresql again: %v\n%s", err, s.output.String())
	}
}

func (s *Server) start() error {
	s.output.Reset()
	cmd := s.command("postgres", "-D", s.path("data"), "-p", s.port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories="+s.folder, "-c", "fsync=off", "-c", "max_connections=200")
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

// await polls until the server answers a query.
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
			if s.exec("postgres", "SELECT 1") == nil {
				return nil
			}
		}
	}
}

// Stop ends the server at once, as a crash would its clients' connections, and
// waits for that; its data stay. On a stopped server it does nothing.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	s.process.Signal(syscall.SIGQUIT) // a kill would leave its children
	<-s.ended
	s.process = nil
}

// URL returns the URL of a database, which need not be there.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("tsmon", s.password), Host: net.JoinHostPort("127.0.0.1", s.port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Database makes an empty database and returns its URL.
func (s *Server) Database() string {
	s.tb.Helper()
	name := "db_" + strings.ToLower(rand.Text())
	s.Exec("postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec executes statements in a database, behind the adapter's back.
func (s *Server) Exec(database, statements string) {
	s.tb.Helper()
	if err := s.exec(database, statements); err != nil {
		s.tb.Fatalf("%v\n%s", err, s.output.String())
	}
}

func (s *Server) exec(database, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statements)
	return err
}
