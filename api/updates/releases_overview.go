package updates

import (
	"context"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"tsmon/api/fleet"
	"tsmon/api/updates/alarm"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

// Overview is the state of all channels.
type Overview struct {
	Alarms   []alarm.Alarm  `json:"alarms"`
	Channels []ChannelState `json:"channels"` // sorted by name
	// Away is since when the store has not responded; everything is as of then.
	Away time.Time `json:"away,omitzero"`
	// Rehearses is true if moves can be rehearsed.
	Rehearses bool `json:"rehearses"`
}

// ChannelState is the state of a channel.
type ChannelState struct {
	Channel string `json:"channel"`
	Version string `json:"version"`         // that everybody gets, empty if it shows nothing
	Newest  string `json:"newest"`          // that somebody gets, or got until it was paused
	Before  string `json:"before"`          // that everybody had before the newest
	Shown   bool   `json:"shown"`           // false: nothing that verifies is served
	Behind  bool   `json:"behind"`          // the manifest in the store is older than the log
	Rings   bool   `json:"rings,omitempty"` // that it keeps
	// Last is the move that decided on this, nil without a log.
	Last *EntryRow `json:"last,omitempty"`
	// Since is when the newest version came to the channel, for the last time if it did
	// several times, as by a rollback.
	Since     time.Time      `json:"since,omitzero"`
	Platforms []string       `json:"platforms"` // platform keys of the newest version, sorted
	Files     []string       `json:"files"`     // names of their bundles, in the same order
	Missing   []string       `json:"missing"`   // platform keys that it must have and has not
	Rollout   *release.Share `json:"rollout,omitempty"`
	NextStep  int            `json:"next_step,omitempty"` // percentage of it, due at rollout.due
	Approvals int            `json:"approvals,omitempty"` // that a move needs; 0: no operators are in force
	Adoption  *AdoptionRow   `json:"adoption,omitempty"`  // absent if the records can't be read
}

// AdoptionRow is how far the newest version has spread.
type AdoptionRow struct {
	Clients int                `json:"clients"` // of the channel, seen in the last 30 days
	Have    int                `json:"have"`    // the newest version
	Newest  fleet.NewestCounts `json:"newest"`
	Guard   *fleet.Opinion     `json:"guard,omitempty"`
	// Left is how many still have what the channel was rolled back from, if a rollback was
	// the last move.
	Left int `json:"left,omitempty"`
	// Unserved are the platform keys that clients were installed from and that the newest
	// version has no bundle for, with the number of clients.
	Unserved map[string]int `json:"unserved"`
}

func (s *Releases) overview(r *http.Request) (any, error) {
	s.Heads.watch(r.Context())
	return s.answers.get(r.Context(), "overview", func(ctx context.Context) (any, error) {
		o := Overview{Alarms: s.Heads.alarms.All(), Channels: []ChannelState{}, Away: s.Heads.rounds.awaySince(), Rehearses: s.Publisher != nil}
		names := slices.Collect(maps.Keys(s.Heads.Channels()))
		if s.Publisher != nil {
			names = slices.AppendSeq(names, maps.Keys(s.Publisher.Policies))
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			o.Channels = append(o.Channels, s.channelState(ctx, name))
		}
		return o, nil
	})
}

func (s *Releases) channelState(ctx context.Context, name string) ChannelState {
	c := ChannelState{Channel: name, Rings: s.Heads.Rings[name], Platforms: []string{}, Files: []string{}, Missing: []string{}}
	if s.Heads.rounds.awaySince().IsZero() {
		_, _ = s.Heads.of(ctx, name) // a channel that is configured may be new
	}
	if known := s.Heads.channel(name); known != nil {
		if shown := known.head.Load(); shown != nil {
			c.Shown, c.Behind, c.Version, c.Newest = true, shown.behind, shown.version, shown.version
		}
	}
	log := s.Heads.knownLog(name)
	head := log.Head()
	if head == nil {
		return c
	}
	c.Version, c.Newest, c.Before = head.Version, head.Newest(), log.Before()
	last := rowOf(log, log.Decided())
	c.Last = &last
	for i := len(log.Entries) - 1; i >= 0 && log.Entries[i].Newest() == c.Newest; i-- {
		c.Since = log.Entries[i].When
	}
	newest := &head.Release
	if head.Rollout != nil {
		newest = &head.Rollout.Release
		c.Rollout = release.ShareOf(head.Rollout, false)
		c.NextStep, _, _ = head.Rollout.Next()
	}
	c.cover(newest, s.Publisher)
	if force := log.InForce(head.Sequence); force != nil {
		c.Approvals = force.Approvals
	}
	c.Adoption = s.adoptionRow(ctx, log, newest)
	return c
}

func (c *ChannelState) cover(newest *channels.Release, p *Publisher) {
	for _, key := range slices.Sorted(maps.Keys(newest.Platforms)) {
		c.Platforms = append(c.Platforms, key)
		c.Files = append(c.Files, path.Base(newest.Platforms[key].Path))
	}
	if p == nil {
		return
	}
	for _, key := range p.Policies[c.Channel].Targets {
		if _, ok := newest.Platforms[key]; !ok {
			c.Missing = append(c.Missing, key)
		}
	}
}

// adoptionRow returns how far a release has spread, nil if that can't be read.
func (s *Releases) adoptionRow(ctx context.Context, log *channels.Log, newest *channels.Release) *AdoptionRow {
	a := fleet.NewAdoption(log)
	if err := a.ReadRecords(ctx, s.Fleet.Records, s.Now()); err != nil {
		s.Log.Warn("the adoption of a channel can't be read", "channel", log.Channel, "error", err)
		return nil
	}
	row := &AdoptionRow{Clients: a.Clients, Newest: a.Newest, Guard: s.opinion(ctx, log), Unserved: unserved(newest, a.Groups)}
	for _, v := range a.Versions {
		if v.Version == a.Newest.Version {
			row.Have = v.Clients
		}
		if last := log.Decided(); last.Action == channels.Rollback && last.From == v.Version {
			row.Left = v.Clients
		}
	}
	return row
}

// unserved counts the clients that were installed from a bundle type that a release has nothing
// for, by platform key.
func unserved(newest *channels.Release, groups []fleet.GroupCount) map[string]int {
	shown := manifest.Response{Platforms: newest.Render("", 0).Platforms}
	counts := map[string]int{}
	for _, g := range groups {
		c := manifest.Client{Target: g.Target, BundleType: g.Type}
		key, bundle, err := shown.Lookup(c)
		if g.Type != "" && (err != nil || c.Suits(key, bundle) != nil) {
			counts[c.Key()] += g.Clients
		}
	}
	return counts
}

// opinion returns what the guard thinks of the newest release, nil if that is not known.
func (s *Releases) opinion(ctx context.Context, log *channels.Log) *fleet.Opinion {
	c, ok := s.Heads.Channels()[log.Channel]
	if s.Guards == nil || !ok {
		return nil
	}
	opinion, err := s.Guards.Judge(ctx, log.Channel, c)
	if err != nil {
		s.Log.Warn("a release can't be judged", "channel", log.Channel, "error", err)
		return nil
	}
	return opinion
}
