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
)

// channelsArea examines the manifests and logs of the channels.
type channelsArea struct{ *patient }

// examine compares the manifest of each configured channel with its log.
func (p channelsArea) examine(ctx context.Context) []Finding {
	n := &notes{area: areaChannels}
	for _, name := range p.channelNames() {
		p.channel(ctx, n.at(channels.ManifestKey(name)), name)
		if p.config.Channels[name].Rings {
			p.rings(ctx, n.at(name+"/rings"), name)
		}
	}
	p.unprotected(n.at("operators"))
	return n.found
}

// unprotected says what anybody with a bucket's credentials can do to channels that no
// operators sign. A folder is protected by the machine that it is on.
func (p channelsArea) unprotected(n *notes) {
	var bare []string
	for _, name := range p.channelNames() {
		if p.trust[name].Operators == nil {
			bare = append(bare, name)
		}
	}
	if len(bare) == 0 || !strings.HasPrefix(p.config.Storage, "s3:") {
		return
	}
	n.warn("list operators in tsmon.yaml, such as `operators: {ann: ssh-ed25519 AAAA…}`, and put them in force: `tsmon channel appoint "+bare[0]+"`",
		"no operators sign %s: who has the bucket's credentials can offer clients any release that was signed, older ones too, end rollouts, and change notes and flags", strings.Join(bare, ", "))
}

// channelNames returns the configured channels: those that clients of a new project
// ask first, followers last.
func (p *patient) channelNames() []string {
	names := slices.Sorted(maps.Keys(p.config.Channels))
	rank := func(name string) int {
		switch {
		case name == "stable":
			return 0
		case p.config.Channels[name].Follows == "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names
}

func (p channelsArea) channel(ctx context.Context, n *notes, name string) {
	repository := channels.Repository{Store: p.store, Trust: p.trust}
	if p.trust[name].Operators != nil {
		thorough := repository
		thorough.Thorough = true
		p.signed(ctx, n, thorough, name)
	}
	seen, err := repository.Peek(ctx, name)
	if err != nil {
		n.failed(err, "see storage")
		return
	}
	pointer := seen[0]
	shown, invalid := &manifest.Manifest{}, error(nil)
	if pointer.Data != nil {
		if shown, invalid = manifest.Decode(pointer.Data); invalid != nil {
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
		n.fail(p.restore(ctx, repository, name), "%s shows something that is no manifest: %v", name, invalid)
	case newer && pointer.Data == nil:
		n.fail(p.restore(ctx, repository, name), "%s was published, but its manifest is missing", name)
	case newer:
		n.fail(p.restore(ctx, repository, name), "%s shows %s (entry %d), but its log goes on", name, shown.Version, shown.Sequence)
	case pointer.Data == nil:
		leader := cmp.Or(p.config.Channels[name].Follows, name) // which takes its followers along
		if key := p.newKey(); key != "" {
			n.warn("`tsmon keys rotate --to "+key+"` says what comes next; if it names no step for "+leader+", publish the first release: "+p.firstRelease(leader), "%s shows nothing yet", name)
			return
		}
		n.warn("publish the first release: "+p.firstRelease(leader), "%s shows nothing yet", name)
	default:
		p.known(ctx, n, repository, name, shown)
		p.spreads(ctx, n, repository, name)
	}
}

// newKey returns the key, or its file, that trusted_keys give to later versions, empty if
// there is none.
func (p *patient) newKey() string {
	for _, k := range p.config.TrustedKeys {
		if k.From != "" && k.Until == "" {
			return k.Key
		}
	}
	return ""
}

// signed wants the entries of a log to have the signatures that they need.
func (p channelsArea) signed(ctx context.Context, n *notes, r channels.Repository, name string) {
	switch log, err := r.Load(ctx, name); {
	case errors.Is(err, channels.ErrLog):
		n.fail("`tsmon channel verify "+name+"` shows what is wrong with its log", "%v", err)
	case err != nil:
		n.failed(err, "see storage")
	case log.Head() != nil:
		n.ok("the operators have signed the log of %s", name)
		if text := differences(log.Operators(), p.trust[name].Operators); text != "" && !log.Fed() {
			n.warn("compare with what you last decided, as after a restore from a backup, then put tsmon.yaml right, or in force: `tsmon channel appoint "+name+"`",
				"tsmon.yaml has other operators for %s than those in force: %s", name, text)
		}
	}
}

// differences says how the operators that are configured differ from those in force, empty
// if they don't.
func differences(force, configured *channels.Operators) string {
	if force.Equal(configured) {
		return ""
	}
	var found []string
	list := func(what string, has, lacks map[string]string) {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(has)) {
			if lacks[name] != has[name] {
				names = append(names, name)
			}
		}
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
	return strings.Join(found, "; ")
}

// restore returns the command that writes the manifest again that the log says. It
// moves nothing else.
func (p channelsArea) restore(ctx context.Context, r channels.Repository, name string) string {
	if log, err := r.Load(ctx, name); err != nil || log.Head() == nil {
		return "`tsmon channel verify " + name + "` shows what is wrong with its log"
	}
	return "tsmon channel repair " + name
}

// known wants the log to have the entry that a manifest shows.
func (p channelsArea) known(ctx context.Context, n *notes, r channels.Repository, name string, shown *manifest.Manifest) {
	there, err := r.Exists(ctx, name, shown.Sequence)
	switch {
	case err != nil:
		n.failed(err, "see storage")
	case !there:
		n.fail("`tsmon channel repair "+name+"` has the log say what is missing, or puts it back, with --bundle FILE", "%s shows entry %d, which its log lacks", name, shown.Sequence)
	default:
		n.ok("%s shows %s (entry %d)", name, shown.Version, shown.Sequence)
	}
}
