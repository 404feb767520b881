package seriestest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tsmon/store/series"
)

// Network describes generated values. Each variable is measured at an interval for some days
// until Clock. Values have two decimals, as those of sensors do.
type Network struct {
	Variables int
	Days      int
	Every     time.Duration
}

// Quarter has five million values.
var Quarter = Network{Variables: 500, Days: 90, Every: 90 * 24 * time.Hour / 10_000}

// Values returns how many values there are.
func (n Network) Values() int {
	return n.Variables * int(time.Duration(n.Days)*24*time.Hour/n.Every)
}

// Key returns the key of a variable.
func (n Network) Key(i int) series.Key {
	return key(fmt.Sprint("site", i/5), [...]string{"flow", "pressure", "level", "power", "dose"}[i%5])
}

// Batches calls write with all values, as samples with one field, in order of time.
func (n Network) Batches(size int, write func([]series.Sample) error) error {
	random := rand.New(rand.NewPCG(1, 2))
	levels := make([]float64, n.Variables)
	keys := make([]series.Key, n.Variables)
	for i := range levels {
		levels[i], keys[i] = 10+20*random.Float64(), n.Key(i)
	}
	var batch []series.Sample
	start := Clock.Add(-time.Duration(n.Days) * 24 * time.Hour).Truncate(time.Second)
	for when := start; when.Before(Clock); when = when.Add(n.Every) {
		for i := range levels {
			levels[i] += random.NormFloat64() / 20
			batch = append(batch, series.Sample{
				Measurement: keys[i].Measurement, Fields: map[string]any{keys[i].Field: math.Round(levels[i]*100) / 100}, Time: when,
			})
			if len(batch) == size {
				if err := write(batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
	}
	return write(batch)
}

// Question is a query of a page for many variables.
type Question struct {
	Name      string
	Variables int
	Days      int
	Every     time.Duration
}

// Questions are the queries of charts.
var Questions = []Question{
	{"500 x 1 day at 15 min", 500, 1, 15 * time.Minute},
	{"50 x 90 days at 1 h", 50, 90, time.Hour},
	{"500 x 90 days at 1 d", 500, 90, 24 * time.Hour},
}

// Ranges returns the question as arguments for a store.
func (q Question) Ranges(n Network) (ranges []series.Range) {
	zone, err := time.LoadLocation("America/Bogota")
	if err != nil {
		panic(err)
	}
	for i := range q.Variables {
		ranges = append(ranges, series.Range{Key: n.Key(i), Start: Clock.Add(-time.Duration(q.Days) * 24 * time.Hour), Stop: Clock, Every: q.Every, Zone: zone})
	}
	return ranges
}

// BenchmarkQuestions runs Questions on a database that holds a network.
func BenchmarkQuestions(b *testing.B, store series.Store, database string, n Network) {
	for _, q := range Questions {
		ranges := q.Ranges(n)
		b.Run(q.Name, func(b *testing.B) {
			for b.Loop() {
				results, err := store.Series(b.Context(), database, ranges)
				if err != nil || len(results[0].Points) < int(time.Duration(q.Days)*24*time.Hour/q.Every) {
					b.Fatalf("%d points, %v", len(results[0].Points), err)
				}
			}
		})
	}
}

// BenchmarkIngest fills a new database with a network once, in batches of an import's size,
// and reports the values per second.
func BenchmarkIngest(b *testing.B, store series.Store, database string, n Network) {
	if err := store.Create(b.Context(), database); err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	err := n.Batches(20_000, func(batch []series.Sample) error {
		begin := time.Now()
		defer func() { spent += time.Since(begin) }()
		return store.Write(b.Context(), database, batch)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("wrote %d values, %.0f a second", n.Values(), float64(n.Values())/spent.Seconds())
}
