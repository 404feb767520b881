package cli

import (
	"strings"
	"testing"

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
	all, none, tooMuch := config.Percent(100), config.Percent(0), config.Percent(100.5)
	five, no := 5, 0
	for name, c := range map[string]struct {
		set  config.Guard
		want fleet.Guard
	}{
		"defaults": {config.Guard{}, fleet.Guard{Failures: 2, Networks: 3}},
		"never":    {config.Guard{Failures: &all}, fleet.Guard{Failures: 100, Networks: 3}},
		"strict":   {config.Guard{Failures: &none, Networks: &five}, fleet.Guard{Failures: 0, Networks: 5}},
	} {
		if got, err := of(c.set); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, g := range map[string]config.Guard{"failures": {Failures: &tooMuch}, "networks": {Networks: &no}} {
		_, err := of(g)
		if err == nil || !strings.Contains(err.Error(), "channels.stable.guard") || !strings.Contains(err.Error(), name) || ExitCode(err) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
