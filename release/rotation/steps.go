package rotation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/release/gate"
	"tsmon/signing"
)

// steps lists what is left to do, in order.
func (r *rotation) steps(configured bool) []Step {
	g := &guide{r: r, list: []Step{}, bridge: r.standing(r.bridge)}
	if !configured {
		g.step("", "", "write the keys into tsmon.yaml, with the versions that have them (or into TSMON_TRUSTED_KEYS); a running `tsmon serve` needs them too before the new key signs: change its file, and reload it with SIGHUP").Write = r.keysText()
	}
	order := r.order()
	for _, part := range []func(*Channel){g.succeed, g.cross, g.wait, g.sign, g.keep, g.end} {
		for _, c := range order {
			part(c)
		}
	}
	return g.list
}

// order returns the channels in the order in which releases reach them: first those that are
// published to, then those that are promoted to, then followers.
func (r *rotation) order() []*Channel {
	rank := func(c *Channel) int {
		switch head := c.log.Head(); {
		case head == nil:
			return 3
		case c.policy.Follows != "":
			return 2
		case head.Action == channels.Promote:
			return 1
		}
		return 0
	}
	var order []*Channel
	for i := range r.channels {
		order = append(order, &r.channels[i])
	}
	slices.SortStableFunc(order, func(a, b *Channel) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// keysText returns the lines of tsmon.yaml for the keys.
func (r *rotation) keysText() string {
	var text strings.Builder
	text.WriteString("trusted_keys:")
	for _, k := range r.keys {
		if k.Span == (signing.Span{}) {
			text.WriteString("\n  - " + k.PublicKey.String())
			continue
		}
		text.WriteString("\n  - {key: " + k.PublicKey.String())
		for _, bound := range []struct{ name, version string }{{"from", k.From}, {"until", k.Until}} {
			if bound.version != "" {
				text.WriteString(", " + bound.name + ": " + bound.version)
			}
		}
		text.WriteString("}")
	}
	return text.String()
}

// findSuccessor names the channel for releases of the new key: the channel's name with the
// next number. Only a channel whose applications read latest.json needs a successor, and only
// if a release of the new key would strand some of them.
func (r *rotation) findSuccessor(c *Channel) {
	if !c.ReadsManifest || c.policy.Follows != "" || c.State != Bridge && c.State != Rolling && c.State != Waiting {
		return
	}
	if c.successor = following(c.Channel); channels.CheckName(c.successor) != nil {
		c.successor = "next" // the name would be too long
	}
}

// following returns a channel's name with the next number.
func following(name string) string {
	stem := strings.TrimRight(name, "0123456789")
	number, err := strconv.Atoi(name[len(stem):])
	if err != nil {
		stem, number = name+"-", 1
	}
	return stem + strconv.Itoa(number+1)
}

// find returns the configured channel with a name, or nil.
func (r *rotation) find(name string) *Channel {
	if i := slices.IndexFunc(r.channels, func(c Channel) bool { return c.Channel == name }); i >= 0 {
		return &r.channels[i]
	}
	return nil
}

type guide struct {
	r    *rotation
	list []Step
	// bridge is the version of the bridge. If the bridge was rolled back, it is the version
	// that takes its place.
	bridge string
	// source is a channel that shows the bridge after the steps so far, empty if none does.
	source string
}

func (g *guide) step(channel, command, format string, args ...any) *Step {
	g.list = append(g.list, Step{Channel: channel, Command: command, Text: fmt.Sprintf(format, args...)})
	return &g.list[len(g.list)-1]
}

// succeed adds the step that configures a channel's successor.
func (g *guide) succeed(c *Channel) {
	if b := g.bridge; g.source == "" && c.State != Rolling && c.log.Shown(b) && c.log.RolledBack(b) == nil {
		g.source = c.Channel
	}
	if c.successor != "" && g.r.find(c.successor) == nil {
		g.step(c.Channel, "", "add the channel %s to tsmon.yaml, with the settings of %s: clients read latest.json, where watersheds don't hold, so %s stays at %s, signed by %s, and releases signed by %s go to %s; if clients read the bucket itself, let everybody read %s/ there",
			c.successor, c.Channel, c.Channel, g.bridge, g.r.from.IDs(), g.r.to.ID(), c.successor, c.successor).Write = g.r.configure(c.successor, c.Channel, "")
	}
	if c.successor != "" {
		g.followers(c)
	}
}

// followers adds steps for the channels that follow c. They stay at the bridge as c does, so
// other channels must follow c's successor. A new follower is also given the release that the
// successor already shows.
func (g *guide) followers(c *Channel) {
	next, told := g.r.find(c.successor), false
	for _, f := range g.r.channels {
		if f.policy.Follows != c.successor {
			continue
		}
		if told = true; f.State == Empty && next != nil && next.State != Empty {
			g.step(f.Channel, "tsmon release promote --from "+c.successor+" --to "+f.Channel, "give %s the release that its leader %s already shows", f.Channel, c.successor)
		}
	}
	for _, f := range g.r.channels {
		if f.policy.Follows == c.Channel && f.State != Empty && !told {
			next := following(f.Channel)
			g.step(f.Channel, "", "add a channel that follows %s to tsmon.yaml, such as %s, with the other settings of %s, which stays at the bridge because it follows %s; have the bridge read %s; if clients read the bucket itself, let everybody read %s/ there",
				c.successor, next, f.Channel, c.Channel, moved(f.policy, next, "where it read", f.Channel), next).Write = g.r.configure(next, f.Channel, c.successor)
		}
	}
}

// moved describes the manifests that applications read instead of those of another channel.
func moved(policy release.Policy, next, before, channel string) string {
	if policy.Rings {
		return next + "/rings/NN/latest.json " + before + " " + channel + "/rings/NN/latest.json, and " + next + "/latest.json where it read " + channel + "/latest.json"
	}
	return next + "/latest.json " + before + " " + channel + "/latest.json"
}

// cross adds the steps that move a channel to the bridge. A channel whose leader moves there
// needs none.
func (g *guide) cross(c *Channel) {
	leader := g.r.find(c.policy.Follows)
	switch {
	case c.State != Bridge || leader != nil && (leader.State == Bridge || leader.State == Rolling):
	case g.source != "":
		g.step(c.Channel, "tsmon release promote --from "+g.source+" --to "+c.Channel+" "+g.bridge, "give %s the bridge, too", c.Channel)
	default:
		g.source = c.Channel
		endpoint, along := "", ""
		if c.successor != "" {
			endpoint = ", and reading " + moved(c.policy, c.successor, "instead of", c.Channel)
		}
		for _, f := range g.r.channels {
			if f.policy.Follows == c.Channel && f.State == Bridge {
				along += "; " + f.Channel + " moves along"
			}
		}
		strand, instead := "", ""
		if gone := g.r.bridge.String(); gone != g.bridge {
			strand = " --strand " + gone
			instead = "; clients on " + gone + ", which was rolled back, can't install releases signed by that key"
		}
		g.step("", "", "build %s, the bridge, with the new key in tauri.conf.json%s", g.bridge, endpoint).Write = `"pubkey": "` + g.r.to.Tauri() + `"`
		g.step(c.Channel, "tsmon release publish --channel "+c.Channel+" --version "+g.bridge+" --watershed"+strand+" DIR",
			"sign it with the private key of %s, as the last release of that key, and publish it%s%s; %s", g.r.from.IDs(), along, instead, g.pipeline(c, strand))
	}
}

// pipeline says how several machines publish the bridge on a channel. strand is a space and
// the flag that the publish needs, or empty.
func (g *guide) pipeline(c *Channel, strand string) string {
	stage := "`tsmon release stage"
	if c.successor != "" {
		return "if a pipeline builds it, its " + stage + " --channel " + c.Channel + " --publish" + strand + "` publishes it, since latest.json needs no watershed"
	}
	return "if a pipeline builds it, leave --publish out of its " + stage + strand + "`, and run `tsmon release publish --channel " + c.Channel + " --version " + g.bridge + " --watershed" + strand + "` once all machines have staged"
}

// wait adds the steps that a channel with the bridge waits for.
func (g *guide) wait(c *Channel) {
	head := c.log.Head()
	switch {
	case c.State == Rolling && !head.Rollout.Paused.IsZero():
		g.step(c.Channel, "tsmon channel resume "+c.Channel, "offer %s again: it is paused on %s", head.Rollout.Version, c.Channel)
	case c.State == Rolling:
		g.step(c.Channel, "tsmon channel rollout "+c.Channel+" --percent 100", "give %s to everybody, at once or as its steps are due", head.Rollout.Version)
	case c.State == Waiting && c.successor == "" && !c.ReadsManifest:
		g.step(c.Channel, "", "leave %s at %s until older clients have it: it is no watershed there, so the new key would strand %s%s", c.Channel, c.Version, gate.Spread(c.Stranded.Server), clients(c.Stranded.Clients))
	}
	if next := g.r.find(c.successor); c.successor != "" && (next == nil || next.State == Empty) {
		g.step(c.successor, "tsmon release promote --from "+c.Channel+" --to "+c.successor+" "+g.bridge, "show the bridge there, too, because it looks there for later releases")
	}
}

// sign adds the step for the first release of the new key.
func (g *guide) sign(c *Channel) {
	to := c
	if c.successor != "" {
		if to = g.r.find(c.successor); to == nil {
			to = &Channel{Channel: c.successor}
		}
	}
	succeeds := slices.ContainsFunc(g.r.channels, func(other Channel) bool { return other.successor == c.Channel })
	switch {
	case c.State == Empty || to.State == Done || c.policy.Follows != "" || succeeds: // nothing, or another channel's step
	case c.State == Waiting && c.successor == "":
	case c.log.Head().Action == channels.Promote && c.successor == "":
		g.step(c.Channel, "tsmon release promote --from "+c.log.Head().From+" --to "+c.Channel, "from then on it takes releases signed by %s", g.r.to.ID())
	default:
		workflow := ""
		if to != c {
			workflow = "; after the bridge is published, and not before, run `tsmon init --ci github --force` (or gitlab) for a workflow that publishes to " + to.Channel + ", which tauri.conf.json names by then"
		}
		g.step(to.Channel, "tsmon release publish --channel "+to.Channel+" --version "+g.r.after(c)+" DIR",
			"build the next release with the new key, too, and sign it with the private key of %s%s", g.r.to.ID(), workflow)
	}
}

// keep adds the reminder of what to keep for the old key.
func (g *guide) keep(c *Channel) {
	if c.policy.Follows == "" && c.State == Done {
		g.step(c.Channel, "", "keep all lines of trusted_keys, and keep the bridge for older clients%s", clients(g.r.below(c)))
	}
}

// end adds the last step: how a channel that stays at the bridge gets the new key.
func (g *guide) end(c *Channel) {
	if c.policy.Follows == "" && c.State == Waiting {
		left := c.Stranded.Server
		if c.ReadsManifest {
			left = c.Stranded.Manifest
		}
		strand := " --strand " + gate.VersionRange{First: left[0], Last: left[len(left)-1]}.String()
		command := "tsmon release publish --channel " + c.Channel + " --version " + g.r.after(c) + strand + " DIR"
		if next := g.r.find(c.successor); next != nil && next.State == Done {
			command = "tsmon release promote --from " + next.Channel + " --to " + c.Channel + strand
		}
		g.step(c.Channel, command, "once nobody is left below the bridge on %s, the new key may sign there, too", c.Channel)
	}
}

// below counts the known clients that lack the new key, nil if nothing is known.
func (r *rotation) below(c *Channel) *int {
	lacking := slices.DeleteFunc(gate.Installed(c.log, c.known), func(v string) bool { return r.keys.BuiltInto(v).Trusts(r.to) })
	return count(c.known, append([]string{}, lacking...))
}

// clients describes a number of known clients, nil if it is unknown.
func clients(n *int) string {
	if n == nil {
		return " (their number is not known here)"
	}
	return fmt.Sprintf(" (known clients: %d)", *n)
}
