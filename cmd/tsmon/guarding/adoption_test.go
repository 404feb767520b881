package guarding

import (
	"strings"
	"testing"

	"tsmon/api/fleet"
)

// TestDrawSampled: figures of a sample say that they are estimates, and how good ones.
func TestDrawSampled(t *testing.T) {
	a := &fleet.Adoption{
		Channel: "stable", Version: "1.1.0", Clients: 800000, Sample: &fleet.Sampled{Share: 0.125, Margin: 4638},
		Versions: []fleet.VersionCount{{Version: "1.1.0", Clients: 800000, Percent: 12.3, Margin: 0.2}},
		Newest:   fleet.NewestCounts{Version: "1.1.0", Running: 4, Sample: &fleet.Sampled{Share: 0.5, Margin: 9, OfNetwork: 40}},
	}
	draw := func() string {
		var text strings.Builder
		drawAdoption(&text, a)
		return text.String()
	}
	for _, want := range []string{"800000 ± 4638 clients, estimated from one in 8, in the last 30 days\n", "12.3 ± 0.2 %", "(estimated from one in 2, at most 40 of each network)"} {
		if text := draw(); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", text, want)
		}
	}
	a.Curve = []fleet.CurvePoint{{Clients: 10, Margin: 3}, {Clients: 80, Margin: 24}}
	if text := draw(); !strings.Contains(text, "▂█ 80 ± 24\n") {
		t.Error(text)
	}
	a.Sample, a.Newest.Sample, a.Versions[0].Margin, a.Curve = nil, nil, 0, nil
	if text := draw(); strings.Contains(text, "±") || strings.Contains(text, "estimated") {
		t.Error(text)
	}
}
