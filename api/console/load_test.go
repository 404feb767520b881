package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/servertest"
)

// TestBackendAway takes the time series away from under a server that stays: values stay,
// marked as old, with the reason, and the page goes on by itself once they are back.
func TestBackendAway(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is slow under the race detector")
	}
	influx := servertest.StartInfluxDB(t)
	s, err := startServer("TSMON_SERIES_URL=" + influx.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	f := frontOf(t, s)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	before := value[int](b, `document.querySelectorAll(".card .number").length`)
	influx.Stop()
	b.until(`document.querySelector(".freshness.stale") !== null`)
	b.text("No new values since")
	b.text("The time-series database can't be reached")
	b.until(`/No new values since [^.]+\. The time-series database [^.]+\. The values shown are from/.test(document.querySelector(".freshness").innerText)`)
	if after := value[int](b, `document.querySelectorAll(".cards.old .card .number").length`); after != before {
		t.Errorf("%d values are shown and marked as old, %d before", after, before)
	}
	b.shot("backend-away")
	b.visit("#/diagrams") // what does not need them goes on
	b.until(`document.querySelectorAll("a[href*='#/diagrams/']").length > 0`)
	b.visit("#/")
	influx.Start()
	b.until(`document.querySelector(".freshness.stale") === null && document.querySelector(".cards.old") === null && document.querySelectorAll(".card .number").length > 10`)
	b.text("Updated")
}

// request is what a page asked.
type request struct {
	method, path string
	header       http.Header
	body         []byte
}

// TestHundredDashboards: what a page with a dashboard asks while it is open, a batch each half
// minute and each of its charts every two, takes a hundredth of a processor for a hundred
// of them.
func TestHundredDashboards(t *testing.T) {
	const dashboards = 100
	f := newFront(t)
	b := newBrowser(t, 1280, 800)
	b.enterDemo(f)
	board := networkPlace("boards")
	b.visit(board.place)
	b.until(board.shown)
	f.polled(2)
	var mu sync.Mutex
	var asked []request
	f.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body) // what is cut fails below
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, request{r.Method, r.URL.RequestURI(), r.Header.Clone(), body})
		return false
	})
	f.polled(5)
	f.back()
	b.visit("#/access") // where nothing is polled
	s, err := theDemo()
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	of := func(path string) []request {
		return slices.DeleteFunc(slices.Clone(asked), func(r request) bool { return r.path != path })
	}
	batches, charts := of("/multipleDataTs"), of("/seriesDataTs")
	if len(batches) < 4 || len(charts) == 0 || len(batches)+len(charts) != len(asked) {
		t.Fatalf("%d batches and %d series of %d requests", len(batches), len(charts), len(asked))
	}
	for _, r := range charts { // each is of a day, which is asked for again after two minutes
		var items []struct{ Start, Stop int64 }
		if err := json.Unmarshal(r.body, &items); err != nil || len(items) == 0 || items[0].Stop-items[0].Start != 24*3_600_000 {
			t.Fatalf("%v: %s", err, r.body)
		}
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: dashboards}}
	defer client.CloseIdleConnections()
	// cost is that of one request, in milliseconds of a processor.
	cost := func(of []request) float64 {
		t.Helper()
		before := cpuTime(t, s.cmd.Process.Pid)
		var all sync.WaitGroup
		for range dashboards {
			all.Go(func() {
				for _, r := range of {
					if err := r.send(client, s.base); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return float64(cpuTime(t, s.cmd.Process.Pid)-before) / float64(time.Millisecond) / float64(dashboards*len(of))
	}
	cost(asked) // connections, caches
	batch, chart, perPage := cost(batches), cost(charts), (len(charts)+len(batches)-1)/len(batches)
	share := dashboards * (batch/30_000 + float64(perPage)*chart/120_000)
	t.Logf("a batch costs %.2f ms of a processor, each of %d charts %.2f ms: %.2f %% of one for %d dashboards", batch, perPage, chart, 100*share, dashboards)
	if share > 0.01 {
		t.Errorf("%d dashboards take %.2f %% of a processor", dashboards, 100*share)
	}
}

func (r request) send(client *http.Client, base string) error {
	q, err := http.NewRequest(r.method, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	q.Header = r.header
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d, %w", r.path, answer.StatusCode, err)
	}
	return nil
}

// cpuTime returns how long a process has used processors, in steps of 10 ms.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("this system does not tell: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the program's name
	var ticks int64
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
