package cli

import (
	"strings"
	"testing"
	"time"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/config"
)

// TestGuards: what the configuration leaves out has a default; a wrong value is a
// usage error that names it.
func TestGuards(t *testing.T) {
	of := func(g config.Guard) (fleet.Guard, error) {
		all, err := Guards(&config.Config{Channels: map[string]config.Channel{"stable": {Guard: g}}})
		return all["stable"], err
	}
	all, none, tooMuch := 100.0, 0.0, 100.5
	five, no, minute, seconds := 5, 0, time.Minute, 5*time.Second
	for name, c := range map[string]struct {
		set  config.Guard
		want fleet.Guard
	}{
		"defaults": {config.Guard{}, fleet.DefaultGuard},
		"never":    {config.Guard{Failures: &all}, fleet.Guard{Failures: 100, Clients: 50, Within: time.Hour}},
		"strict":   {config.Guard{Failures: &none, Clients: &five, Within: &minute}, fleet.Guard{Failures: 0, Clients: 5, Within: time.Minute}},
	} {
		if got, err := of(c.set); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, g := range map[string]config.Guard{"failures": {Failures: &tooMuch}, "clients": {Clients: &no}, "within": {Within: &seconds}} {
		_, err := of(g)
		if err == nil || !strings.Contains(err.Error(), "channels.stable.guard") || !strings.Contains(err.Error(), name) || ExitCode(err) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
