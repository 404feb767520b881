package series

import (
	"cmp"
	"time"
)

// day is the length of most days; a local day may be shorter or longer.
const day = 24 * time.Hour

// Span is a stretch of time in which all windows have the same length: they begin at
// Start and every Every after it, up to Stop. Times are nanoseconds since 1970.
type Span struct {
	Start, Stop int64
	Every       int64
}

// Spans returns the windows of a valid range, oldest first. There is one span, unless the
// windows are whole days and the clocks of the zone change. The first may begin before
// Start; the last ends at Stop.
func (r Range) Spans() []Span {
	start, stop, every := r.Start.UnixNano(), r.Stop.UnixNano(), int64(r.Every)
	if r.Every%day != 0 {
		return []Span{{start - mod(start, every), stop, every}}
	}
	zone := cmp.Or(r.Zone, time.UTC)
	days := every / int64(day)
	number := dayOf(r.Start.In(zone))
	first := int64(0)
	if days%7 == 0 {
		first = 4 // 1970-01-05 was a Monday
	}
	number -= mod(number-first, days)
	var spans []Span
	for at := midnight(number, zone); at.UnixNano() < stop; {
		n := regular(at, r.Every, r.Stop)
		if dayOf(at) != number {
			n = 1 // the zone skipped the day
		}
		next := midnight(number+n*days, zone)
		if n > 1 && next.UnixNano() != at.UnixNano()+n*every { // the clocks change at its end
			n--
			next = midnight(number+n*days, zone)
		}
		number += n * days
		length := every
		if n == 1 {
			length = next.UnixNano() - at.UnixNano()
		}
		if length > 0 { // or the zone skipped all of it
			spans = append(spans, Span{at.UnixNano(), min(next.UnixNano(), stop), length})
		}
		at = next
	}
	return spans
}

// regular returns how many windows fit between at and the next change of the clocks or
// stop, but at least one.
func regular(at time.Time, every time.Duration, stop time.Time) int64 {
	if hour, minute, second := at.Clock(); hour+minute+second != 0 {
		return 1 // the next one starts at midnight again
	}
	until := stop
	if _, end := at.ZoneBounds(); !end.IsZero() && end.Before(stop) {
		until = end
	} else {
		until = until.Add(every - 1)
	}
	return max(int64(until.Sub(at)/every), 1)
}

// mod returns the remainder of a division that rounds down.
func mod(n, by int64) int64 { return (n%by + by) % by }

// dayOf returns the number of a local day since 1970-01-01.
func dayOf(t time.Time) int64 {
	year, month, date := t.Date()
	return time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Unix() / int64(day/time.Second)
}

// midnight returns the first instant of a local day. It reads later than 00:00 where the
// clocks skip that.
func midnight(number int64, zone *time.Location) time.Time {
	utc := time.Unix(number*int64(day/time.Second), 0)
	var at time.Time
	for _, near := range []time.Duration{day, -day} { // the clocks may change between
		_, offset := utc.Add(near).In(zone).Zone()
		at = utc.Add(-time.Duration(offset) * time.Second).In(zone)
		if dayOf(at) >= number && dayOf(at.Add(-1)) < number {
			break
		}
	}
	return at
}

// Even returns the greatest divisor of an hour such that all windows begin at multiples of
// it since 1970.
func Even(spans []Span) time.Duration {
	length := int64(time.Hour)
	for _, s := range spans {
		for _, n := range []int64{s.Start, s.Every} {
			for n != 0 {
				length, n = n, length%n
			}
		}
	}
	return time.Duration(max(length, -length))
}
