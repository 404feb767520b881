package sqlite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"tsmon/store/series"
)

// model is the store as a plain map, the slowest and simplest that there is.
type model map[series.Key]map[string]map[int64]float64

func (m model) write(samples []series.Sample) {
	for _, s := range samples {
		for field, value := range s.Fields {
			key := series.Key{Measurement: s.Measurement, Field: field}
			if m[key] == nil {
				m[key] = map[string]map[int64]float64{}
			}
			tags := s.Tags["t"]
			if m[key][tags] == nil {
				m[key][tags] = map[int64]float64{}
			}
			switch v := value.(type) {
			case float64:
				m[key][tags][s.Time.UnixNano()] = v
			case int64:
				m[key][tags][s.Time.UnixNano()] = float64(v)
			case bool:
				m[key][tags][s.Time.UnixNano()] = map[bool]float64{true: 1}[v]
			}
		}
	}
}

// values returns the numbers of a key from start until just before stop, sorted by
// time and then by number.
func (m model) values(key series.Key, start, stop int64) (times []int64, numbers []float64) {
	type pair struct {
		t int64
		n float64
	}
	var all []pair
	for _, points := range m[key] {
		for t, n := range points {
			if t >= start && t < stop {
				all = append(all, pair{t, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b pair) int {
		if a.t != b.t {
			return int(min(1, max(-1, a.t-b.t)))
		}
		return int(math.Copysign(1, a.n-b.n))
	})
	for _, p := range all {
		times, numbers = append(times, p.t), append(numbers, p.n)
	}
	return times, numbers
}

func (m model) series(r series.Range, now int64) series.Result {
	var points []series.Point
	var sum, count float64
	times, numbers := m.values(r.Key, r.Start.UnixNano(), min(r.Stop.UnixNano(), now+1))
	for i, t := range times {
		start := time.Unix(0, startOf(r, t)).UTC()
		if n := len(points); n == 0 || !points[n-1].Time.Equal(start) {
			points, sum, count = append(points, series.Point{Time: start}), 0, 0
		}
		sum, count = sum+numbers[i], count+1
		points[len(points)-1].Number = sum / count
		if r.Field == "b" {
			points[len(points)-1].Number = numbers[i]
		}
	}
	slices.Reverse(points)
	return series.NewestFirst(points, r.Points())
}

// startOf returns where the window of a time begins.
func startOf(r series.Range, t int64) (start int64) {
	for _, span := range r.Spans() {
		if span.Start <= t {
			start = t - (t-span.Start)%span.Every
		}
	}
	return start
}

func (m model) current(w series.Want, now int64) series.Value {
	w = w.Normal()
	start := int64(math.MinInt64)
	if w.Aggregate != series.Last {
		start = now - int64(w.Window) + 1
	}
	times, numbers := m.values(w.Key, start, now+1)
	if len(times) == 0 {
		return series.Value{}
	}
	v := series.Value{Found: true, Time: time.Unix(0, now).UTC()}
	switch w.Aggregate {
	case series.Last:
		v.Time, v.Number = time.Time{}, numbers[len(numbers)-1]
	case series.Min:
		v.Number = slices.Min(numbers)
	case series.Max:
		v.Number = slices.Max(numbers)
	default:
		for _, n := range numbers {
			v.Number += n
		}
		if w.Aggregate == series.Mean {
			v.Number /= float64(len(numbers))
		}
	}
	return v
}

// near reports whether two numbers are the same but for the order of additions.
func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-12*max(math.Abs(a), math.Abs(b), 1)
}

// years is a store of four fields in a random life: values in order, late,
// corrected, ahead of the clock, and packed at any time.
type years struct {
	*rand.Rand
	store *Store
	model model
	now   time.Time
	zone  *time.Location
}

// present is when a life begins.
var present = time.Date(2026, 3, 5, 15, 4, 5, 0, time.UTC)

func newYears(t *testing.T, name string, seed byte) *years {
	y := &years{Rand: rand.New(rand.NewChaCha8([32]byte{seed})), model: model{}, now: present}
	zone, err := time.LoadLocation([]string{"UTC", "America/Bogota", "America/New_York", "Asia/Kathmandu", "Asia/Kolkata"}[seed%5])
	if err != nil {
		t.Fatal(err)
	}
	y.zone = zone
	y.store = open(t, name, Options{Now: func() time.Time { return y.now }})
	if err := y.store.Create(t.Context(), "db"); err != nil {
		t.Fatal(err)
	}
	return y
}

// samples returns samples around a time some days ago.
func (y *years) samples() (samples []series.Sample) {
	from := y.now.Add(-time.Duration(y.IntN(5*24*60)) * time.Minute).Truncate(time.Minute)
	every := []time.Duration{time.Minute, 7 * time.Minute, time.Second, 1234567 * time.Nanosecond, 5 * time.Hour}[y.IntN(5)]
	tag := []string{"", "a", "b"}[y.IntN(3)]
	for i := range 1 + y.IntN(80)*(1+9*y.IntN(2)) {
		s := series.Sample{Measurement: "m", Time: from.Add(time.Duration(i) * every), Fields: map[string]any{
			"f": math.Round(y.NormFloat64()*1000) / 1000, "x": y.NormFloat64(), "i": int64(y.IntN(1000) - 500), "b": y.IntN(2) == 0,
		}}
		if tag != "" {
			s.Tags = map[string]string{"t": tag}
		}
		samples = append(samples, s)
	}
	return samples
}

// check compares answers with those of the model.
func (y *years) check(t *testing.T) {
	t.Helper()
	var ranges []series.Range
	var wants []series.Want
	for _, field := range []string{"f", "x", "i", "b", "none"} {
		key := series.Key{Measurement: "m", Field: field}
		start := y.now.Add(-time.Duration(y.IntN(7*24*3600)) * time.Second)
		every := []time.Duration{time.Minute, time.Hour, 17 * time.Minute, 24 * time.Hour, 6 * time.Hour, 7 * 24 * time.Hour}[y.IntN(6)]
		if y.IntN(3) == 0 {
			start = start.Truncate(every)
		}
		stop := start.Add(time.Duration(1+y.IntN(8*24*3600)) * time.Second)
		ranges = append(ranges, series.Range{Key: key, Start: start, Stop: stop, Every: every, Limit: y.IntN(40), Zone: y.zone})
		for a := series.Last; a <= series.Sum; a++ {
			wants = append(wants, series.Want{Key: key, Aggregate: a, Window: time.Duration(1+y.IntN(4*24*3600)) * time.Second})
		}
	}
	results, err := y.store.Series(t.Context(), "db", ranges)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range results {
		want := y.model.series(ranges[i], y.now.UnixNano())
		same := slices.EqualFunc(got.Points, want.Points, func(a, b series.Point) bool { return a.Time.Equal(b.Time) && near(a.Number, b.Number) })
		if !same || got.Truncated != want.Truncated {
			t.Fatalf("%+v\nis    %+v\nnot   %+v", ranges[i], got, want)
		}
	}
	values, err := y.store.Current(t.Context(), "db", wants)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range values {
		want := y.model.current(wants[i], y.now.UnixNano())
		if got.Found != want.Found || !near(got.Number, want.Number) || !got.Time.Equal(want.Time) {
			t.Fatalf("%+v\nis  %+v\nnot %+v", wants[i], got, want)
		}
	}
}

func TestSameAnswers(t *testing.T) {
	for seed := range byte(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			y := newYears(t, filepath.Join(t.TempDir(), "series.db"), seed)
			for range 60 {
				samples := y.samples()
				y.model.write(samples)
				if err := y.store.Write(t.Context(), "db", samples); err != nil {
					t.Fatal(err)
				}
				switch y.IntN(6) {
				case 0:
					y.now = y.now.Add(time.Duration(y.IntN(7200)-1800) * time.Second)
				case 2:
					y.keep(t, series.Keeping{Zone: y.zone})
				case 1:
					if err := y.store.pack(t.Context(), y.now.Add(-time.Duration(y.IntN(48))*time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
				y.check(t)
			}
			if y.count(t, "blocks") == 0 || y.count(t, "rollups") == 0 {
				t.Error("nothing was packed, or no rollups")
			}
		})
	}
}

// TestPackedIsSmall writes what a sensor measures, and late and corrected values.
func TestPackedIsSmall(t *testing.T) {
	name := filepath.Join(t.TempDir(), "series.db")
	y := newYears(t, name, 1)
	const fields, minutes = 20, 10 * 24 * 60
	levels := make([]float64, fields)
	for begin := 0; begin < minutes; begin += 60 {
		var samples []series.Sample
		for i := begin; i < begin+60; i++ {
			s := series.Sample{Measurement: "m", Time: y.now.Add(time.Duration(i-minutes) * time.Minute).Truncate(time.Minute), Fields: map[string]any{}}
			for f := range levels {
				levels[f] += y.NormFloat64() / 100
				s.Fields["f"+strconv.Itoa(f)] = math.Round(levels[f]*1000) / 1000
			}
			samples = append(samples, s)
		}
		if err := y.store.Write(t.Context(), "db", samples); err != nil {
			t.Fatal(err)
		}
	}
	if err := y.store.pack(t.Context(), y.now); err != nil {
		t.Fatal(err)
	}
	if err := y.store.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if each := float64(info.Size()) / (fields * minutes); each > 2 {
		t.Errorf("%.2f bytes a value", each)
	}
}

func (y *years) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := y.store.file.Writer.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
