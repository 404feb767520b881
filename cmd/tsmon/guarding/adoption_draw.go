package guarding

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
)

const barWidth = 30 // characters

func drawAdoption(w io.Writer, r *fleet.Adoption) {
	fmt.Fprintf(w, "%s shows %s", r.Channel, r.Version)
	if r.Rollout != nil {
		fmt.Fprintf(w, "; %s", showing.ShareText(r.Rollout))
	}
	fmt.Fprintf(w, "\n%s in the last 30 days\n", clientsText(r.Clients, r.Sample))
	if r.Clients > 0 {
		rows := [][]string{{"VERSION", "CLIENTS", "SHARE", ""}}
		for _, v := range r.Versions {
			filled := strings.Repeat("█", int(v.Percent*barWidth/100+0.5))
			rows = append(rows, []string{v.Version, strconv.Itoa(v.Clients), portionText(v), filled})
		}
		fmt.Fprintln(w)
		cli.Table(w, rows)
	}
	drawGroups(w, r)
	n := r.Newest
	fmt.Fprintf(w, "\n%s: %d running, %d downloaded and waiting, %d offered; %d failed, %d crashed, %d returned without it\n",
		n.Version, n.Running, n.Waiting, n.Offered, n.Failed, n.Crashed, n.Kept)
	if n.Sample != nil {
		fmt.Fprintf(w, "(estimated from %s)\n", sampleText(n.Sample))
	}
	if o := r.Guard; o != nil {
		if r.Rollout == nil {
			fmt.Fprintln(w, "\nguard: no rollout to judge; what is known of", o.Version+":")
		} else {
			fmt.Fprintf(w, "\nguard: %s: %s\n", o.Decision, cmp.Or(o.Why, o.Verdict.Sentence))
		}
		drawClients(w, o)
		fmt.Fprintln(w)
	}
	drawCurve(w, r)
	if r.Day != nil {
		var texts []string
		for _, event := range fleet.Events {
			if r.Day[event] > 0 {
				texts = append(texts, fmt.Sprintf("%s %d", event, r.Day[event]))
			}
		}
		fmt.Fprintf(w, "last 24 hours: %s\n", cmp.Or(strings.Join(texts, ", "), "no requests"))
	}
}

// clientsText formats a number of clients, with the margin of error if it is an estimate.
func clientsText(n int, s *fleet.Sampled) string {
	if s == nil {
		return cli.Count(n, "client", "clients")
	}
	return fmt.Sprintf("%d ± %d clients, estimated from %s,", n, s.Margin, sampleText(s))
}

func sampleText(s *fleet.Sampled) string {
	text := fmt.Sprintf("one in %.0f", 1/s.Share)
	if s.OfNetwork > 0 {
		text += fmt.Sprintf(", at most %d of each network", s.OfNetwork)
	}
	return text
}

func portionText(v fleet.VersionCount) string {
	if v.Margin > 0 {
		return fmt.Sprintf("%.1f ± %.1f %%", v.Percent, v.Margin)
	}
	return fmt.Sprintf("%.1f %%", v.Percent)
}

// drawGroups writes the clients by platform, type and cohort, if there is more than one kind.
func drawGroups(w io.Writer, r *fleet.Adoption) {
	kinds := map[[3]string]int{}
	for _, g := range r.Groups {
		kinds[[3]string{g.Target, g.Type, g.Cohort}] += g.Clients
	}
	if len(kinds) < 2 {
		return
	}
	var rows [][]string
	for kind, n := range kinds {
		rows = append(rows, []string{kind[0], kind[1], kind[2], strconv.Itoa(n)})
	}
	slices.SortFunc(rows, slices.Compare)
	fmt.Fprintln(w)
	cli.Table(w, append([][]string{{"TARGET", "TYPE", "COHORT", "CLIENTS"}}, rows...))
}

var levels = []rune("▁▂▃▄▅▆▇█")

// drawCurve writes a column for each point.
func drawCurve(w io.Writer, r *fleet.Adoption) {
	if len(r.Curve) < 2 {
		return
	}
	highest := 1.0
	for _, p := range r.Curve {
		highest = max(highest, p.Clients)
	}
	line := make([]rune, len(r.Curve))
	for i, p := range r.Curve {
		line[i] = levels[min(int(p.Clients/highest*float64(len(levels))), len(levels)-1)]
	}
	last, margin := r.Curve[len(r.Curve)-1], ""
	if last.Margin > 0 {
		margin = fmt.Sprintf(" ± %d", last.Margin)
	}
	fmt.Fprintf(w, "%s since %s: %s %.0f%s\n", r.Newest.Version, r.Curve[0].Time.Format(time.RFC3339), string(line), last.Clients, margin)
}
