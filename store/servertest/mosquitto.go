package servertest

import (
	"context"
	"crypto/rand"
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

// Mosquitto is a Mosquitto broker with one user, who may publish and subscribe to all topics
// except those below denied/.
type Mosquitto struct {
	Process
	Address  string // 127.0.0.1:…
	User     string
	Password string
}

// StartMosquitto starts a broker and adds lines to its configuration.
func StartMosquitto(tb testing.TB, lines ...string) *Mosquitto {
	tb.Helper()
	s := &Mosquitto{User: "tsmon", Password: rand.Text()}
	binary := FindMosquitto(tb, "mosquitto")
	s.Process = Process{tb: tb, dir: tb.TempDir(), stop: os.Kill, ready: s.ready}
	s.write("acl", fmt.Sprintf("user %s\ntopic readwrite #\ntopic deny denied/#\n", s.User))
	s.write("passwords", s.User+":"+s.Password+"\n")
	if output, err := exec.Command(FindMosquitto(tb, "mosquitto_passwd"), "-U", s.path("passwords")).CombinedOutput(); err != nil {
		tb.Fatalf("mosquitto_passwd: %v\n%s", err, output)
	}
	s.command = func(address string) *exec.Cmd {
		s.Address = address
		host, port, _ := net.SplitHostPort(address)
		s.write("mosquitto.conf", fmt.Sprintf(mosquittoConfiguration, port, host, s.dir)+strings.Join(lines, "\n")+"\n")
		return exec.Command(binary, "-c", s.path("mosquitto.conf"))
	}
	s.launch()
	return s
}

// FindMosquitto returns the path of one of Mosquitto's programs, as Find does.
func FindMosquitto(tb testing.TB, program string) string {
	tb.Helper()
	return Find(tb, "", program, "install mosquitto and mosquitto-clients")
}

// mosquittoConfiguration keeps the user: started by root, Mosquitto would switch to the user
// mosquitto, who can't read the test's files.
const mosquittoConfiguration = `
listener %[1]s %[2]s
user root
allow_anonymous false
password_file %[3]s/passwords
acl_file %[3]s/acl
persistence false
`

func (s *Mosquitto) path(name string) string { return filepath.Join(s.dir, name) }

// ready reports whether the user can log in.
func (s *Mosquitto) ready() bool {
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

// Connect returns the CONNECT packet of the user.
func (s *Mosquitto) Connect() *paho.Connect {
	return &paho.Connect{
		CleanStart: true, KeepAlive: 60,
		UsernameFlag: true, Username: s.User, PasswordFlag: true, Password: []byte(s.Password),
	}
}

// URL returns the broker's URL with user name and password.
func (s *Mosquitto) URL() string {
	u := url.URL{Scheme: "mqtt", User: url.UserPassword(s.User, s.Password), Host: s.Address}
	return u.String()
}
