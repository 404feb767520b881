package influx

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

// patience is a server's on a busy machine, where it takes a minute for what is a second's
// work elsewhere.
const patience = 4 * time.Minute

func TestContractGemini(t *testing.T) {
	server := servertest.StartOpenGemini(t)
	limits := seriestest.Limits{
		Since: time.Unix(0, 0), Column: isColumn, Integer: 1<<63 - 513, TagsApart: true,
		Measurement: func(name string) bool { return len(name) <= 250 && !strings.ContainsAny(name, ",;/\\\u00a0") },
	}
	seriestest.SuiteWithin(t, limits, func(t *testing.T, now func() time.Time) series.Store {
		return open(t, Options{URL: server.URL, Now: now, Timeout: patience})
	})
	t.Run("Rollups", func(t *testing.T) { testRollups(t, Options{URL: server.URL, Timeout: patience}) })
}

// TestGeminiStoreKilled kills one of two stores while values are written and read. Until
// the other one has taken over, questions fail or are answered in full.
func TestGeminiStoreKilled(t *testing.T) {
	server := servertest.StartOpenGemini(t)
	s := open(t, Options{URL: server.URL, Timeout: patience})
	if err := s.Create(t.Context(), "killed"); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-time.Hour)
	var wants []series.Want
	for i := range 40 {
		wants = append(wants, series.Want{Key: series.Key{Measurement: fmt.Sprint("m", i), Field: "f"}, Aggregate: series.Sum})
	}
	written := 0
	write := func() error {
		var samples []series.Sample
		for _, want := range wants {
			at := now.Add(time.Duration(written) * time.Second)
			samples = append(samples, series.Sample{Measurement: want.Measurement, Fields: map[string]any{"f": 1.0}, Time: at})
		}
		err := s.Write(t.Context(), "killed", samples)
		if err == nil {
			written++
		}
		return err
	}
	// A write that failed may be stored: its time is that of the next one, which replaces it.
	read := func() error {
		values, err := s.Current(t.Context(), "killed", wants)
		for i, v := range values {
			if v.Number != float64(written) && v.Number != float64(written+1) {
				t.Errorf("%s is %+v after %d writes", wants[i].Key, v, written)
			}
		}
		return err
	}
	untilWell := func() {
		t.Helper()
		for failures := 0; ; failures++ {
			err := errors.Join(read(), write(), read())
			if err == nil {
				t.Logf("after %d failures", failures)
				return
			}
			if !errors.Is(err, series.ErrUnavailable) || failures > 1000 || t.Failed() {
				t.Fatalf("after %d failures: %v", failures, err)
			}
		}
	}
	for i := range server.Stores {
		untilWell()
		server.Stores[i].Stop()
		untilWell()
		server.Stores[i].Start()
	}
	untilWell()
}

// TestLatest: of two values of one series and time the later is sent.
func TestLatest(t *testing.T) {
	at := func(second int, fields map[string]any) series.Sample {
		return series.Sample{Measurement: "m", Tags: map[string]string{"a": "b"}, Time: time.Unix(int64(second), 0), Fields: fields}
	}
	other := at(1, map[string]any{"f": 9.0})
	other.Tags = nil
	samples := []series.Sample{at(1, map[string]any{"f": 1.0, "g": 1.0}), at(1, map[string]any{"h": 1.0}), other, at(1, map[string]any{"f": 2.0, "h": 2.0}), at(2, map[string]any{"f": 3.0})}
	want := []series.Sample{at(1, map[string]any{"g": 1.0}), other, samples[3], samples[4]}
	if got := latest(samples); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := latest(want); got != nil {
		t.Errorf("nothing is replaced in %v, got %v", want, got)
	}
}
