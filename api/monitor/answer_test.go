package monitor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/series"
)

// manySeries asks for n series of the same points, by seconds.
func manySeries(n int, start time.Time) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"id":%d,"measurement":"denso","field":"v","samplingPeriod":"1s","start":%d}`, i, start.UnixMilli()))
	}
	return "[" + strings.Join(items, ",") + "]"
}

// writeDense writes 5,000 values, one a second, and returns the time of the first.
func writeDense(t *testing.T, w *apitest.World) time.Time {
	start := w.Clock.Now().Add(-2 * time.Hour).Truncate(time.Second)
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "denso v=%d.25 %d\n", i, start.Add(time.Duration(i)*time.Second).UnixMilli())
	}
	w.Write(t, w.Ana.TsName, b.String())
	return start
}

// TestLongAnswers asks for as many points as are allowed, and for more. Only those count
// that are there. A short answer is held to the description: the long ones have its shape.
func TestLongAnswers(t *testing.T) { testLongAnswers(t, apitest.Embedded(t)) }

func testLongAnswers(t *testing.T, w *apitest.World) {
	start := writeDense(t, w)
	w.Deadline = 10 * time.Minute // under the race detector a long answer takes long
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	if got := ana.Send("POST", "/seriesDataTs", apitest.Raw(manySeries(1, start)), http.Header{"Accept-Encoding": {"gzip"}}); got.Status != 200 {
		t.Errorf("one series: %d %s", got.Status, got.Body)
	}
	ask := func(encoding string) apitest.Answer {
		return ana.Attempt(apitest.NewRoute("POST", "/seriesDataTs", manySeries(80, start)), http.Header{"Accept-Encoding": {encoding}})
	}
	plain := ask("identity")
	var body struct {
		Data map[string][]struct {
			Time  string
			Value float64
			Ts    int64
		}
	}
	apitest.ReadJSON(t, plain.Body, &body)
	if len(body.Data) != 80 {
		t.Fatalf("%d series", len(body.Data))
	}
	for key, points := range body.Data {
		last := points[len(points)-1]
		if len(points) != 5000 || last.Value != 4999.25 || last.Ts != start.Add(4999*time.Second).UnixMilli() || points[0].Value != 0.25 {
			t.Fatalf("%s has %d points until %+v", key, len(points), last)
		}
	}
	packed := ask("gzip")
	z, err := gzip.NewReader(bytes.NewReader(packed.Body))
	if err != nil {
		t.Fatal(err)
	}
	if unpacked, err := io.ReadAll(z); err != nil || !bytes.Equal(unpacked, plain.Body) {
		t.Errorf("%d bytes unpacked, want %d: %v", len(unpacked), len(plain.Body), err)
	}
	if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.Body) > len(plain.Body)/5 {
		t.Errorf("%d of %d bytes, %q", len(packed.Body), len(plain.Body), packed.Header.Get("Content-Encoding"))
	}
	if text := ana.Post("/seriesDataTs", apitest.Raw(manySeries(81, start))).WantFailure(t, 500); !strings.Contains(text, "400000") {
		t.Errorf("too many points: %s", text)
	}
	// What might be there does not count: a thousand series over centuries.
	many := strings.ReplaceAll(manySeries(1000, time.Date(1701, 1, 1, 0, 0, 0, 0, time.UTC)), "denso", "nada")
	if got := ana.Post("/seriesDataTs", apitest.Raw(many)).Data(t).(map[string]any); len(got) != 1000 {
		t.Errorf("%d series without points", len(got))
	}
}

// dying is a store that fails after a number of questions.
type dying struct {
	series.Store
	left atomic.Int64
}

func (d *dying) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	if d.left.Add(-1) < 0 {
		return nil, fmt.Errorf("%s: %w", apitest.Detail, series.ErrUnavailable)
	}
	return d.Store.Series(ctx, database, ranges)
}

// TestCutAnswer has the database die when half of an answer is sent: nobody may take
// that for the whole.
func TestCutAnswer(t *testing.T) {
	w := apitest.Embedded(t)
	writeDense(t, w)
	store := &dying{Store: w.Series}
	store.left.Store(1)
	w.Series = store
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	var items []string
	for i := range 40 { // more than one part, none of which may be truncated
		items = append(items, fmt.Sprintf(`{"id":%d,"measurement":"denso","field":"v","samplingPeriod":"1h","start":%d}`, i, w.Clock.Now().AddDate(0, 0, -90).UnixMilli()))
	}
	body := "[" + strings.Join(items, ",") + "]"
	for _, encoding := range []string{"identity", "gzip"} {
		store.left.Store(1)
		r := apitest.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", ana.Base+"/seriesDataTs", strings.NewReader(body)))
		r.Header = http.Header{"Authorization": {"Bearer " + ana.Token}, "Content-Type": {"application/json"}, "Accept-Encoding": {encoding}}
		got, err := http.DefaultClient.Do(r)
		if err == nil { // the beginning may be on its way, or not
			var text []byte
			text, err = io.ReadAll(got.Body)
			got.Body.Close()
			if json.Valid(text) {
				t.Errorf("%s: a cut answer reads as a whole one: %.100s", encoding, text)
			}
		}
		if err == nil {
			t.Errorf("%s: the connection was not cut", encoding)
		}
	}
	if log := w.Logged.String(); !strings.Contains(log, "the answer was cut") || !strings.Contains(log, apitest.Detail) || !strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log says %s", log)
	}
	store.left.Store(0)
	if text := ana.Post("/seriesDataTs", apitest.Raw(body)).WantFailure(t, 500); !strings.Contains(text, "can't be reached") {
		t.Errorf("before the first byte: %s", text)
	}
}

// TestBusy has every turn taken by questions that hang. What can't begin is refused as
// busy, in its time, and current values are answered.
func TestBusy(t *testing.T) {
	w := apitest.Embedded(t)
	writeDense(t, w)
	f := apitest.Unsteady(w)
	patient := w.LogIn(t, w.Serve(t), w.Ana)
	hasty := patient
	hasty.Base = w.ServeHasty(t).URL
	asked := make(chan struct{}, 10)
	f.Set(func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, "series.Series")
	ctx, cancel := context.WithCancel(t.Context())
	item := `[{"measurement":"denso","field":"v","samplingPeriod":"1h"}]`
	ended := make(chan error, 2)
	for range 2 { // both turns
		go func() {
			r, err := http.NewRequestWithContext(ctx, "POST", hasty.Base+"/seriesDataTs", strings.NewReader(item))
			if err == nil {
				r.Header = http.Header{"Authorization": {"Bearer " + hasty.Token}, "Content-Type": {"application/json"}}
				_, err = http.DefaultClient.Do(r)
			}
			ended <- err
		}()
	}
	<-asked
	<-asked
	got := hasty.Post("/seriesDataTs", apitest.Raw(item))
	if text := got.WantFailure(t, 500); !strings.Contains(text, "busy") || strings.Contains(text, "reached") || got.Header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", text, got.Header.Get("Retry-After"))
	}
	hasty.Post("/dataTs", apitest.Raw(`{"measurement":"denso","calc_field":"v"}`)).WantData(t, `{"v":{"value":4999.25}}`)
	cancel()
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
