// Package times formats times for a tenant, with the zone data of the toolchain, which is
// the same on every machine.
package times

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tsmon/store/record"
)

// Clock formats the time text of points.
type Clock struct {
	Zone     *time.Location
	language language
	layout   string
}

// defaultLayout is the time text of a point: 12 hours, plain spaces.
const defaultLayout = "02/01/06, 03:04 PM"

// language is how one language names times.
type language struct {
	months [12]string // from January on
	days   [7]string  // from Sunday on
	am, pm string
}

// languages are those that a tenant may set; Spanish is the default.
var languages = map[string]language{
	"": spanish, "es": spanish,
	"en": {
		months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"},
		days:   [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}, am: "AM", pm: "PM",
	},
}

var spanish = language{
	months: [12]string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"},
	days:   [7]string{"domingo", "lunes", "martes", "miércoles", "jueves", "viernes", "sábado"}, am: "a. m.", pm: "p. m.",
}

// CheckSettings returns why times can't be shown by a tenant's settings.
func CheckSettings(s record.Settings) error {
	c, err := NewClock(s)
	if err != nil {
		return err
	}
	night := time.Date(2001, 11, 22, 3, 44, 55, 0, time.UTC)
	c.Zone = time.UTC
	text := c.Text(night, false)
	switch {
	case text == c.layout:
		return fmt.Errorf("the time layout %.80q shows no time", c.layout)
	case text != c.Text(night.Add(time.Hour), false) && text == c.Text(night.Add(12*time.Hour), false):
		return fmt.Errorf("the time layout %.80q shows both halves of the day alike: write PM where a. m. or p. m. belongs, or 15 for the hour", c.layout)
	case strings.Contains(strings.ToLower(c.layout), "p. m.") || strings.Contains(strings.ToLower(c.layout), "a. m."):
		return fmt.Errorf("the time layout %.80q shows one half of the day always: write PM where a. m. or p. m. belongs", c.layout)
	}
	return nil
}

// NewClock returns the clock for a tenant's settings.
func NewClock(s record.Settings) (Clock, error) {
	zone, err := ZoneOf(s.TimeZone)
	if err != nil {
		return Clock{}, fmt.Errorf("the time zone %w", err)
	}
	names, ok := languages[s.Language]
	if !ok {
		return Clock{}, fmt.Errorf("the language %.40q is neither es nor en", s.Language)
	}
	return Clock{zone, names, cmp.Or(s.TimeLayout, defaultLayout)}, nil
}

// Text formats a time by a layout of package time, in which PM is the half of the day. Names
// are those of the language. Seconds are added if the layout has none.
func (c Clock) Text(t time.Time, seconds bool) string {
	return string(c.AppendText(nil, t, seconds))
}

// AppendText is Text that appends to dst.
func (c Clock) AppendText(dst []byte, t time.Time, seconds bool) []byte {
	layout := c.layout
	if seconds && !strings.Contains(layout, "05") {
		layout = strings.Replace(layout, "04", "04:05", 1)
	}
	t = t.In(c.Zone)
	for layout != "" {
		at, length, name := c.language.next(layout, t)
		dst = append(t.AppendFormat(dst, layout[:at]), name...)
		layout = layout[at+length:]
	}
	return dst
}

// next finds the first element of a layout that differs between languages: where it
// is, how long, and the text for a time. It returns the layout's end if there is none.
func (l language) next(layout string, t time.Time) (at, length int, name string) {
	for at := range len(layout) {
		rest := layout[at:]
		switch rest[0] {
		case 'P', 'p':
			if half := rest[:min(2, len(rest))]; half == "PM" || half == "pm" {
				if t.Hour() < 12 {
					return at, 2, l.am
				}
				return at, 2, l.pm
			}
		case 'J':
			if length := element(rest, "January"); length > 0 {
				return at, length, shorten(l.months[t.Month()-1], length)
			}
		case 'M':
			if length := element(rest, "Monday"); length > 0 {
				return at, length, shorten(l.days[t.Weekday()], length)
			}
		}
	}
	return len(layout), 0, ""
}

// element returns the length of a name that the layout begins with: all of it, or its
// first three letters without another lower-case one after them.
func element(layout, name string) int {
	switch {
	case strings.HasPrefix(layout, name):
		return len(name)
	case strings.HasPrefix(layout, name[:3]) && (len(layout) == 3 || layout[3] < 'a' || layout[3] > 'z'):
		return 3
	}
	return 0
}

// shorten returns the name for a layout's element of this length: all of it, or three letters.
func shorten(name string, length int) string {
	if length > 3 {
		return name
	}
	return string([]rune(name)[:3])
}
