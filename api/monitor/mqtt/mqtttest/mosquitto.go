// Package mqtttest starts the real broker that tests publish through.
package mqtttest

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
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// Server is a Mosquitto that runs as a child process of a test. It listens on
// the loopback interface only and ends with the test. It knows one user, who may
// publish and subscribe to every topic that does not begin with denied/.
type Server struct {
	Address  string // 127.0.0.1:…
	User     string
	Password string

	tb      testing.TB
	binary  string
	folder  string   // of its configuration
	extra   []string // lines of its configuration
	output  bytes.Buffer
	process *os.Process   // nil while it is stopped
	ended   chan struct{} // closed when the process has ended
}

// Mosquitto starts a server of its own for a test, which shares it with its
// subtests. Lines are added to its configuration. The program is looked for in
// the PATH and in /usr/sbin. Where there is none the test is skipped, or fails if
// TSMON_TEST_REAL is 1.
func Mosquitto(tb testing.TB, lines ...string) *Server {
	tb.Helper()
	s := &Server{User: "tsmon", Password: rand.Text(), tb: tb, binary: Find(tb, "mosquitto"), folder: tb.TempDir(), extra: lines}
	s.writePasswords()
	tb.Cleanup(s.Stop)
	s.startOnFreePort()
	return s
}

// Find returns the path of a program of Mosquitto. Where it is not installed
// the test is skipped, or fails if TSMON_TEST_REAL is 1.
func Find(tb testing.TB, name string) string {
	tb.Helper()
	for _, candidate := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	hint := "there is no " + name + ": install mosquitto and mosquitto-clients"
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
	return ""
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

func (s *Server) writePasswords() {
	s.tb.Helper()
	err := os.WriteFile(s.path("passwords"), []byte(s.User+":"+s.Password+"\n"), 0o600)
	if err == nil {
		err = exec.Command(Find(s.tb, "mosquitto_passwd"), "-U", s.path("passwords")).Run()
	}
	if err != nil {
		s.tb.Fatalf("mosquitto_passwd: %v", err)
	}
}

// configuration keeps the user: root would become mosquitto, who can't read
// the test's files. That is without effect for everyone else.
const configuration = `
listener %[1]s %[2]s
user root
allow_anonymous false
password_file %[3]s/passwords
acl_file %[3]s/acl
persistence false
`

const rights = `
user %s
topic readwrite #
topic deny denied/#
`

func (s *Server) configure() {
	s.tb.Helper()
	host, port, _ := net.SplitHostPort(s.Address)
	text := fmt.Sprintf(configuration, port, host, s.folder) + strings.Join(s.extra, "\n") + "\n"
	err := errors.Join(
		os.WriteFile(s.path("mosquitto.conf"), []byte(text), 0o600),
		os.WriteFile(s.path("acl"), fmt.Appendf(nil, rights, s.User), 0o600),
	)
	if err != nil {
		s.tb.Fatal(err)
	}
}

// startOnFreePort tries again where another process took the port in between.
func (s *Server) startOnFreePort() {
	s.tb.Helper()
	var err error
	for range 3 {
		s.Address = freePort(s.tb)
		s.configure()
		if err = s.start(); err == nil {
			return
		}
		s.Stop()
	}
	s.tb.Fatalf("start mosquitto: %v\n%s", err, s.output.String())
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Start starts the server again after Stop, at the same address.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start mosquitto again: %v\n%s", err, s.output.String())
	}
}

func (s *Server) start() error {
	s.output.Reset()
	cmd := exec.Command(s.binary, "-c", s.path("mosquitto.conf"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.folder}
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

// await polls until the server lets its user in.
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
	c, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.tb.Context(), time.Second)
	defer cancel()
	client := paho.NewClient(paho.ClientConfig{Conn: c})
	if _, err := client.Connect(ctx, s.Connect()); err != nil {
		return false
	}
	return client.Disconnect(&paho.Disconnect{}) == nil
}

// Connect returns the packet with which a client introduces itself as the user.
func (s *Server) Connect() *paho.Connect {
	return &paho.Connect{
		CleanStart: true, KeepAlive: 60,
		UsernameFlag: true, Username: s.User, PasswordFlag: true, Password: []byte(s.Password),
	}
}

// URL returns the server's URL, with the user name and the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "mqtt", User: url.UserPassword(s.User, s.Password), Host: s.Address}
	return u.String()
}

// Stop kills the server and waits for its end. On a stopped server it does
// nothing.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	<-s.ended
	s.process = nil
}
