package series_test

import (
	"testing"
	"time"

	"tsmon/store/series"
)

// TestSpans compares the windows of days and weeks, across changes of the clocks, with
// windows found by looking at every quarter of an hour's date.
func TestSpans(t *testing.T) {
	for _, c := range []struct{ zone, around string }{
		{"UTC", "2026-03-05T15:04:05Z"}, {"UTC", "1969-12-30T00:00:00Z"},
		{"America/Bogota", "2026-03-05T05:00:00Z"}, {"Asia/Kathmandu", "2026-03-05T05:00:00Z"},
		{"America/New_York", "2025-03-09T07:00:00Z"}, {"America/New_York", "2025-11-02T06:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z"}, {"America/Sao_Paulo", "2018-02-18T02:00:00Z"}, // at midnight
		{"America/Havana", "2025-11-02T05:00:00Z"}, // midnight is there twice
		{"America/Havana", "2025-03-09T05:00:00Z"}, // midnight is not there
		{"Pacific/Apia", "2011-12-30T10:00:00Z"},   // nor is this day
		{"Australia/Lord_Howe", "2025-10-04T15:30:00Z"},
		{"Pacific/Kiritimati", "2026-03-05T05:00:00Z"}, {"Pacific/Pago_Pago", "1960-03-05T05:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		around, err := time.Parse(time.RFC3339, c.around)
		if err != nil {
			t.Fatal(err)
		}
		for _, days := range []int{1, 2, 3, 7, 14} {
			r := series.Range{Start: around.AddDate(0, 0, -20), Stop: around.AddDate(0, 0, 20), Every: time.Duration(days) * 24 * time.Hour, Zone: zone}
			compareSpans(t, c.zone, r, days)
		}
	}
}

// compareSpans takes the windows of a range from its spans, and from the calendar.
func compareSpans(t *testing.T, name string, r series.Range, days int) {
	t.Helper()
	var starts []int64
	end := int64(0)
	for i, s := range r.Spans() {
		if i > 0 && s.Start != end || s.Every <= 0 {
			t.Fatalf("%s, %d days: a span begins at %d and the one before ends at %d", name, days, s.Start, end)
		}
		for at := s.Start; at < s.Stop; at += s.Every {
			starts = append(starts, at)
		}
		end = s.Stop
	}
	if end != r.Stop.UnixNano() {
		t.Fatalf("%s, %d days: the spans end at %d", name, days, end)
	}
	var want []int64
	before := -1 << 40
	for at := r.Start.AddDate(0, 0, -30).Truncate(15 * time.Minute); at.Before(r.Stop); at = at.Add(15 * time.Minute) {
		if window := calendar(at.In(r.Zone), days); window != before {
			before = window
			want = append(want, at.UnixNano())
		}
	}
	for len(want) > 1 && want[1] <= r.Start.UnixNano() {
		want = want[1:]
	}
	if len(starts) != len(want) {
		t.Fatalf("%s, %d days: %d windows, want %d", name, days, len(starts), len(want))
	}
	for i, at := range starts {
		if at != want[i] {
			t.Errorf("%s, %d days: window %d starts at %s, want %s", name, days, i, time.Unix(0, at).In(r.Zone), time.Unix(0, want[i]).In(r.Zone))
		}
	}
	if r.Points() < len(starts) {
		t.Errorf("%s, %d days: %d points for %d windows", name, days, r.Points(), len(starts))
	}
}

// calendar returns the number of the window of a local time.
func calendar(t time.Time, days int) int {
	since := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	if days%7 == 0 {
		since = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	}
	since = since.AddDate(0, 0, -days*20000) // so that the division rounds down
	date := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	return int(date.Unix()-since.Unix()) / 86400 / days
}

func TestSpansOfHours(t *testing.T) {
	r := series.Range{Start: time.Unix(-10, 0), Stop: time.Unix(10, 0), Every: 7 * time.Second}
	if spans := r.Spans(); len(spans) != 1 || spans[0] != (series.Span{Start: -14e9, Stop: 10e9, Every: 7e9}) {
		t.Errorf("spans %+v", spans)
	}
}
