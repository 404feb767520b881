// Package demo is the fictitious water network that `tsmon serve --demo` shows:
// what its tenant owns (Content) and what its sensors measure (Network).
//
// A river intake feeds a reservoir. Three equal pumps lift its water, chlorinated,
// through one main to three tanks, each of which supplies a zone behind a
// pressure-reducing valve. By day a tank calls for water at a low level until a
// higher one; between 22:00 and 05:00, when electricity is cheap, all tanks are
// filled and held full. Demand depends on the hour and on whether it is a weekend,
// with noise that is a hash of the time.
//
// The values are a function of time, so no state has to be stored. The simulation
// begins some days before the network's start, in steps at fixed moments, and
// forgets its initial state in these days: tanks that are held full have one exact
// volume, counters restart at midnight, and the reservoir and the chlorine settle
// within hours. So networks with different starts have equal values at equal times,
// and a restarted process continues where the last one ended.
package demo

import (
	"context"
	"fmt"
	"iter"
	"time"

	"tsmon/store/series"
)

const (
	// Interval is the time between two measurements.
	Interval = step * time.Second
	// Span is how far before now Resume starts at most.
	Span = 10 * day * time.Second
	// TimeZone is the time zone of the network.
	TimeZone = "America/Bogota"
)

// Times are seconds since 1970.
const (
	step   = 5
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour

	utcOffset = -5 * hour // of TimeZone, all year

	warmUp = 10 * day // simulated before the start of a network
)

// batchSize is the largest number of samples in a write.
const batchSize = 5000

// Network simulates the network. It is not safe for concurrent use.
type Network struct {
	at        int64 // a multiple of step
	reservoir reservoir
	station   station
	tanks     [len(zones)]tank
}

// New returns a network whose first samples will be those after start.
func New(start time.Time) *Network {
	first := floor(start.Unix(), step)
	n := &Network{at: floor(first, day) - warmUp, reservoir: reservoir{volume: reservoirArea * usualLevel}}
	for k := range n.tanks {
		n.tanks[k] = tank{volume: zones[k].fullVolume(), chlorine: usualChlorine}
	}
	for n.at < first {
		n.advance()
	}
	return n
}

// Resume returns a network that continues the values of a database, or starts Span
// before now if the database has none since then.
func Resume(ctx context.Context, r series.Reader, database string, now time.Time) (*Network, error) {
	values, err := r.Current(ctx, database, []series.Want{{Key: series.Key{Measurement: "embalse", Field: "nivel"}, Timed: true}})
	if err != nil {
		return nil, fmt.Errorf("the last value of the demo: %w", err)
	}
	start := now.Add(-Span)
	if last := values[0]; last.Found && last.Time.After(start) {
		start = last.Time
	}
	return New(start), nil
}

// Until yields the samples since the last call, or since the network's start, up to
// and including stop, in order of time. Samples of the minute before stop are an
// Interval apart, those of the day before it a minute, and older ones five minutes.
// A batch has at most 5,000 samples, all samples of a moment are in the same batch,
// and the caller owns it. Batches that the caller does not take are lost.
func (n *Network) Until(stop time.Time) iter.Seq[[]series.Sample] {
	return func(yield func([]series.Sample) bool) {
		var batch []series.Sample
		for end := floor(stop.Unix(), step); n.at < end; {
			n.advance()
			if n.at%spacing(end-n.at) != 0 {
				continue
			}
			before := len(batch)
			batch = n.appendSamples(batch)
			if set := len(batch) - before; len(batch)+set > batchSize {
				if !yield(batch) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// spacing returns the time between samples of this age.
func spacing(age int64) int64 {
	switch {
	case age < minute:
		return step
	case age < day:
		return minute
	}
	return 5 * minute
}

// floor returns the greatest multiple of unit that is not above n.
func floor(n, unit int64) int64 { return n - (n%unit+unit)%unit }
