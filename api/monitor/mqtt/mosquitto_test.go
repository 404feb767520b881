//go:build unix

package mqtt_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor/mqtt"
	"tsmon/store/servertest"
)

func TestMosquitto(t *testing.T) {
	s := servertest.StartMosquitto(t)
	suite(t, func(t *testing.T) target {
		return target{dial(t, mqtt.Options{URL: s.URL()}), s.Address, s.Connect}
	})
}

func TestMosquittoDenies(t *testing.T) {
	s := servertest.StartMosquitto(t)
	p := dial(t, mqtt.Options{URL: s.URL()})
	for range 30 { // more than Mosquitto takes without an answer
		_, err := p.Publish(t.Context(), "denied/a", []byte("x"))
		denied := new(mqtt.DeniedError)
		if !errors.As(err, &denied) || denied.ReasonCode != 135 || !errors.Is(err, mqtt.ErrDenied) {
			t.Fatalf("the error is %v", err)
		}
	}
	mustPublish(t, p, "allowed/a", "x")
}

func TestMosquittoPacketSize(t *testing.T) {
	s := servertest.StartMosquitto(t, "max_packet_size 1000")
	p := dial(t, mqtt.Options{URL: s.URL()})
	_, err := p.Publish(t.Context(), "a", make([]byte, 1000))
	wantError(t, err, mqtt.ErrTooLarge)
	mustPublish(t, p, "a", strings.Repeat("x", 900))
}

// publishes reports whether a message gets through.
func publishes(t *testing.T, p publisher) func() bool {
	return func() bool {
		_, err := p.Publish(t.Context(), "again", []byte("x"))
		if err != nil && !errors.Is(err, mqtt.ErrUnavailable) && !errors.Is(err, mqtt.ErrUnknown) {
			t.Fatalf("the error is %v", err)
		}
		return err == nil
	}
}

// TestMosquittoDown has a broker that is down at first, comes, is killed and
// comes back.
func TestMosquittoDown(t *testing.T) {
	s := servertest.StartMosquitto(t)
	s.Stop()
	var log servertest.Log
	p := dial(t, mqtt.Options{URL: s.URL(), Log: logTo(&log)})
	for range 2 {
		wantError(t, p.Ping(t.Context()), mqtt.ErrUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := p.Publish(ctx, "a", []byte("x"))
		cancel()
		wantError(t, err, mqtt.ErrUnavailable)
		s.Start()
		eventually(t, "a message gets through", publishes(t, p))
		if err := p.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		s.Stop()
		eventually(t, "the connection is lost", func() bool { return p.Ping(t.Context()) != nil })
	}
	p.Close()
	for _, want := range []string{"can't be reached", "connected to", "lost the connection"} {
		if strings.Count(log.String(), want) != 1 || strings.Contains(log.String(), s.Password) {
			t.Errorf("the log, which should have %q once, is:\n%s", want, log.String())
		}
	}
}

func TestMosquittoFrozen(t *testing.T) {
	s := servertest.StartMosquitto(t)
	p := dial(t, mqtt.Options{URL: s.URL(), Timeout: 300 * time.Millisecond})
	eventually(t, "a message gets through", publishes(t, p))
	d := connect(t, s.Address, s.Connect()).subscribe(t, "f/#")
	s.Freeze()
	_, err := p.Publish(t.Context(), "f/1", []byte("x"))
	wantError(t, err, mqtt.ErrUnknown)
	s.Thaw()
	eventually(t, "a message gets through", publishes(t, p))
	mustPublish(t, p, "f/2", "x")
	d.wantMessage(t, "f/1", "x") // as it happens, and once
	d.wantMessage(t, "f/2", "x")
}

func TestMosquittoWrongPassword(t *testing.T) {
	s := servertest.StartMosquitto(t)
	const secret = "hunter2"
	var log servertest.Log
	p := dial(t, mqtt.Options{URL: strings.Replace(s.URL(), s.Password, secret, 1), Log: logTo(&log)})
	eventually(t, "it is refused", func() bool { return strings.Contains(log.String(), "reasonCode=135") })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.Publish(ctx, "a", []byte("x"))
	wantError(t, err, mqtt.ErrUnavailable)
	p.Close()
	if text := log.String(); strings.Contains(text+err.Error(), secret) || strings.Contains(text, s.User+":") {
		t.Errorf("the error is %v and the log:\n%s", err, text)
	}
}

// TestMosquittoSub receives messages with Mosquitto's own subscriber, from Mosquitto and
// from the embedded broker. Each case has topics of its own: the broker may still count
// the subscriber of the case before, which was killed, as a match.
func TestMosquittoSub(t *testing.T) {
	s := servertest.StartMosquitto(t)
	b := listen(t)
	login := []string{"-u", s.User, "-P", s.Password}
	for _, c := range []struct {
		name, version, address, topic string
		login                         []string
		publisher
	}{
		{"mosquitto", "mqttv5", s.Address, "s/1", login, dial(t, mqtt.Options{URL: s.URL()})},
		{"mosquitto, old", "mqttv311", s.Address, "s/2", login, dial(t, mqtt.Options{URL: s.URL()})},
		{"embedded", "mqttv5", b.Addr(), "s/1", nil, b},
		{"embedded, old", "mqttv311", b.Addr(), "s/2", nil, b},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := mosquittoSub(t, c.address, c.topic, c.version, c.login...)
			eventually(t, "it is subscribed", func() bool { return mustPublish(t, c, c.topic+"/warmup", "").Matched })
			mustPublish(t, c, c.topic+"/pozo 1/config", `{"source_0":[1,2]}`)
			want := "1 0 " + c.topic + `/pozo 1/config {"source_0":[1,2]}`
			line := receive(t, lines)
			for line == "1 0 "+c.topic+"/warmup " {
				line = receive(t, lines)
			}
			if line != want {
				t.Errorf("it got %q, want %q", line, want)
			}
		})
	}
}

// mosquittoSub starts a subscriber to all below a topic and returns what it prints: QoS,
// retained, topic and payload.
func mosquittoSub(t *testing.T, address, topic, version string, login ...string) <-chan string {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	arguments := append([]string{"-V", version, "-h", host, "-p", port, "-q", "1", "-t", topic + "/#", "-F", "%q %r %t %p"}, login...)
	cmd := exec.Command(servertest.FindMosquitto(t, "mosquitto_sub"), arguments...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return lines
}
