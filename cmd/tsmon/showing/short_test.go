package showing

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		6 * time.Hour: "6h", 90 * time.Minute: "1h30m", time.Minute: "1m", 10 * time.Minute: "10m", 20 * time.Second: "20s", 0: "0s",
		61 * time.Second: "1m1s", time.Hour + time.Second: "1h0m1s", 20 * time.Hour: "20h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
