package releasing

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
)

// printPlan writes a plan, made or not, for people.
func printPlan(w io.Writer, plan *release.Plan, verbose bool) {
	for _, p := range append([]*release.Plan{plan}, plan.Followers...) {
		printMove(w, p)
		fmt.Fprintln(w)
		printReach(w, p, verbose)
		fmt.Fprintln(w)
	}
}

func printMove(w io.Writer, p *release.Plan) {
	state := "moved"
	switch {
	case p.DryRun && p.Changed:
		state = "would move"
	case !p.Changed:
		state = "nothing to do"
	}
	path := p.Version
	if p.Previous != "" && p.Previous != p.Version {
		path = p.Previous + " → " + p.Version
	}
	fmt.Fprintf(w, "%s: %s, %s (entry %d, %s)\n", p.Channel, path, state, p.Sequence, p.Action)
	if p.Rollout != nil {
		fmt.Fprintf(w, "  %s\n", shareText(p.Rollout))
	}
	fmt.Fprintf(w, "  %s\n", p.URL)
	if p.Probed {
		fmt.Fprintln(w, "  fetched and verified as a client gets it")
	}
}

// printReach writes who gets what, and whom a rollback does not reach.
func printReach(w io.Writer, p *release.Plan, verbose bool) {
	rows := [][]string{{"INSTALLED", "GETS", "ON"}}
	for _, g := range groupReach(p.Reach, verbose) {
		rows = append(rows, g.rows()...)
	}
	if len(rows) > 1 { // a pause may change nothing for clients
		cli.Table(w, rows)
	}
	if p.Action == channels.Rollback && slices.ContainsFunc(p.Reach, func(r release.Reach) bool { return r.Outcome == "ahead" }) {
		fmt.Fprintf(w, "\nnot reached: clients on a version above %s keep it, the updater only goes forward;\na fixed build with a higher version reaches them\n", p.Version)
	}
	if len(p.Unbound) > 0 {
		fmt.Fprintf(w, "\nnot reached: applications that require a signed version refuse %s\n", strings.Join(p.Unbound, ", "))
	} else if p.Action == channels.Rollback {
		fmt.Fprintf(w, "\nevery signature is bound to %s: applications that require a signed version accept it\n", p.Version)
	}
}

// reachGroup is a range of installed versions whose clients get the same.
type reachGroup struct {
	first, last string
	versions    int
	lots        []lot
}

// lot is what some clients get, whatever they have.
type lot struct {
	gets    release.Reach // without version and client
	clients []string
}

// groupReach groups consecutive versions that get the same, or, verbosely, none.
func groupReach(reach []release.Reach, verbose bool) []reachGroup {
	var groups []reachGroup
	for i := 0; i < len(reach); {
		version := reach[i].Version
		g := reachGroup{first: version, last: version, versions: 1}
		for ; i < len(reach) && reach[i].Version == version; i++ {
			g.add(reach[i])
		}
		if n := len(groups) - 1; n >= 0 && !verbose && slices.EqualFunc(groups[n].lots, g.lots, equalLots) {
			groups[n].last = version
			groups[n].versions++
			continue
		}
		groups = append(groups, g)
	}
	return groups
}

func equalLots(a, b lot) bool { return a.gets == b.gets && slices.Equal(a.clients, b.clients) }

func (g *reachGroup) add(r release.Reach) {
	client := r.Target
	if r.BundleType != "" {
		client += " (" + r.BundleType + ")"
	}
	r.Version, r.Target, r.BundleType = "", "", ""
	i := slices.IndexFunc(g.lots, func(l lot) bool { return l.gets == r })
	if i < 0 {
		i = len(g.lots)
		g.lots = append(g.lots, lot{gets: r})
	}
	g.lots[i].clients = append(g.lots[i].clients, client)
}

func (g *reachGroup) rows() [][]string {
	installed, kept := g.first, g.first
	if g.versions > 1 {
		installed, kept = fmt.Sprintf("%s – %s (%d)", g.first, g.last, g.versions), "theirs"
	}
	var rows [][]string
	for _, l := range g.lots {
		// A target without a bundle type stands for its bundle types.
		clients := slices.DeleteFunc(slices.Clone(l.clients), func(c string) bool {
			target, _, typed := strings.Cut(c, " (")
			return typed && slices.Contains(l.clients, target)
		})
		rows = append(rows, []string{installed, getsText(l.gets, kept), strings.Join(clients, ", ")})
	}
	return rows
}

func getsText(r release.Reach, kept string) string {
	switch r.Outcome {
	case "offered":
		return r.Offered + ", " + r.Bundle
	case "current":
		return "nothing, up to date"
	case "ahead":
		return "nothing, keeps " + kept
	case "dropped":
		return "nothing more, its platform is left out"
	}
	return "an error: " + r.Error
}
