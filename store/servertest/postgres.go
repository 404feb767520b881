package servertest

import (
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

// Postgres is a PostgreSQL server.
type Postgres struct {
	Process
	password string
}

// StartPostgres starts a server. It looks for the programs in the folder that
// TSMON_TEST_PGBIN names, beside the pg_ctl in the PATH and in /usr/lib/postgresql/*/bin.
// PostgreSQL refuses to run as root, so a test run by root starts it as the user postgres.
func StartPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	s := &Postgres{password: rand.Text()}
	bin := findPostgres(tb)
	s.Process = Process{tb: tb, dir: sharedDir(tb), ready: s.ready}
	s.stop = syscall.SIGQUIT // SIGKILL would leave its child processes
	command := func(program string, arguments ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, program), arguments...)
		cmd.Dir, cmd.SysProcAttr = s.dir, attributes(tb)
		return cmd
	}
	data := filepath.Join(s.dir, "data")
	s.initdb(command("initdb", "--pgdata", data, "--username", "tsmon", "--pwfile", filepath.Join(s.dir, "password"),
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"))
	s.command = func(address string) *exec.Cmd {
		_, port, _ := net.SplitHostPort(address)
		return command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories="+s.dir, "-c", "fsync=off", "-c", "max_connections=200")
	}
	s.launch()
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
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) }))
	}
	Missing(tb, "there is no postgresql: install it, or set TSMON_TEST_PGBIN to the folder of initdb and postgres")
	return ""
}

// majorVersion returns the version in the path of a program.
func majorVersion(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// sharedDir makes a folder that the server's user can reach even if that is not the test's
// user, unlike tb.TempDir.
func sharedDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tsmon-pg-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *Postgres) initdb(cmd *exec.Cmd) {
	s.tb.Helper()
	s.write("password", s.password)
	chown(s.tb, s.dir, filepath.Join(s.dir, "password"))
	if output, err := cmd.CombinedOutput(); err != nil {
		s.tb.Fatalf("initdb: %v\n%s", err, output)
	}
}

func (s *Postgres) ready() bool { return s.exec("postgres", "SELECT 1") == nil }

// URL returns the URL of a database, which need not exist.
func (s *Postgres) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("tsmon", s.password), Host: s.address,
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Database makes an empty database and returns its URL.
func (s *Postgres) Database() string {
	s.tb.Helper()
	name := "db_" + strings.ToLower(rand.Text())
	s.Exec("postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec executes statements in a database, bypassing the adapter.
func (s *Postgres) Exec(database, statements string) {
	s.tb.Helper()
	if err := s.exec(database, statements); err != nil {
		s.fatal("exec", err)
	}
}

func (s *Postgres) exec(database, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, err = conn.Exec(ctx, statements)
	return errors.Join(err, conn.Close(ctx))
}
