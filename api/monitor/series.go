package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"tsmon/api/monitor/times"
	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// descriptor is an item of a series query.
type descriptor struct {
	ID             record.ID       `json:"id"`
	Measurement    string          `json:"measurement"`
	Field          string          `json:"field"`
	SamplingPeriod string          `json:"samplingPeriod"`
	Start          json.RawMessage `json:"start"`
	Stop           json.RawMessage `json:"stop"`
}

// series answers the points of each series, oldest first. A series whose names can't
// be those of one is empty, and a header says why.
func (v *values) series(r *http.Request, who caller) (any, error) {
	var items []descriptor
	if err := web.Decode(r, &items); err != nil {
		return nil, err
	}
	if err := web.AtMost("the query", len(items)); err != nil {
		return nil, err
	}
	texts, err := times.NewClock(who.tenant.Settings)
	if err != nil {
		return nil, err
	}
	ranges, err := v.ranges(items, who, texts.Zone)
	if err != nil {
		return nil, err
	}
	keys, err := v.seriesKeys(r.Context(), who, items)
	if err != nil {
		return nil, err
	}
	answer := newSeriesAnswer(v, who.tenant.TsName, texts)
	for i, key := range keys {
		answer.add(key, ranges[i])
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.Deadline)
	defer cancel()
	if err := answer.begin(ctx); err != nil {
		return nil, err
	}
	answer.problems.log(r)
	return answer, nil
}

// ranges reads the requested ranges. Whole days are those of the zone.
func (v *values) ranges(items []descriptor, who caller, zone *time.Location) ([]series.Range, error) {
	var wrong web.Problems
	ranges := make([]series.Range, len(items))
	for i, item := range items {
		found, err := item.read(v.Now(), time.Duration(who.tenant.Settings.SeriesRange))
		found.Zone = zone
		if err == nil {
			err = series.ValidRanges([]series.Range{found})
		}
		if err != nil && (!errors.Is(err, series.ErrName) || item.Measurement == "" || item.Field == "") {
			wrong.Add("item %d: %s", i, err)
		}
		ranges[i] = found
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
	var ms float64
	if json.Unmarshal(raw, &ms) == nil && math.Abs(ms) < maxMilliseconds {
		whole := math.Floor(ms)
		return time.UnixMilli(int64(whole)).Add(time.Duration((ms - whole) * float64(time.Millisecond))), nil
	}
	if json.Unmarshal(raw, &text) == nil {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is neither milliseconds since 1970 nor a time like 2026-03-05T15:04:05Z", name)
}

// maxMilliseconds is far beyond the times that a store takes.
const maxMilliseconds = 1e15

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
		if known, err = v.variablesByField(ctx, who.tenant.Schema, unnamed); err != nil {
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

type fieldKey struct {
	schema string
	field  record.Field
}

// variablesByField returns the ids of variables as the records do, for a minute also
// without them.
func (v *values) variablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	found, err := v.Records.VariablesByField(ctx, schema, fields)
	if errors.Is(err, record.ErrUnavailable) {
		found = map[record.Field]record.ID{}
		for _, field := range fields {
			id, ok := v.Memory.names.last(fieldKey{schema, field}, knownTime)
			if !ok {
				return nil, err
			}
			if id.Text != "" {
				found[field] = id
			}
		}
		return found, nil
	}
	if err == nil {
		for _, field := range fields {
			v.Memory.names.set(fieldKey{schema, field}, found[field]) // the zero ID if there is none
		}
	}
	return found, err
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
