package releasing

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
	"tsmon/release"
	"tsmon/release/approval"
)

// PrintPlan writes a plan, made or not, for people.
func PrintPlan(w io.Writer, plan *release.Plan, verbose bool) {
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
	case p.DryRun && len(p.Rendered) > 0:
		state = "would bring " + renderedText(p.Rendered) + " up to date"
	case p.DryRun && p.Changed:
		state = "would move"
	case p.Waiting != nil:
		state = "waits for approvals, " + approvals(p.Waiting)
	case !p.Changed:
		state = "nothing to do"
	case len(p.Rendered) > 0:
		state = renderedText(p.Rendered) + " brought up to date"
	}
	versions := p.Version
	if p.Previous != "" && p.Previous != p.Version && !p.Action.Upkeep() { // upkeep changes nothing for clients
		versions = p.Previous + " → " + p.Version
	}
	fmt.Fprintf(w, "%s: %s, %s (entry %d, %s)\n", p.Channel, versions, state, p.Sequence, p.Action)
	if p.Rollout != nil {
		fmt.Fprintf(w, "  %s\n", showing.ShareText(p.Rollout))
	}
	fmt.Fprintf(w, "  %s\n", p.URL)
	if wait := p.Waiting; wait != nil {
		printToApprove(w, wait)
	}
	printNeeds(w, p.Needs)
	if p.Probed {
		fmt.Fprintln(w, "  fetched and verified as a client gets it")
	}
}

func printNeeds(w io.Writer, need *approval.Need) {
	if need == nil {
		return
	}
	for _, q := range need.Quorums {
		fmt.Fprintf(w, "  needs approvals of those %s: %d, from any of: %s\n", q.Of, q.Needs, strings.Join(q.Missing, ", "))
	}
	printRoot(w, need.Quorums)
	if len(need.Quorums) == 0 {
		fmt.Fprintf(w, "  needs approvals: %d, from any of: %s\n", need.Approvals, strings.Join(need.MaySign, ", "))
	}
}

func printToApprove(w io.Writer, wait *approval.Waiting) {
	fmt.Fprintf(w, "  plan %s, until %s\n", wait.Name(), wait.Expires.Format(time.RFC3339))
	fmt.Fprintf(w, "  `tsmon plan approve %s --channel %s` by one of: %s\n", wait.Name(), wait.Channel, strings.Join(wait.Missing, ", "))
	printRoot(w, wait.Quorums)
}

// printRoot prints how to replace operators who can't sign any more.
func printRoot(w io.Writer, quorums []approval.Quorum) {
	if len(quorums) > 0 {
		fmt.Fprintln(w, "  if too many of those in force have lost their keys, one of server.operators_root signs in their place")
	}
}

// renderedText names views: rings by their number, others by the file.
func renderedText(keys []string) string {
	var names []string
	rings := 0
	for _, key := range keys {
		if strings.Contains(key, "/rings/") {
			rings++
		} else {
			names = append(names, path.Base(key))
		}
	}
	if rings > 0 {
		names = append(names, cli.Count(rings, "ring", "rings"))
	}
	return strings.Join(names, " and ")
}
