package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/cmd/tsmon/serving"
	"tsmon/store/servertest"
)

// outage is a back end that can be taken away and given back.
type outage interface {
	Stop()
	Start()
}

// bound is the longest time of any request, whatever is down: the server's own deadline, and some
// time for a busy machine.
const bound = 25 * time.Second

// poller repeats a request and keeps the last response. It pauses shortly, so that many pollers leave
// the servers time to stop and start.
type poller struct {
	ask func() (status int, body []byte)

	mu     sync.Mutex
	number int // of answers
	status int
	wrong  []string
}

func (p *poller) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		status, body := p.ask()
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.number++
		p.status = status
		if problem := problemOf(status, body, took); problem != "" {
			p.wrong = append(p.wrong, problem)
		}
		p.mu.Unlock()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// problemOf returns what is wrong with a response that no client should ever get.
func problemOf(status int, body []byte, took time.Duration) string {
	if took > bound {
		return fmt.Sprintf("an answer took %s", took)
	}
	if status == 200 {
		return ""
	}
	var failure map[string]struct{ Message string }
	if json.Unmarshal(body, &failure) != nil || failure["error1"].Message == "" || status != 500 && status != 503 {
		return fmt.Sprintf("%d %.200s", status, body)
	}
	return ""
}

// now returns how many answers there were and the last status.
func (p *poller) now() (int, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number, p.status
}

// TestOutages takes each back end away and gives it back: before the server
// starts, and under load.
func TestOutages(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts four servers")
	}
	postgres, influx, mosquitto, minio := servertest.StartPostgres(t), servertest.StartInfluxDB(t), servertest.StartMosquitto(t), servertest.StartMinIO(t)
	minio.MakeBucket("app")
	env := append(minio.Env(), "TSMON_RECORDS="+postgres.Database(), "TSMON_SERIES_URL="+influx.URL,
		"TSMON_MQTT_URL="+mosquitto.URL(), "TSMON_STORAGE="+minio.URL("app"))
	data := filepath.Join(t.TempDir(), "data")
	first := serve(t, data, env, "--demo")
	d := first.demoReady()
	first.stop()

	backends := map[string]outage{"records": postgres, "series": influx, "messages": mosquitto, "objects": minio}
	for _, b := range backends {
		b.Stop()
	}
	s := serve(t, data, env)
	if status, text := s.ask("GET", "/healthz", "", nil); status != 200 {
		t.Errorf("with everything down: %d %s", status, text)
	}
	if status, text := s.ask("GET", "/readyz", "", nil); status != 503 || strings.Count(string(text), `"failing"`) != 8 {
		t.Errorf("with everything down: %d %s", status, text)
	}
	if status, text := s.ask("POST", "/loginPartner", "", d); status != 500 || problemOf(status, text, 0) != "" {
		t.Errorf("login without records: %d %s", status, text)
	}
	for _, b := range backends {
		b.Start()
	}
	until(t, "ready", func() bool {
		_, text := s.ask("GET", "/readyz", "", nil)
		return strings.Contains(string(text), `"status":"ok"`)
	})
	token := s.login(d)
	underLoad(t, s, d, token, backends)
	s.stop()
}

