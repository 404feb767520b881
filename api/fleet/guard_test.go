package fleet

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestGuardHalts(t *testing.T) {
	for _, c := range []struct {
		guard         Guard
		failed, tried int
		want          bool
	}{
		{DefaultGuard, 0, 0, false}, {DefaultGuard, 49, 49, false}, {DefaultGuard, 1, 50, false}, // 2 % is not more than 2 %
		{DefaultGuard, 2, 50, true}, {DefaultGuard, 2, 100, false}, {DefaultGuard, 3, 100, true}, {DefaultGuard, 50, 50, true},
		{Guard{Failures: 0, Clients: 1}, 0, 1, false}, {Guard{Failures: 0, Clients: 1}, 1, 1000, true},
		{Guard{Failures: 100, Clients: 1}, 10, 10, false}, {Guard{Failures: 0.5, Clients: 1}, 1, 199, true}, {Guard{Failures: 0.5, Clients: 1}, 1, 200, false},
	} {
		if got := c.guard.Halts(c.failed, c.tried); got != c.want {
			t.Errorf("%+v with %d of %d failed: %v", c.guard, c.failed, c.tried, got)
		}
	}
}

func TestGuardCheck(t *testing.T) {
	if err := DefaultGuard.Check(); err != nil {
		t.Error(err)
	}
	for name, g := range map[string]Guard{
		"below zero": {-1, 50, time.Hour}, "above all": {100.1, 50, time.Hour}, "no number": {math.NaN(), 50, time.Hour},
		"no clients": {2, 0, time.Hour}, "no time": {2, 50, 0}, "too long": {2, 50, 169 * time.Hour},
	} {
		if err := g.Check(); !errors.Is(err, ErrGuard) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
