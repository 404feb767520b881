package doctor

import (
	"context"
	"net/http"

	"tsmon/channels"
)

// rings checks that the manifests of a channel's rings match its log.
func (p channelsArea) rings(ctx context.Context, n *notes, name string) {
	r := channels.Repository{Store: p.store, Trust: p.trust, Rings: []string{name}}
	seen, err := r.Peek(ctx, name)
	if err != nil {
		n.failed(err, "see storage")
		return
	}
	log, err := r.Load(ctx, name)
	if err != nil || log.Head() == nil {
		return // what is wrong with the log is found elsewhere
	}
	behind := 0
	for i, v := range log.Views(true)[:1+channels.Rings] {
		if _, ok := v.Shows(seen[i].Data); i > 0 && !ok {
			behind++
		}
	}
	if behind > 0 {
		n.fail("tsmon channel advance "+name, "%d of the %d rings of %s don't show what its log says", behind, channels.Rings, name)
		return
	}
	n.ok("%d rings show what the log of %s says", channels.Rings, name)
}

// spreads warns of a rollout that readers of latest.json are not in.
func (p channelsArea) spreads(ctx context.Context, n *notes, r channels.Repository, name string) {
	c := p.config.Channels[name]
	reads := c.ReadsManifest || p.project != nil && p.project.ReadsManifest(p.config.PublicURL)
	newest, err := r.Tail(ctx, name, 1)
	if err != nil || len(newest) == 0 || c.Rings || !reads {
		return // what is wrong with the log is found elsewhere
	}
	if rollout := newest[0].Rollout; rollout != nil && rollout.Paused.IsZero() {
		n.warn("`tsmon channel rollout "+name+" --percent 100` gives it to everybody; for steps, set rings: true for "+name+", whose applications then read their ring, or have them ask `tsmon serve`",
			"clients that read latest.json get nothing of %s, which is for %d %% of the others", rollout.Version, rollout.Share())
	}
}

// rings checks that the manifest of one of the channel's rings is at its address; the others
// are not fetched.
func (p publicArea) rings(ctx context.Context, n *notes, name string) {
	key := channels.RingKey(name, 0)
	if _, err := p.store.Stat(ctx, key); err != nil {
		return // what is missing in the store is found elsewhere
	}
	n.at(p.config.PublicURL + "/" + key)
	got, err := p.manifestAt(ctx, p.config.PublicURL, key)
	switch {
	case err != nil:
		p.unreachable(n, err)
	case got.StatusCode != http.StatusOK:
		n.fail("set rings: true for "+name+" in the tsmon.yaml of the tsmon serve there and reload it (SIGHUP), or let anybody read "+name+"/rings/ in the bucket",
			"answers with status %d, not with the manifest of a ring", got.StatusCode)
	default:
		n.ok("serves the rings of %s", name)
	}
}
