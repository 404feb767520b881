package releasing

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/release/gate"
)

func printTable(w io.Writer, reach []gate.Reach, rings, verbose bool) {
	rows := [][]string{{"INSTALLED", "GETS", "ON"}}
	static := "latest.json"
	if rings {
		static = "latest.json or ring"
	}
	for _, g := range groupReach(reach, static, verbose) {
		rows = append(rows, g.rows()...)
	}
	if len(rows) > 1 { // a pause may change nothing for clients
		cli.Table(w, rows)
	}
}

// printReach prints what each kind of client gets, and which clients a rollback can't reach.
func printReach(w io.Writer, p *release.Plan, verbose bool) {
	printTable(w, p.Reach, p.Rings, verbose)
	if p.Action == channels.Rollback && slices.ContainsFunc(p.Reach, func(r gate.Reach) bool { return r.Outcome == "ahead" }) {
		fmt.Fprintf(w, "\nnot reached: clients on a version above %s keep it, because the updater only goes forward;\na fixed build with a higher version reaches them\n", p.Version)
	}
	if len(p.Unbound) > 0 {
		fmt.Fprintf(w, "\nnot reached: applications that require a signed version refuse %s\n", strings.Join(p.Unbound, ", "))
	} else if p.Action == channels.Rollback {
		fmt.Fprintf(w, "\nevery signature is bound to %s: applications that require a signed version accept it\n", p.Version)
	}
}

// reachGroup is a range of installed versions whose clients get the same release.
type reachGroup struct {
	first, last string
	versions    int
	lots        []lot
}

// lot is a group of clients that get the same release, regardless of their versions.
type lot struct {
	gets    gate.Reach // without version and client
	clients []client
}

// client is a kind of client, of any version.
type client struct {
	kind
	address, rollout string // in words
}

type kind struct{ target, bundleType string }

func (k kind) compare(l kind) int {
	return cmp.Or(strings.Compare(k.target, l.target), strings.Compare(k.bundleType, l.bundleType))
}

// groupReach groups consecutive versions whose clients get the same. With verbose each
// version has its own group. static names the address of clients that ask no server.
func groupReach(reach []gate.Reach, static string, verbose bool) []reachGroup {
	var groups []reachGroup
	for i := 0; i < len(reach); {
		version := reach[i].Version
		g := reachGroup{first: version, last: version, versions: 1}
		for ; i < len(reach) && reach[i].Version == version; i++ {
			g.add(reach[i], static)
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

func (g *reachGroup) add(r gate.Reach, static string) {
	c := client{kind{r.Target, r.BundleType}, "server", "in the rollout"}
	if r.Address == gate.Static {
		c.address = static
	}
	if r.Downgrades {
		c.address += " with allowDowngrades"
	}
	if r.Rollout == gate.Out {
		c.rollout = "outside the rollout"
	}
	r.Version, r.Target, r.BundleType, r.Address, r.Rollout, r.Downgrades = "", "", "", "", "", false
	i := slices.IndexFunc(g.lots, func(l lot) bool { return l.gets == r })
	if i < 0 {
		i = len(g.lots)
		g.lots = append(g.lots, lot{gets: r})
	}
	g.lots[i].clients = append(g.lots[i].clients, c)
}

func (g *reachGroup) rows() [][]string {
	installed, kept := g.first, g.first
	if g.versions > 1 {
		installed, kept = fmt.Sprintf("%s – %s (%d)", g.first, g.last, g.versions), "theirs"
	}
	all := map[kind][]client{}
	for _, l := range g.lots {
		for _, c := range l.clients {
			all[c.kind] = append(all[c.kind], c)
		}
	}
	var rows [][]string
	for _, l := range g.lots {
		for _, on := range l.on(all) {
			rows = append(rows, []string{installed, getsText(l.gets, kept), on})
		}
	}
	return rows
}

// on describes the clients of a lot, with one text for all that ask in the same way. all has
// the clients of every lot.
func (l lot) on(all map[kind][]client) []string {
	asking := map[string][]kind{}
	for _, k := range slices.SortedFunc(maps.Keys(all), kind.compare) {
		mine := slices.DeleteFunc(slices.Clone(l.clients), func(c client) bool { return c.kind != k })
		for _, way := range waysOf(mine, all[k]) {
			asking[way] = append(asking[way], k)
		}
	}
	var texts []string
	for _, way := range slices.Sorted(maps.Keys(asking)) {
		texts = append(texts, kindsText(asking[way])+way)
	}
	return texts
}

// waysOf describes how some of a kind's clients ask: at which address, and whether in the
// rollout. It returns "" if some are all of them.
func waysOf(some, all []client) []string {
	if len(some) == len(all) {
		return []string{""}
	}
	for _, part := range []func(client) string{
		func(c client) string { return "; " + c.address },
		func(c client) string { return "; " + c.rollout },
	} {
		ways := distinct(some, part)
		others := slices.DeleteFunc(slices.Clone(all), func(c client) bool { return slices.Contains(ways, part(c)) })
		if len(some)+len(others) == len(all) {
			return ways
		}
	}
	return distinct(some, func(c client) string { return "; " + c.address + ", " + c.rollout })
}

func distinct(clients []client, part func(client) string) []string {
	var parts []string
	for _, c := range clients {
		parts = append(parts, part(c))
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// kindsText lists kinds of clients. A target without a bundle type includes all of its
// bundle types.
func kindsText(kinds []kind) string {
	types := map[string][]string{}
	for _, k := range kinds {
		types[k.target] = append(types[k.target], k.bundleType)
	}
	texts := slices.Sorted(maps.Keys(types))
	for i, target := range texts {
		if !slices.Contains(types[target], "") {
			texts[i] += " (" + strings.Join(types[target], ", ") + ")"
		}
	}
	return strings.Join(texts, ", ")
}

func getsText(r gate.Reach, kept string) string {
	switch r.Outcome {
	case "offered":
		return r.Offered + ", " + r.Bundle
	case "current":
		return "nothing, up to date"
	case "ahead":
		return "nothing, keeps " + kept
	case "dropped":
		return "nothing more, its platform is left out"
	case "stranded":
		return r.Offered + ", which it lacks the key to verify"
	case "unfit":
		return "nothing, no bundle of its type"
	case "misfit":
		return r.Offered + ", " + r.Bundle + ", which does not suit it"
	}
	return "an error: " + r.Error
}