// underLoad takes one back end after another away while every endpoint is asked.
func underLoad(t *testing.T, s *served, d serving.DemoFile, token string, backends map[string]outage) {
	t.Helper()
	items := s.view(token)
	topic := map[string]any{"topic": d.Schema + "/bomba", "data": map[string]any{"source_0": []int{1}}}
	// The records know whether a variable is called so.
	unnamed := []any{map[string]any{"measurement": "embalse", "field": "nivel", "samplingPeriod": "1h"}}
	if status, text := s.ask("POST", "/seriesDataTs", token, unnamed); status != 200 {
		t.Fatalf("series by measurement and field: %d %s", status, text)
	}
	pollers := map[string]*poller{
		"records":   {ask: func() (int, []byte) { return s.ask("GET", "/getAllMenu", token, nil) }},
		"variables": {ask: func() (int, []byte) { return s.ask("GET", "/getVarsTs", token, nil) }},
		"names":     {ask: func() (int, []byte) { return s.ask("POST", "/seriesDataTs", token, unnamed) }},
		"series":    {ask: func() (int, []byte) { return s.ask("POST", "/multipleDataTs", token, items) }},
		"messages":  {ask: func() (int, []byte) { return s.ask("POST", "/sendConfigMQTT", token, topic) }},
		"objects":   {ask: func() (int, []byte) { return s.upload(d, "hola") }},
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, p := range pollers {
		running.Go(func() { p.run(ctx) })
	}
	for down := range backends {
		backends[down].Stop()
		until(t, down+" fails", func() bool {
			_, status := pollers[down].now()
			return status != 200
		})
		unharmed(t, pollers, down)
		backends[down].Start()
		until(t, down+" recovers", func() bool {
			_, status := pollers[down].now()
			return status == 200
		})
		t.Logf("without %s: %v", down, answers(pollers))
	}
	stop()
	running.Wait()
	for name, p := range pollers {
		if len(p.wrong) > 0 {
			t.Errorf("%s: %d wrong answers of %d, the first: %s", name, len(p.wrong), p.number, p.wrong[0])
		}
	}
}

// unharmed waits for twenty more good responses of every endpoint that does not need the back end that
// is down. Messages need the records, which have the permissions. Values, series by measurement and
// field, and saved variables don't, for the minute in which a user is cached.
func unharmed(t *testing.T, pollers map[string]*poller, down string) {
	t.Helper()
	others := maps.Clone(pollers)
	delete(others, down)
	switch down {
	case "records":
		delete(others, "messages")
	case "series":
		delete(others, "names")
	}
	for name, p := range others {
		before, _ := p.now()
		until(t, name+" without "+down, func() bool {
			number, status := p.now()
			return number >= before+20 && status == 200
		})
	}
}

func answers(pollers map[string]*poller) map[string]int {
	numbers := map[string]int{}
	for name, p := range pollers {
		numbers[name], _ = p.now()
	}
	return numbers
}

// relay forwards connections to a server. While it is held, it accepts connections and keeps the open
// ones, but forwards no data.
type relay struct {
	net.Listener
	mu sync.RWMutex // read-locked while bytes pass
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &relay{Listener: listener}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			go r.pass(from, back)
			go r.pass(back, from)
		}
	}()
	return r
}

// pass copies until one of both connections ends, and ends both.
func (r *relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.RLock()
		_, failed := to.Write(buffer[:n])
		r.mu.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// TestHungBackends: the records and the broker hang, with open connections that don't answer. Logins
// soon fail with an error, and readiness tells load balancers.
func TestHungBackends(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts two servers")
	}
	postgres, mosquitto := servertest.StartPostgres(t), servertest.StartMosquitto(t)
	records, err := url.Parse(postgres.Database())
	if err != nil {
		t.Fatal(err)
	}
	between := newRelay(t, records.Host)
	records.Host = between.Addr().String()
	s := serve(t, filepath.Join(t.TempDir(), "data"), []string{"TSMON_RECORDS=" + records.String(), "TSMON_MQTT_URL=" + mosquitto.URL()}, "--demo")
	d := s.demoReady()
	token := s.login(d)
	says := func(backend, status string) func() bool {
		return func() bool {
			_, text := s.ask("GET", "/readyz?for=monitoring", "", nil)
			return strings.Contains(string(text), fmt.Sprintf("%q:%q", backend, status))
		}
	}
	until(t, "ready", says("messages", "ok"))

	between.mu.Lock()
	const patience = 10 * time.Second // of which 3 s are the server's
	began := time.Now()
	status, text := s.ask("POST", "/loginPartner", "", d)
	if took := time.Since(began); status != 500 || !strings.Contains(string(text), "records can't be reached") || took > patience {
		t.Errorf("login after %s: %d %s", took, status, text)
	}
	until(t, "readiness tells of the records", says("records", "failing"))
	between.mu.Unlock()
	until(t, "the records are back", says("records", "ok"))
	s.login(d)

	mosquitto.Freeze()
	topic := map[string]any{"topic": d.Schema + "/bomba", "data": map[string]any{"source_0": []int{1}}}
	if status, text := s.ask("POST", "/sendConfigMQTT", token, topic); status != 500 || !strings.Contains(string(text), "broker") {
		t.Errorf("a message to a hung broker: %d %s", status, text)
	}
	until(t, "readiness tells of the broker", says("messages", "failing"))
	mosquitto.Thaw()
	until(t, "the broker is back", says("messages", "ok"))
	until(t, "messages get through", func() bool {
		status, _ := s.ask("POST", "/sendConfigMQTT", token, topic)
		return status == 200
	})

	for _, b := range []outage{postgres, mosquitto} {
		b.Stop()
	}
	if status, text := s.ask("POST", "/loginPartner", "", d); status != 500 || !strings.Contains(string(text), "records can't be reached") {
		t.Errorf("login without records: %d %s", status, text)
	}
	until(t, "readiness tells that both are away", func() bool {
		status, _ := s.ask("GET", "/readyz?for=monitoring", "", nil)
		return status == 503 && says("records", "failing")() && says("messages", "failing")()
	})
	s.stop()
}
