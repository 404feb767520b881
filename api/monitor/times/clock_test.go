package times

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/store/record"
)

func TestClockText(t *testing.T) {
	at := time.Date(2026, 8, 5, 20, 4, 9, 0, time.UTC) // a Wednesday; 15:04 in Bogotá
	for _, c := range []struct{ layout, language, want string }{
		{"", "", "05/08/26, 03:04 p. m."},
		{"", "en", "05/08/26, 03:04 PM"},
		{"Monday 2 January 2006", "", "miércoles 5 agosto 2026"},
		{"Mon 2 Jan, 3:04 pm", "es", "mié 5 ago, 3:04 p. m."},
		{"Mon 2 Jan, 3:04 pm", "en", "Wed 5 Aug, 3:04 PM"},
		{"Monday 2 January 2006", "en", "Wednesday 5 August 2026"},
		{"Janet Money 15:04", "", "Janet Money 15:04"},
		{"2 de January de 2006 (MST)", "", "5 de agosto de 2026 (-05)"},
		{"PM PM 03", "", "p. m. p. m. 03"},
	} {
		got, err := NewClock(record.Settings{TimeZone: "America/Bogota", TimeLayout: c.layout, Language: c.language})
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Text(at, false); text != c.want {
			t.Errorf("%q in %q: %q, want %q", c.layout, c.language, text, c.want)
		}
	}
}

func TestCheckSettings(t *testing.T) {
	for _, good := range []record.Settings{
		{}, {TimeLayout: "15:04"}, {TimeLayout: "3 PM"}, {TimeLayout: "02/01/06"}, {TimeLayout: "Jan 2"}, {Language: "en"}, {TimeZone: "Asia/Kathmandu"}, {TimeZone: "UTC"},
	} {
		if err := CheckSettings(good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []record.Settings{
		{TimeLayout: "at noon"}, {TimeLayout: "03:04"}, {TimeLayout: "03:04 p. m."}, {TimeLayout: "15:04 p. m."}, {TimeLayout: "3:04 A. M."}, {TimeLayout: "02/01/06, 03:04:05"},
		{Language: "de"}, {TimeZone: "Mars"}, {TimeZone: "Local"}, {TimeZone: "America"}, {TimeZone: "../../etc/passwd"}, {TimeZone: "/UTC"}, {TimeZone: "America/"},
	} {
		if err := CheckSettings(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestZoneData has a machine whose own data says something else of a zone.
func TestZoneData(t *testing.T) {
	folder := t.TempDir()
	all, err := openZones()
	if err != nil {
		t.Fatal(err)
	}
	tokyo, err := fs.ReadFile(all, "Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(folder, "America"), 0o700),
		os.WriteFile(filepath.Join(folder, "America", "Lima"), tokyo, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ZONEINFO", folder)
	zones.Delete("America/Lima")
	zone, err := ZoneOf("America/Lima")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, 3, 5, 0, 0, 0, 0, zone).Zone(); offset != -5*3600 {
		t.Errorf("the offset is %d s", offset)
	}
}

func FuzzClock(f *testing.F) {
	for _, layout := range []string{"", defaultLayout, "2006-01-02T15:04:05", "PM PM 04", "04PM05", "Jan _2 15.04", "\xff", "PM"} {
		f.Add(layout, "America/Bogota", int64(1772723045000), true)
	}
	f.Add(defaultLayout, "../../etc/passwd", int64(math.MaxInt64), false)
	f.Add(defaultLayout, "Asia/Kathmandu", int64(math.MinInt64), true)
	f.Fuzz(func(t *testing.T, layout, zone string, ms int64, seconds bool) {
		clock, err := NewClock(record.Settings{TimeLayout: layout, TimeZone: zone})
		if err != nil {
			return
		}
		at := time.UnixMilli(ms)
		text := clock.Text(at, seconds)
		if strings.Contains(clock.layout, "PM") && !strings.Contains(text, " m.") {
			t.Errorf("%q has neither a. m. nor p. m.: %q", layout, text)
		}
		if year := at.Year(); clock.layout == defaultLayout && zone == "" && year >= 0 && year < 10_000 {
			want := at.UTC().Format("02/01/06, 03:04")
			if seconds {
				want = at.UTC().Format("02/01/06, 03:04:05")
			}
			if !strings.HasPrefix(text, want+" ") {
				t.Errorf("%q, want %q", text, want)
			}
		}
	})
}
