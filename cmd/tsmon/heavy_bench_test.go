package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/api/console"
	"tsmon/cmd/tsmon/admin"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/serving"
	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

// The load of BenchmarkHeavy, and its bounds.
const (
	heavyRequests  = 20
	heavyVariables = 180 // for 90 days at an hour: nearly as many points as a request may have
	heavyTime      = 20 * time.Second
	dashboards     = 50
	dashboardEvery = 15 * time.Second
	heavyMemory    = 400 // MB
)

// BenchmarkHeavy sends twenty heavy requests at once to a server with five million values, which
// fifty dashboards of fifty variables poll. It does that once per iteration:
//
//	go test -run '^$' -bench Heavy -benchtime 3x ./cmd/tsmon
//
// It reports how many requests were answered or refused as busy, the slowest response, the latency
// of dashboards before and meanwhile, the server's peak memory, and its processor time per response,
// which other load does not affect. It fails on any other response, one that takes longer than
// twenty seconds to begin, and memory above 400 MB.
func BenchmarkHeavy(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkHeavy(b, nil) })
	b.Run("influxdb 1.8", func(b *testing.B) {
		server := servertest.StartInfluxDB(b)
		benchmarkHeavy(b, server, "TSMON_SERIES_URL="+server.URL)
	})
	b.Run("influxdb 2.7", func(b *testing.B) {
		server := servertest.StartInfluxDB2(b)
		benchmarkHeavy(b, server, "TSMON_SERIES_URL="+server.URL, "TSMON_SERIES_ORG="+server.Org, "TSMON_SERIES_TOKEN="+server.Token)
	})
}

// heavyLoad is a server under load.
type heavyLoad struct {
	*served
	token string
	now   time.Time // of the last values
}

func benchmarkHeavy(b *testing.B, server interface{ Settle(database string) }, env ...string) {
	data := filepath.Join(b.TempDir(), "data")
	env = append(env, "TSMON_DATA="+data, "TSMON_MQTT_LISTEN=127.0.0.1:0")
	login, now := fillHeavy(b, env)
	if server != nil {
		server.Settle(login.TsName)
	}
	l := &heavyLoad{served: serve(b, data, env), now: now}
	l.token = l.login(login)

	ctx, stop := context.WithCancel(b.Context())
	var polls latencies
	var polling sync.WaitGroup
	for i := range dashboards {
		polling.Go(func() { l.poll(ctx, i, &polls) })
	}
	<-time.After(2 * dashboardEvery)
	before := polls.take()
	var answered, busy int
	var all latencies
	var slowest time.Duration
	idle := cpuTime(b, l.cmd.Process.Pid)
	for b.Loop() {
		a, r, took := l.round(b)
		answered, busy, slowest = answered+a, busy+r, max(slowest, took)
		all.add(polls.take()...)
	}
	stop()
	polling.Wait()
	beside := all.take()
	used := cpuTime(b, l.cmd.Process.Pid)
	b.ReportMetric(float64(answered)/float64(b.N), "answered")
	b.ReportMetric(float64(busy)/float64(b.N), "busy")
	b.ReportMetric(slowest.Seconds(), "s-slowest")
	b.ReportMetric(float64(len(beside)), "polls")
	b.ReportMetric(percentile(before, 99), "ms-p99-before")
	b.ReportMetric(percentile(beside, 50), "ms-p50-beside")
	b.ReportMetric(percentile(beside, 99), "ms-p99-beside")
	memory := peakMemory(b, l.cmd.Process.Pid)
	b.ReportMetric((used-idle).Seconds()/float64(max(answered, 1)), "cpu-s/answer")
	b.ReportMetric(memory, "MB")
	if memory > heavyMemory {
		b.Errorf("the server took %.0f MB", memory)
	}
}

