package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// truncatedHeader names the series of which older points are left out, URL-encoded
// and separated by commas.
const truncatedHeader = "X-Tsmon-Truncated"

// maxPoints bounds the points of all series of one request.
const maxPoints = 400_000

// descriptor is an item of a series query.
type descriptor struct {
	ID             record.ID       `json:"id"`
	Measurement    string          `json:"measurement"`
	Field          string          `json:"field"`
	SamplingPeriod string          `json:"samplingPeriod"`
	Start          json.RawMessage `json:"start"`
	Stop           json.RawMessage `json:"stop"`
}

// seriesPoint is a point as clients read it.
type seriesPoint struct {
	Time  string  `json:"time"`
	Value float64 `json:"value"`
	Ts    int64   `json:"ts"` // ms since 1970
}

// truncated is an answer in which some series are incomplete.
type truncated struct {
	web.Data
	keys []string
}

// maxHeader bounds that header, in bytes; * stands for the rest.
const maxHeader = 4 << 10

// SetHeader implements web.Header.
func (t truncated) SetHeader(h http.Header) {
	text := ""
	for _, key := range t.keys {
		key = url.QueryEscape(key)
		if len(text)+len(key) > maxHeader {
			text += ",*"
			break
		}
		text += "," + key
	}
	if text != "" {
		h.Set(truncatedHeader, text[1:])
	}
}

// series answers the points of each series, oldest first.
func (v *values) series(r *http.Request, who caller) (any, error) {
	var items []descriptor
	if err := web.Decode(r, &items); err != nil {
		return nil, err
	}
	if err := web.AtMost("the query", len(items)); err != nil {
		return nil, err
	}
	ranges, err := v.ranges(items, who)
	if err != nil {
		return nil, err
	}
	keys, err := v.seriesKeys(r.Context(), who, items)
	if err != nil {
		return nil, err
	}
	results, err := v.store.Series(r.Context(), who.tenant.TsName, ranges)
	if err != nil {
		return nil, err
	}
	texts, err := newClock(who.tenant.Settings)
	if err != nil {
		return nil, err
	}
	answer := make(map[string][]seriesPoint, len(results))
	var cut []string
	for i, result := range results {
		answer[keys[i]] = texts.points(result.Points, ranges[i].Every)
		if result.Truncated {
			cut = append(cut, keys[i])
		}
	}
	return truncated{web.Data{Data: answer}, cut}, nil
}

// ranges reads the requested ranges.
func (v *values) ranges(items []descriptor, who caller) ([]series.Range, error) {
	var wrong web.Problems
	ranges := make([]series.Range, len(items))
	points := 0
	for i, item := range items {
		found, err := item.read(v.now(), time.Duration(who.tenant.Settings.SeriesRange))
		if err == nil {
			err = series.ValidRanges([]series.Range{found})
		}
		if err != nil {
			wrong.Add("item %d: %s", i, err)
			continue
		}
		ranges[i] = found
		points += found.Points()
	}
	if points > maxPoints {
		wrong.Add("the series have up to %d points together, at most %d are allowed: ask for fewer series or a longer samplingPeriod", points, maxPoints)
	}
	return ranges, wrong.Err()
}

// defaultRange is what a series covers by default.
const defaultRange = 24 * time.Hour

func (d descriptor) read(now time.Time, length time.Duration) (series.Range, error) {
	if length <= 0 {
		length = defaultRange
	}
	every, err := parsePeriod(d.SamplingPeriod)
	if err != nil {
		return series.Range{}, err
	}
	stop, err := parseTime("stop", d.Stop, now)
	if err != nil {
		return series.Range{}, err
	}
	start, err := parseTime("start", d.Start, stop.Add(-length))
	if err != nil {
		return series.Range{}, err
	}
	if !start.Before(stop) {
		return series.Range{}, fmt.Errorf("start has to be before stop")
	}
	return series.Range{Key: series.Key{Measurement: d.Measurement, Field: d.Field}, Start: start, Stop: stop, Every: every}, nil
}

var period = regexp.MustCompile(`^([1-9][0-9]{0,5})(ns|us|ms|s|m|h|d|w)$`)

var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

const maxPeriod = 3660 * 24 * time.Hour

