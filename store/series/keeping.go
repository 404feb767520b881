package series

import (
	"cmp"
	"fmt"
	"time"
)

// RollupFactor is how many times as long as its values a database keeps their rollups.
const RollupFactor = 5

// RollupsSuffix ends the names of the databases in which an adapter keeps rollups.
// ValidDatabase refuses it.
const RollupsSuffix = ".rollups"

// Bounds of Keeping.Retention other than zero.
const (
	MinRetention = 24 * time.Hour
	MaxRetention = 20 * 366 * 24 * time.Hour
)

// AsItIs stands for the retention that a database has already.
const AsItIs time.Duration = -1

// Keeping says how a database keeps values.
type Keeping struct {
	Retention time.Duration  // of a value, from its time on; zero means for ever; or AsItIs
	Zone      *time.Location // whose days readers ask for; nil means UTC
}

// ValidKeeping reports a retention that is neither zero nor AsItIs nor between
// MinRetention and MaxRetention. The error wraps ErrInvalid.
func ValidKeeping(k Keeping) error {
	if k.Retention != 0 && k.Retention != AsItIs && (k.Retention < MinRetention || k.Retention > MaxRetention) {
		return fmt.Errorf("retention: %w: %s is not between %s and %s", ErrInvalid, k.Retention, MinRetention, MaxRetention)
	}
	return nil
}

// Grain returns how long the parts of an hour are that rollups for a zone need: an hour,
// half of one or a quarter. It is the longest of which all days of the zone since 1990 have
// begun at a multiple, counted from 1970 in UTC.
func Grain(zone *time.Location) time.Duration {
	zone = cmp.Or(zone, time.UTC)
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
