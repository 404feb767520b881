package series

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxNumber keeps sums finite: InfluxDB fails a whole batch for one that is not.
	maxNumber = 1e300

	maxName = 256     // bytes of a name or a tag's value
	maxText = 1 << 16 // bytes of a field of text
	maxTags = 64      // of a sample
	maxCols = 1024    // fields of a sample
)

// maxEvery is the longest window, about ten years.
const maxEvery = 3660 * 24 * time.Hour

// The bounds of a sample's time: nanoseconds since 1970 hold it, with more than maxEvery
// to spare on both sides.
var (
	earliest = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
)

// ValidName reports why a name is not valid: it must be UTF-8 of 1 to 256 bytes
// without NUL, and must not begin with an underscore, which databases reserve.
// The error wraps ErrName.
func ValidName(name string) error {
	switch {
	case name != "" && len(name) <= maxName && name[0] != '_' && simple(name):
		return nil
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > maxName:
		return fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrName, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %.80q is not UTF-8", ErrName, name)
	case strings.Contains(name, "\x00"):
		return fmt.Errorf("%w: %.80q contains NUL", ErrName, name)
	case name[0] == '_':
		return fmt.Errorf("%w: %.80q begins with an underscore", ErrName, name)
	}
	return nil
}

// ValidDatabase reports why a database's name is not valid: it must pass ValidName,
// have at most 64 bytes, begin with a letter or a digit, hold nothing but letters,
// digits, dots, underscores and hyphens, and not end in RollupsSuffix. The error wraps
// ErrName.
func ValidDatabase(name string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	if len(name) > 64 {
		return fmt.Errorf("%w: %d bytes long, at most 64 are allowed", ErrName, len(name))
	}
	if strings.HasSuffix(name, RollupsSuffix) {
		return fmt.Errorf("%w: names that end in %s are reserved", ErrName, RollupsSuffix)
	}
	for i, c := range name {
		letter := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !letter && (i == 0 || !strings.ContainsRune("._-", c)) {
			return fmt.Errorf("%w: %q in %q", ErrName, c, name)
		}
	}
	return nil
}

// ValidWants reports the first want that is not valid.
func ValidWants(wants []Want) error {
	for _, w := range wants {
		if err := w.Key.valid(); err != nil {
			return err
		}
		if w.Aggregate > Sum || w.Window < 0 || w.Window > maxEvery {
			return fmt.Errorf("%s: %w: aggregate %d over %s", w.Key, ErrInvalid, w.Aggregate, w.Window)
		}
	}
	return nil
}

// ValidRanges reports the first range that is not valid.
func ValidRanges(ranges []Range) error {
	for _, r := range ranges {
		if err := r.Key.valid(); err != nil {
			return err
		}
		if r.Every <= 0 || r.Every > maxEvery || r.Limit < 0 || !r.Start.Before(r.Stop) || !storable(r.Start) || !storable(r.Stop) {
			return fmt.Errorf("%s: %w: every %s from %s to %s", r.Key, ErrInvalid, r.Every, r.Start.UTC(), r.Stop.UTC())
		}
	}
	return nil
}

func (k Key) valid() error {
	if err := ValidName(k.Measurement); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	if err := ValidName(k.Field); err != nil {
		return fmt.Errorf("field of %.80q: %w", k.Measurement, err)
	}
	return nil
}

func storable(t time.Time) bool { return t.After(earliest) && t.Before(latest) }

// ValidSample reports why a sample can't be stored. It needs at least one field,
// numbers of at most 1e300 either way, UTF-8 text of at most 64 KiB, a time from
// 1700 to 2249, and names that line protocol preserves, whichever database stores
// it: no control characters, no backslash at the end or before a comma, space,
// equals sign, quote or backslash, no # at the beginning of a measurement, and no
// tag or field called time. The error wraps ErrName or ErrInvalid.
func ValidSample(s Sample) error {
	if err := writable(s.Measurement); err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	if s.Measurement[0] == '#' {
		return fmt.Errorf("measurement: %w: %.80q begins with #", ErrName, s.Measurement)
	}
	if len(s.Fields) == 0 || len(s.Fields) > maxCols || len(s.Tags) > maxTags || !storable(s.Time) {
		return fmt.Errorf("%w: sample of %.80q with %d fields and %d tags at %s",
			ErrInvalid, s.Measurement, len(s.Fields), len(s.Tags), s.Time.UTC())
	}
	if err := validTags(s.Tags); err != nil {
		return fmt.Errorf("tag of %.80q: %w", s.Measurement, err)
	}
	for name, value := range s.Fields {
		if err := validField(name, value); err != nil {
			return fmt.Errorf("field of %.80q: %w", s.Measurement, err)
		}
	}
	return nil
}

func validTags(tags map[string]string) error {
	for name, value := range tags {
		if err := validColumn(name); err != nil {
			return err
		}
		if err := carried(value); err != nil || value == "" || len(value) > maxName {
			return fmt.Errorf("value of %.80q: %w: %.80q", name, ErrName, value)
		}
	}
	return nil
}

func validField(name string, value any) error {
	if err := validColumn(name); err != nil {
		return err
	}
	if _, err := KindOf(value); err != nil {
		return fmt.Errorf("%.80q: %w", name, err)
	}
	number, _ := value.(float64)
	text, _ := value.(string)
	if math.IsNaN(number) || math.Abs(number) > maxNumber {
		return fmt.Errorf("%.80q: %w: %v is not a number to store", name, ErrInvalid, number)
	}
	if len(text) > maxText || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return fmt.Errorf("%.80q: %w: %d bytes of text", name, ErrInvalid, len(text))
	}
	return nil
}

// validColumn reports why a tag or a field can't have a name.
func validColumn(name string) error {
	if name == "time" {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	return writable(name)
}

func writable(name string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	return carried(name)
}

// simple reports whether s is printable ASCII without backslashes, as nearly all names are.
func simple(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// carried reports why line protocol would not preserve a name or a tag's value.
func carried(s string) error {
	if simple(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %.80q is not UTF-8", ErrName, s)
	}
	for i, c := range s {
		if unicode.IsControl(c) {
			return fmt.Errorf("%w: %.80q contains %q", ErrName, s, c)
		}
		if c == '\\' && (i+1 == len(s) || strings.IndexByte(escapable, s[i+1]) >= 0) {
			return fmt.Errorf("%w: the backslash at byte %d of %.80q is not possible in line protocol", ErrName, i, s)
		}
	}
	return nil
}
