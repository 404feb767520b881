package influx

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

// proxy stands before a server and keeps the queries that pass it.
type proxy struct {
	URL string

	mu      sync.Mutex
	queries []string
}

func newProxy(t testing.TB, server *servertest.InfluxDB) *proxy {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := httputil.NewSingleHostReverseProxy(target)
	p.URL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if form, err := url.ParseQuery(string(body)); err == nil && r.URL.Path == "/query" {
			p.mu.Lock()
			p.queries = append(p.queries, form.Get("q"))
			p.mu.Unlock()
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		forward.ServeHTTP(w, r)
	})
	return p
}

// take returns the queries since it was last called.
func (p *proxy) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.queries
	p.queries = nil
	return taken
}

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// watched returns a store of an empty database behind a proxy.
func watched(t *testing.T, server *servertest.InfluxDB, database string) (*Store, *proxy, *clock) {
	t.Helper()
	p := newProxy(t, server)
	c := &clock{seriestest.Clock}
	s := open(t, Options{URL: p.URL, Now: c.now})
	if err := s.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	p.take()
	return s, p, c
}

func put(t *testing.T, s *Store, database, measurement, field string, value any, when time.Time) {
	t.Helper()
	sample := series.Sample{Measurement: measurement, Fields: map[string]any{field: value}, Time: when}
	if err := s.Write(t.Context(), database, []series.Sample{sample}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, database string, wants ...series.Want) []series.Value {
	t.Helper()
	values, err := s.Current(t.Context(), database, wants)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func wantFor(measurement, field string) series.Want {
	return series.Want{Key: series.Key{Measurement: measurement, Field: field}}
}

// wantQueries checks how many requests there were, and for each how many
// statements it had.
func (p *proxy) wantQueries(t *testing.T, statements ...int) []string {
	t.Helper()
	queries := p.take()
	var got []int
	for _, q := range queries {
		got = append(got, strings.Count(q, ";")+1)
	}
	if fmt.Sprint(got) != fmt.Sprint(statements) {
		t.Errorf("requests of %v statements, not %v: %q", got, statements, queries)
	}
	return queries
}

func testLadder(t *testing.T, server *servertest.InfluxDB) {
	s, p, c := watched(t, server, "ladder")
	put(t, s, "ladder", "m", "new", 1.0, c.Add(-time.Minute))
	put(t, s, "ladder", "m", "day", 2.0, c.Add(-5*time.Hour))
	put(t, s, "ladder", "m", "old", 3.0, c.Add(-50*24*time.Hour))
	put(t, s, "ladder", "m", "ahead", 4.0, c.Add(time.Hour))
	s = open(t, Options{URL: p.URL, Now: c.now}) // one that remembers nothing
	p.take()
	wants := []series.Want{wantFor("m", "new"), wantFor("m", "day"), wantFor("m", "old"), wantFor("m", "ahead"), wantFor("m", "none")}
	check := func(numbers ...float64) {
		t.Helper()
		for i, v := range get(t, s, "ladder", wants...) {
			if v.Found != (numbers[i] != 0) || v.Number != numbers[i] {
				t.Errorf("%s is %+v", wants[i].Key, v)
			}
		}
	}
	check(1, 2, 3, 0, 0)
	p.wantQueries(t, 1, 1, 3, 2) // kinds, an hour together, a day and everything each with its time
	check(1, 2, 3, 0, 0)
	p.wantQueries(t, 3) // each on its rung; what is missing is not asked for
	c.Time = c.Add(59 * time.Second)
	check(1, 2, 3, 0, 0)
	p.wantQueries(t, 3)
	c.Time = c.Add(time.Second)
	check(1, 2, 3, 0, 0)
	p.wantQueries(t, 1, 3, 1, 1) // kinds for the unknown key; once more for the missing one
	put(t, s, "ladder", "m", "old", 5.0, c.Add(-time.Second))
	check(1, 2, 5, 0, 0)
	p.take()
	check(1, 2, 5, 0, 0)
	for _, q := range p.wantQueries(t, 2) {
		if strings.Count(q, "time >") != 2 {
			t.Errorf("a value of a second ago is searched in everything: %q", q)
		}
	}
	put(t, s, "ladder", "m", "none", 6.0, c.Add(-time.Second))
	put(t, s, "ladder", "m", "ahead", 7.0, c.Add(-time.Second))
	check(1, 2, 5, 7, 6)
	p.wantQueries(t, 2)
	c.Time = c.Add(5 * time.Minute)
	check(1, 2, 5, 7, 6)
	p.wantQueries(t, 1, 2) // the kinds are too old
}

// testOneRequest asks for 50 keys over 17 measurements, and for all aggregates
// of booleans and floats.
func testOneRequest(t *testing.T, server *servertest.InfluxDB) {
	s, p, c := watched(t, server, "one")
	var wants []series.Want
	for i := range 50 {
		m, f := fmt.Sprint("m", i%17), fmt.Sprint("f", i/17)
		put(t, s, "one", m, f, float64(i), c.Add(-time.Minute))
		wants = append(wants, wantFor(m, f))
	}
	p.take()
	get(t, s, "one", append(wants, wants...)...)
	p.wantQueries(t, 2) // 16 measurements have three fields, one has two
	for i := range wants {
		wants[i].Aggregate = series.Mean
	}
	get(t, s, "one", append(wants, wants...)...)
	p.wantQueries(t, 2)
	put(t, s, "one", "m0", "b", true, c.Time)
	put(t, s, "one", "m1", "b", true, c.Time)
	wants = nil
	for a := series.Mean; a <= series.Sum; a++ {
		for _, f := range []string{"f0", "b"} {
			wants = append(wants, series.Want{Key: series.Key{Measurement: "m0", Field: f}, Aggregate: a},
				series.Want{Key: series.Key{Measurement: "m1", Field: f}, Aggregate: a})
		}
	}
	p.take()
	get(t, s, "one", wants...)
	p.wantQueries(t, 2)
}

// testMixedShards reads a field that is a float in one week and a boolean in another, as only
// another program can write it.
func testMixedShards(t *testing.T, server *servertest.InfluxDB) {
	s, _, c := watched(t, server, "mixed")
	for _, line := range []string{
		fmt.Sprintf("m f=2.5 %d", c.Add(-time.Hour).UnixNano()), fmt.Sprintf("m f=true %d", c.Add(-20*24*time.Hour).UnixNano()),
		fmt.Sprintf("n f=7i %d", c.Add(-time.Hour).UnixNano()), fmt.Sprintf("n f=2.5 %d", c.Add(-20*24*time.Hour).UnixNano()),
	} {
		if err := s.server.client.WriteAPIBlocking("", "mixed").WriteRecord(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	var wants []series.Want
	for a := series.Last; a <= series.Sum; a++ {
		for _, m := range []string{"m", "n"} {
			wants = append(wants, series.Want{Key: series.Key{Measurement: m, Field: "f"}, Aggregate: a, Window: 1000 * time.Hour})
		}
	}
	numbers := []float64{2.5, 7, 2.5, 4.75, 2.5, 7, 2.5, 2.5, 2.5, 9.5}
	for i, v := range get(t, s, "mixed", wants...) {
		if v.Number != numbers[i] {
			t.Errorf("%s of %s is %+v, not %v", wants[i].Aggregate, wants[i].Key, v, numbers[i])
		}
	}
}