// fillHeavy creates a tenant with a user and the values of seriestest.Quarter, up to now.
func fillHeavy(b *testing.B, env []string) (serving.DemoFile, time.Time) {
	b.Helper()
	login := serving.DemoFile{Login: console.Login{Email: "ana@example.com", Schema: "acueducto", TsName: "ts_acueducto"}}
	run := func(args ...string) []byte {
		stdout, stderr, code := command(b, env, "tsmon", args...)
		if code != 0 {
			b.Fatalf("tsmon %s: %s", strings.Join(args, " "), stderr)
		}
		return []byte(stdout)
	}
	run("tenant", "create", login.Schema, "--ts-name", login.TsName, "--time-zone", "America/Bogota")
	var token admin.UserToken
	if err := json.Unmarshal(run("user", "create", login.Schema, login.Email, "--json"), &token); err != nil {
		b.Fatal(err)
	}
	login.TokenApp = token.TokenApp
	c, err := config.Load("", env)
	if err != nil {
		b.Fatal(err)
	}
	store, err := cli.OpenSeries(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	now := time.Now()
	later := now.Sub(seriestest.Clock)
	err = seriestest.Quarter.Batches(batchSize, func(batch []series.Sample) error {
		for i := range batch {
			batch[i].Time = batch[i].Time.Add(later)
		}
		return store.Write(b.Context(), login.TsName, batch)
	})
	if err != nil {
		b.Fatal(err)
	}
	return login, now
}

// poll polls like a dashboard. Each dashboard has other variables and polls at other times.
func (l *heavyLoad) poll(ctx context.Context, dashboard int, took *latencies) {
	var items []any
	for i := range 50 {
		key := seriestest.Quarter.Key((dashboard*10 + i) % seriestest.Quarter.Variables)
		items = append(items, map[string]any{"dataTs": map[string]any{
			"id": i, "name": key.Field, "unit": nil, "varsTs": map[string]string{"measurement": key.Measurement, "field": key.Field},
		}})
	}
	next := time.NewTimer(dashboardEvery * time.Duration(dashboard) / dashboards)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(dashboardEvery)
		began := time.Now()
		status, text := l.ask("POST", "/multipleDataTs", l.token, items)
		took.add(time.Since(began))
		if status != http.StatusOK || bytes.Contains(text, []byte("null")) {
			l.t.Errorf("a dashboard was answered %d %.200s", status, text)
		}
	}
}

// round sends the heavy questions, and returns how many were answered and refused as
// busy, and how long the slowest took.
func (l *heavyLoad) round(b *testing.B) (answered, busy int, slowest time.Duration) {
	var items []any
	for i := range heavyVariables {
		key := seriestest.Quarter.Key(i)
		items = append(items, map[string]any{
			"id": i, "measurement": key.Measurement, "field": key.Field, "samplingPeriod": "1h",
			"start": l.now.Add(-90 * 24 * time.Hour).UnixMilli(), "stop": l.now.UnixMilli(),
		})
	}
	question, err := json.Marshal(items)
	if err != nil {
		b.Fatal(err)
	}
	answers := make([]heavyAnswer, heavyRequests)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { answers[i] = l.heavy(b, question) })
	}
	asking.Wait()
	for _, got := range answers { // which takes time that would be the server's
		slowest = max(slowest, got.ended)
		switch {
		case got.begun > heavyTime:
			b.Errorf("an answer began after %s", got.begun)
		case got.status == http.StatusOK && pointsOf(got.text) > heavyVariables*90*23:
			answered++
		case got.status == http.StatusInternalServerError && bytes.Contains(got.text, []byte("busy")) && got.header.Get("Retry-After") != "":
			busy++
		default:
			b.Errorf("%d after %s: %.300s", got.status, got.ended, got.text)
		}
	}
	return answered, busy, slowest
}

// heavyAnswer is an answer as it came; the text says what went wrong if there was none.
type heavyAnswer struct {
	status       int
	header       http.Header
	text         []byte
	begun, ended time.Duration
}

// heavy sends a question as a browser does.
func (l *heavyLoad) heavy(b *testing.B, question []byte) (got heavyAnswer) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, l.base+"/seriesDataTs", bytes.NewReader(question))
	if err != nil {
		return heavyAnswer{text: []byte(err.Error())}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+l.token)
	r.Header.Set("Accept-Encoding", "gzip")
	began := time.Now()
	answer, err := l.http.Do(r)
	got.begun = time.Since(began)
	if err == nil {
		defer answer.Body.Close()
		got.header = answer.Header
		got.text, err = io.ReadAll(answer.Body)
	}
	got.ended = time.Since(began)
	if err != nil {
		got.text = []byte(err.Error())
	} else {
		got.status = answer.StatusCode
	}
	return got
}

// pointsOf counts the points of a compressed answer.
func pointsOf(text []byte) int {
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return 0
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return 0
	}
	return bytes.Count(plain, []byte(`"ts":`))
}

// latencies collects durations from several goroutines.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) add(took ...time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took...)
}

// take returns what was collected since the last time.
func (l *latencies) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// percentile returns a percentile in milliseconds.
func percentile(times []time.Duration, p int) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[(len(times)*p+99)/100-1].Microseconds()) / 1000
}

// cpuTime returns how long a process has run; 0 where the system does not tell.
func cpuTime(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the program's name
	fields := strings.Fields(rest)
	var ticks int64 // of 10 ms
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// peakMemory returns the most memory that a process has had, in MB; 0 where the system
// does not tell.
func peakMemory(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kilobytes / 1024
}