// parsePeriod reads a samplingPeriod, such as 30s or 15m.
func parsePeriod(text string) (time.Duration, error) {
	m := period.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("samplingPeriod %.40q is not a number with one of the units ns, us, ms, s, m, h, d and w", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > int64(maxPeriod/units[m[2]]) {
		return 0, fmt.Errorf("samplingPeriod %s is longer than ten years", text)
	}
	return time.Duration(n) * units[m[2]], nil
}

// parseTime reads an instant: ms since 1970 or RFC 3339 text.
func parseTime(name string, raw json.RawMessage, unset time.Time) (time.Time, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return unset, nil
	}
	var text string
	var ms int64
	if json.Unmarshal(raw, &ms) == nil {
		return time.UnixMilli(ms), nil
	}
	if json.Unmarshal(raw, &text) == nil {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is neither milliseconds since 1970 nor a time like 2026-03-05T15:04:05Z", name)
}

// seriesKeys returns the key of each item in the answer: its id; else that of
// the one registered variable that has its measurement and field; else its
// field. Where items that ask for different series would share a key, they are
// called measurement.field.
func (v *values) seriesKeys(ctx context.Context, who caller, items []descriptor) ([]string, error) {
	var unnamed []record.Field
	for _, item := range items {
		if item.ID.Text == "" {
			unnamed = append(unnamed, item.name())
		}
	}
	known := map[record.Field]record.ID{}
	if len(unnamed) > 0 {
		var err error
		if known, err = v.records.VariablesByField(ctx, who.tenant.Schema, unnamed); err != nil {
			return nil, err
		}
	}
	keys := make([]string, len(items))
	for i, item := range items {
		switch id, ok := known[item.name()]; {
		case item.ID.Text != "":
			keys[i] = item.ID.Text
		case ok:
			keys[i] = id.Text
		default:
			keys[i] = item.Field
		}
	}
	return separate(keys, items)
}

func (d descriptor) name() record.Field {
	return record.Field{Measurement: d.Measurement, Field: d.Field}
}

// separate gives items without an id longer keys where different series share one.
func separate(keys []string, items []descriptor) ([]string, error) {
	shared := map[string]bool{}
	collisions(keys, items, func(_, i int) { shared[keys[i]] = true })
	long := slices.Clone(keys)
	for i, item := range items {
		if shared[keys[i]] && item.ID.Text == "" {
			long[i] = item.Measurement + "." + item.Field
		}
	}
	var wrong web.Problems
	collisions(long, items, func(j, i int) {
		wrong.Add("items %d and %d would both be called %.80q: give them ids", j, i, long[i])
	})
	return long, wrong.Err()
}

// collisions calls found with each item whose key an earlier one, for another series,
// has first.
func collisions(keys []string, items []descriptor, found func(first, i int)) {
	first := map[string]int{}
	for i, key := range keys {
		if j, ok := first[key]; !ok {
			first[key] = i
		} else if !items[i].same(items[j]) {
			found(j, i)
		}
	}
}

// same reports whether two items ask for the same points.
func (d descriptor) same(other descriptor) bool {
	return d.name() == other.name() && d.SamplingPeriod == other.SamplingPeriod &&
		string(d.Start) == string(other.Start) && string(d.Stop) == string(other.Stop)
}

// clock formats the time text of points.
type clock struct {
	zone   *time.Location
	layout string
}

// defaultLayout is the time text of a point: in Spanish, 12 hours, plain spaces.
const defaultLayout = "02/01/06, 03:04 PM"

func newClock(s record.Settings) (clock, error) {
	zone, err := time.LoadLocation(s.TimeZone) // UTC if it is empty
	if err != nil {
		return clock{}, fmt.Errorf("the tenant's time zone: %w", err)
	}
	layout := s.TimeLayout
	if layout == "" {
		layout = defaultLayout
	}
	return clock{zone, layout}, nil
}

// text formats a time by a layout of Go, whose PM stands for a. m. or p. m. Seconds
// are added if the layout has none.
func (c clock) text(t time.Time, seconds bool) string {
	layout := c.layout
	if seconds && !strings.Contains(layout, "05") {
		layout = strings.Replace(layout, "04", "04:05", 1)
	}
	t = t.In(c.zone)
	suffix := "a. m."
	if t.Hour() >= 12 {
		suffix = "p. m."
	}
	before, after, found := strings.Cut(layout, "PM")
	if !found {
		return t.Format(layout)
	}
	return t.Format(before) + suffix + t.Format(after)
}

func (c clock) points(points []series.Point, every time.Duration) []seriesPoint {
	out := make([]seriesPoint, len(points))
	for i, p := range points {
		out[i] = seriesPoint{c.text(p.Time, every%time.Minute != 0), p.Number, p.Time.UnixMilli()}
	}
	return out
}
