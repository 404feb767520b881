// Package demo is the made-up water network that `tsmon serve --demo` shows:
// what its tenant owns (Content), and values that its sensors could have
// measured (Network).
//
// A river intake feeds a reservoir. Three equal pumps lift its water, chlorinated,
// through one main to three tanks, each of which supplies a zone behind a
// pressure-reducing valve. By day a tank calls for water at a low level until a
// higher one; between 22:00 and 05:00, when electricity is cheap, all tanks are
// filled and held full. Demand follows the hour, other on weekends than on
// workdays, and noise that is a hash of the time.
//
// The values are a function of time, and no file has to keep the state behind
// them. A network is simulated from some days before its start, in steps that
// lie at the same moments for every network. In these days it forgets how it
// began: held full, tanks are at one exact volume whatever they held before;
// counters begin anew at midnight; and what else has a memory, the reservoir and
// the chlorine, loses it within hours. So networks of different starts agree
// wherever both have values, and a process that starts again goes on where
// another one ended.
package demo

import (
	"context"
	"fmt"
	"iter"
	"time"

	"tsmon/store/series"
)

const (
	// Interval is the time between two sets of samples as they are measured.
	Interval = step * time.Second
	// Span is how far back Resume begins.
	Span = 10 * day * time.Second
	// TimeZone is where the network lies.
	TimeZone = "America/Bogota"
)

// Times are seconds since 1970.
const (
	step   = 5
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour

	utcOffset = -5 * hour // of TimeZone, all year

	warmUp = 10 * day // that a network is simulated before its start
)

// batchSize is how many samples one write has at most.
const batchSize = 5000

// Network simulates the network. It is for one goroutine.
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

// Resume returns a network that goes on where the values of a database end, or
// begins Span before now where there are none so new.
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

// Until yields the samples after those it yielded before, or after the network's
// start, up to and including stop, in order of time. The last minute has a set
// every Interval, the day before stop one a minute, and what is older one every
// five minutes; so one call gives the history, a call each Interval the values
// as they are measured, and a call after a pause what was missed. A batch holds
// whole sets of one moment, 5,000 samples at most, and belongs to the caller; what
// is not taken is not yielded again.
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

// spacing returns the time between sets of samples of an age.
func spacing(age int64) int64 {
	switch {
	case age < minute:
		return step
	case age < day:
		return minute
	}
	return 5 * minute
}

// floor returns the last multiple of unit that is not above n.
func floor(n, unit int64) int64 { return n - (n%unit+unit)%unit }
