package recordtest

import (
	"fmt"
	"testing"
	"time"

	"tsmon/store/record"
)

// BenchmarkLines is the number of lines in the diagrams of Benchmarks.
const BenchmarkLines = 200

// Diagram creates a tenant with 200 variables and a diagram whose 200 lines are bound to
// them. It returns both, for Benchmarks.
func Diagram(tb testing.TB, s record.Store) (string, record.Diagram) {
	tb.Helper()
	makeTenant(tb, s, schema)
	c := record.Content{}
	d := record.Diagram{Title: "Red", Status: 1, BackgroundColor: "#ffffff"}
	for i := range BenchmarkLines {
		c.Variables = append(c.Variables, record.Variable{ID: record.ID{Text: fmt.Sprint(i), Integer: true}, Name: "Caudal", Unit: ptr("m³/h"), Type: "number",
			VarsTs: raw(`{"measurement":"estacion_%d","field":"caudal","calc_field":"caudal_c"}`, i)})
		d.Lines = append(d.Lines, record.Object{Members: raw(`{"points":{"start":{"left":%d.5,"top":20},"end":{"left":30,"top":%d}},"stroke":"#00ff00",`+
			`"strokeWidth":2,"id_tsvars":%d,"animation":1,"invertAnimation":false,"status":1}`, i, i, i)})
	}
	check(tb, s.Import(tb.Context(), schema, c))
	return schema, read(tb, s, schema, save(tb, s, schema, d))
}

// Benchmarks measures saving and reading a diagram of 200 lines. trips returns how many round
// trips the store has made; it may be nil.
func Benchmarks(b *testing.B, open func(b *testing.B) (s record.Store, trips func() int64)) {
	for _, c := range []struct {
		name string
		call func(b *testing.B, s record.Store, schema string, d record.Diagram) error
	}{
		{"Save", func(b *testing.B, s record.Store, schema string, d record.Diagram) error {
			_, err := s.SaveDiagram(b.Context(), schema, d, record.Deleted{})
			return err
		}},
		{"Read", func(b *testing.B, s record.Store, schema string, d record.Diagram) error {
			_, err := s.Diagram(b.Context(), schema, d.ID)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, trips := open(b)
			schema, d := Diagram(b, s)
			check(b, c.call(b, s, schema, d))
			before := int64(0)
			if trips != nil {
				before = trips()
			}
			b.ReportAllocs()
			for b.Loop() {
				check(b, c.call(b, s, schema, d))
			}
			if trips != nil {
				b.ReportMetric(float64(trips()-before)/float64(b.N), "trips/op")
			}
		})
	}
}

// BenchmarkSightings measures batches with SightingsSize entries of each kind. It measures
// new clients, and known clients among 10 times as many.
func BenchmarkSightings(b *testing.B, s record.Store) {
	const batches = 10
	next := 0
	sightNext := func() {
		check(b, s.Sight(b.Context(), crowd(next*SightingsSize, (next+1)*SightingsSize)))
		next++
	}
	for range batches {
		sightNext()
	}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			sightNext()
		}
	})
	b.Run("Again", func(b *testing.B) {
		some := pick(crowd(0, batches*SightingsSize), SightingsSize, 1)
		for n := 2; b.Loop(); n++ {
			for i := range SightingsSize {
				some.Installed[i].Seen, some.Tries[i].Asked = moment(n), moment(n)
			}
			check(b, s.Sight(b.Context(), some))
		}
	})
	b.Run("Clients", func(b *testing.B) {
		for b.Loop() {
			must(s.Clients(b.Context(), stable, time.Time{}))(b)
		}
		b.ReportMetric(float64(next*SightingsSize), "clients")
	})
	b.Run("Progress", func(b *testing.B) {
		for b.Loop() {
			must(s.Progress(b.Context(), stable, "2"))(b)
		}
		b.ReportMetric(float64(next*SightingsSize), "clients")
	})
	b.Run("ForgetHalf", func(b *testing.B) { benchmarkForget(b, s, next*SightingsSize, 2) })
	b.Run("ForgetLast", func(b *testing.B) { benchmarkForget(b, s, next*SightingsSize, 10) })
}

// benchmarkForget forgets a fraction of all clients, those with the greatest IDs. It reports
// the longest time that another writer had to wait.
func benchmarkForget(b *testing.B, s record.Store, clients, share int) {
	var longest time.Duration
	for b.Loop() {
		b.StopTimer()
		seen := crowd(0, clients).Merge() // sorted by id
		for i := range seen.Tries {
			if i < clients-clients/share {
				seen.Tries[i].Asked, seen.Installed[i].Seen = moment(1<<41), moment(1<<41)
			}
		}
		for from := 0; from < clients; from += SightingsSize {
			check(b, s.Sight(b.Context(), record.Sightings{
				Installed: seen.Installed[from:min(from+SightingsSize, clients)], Tries: seen.Tries[from:min(from+SightingsSize, clients)]}))
		}
		done := make(chan error)
		b.StartTimer()
		go func() {
			n, err := s.ForgetClients(b.Context(), moment(1<<41))
			if err == nil && n < int64(clients/share) {
				err = fmt.Errorf("only %d rows were forgotten", n)
			}
			done <- err
		}()
		for running := true; running; {
			select {
			case err := <-done:
				check(b, err)
				running = false
			default:
				begun := time.Now()
				check(b, s.Sight(b.Context(), record.Sightings{Installed: seen.Installed[:1]}))
				longest = max(longest, time.Since(begun))
			}
		}
	}
	b.ReportMetric(float64(longest.Milliseconds()), "ms-longest-wait")
	b.ReportMetric(float64(clients), "clients")
}
