package monitor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/store/record"
	"tsmon/store/series"
	"tsmon/store/series/seriestest"
)

// fetch sends a prepared request and reads the answer to its end.
func fetch(b *testing.B, method, address string, header http.Header, body []byte) []byte {
	r, err := http.NewRequestWithContext(b.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header = header
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode/100 != 2 {
		b.Fatalf("%s: %d %.200s %v", address, got.StatusCode, text, err)
	}
	return text
}

// viewOf returns a batch of the variables of seriestest.View.
func viewOf(b *testing.B) []byte {
	var items []any
	for i, want := range seriestest.View() {
		items = append(items, map[string]any{"dataTs": map[string]any{"id": i, "name": want.Field, "unit": "m",
			"varsTs": map[string]string{"measurement": want.Measurement, "field": want.Field}}})
	}
	return apitest.Must[[]byte](b)(json.Marshal(items))
}

// median returns the median in milliseconds.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// BenchmarkBatch measures the view of 50 variables over 17 measurements on
// InfluxDB, the cache cold each time, in turn with the best single request to
// InfluxDB that could be written by hand for the same values, and with 50 requests
// one after another: to InfluxDB, and to /dataTs. It reports medians.
func BenchmarkBatch(b *testing.B) {
	w := apitest.StartServers(b).World(b)
	w.Clock.Move(seriestest.Clock.Sub(w.Clock.Now()) + 5*time.Second)
	seriestest.Fill(b, w.Series, w.Ana.TsName)
	w.Settle(w.Ana.TsName)
	var calls atomic.Int64
	w.Now = func() time.Time { // nothing is fresh, but users are looked up seldom
		return w.Clock.Now().Add(time.Duration(calls.Add(1)) * 3 * time.Second)
	}
	server := w.Serve(b)
	token := w.LogIn(b, server, w.Ana).Token
	header := http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	body := viewOf(b)

	from := seriestest.Clock.Add(-time.Hour).UnixNano()
	byHand := w.InfluxURL + "/query?db=" + w.Ana.TsName + "&epoch=ns&q=" + url.QueryEscape(fmt.Sprintf(
		"SELECT last(f0), last(f1), last(f2) FROM %s WHERE time > %d", strings.Join(measurements(), ", "), from))
	single := func(want series.Want) string {
		return w.InfluxURL + "/query?db=" + w.Ana.TsName + "&epoch=ns&q=" + url.QueryEscape(fmt.Sprintf(
			"SELECT last(%s) FROM %s WHERE time > %d", want.Field, want.Measurement, from))
	}
	var batch, hand, singles, ours []time.Duration
	took := func(times *[]time.Duration, f func()) {
		began := time.Now()
		f()
		*times = append(*times, time.Since(began))
	}
	if got := fetch(b, "POST", server.URL+"/multipleDataTs", header, body); bytes.Contains(got, []byte("null")) {
		b.Fatalf("values are missing: %s", got)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	turns := []func(){
		func() { took(&batch, func() { fetch(b, "POST", server.URL+"/multipleDataTs", header, body) }) },
		func() { took(&hand, func() { fetch(b, "GET", byHand, nil, nil) }) },
		func() {
			took(&singles, func() {
				for _, want := range seriestest.View() {
					fetch(b, "GET", single(want), nil, nil)
				}
			})
		},
		func() {
			took(&ours, func() {
				for _, want := range seriestest.View() {
					fetch(b, "POST", server.URL+"/dataTs", header, fmt.Appendf(nil, `{"measurement":%q,"calc_field":%q}`, want.Measurement, want.Field))
				}
			})
		},
	}
	for b.Loop() {
		for _, turn := range rand.Perm(len(turns)) { // what comes after what is not always the same
			turns[turn]()
		}
	}
	b.ReportMetric(median(batch), "ms-batch")
	b.ReportMetric(median(hand), "ms-by-hand")
	b.ReportMetric(median(singles), "ms-50-singles")
	b.ReportMetric(median(ours), "ms-50-dataTs")
	b.ReportMetric(median(singles)/median(batch), "times-faster")
}

func measurements() []string {
	var names []string
	for _, want := range seriestest.View() {
		if !slices.Contains(names, want.Measurement) {
			names = append(names, want.Measurement)
		}
	}
	return names
}

// BenchmarkWarm measures the same view from the cache: the cost of the server itself.
func BenchmarkWarm(b *testing.B) {
	w := apitest.Embedded(b)
	w.Clock.Move(seriestest.Clock.Sub(w.Clock.Now()) + 5*time.Second)
	seriestest.Fill(b, w.Series, w.Ana.TsName)
	still := w.Clock.Now()
	w.Now = func() time.Time { return still }
	handler := api.New(w.Options)
	defer handler.Close()
	routes := handler.Handler()
	token := strings.TrimPrefix(w.LogIn(b, w.Serve(b), w.Ana).Token, "Bearer ")
	body := viewOf(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/multipleDataTs", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		got := httptest.NewRecorder()
		routes.ServeHTTP(got, r)
		if got.Code != 200 {
			b.Fatalf("%d %s", got.Code, got.Body)
		}
	}
}

// BenchmarkDiagram measures saving and reading a diagram of 200 lines through
// HTTP, on PostgreSQL.
func BenchmarkDiagram(b *testing.B) {
	w := apitest.StartServers(b).World(b)
	apitest.ImportGrants(b, w)
	server := w.Serve(b)
	ana := w.LogIn(b, server, w.Ana)
	c := record.Content{}
	var lines []string
	for i := range 200 {
		c.Variables = append(c.Variables, record.Variable{ID: record.ID{Text: fmt.Sprint(i), Integer: true}, Name: "Caudal", Type: "number", VarsTs: []byte(apitest.FormNivel)})
		lines = append(lines, fmt.Sprintf(`{"id":%d,"points":{"start":{"left":%d.5,"top":20},"end":{"left":30,"top":%d}},"stroke":"#00ff00","strokeWidth":2,"id_tsvars":%d,"animation":1,"invertAnimation":false,"status":1}`, i+1, i, i, i))
	}
	if err := w.Records.Import(b.Context(), w.Ana.Schema, c); err != nil {
		b.Fatal(err)
	}
	id := saveAs(ana, `{"diagram":{"title":"Red"}}`)
	body := []byte(fmt.Sprintf(`{"diagram":{"id":%d,"title":"Red"},"lines":[%s]}`, id, strings.Join(lines, ",")))
	header := http.Header{"Authorization": {"Bearer " + ana.Token}, "Content-Type": {"application/json"}}
	b.Run("save", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			fetch(b, "POST", server.URL+"/saveDiagram", header, body)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.SetBytes(int64(len(fetch(b, "GET", fmt.Sprintf("%s/getObjectCanva?id=%d", server.URL, id), header, nil))))
		}
	})
}
