package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/release/upkeep"
)

// channelsArea compares the manifest of each configured channel with its log.
type channelsArea struct{ *patient }

func (p channelsArea) examine(ctx context.Context, n *notes) {
	for _, name := range p.config.ChannelNames() {
		p.channel(ctx, n.at(channels.ManifestKey(name)), name)
		if p.config.Channels[name].Rings {
			p.rings(ctx, n.at(name+"/rings"), name)
		}
	}
	unnamed, err := p.keeper().Unnamed(ctx)
	n.at(library.Root).misplaced(unnamed, err)
	p.unprotected(n.at("operators"))
}

// unprotected warns that anybody with a bucket's credentials can move channels without
// operators. A folder is protected by the machine that it is on.
func (p channelsArea) unprotected(n *notes) {
	bare := slices.DeleteFunc(p.config.ChannelNames(), func(name string) bool { return p.trust[name].Operators != nil })
	if len(bare) == 0 || !strings.HasPrefix(p.config.Storage, "s3:") {
		return
	}
	n.warn("list operators in tsmon.yaml, such as `operators: {ann: ssh-ed25519 AAAA…}`, and put them in force: `tsmon channel appoint "+bare[0]+"`",
		"no operators sign %s: who has the bucket's credentials can offer clients any release that was signed, older ones too, end rollouts, and change notes and flags", strings.Join(bare, ", "))
}

func (p channelsArea) channel(ctx context.Context, n *notes, name string) {
	s := p.standings[name]()
	switch {
	case s.mend != "":
		n.at(s.where).fail(s.mend, "%v", s.err)
		n.at(channels.ManifestKey(name))
	case s.err != nil:
		n.failed(s.err, "see storage")
	case s.log.Head() != nil:
		p.signed(n, s.log)
		p.strangers(ctx, n, s.log)
	}
	if s.log == nil {
		return
	}
	repository := channels.Repository{Store: p.store, Trust: p.trust}
	seen, err := repository.Peek(ctx, name)
	if err != nil {
		n.failed(err, "see storage")
		return
	}
	pointer := seen[0]
	shown, invalid := &manifest.Manifest{}, error(nil)
	if pointer.Data != nil {
		if shown, invalid = manifest.Decode(pointer.Data); invalid != nil {
			if problems, ok := errors.AsType[manifest.Problems](invalid); ok {
				invalid = problems.Gist()
			}
			shown = &manifest.Manifest{}
		}
	}
	newer, err := repository.Exists(ctx, name, shown.Sequence+1)
	if err != nil {
		n.failed(err, "see storage")
		return
	}
	switch {
	case invalid != nil:
		n.fail(restore(s.log), "%s shows something that is no manifest: %v", name, invalid)
	case newer && pointer.Data == nil:
		n.fail(restore(s.log), "%s was published, but its manifest is missing", name)
	case newer:
		n.fail(restore(s.log), "%s shows %s (entry %d), but its log goes on", name, shown.Version, shown.Sequence)
	case pointer.Data == nil:
		leader := cmp.Or(p.config.Channels[name].Follows, name) // which takes its followers along
		if key := p.config.TrustedKeys.Later(); key != "" {
			n.warn("`tsmon keys rotate --to "+key+"` says what comes next; if it names no step for "+leader+", publish the first release: "+p.firstRelease(leader), "%s shows nothing yet", name)
			return
		}
		n.warn("publish the first release: "+p.firstRelease(leader), "%s shows nothing yet", name)
	default:
		p.known(ctx, n, repository, s.log, shown, pointer.Data)
		p.spreads(ctx, n, repository, name)
		if s.log.Head() != nil {
			p.offered(ctx, n, name, s.log)
		}
	}
}

// signed compares the operators of a log with those that are configured.
func (p channelsArea) signed(n *notes, log *channels.Log) {
	name := log.Channel
	if p.trust[name].Operators == nil {
		return
	}
	n.ok("the operators have signed the log of %s", name)
	if text := differences(log.Operators(), p.trust[name].Operators); text != "" && !log.Fed() {
		n.warn("compare with what you last decided, as after a restore from a backup, then put tsmon.yaml right, or in force: `tsmon channel appoint "+name+"`",
			"tsmon.yaml has other operators for %s than those in force: %s", name, text)
	}
}

func (p channelsArea) keeper() upkeep.Keeper {
	return upkeep.Keeper{Library: library.Library{Store: p.store, Keys: p.keys}, Channels: channels.Repository{Store: p.store, Trust: p.trust}, Now: p.App.Now}
}

// strangers reports objects in a channel's folders that are not part of it.
func (p channelsArea) strangers(ctx context.Context, n *notes, log *channels.Log) {
	n.misplaced(p.keeper().Strangers(ctx, log.Channel, log))
	n.at(channels.ManifestKey(log.Channel))
}

// misplaced reports what was found to be in the wrong place, and why not everything was examined.
func (n *notes) misplaced(found []upkeep.Finding, err error) {
	if err != nil {
		n.failed(err, "see storage")
	}
	for _, f := range found {
		n.at(f.Object).fail(f.Mend, "%s", f.Problem)
	}
}

// differences describes how the configured operators differ from those in force, empty if they
// don't.
func differences(force, configured *channels.Operators) string {
	if force.Equal(configured) {
		return ""
	}
	var found []string
	list := func(what string, has, lacks map[string]string) {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(has)), func(name string) bool { return lacks[name] == has[name] })
		if len(names) > 0 {
			found = append(found, what+": "+strings.Join(names, ", "))
		}
	}
	list("only in force", force.Keys, configured.Keys)
	list("only in tsmon.yaml", configured.Keys, force.Keys)
	list("servers only in force", force.Servers, configured.Servers)
	list("servers only in tsmon.yaml", configured.Servers, force.Servers)
	count := func(what string, force, configured int) {
		if force != configured {
			found = append(found, fmt.Sprintf("%s: %d in force, %d in tsmon.yaml", what, force, configured))
		}
	}
	count("approvals", force.Approvals, configured.Approvals)
	count("rollback_approvals", force.Rollbacks, configured.Rollbacks)
	if force.Follows != configured.Follows {
		found = append(found, fmt.Sprintf("follows: %s in force, %s in tsmon.yaml", cmp.Or(force.Follows, "none"), cmp.Or(configured.Follows, "none")))
	}
	return strings.Join(found, "; ")
}

// restore returns the command that renders the manifest again without moving the channel.
func restore(log *channels.Log) string {
	if log.Head() == nil {
		return "put the manifest back that clients read before, or remove that object: the channel has no log, and begins with its first release"
	}
	return "tsmon channel repair " + log.Channel
}

// known checks that the log has the entry that a manifest shows, and that the manifest matches
// it.
func (p channelsArea) known(ctx context.Context, n *notes, r channels.Repository, log *channels.Log, shown *manifest.Manifest, data []byte) {
	name := log.Channel
	there, err := r.Exists(ctx, name, shown.Sequence)
	head := log.Head()
	switch {
	case err != nil:
		n.failed(err, "see storage")
	case !there:
		n.fail("`tsmon channel repair "+name+"` restores what is missing with --bundle FILE, or else declares it lost", "%s shows entry %d, which its log lacks", name, shown.Sequence)
	case head != nil && head.Sequence == shown.Sequence && !p.sound(name, data):
		n.fail(restore(log), "%s shows %s, which is not what entry %d of its log says", name, shown.Version, shown.Sequence)
	default:
		n.ok("%s shows %s (entry %d)", name, shown.Version, shown.Sequence)
	}
}
