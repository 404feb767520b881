package guarding

import (
	"strings"
	"testing"

	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/release"
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

// TestDrawGroups: the table shows clients by target, type and cohort over all versions,
// where there is more than one kind.
func TestDrawGroups(t *testing.T) {
	a := &fleet.Adoption{Channel: "stable", Version: "1.1.0", Groups: []fleet.GroupCount{
		{Version: "1.1.0", Target: "linux-x86_64", Type: "deb", Cohort: "internal", Clients: 2},
		{Version: "1.0.0", Target: "linux-x86_64", Type: "deb", Cohort: "internal", Clients: 3},
		{Version: "1.0.0", Target: "linux-x86_64", Clients: 4},
	}}
	var text strings.Builder
	drawAdoption(&text, a)
	var rows []string
	for line := range strings.Lines(text.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	all := strings.Join(rows, "\n")
	if want := "TARGET TYPE COHORT CLIENTS\nlinux-x86_64 4\nlinux-x86_64 deb internal 5\n"; !strings.Contains(all, want) {
		t.Errorf("%s lacks %s", all, want)
	}
}

// TestDrawOpinion: an adoption shows what the release and the one before came to, with
// bounds. The table by target says how likely chance alone is, never that it is impossible.
func TestDrawOpinion(t *testing.T) {
	o := &fleet.Opinion{
		Version: "1.1.0", Before: "1.0.0", Decision: verdict.Halt, Why: "it fails",
		Clients: verdict.Sums{Failing: 21, Waiting: 5, Healthy: 74, Offered: 3}, BeforeClients: &verdict.Sums{Failing: 4, Healthy: 396},
		Groups: []fleet.OutcomeGroup{{Target: "linux-x86_64", Failing: 20, Waiting: 5, Healthy: 70, Doubt: 1e-17}, {Failing: 1, Healthy: 4, Doubt: 0.25}},
	}
	guard, err := verdict.New(0.02, o.BeforeClients)
	if err == nil {
		o.Verdict, err = guard.Judge(o.Clients, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	drawAdoption(&text, &fleet.Adoption{Channel: "stable", Version: "1.0.0", Rollout: &release.Share{Version: "1.1.0", Percent: 5}, Guard: o})
	for _, want := range []string{
		"guard: halt: it fails\n", "\n                 1.1.0             1.0.0\nfailing          21                4\nwaiting          5                 0\nhealthy          74                396\n",
		"\nfailing, bounds  12.1 % to 32.4 %  0.0774 % to 3.91 %\n", "linux-x86_64", "below 0.1 %\n", "at most 25 %\n", "(not known)",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s lacks %q", &text, want)
		}
	}
}
