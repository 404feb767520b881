package series

import (
	"fmt"
	"time"
)

// RollupFactor is how many times as long as its values a database keeps what they amount
// to in each hour.
const RollupFactor = 5

// RollupsSuffix ends the names of databases that adapters make for that. ValidDatabase
// refuses it.
const RollupsSuffix = ".rollups"

// Bounds of Keeping.Retention other than zero.
const (
	MinRetention = 24 * time.Hour
	MaxRetention = 20 * 366 * 24 * time.Hour
)

// AsItIs means the retention that a database has.
const AsItIs time.Duration = -1

// Keeping says how a database keeps values.
type Keeping struct {
	Retention time.Duration  // of a value, counted from its time; zero keeps it for ever; or AsItIs
	Zone      *time.Location // whose days are asked for; nil means UTC
}

// ValidKeeping reports a retention that is neither zero nor AsItIs nor between
// MinRetention and MaxRetention. The error wraps ErrInvalid.
func ValidKeeping(k Keeping) error {
	if k.Retention != 0 && k.Retention != AsItIs && (k.Retention < MinRetention || k.Retention > MaxRetention) {
		return fmt.Errorf("retention: %w: %s is not between %s and %s", ErrInvalid, k.Retention, MinRetention, MaxRetention)
	}
	return nil
}

// Grain returns the longest of an hour, a half and a quarter of it, of which the days
// of a zone begin at multiples since 1970 in UTC, and have since 1990.
func Grain(zone *time.Location) time.Duration {
	if zone == nil {
		return time.Hour
	}
	length := time.Hour
	end := time.Now().AddDate(1, 0, 0)
	for at := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(end); {
		_, offset := at.In(zone).Zone()
		for length > 15*time.Minute && time.Duration(offset)*time.Second%length != 0 {
			length /= 2
		}
		_, next := at.In(zone).ZoneBounds()
		if next.IsZero() {
			break
		}
		at = next
	}
	return length
}
