package cli

import (
	"strings"
	"testing"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/config"
)

// TestGuards: what the configuration leaves out has a default; a wrong value is a
// mistake that names it.
func TestGuards(t *testing.T) {
	of := func(g config.Guard) (fleet.Guard, config.Mistakes) {
		c := &config.Config{Channels: map[string]config.Channel{"stable": {Guard: g}}}
		return Guards(c, nil, nil).Guards["stable"], checkChannels(c)
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
		if got, mistakes := of(c.set); mistakes != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, mistakes)
		}
	}
	for name, g := range map[string]config.Guard{"failures": {Failures: &tooMuch}, "networks": {Networks: &no}} {
		if _, found := of(g); len(found) != 1 || found[0].Setting != "channels.stable.guard" || !strings.Contains(found[0].Text, name) || found[0].Mend != guardHint {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if got := Guards(&config.Config{}, nil, nil).Default; got != (fleet.Guard{Failures: 2, Networks: 3}) {
		t.Errorf("the guard of a channel that is not configured is %+v", got)
	}
}
