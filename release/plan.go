package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
)

// Plan is a move of a channel that was worked out and not yet made: the next log entry, and
// what every kind of client gets from then on. Apply carries it out.
type Plan struct {
	// Action is the one of the log entry that Sequence names, which is an earlier
	// one if there is nothing to do.
	Action   channels.Action `json:"action"`
	Channel  string          `json:"channel"`
	Version  string          `json:"version"`            // that the plan is about
	Previous string          `json:"previous,omitempty"` // version that the channel showed
	Sequence uint64          `json:"sequence"`
	// Changed is false if there is nothing to do. Without an Entry it is true if only what
	// clients read was behind the log, once Apply or a dry run has looked.
	Changed bool `json:"changed"`
	// Rendered are the keys of manifests that lagged behind the log and were rendered again
	// without a new entry, or would be.
	Rendered []string `json:"rendered,omitempty"`
	// DryRun is true if the plan is not to be applied.
	DryRun  bool             `json:"dry_run,omitempty"`
	URL     string           `json:"url"` // of the manifest
	Bundles []library.Stored `json:"bundles"`
	Reach   []gate.Reach     `json:"reach"`
	// Rollout says who gets Version if not everybody does.
	Rollout *Share `json:"rollout,omitempty"`
	// Rings is true if the channel keeps rings. Their clients are the static ones in
	// and out of the rollout.
	Rings bool `json:"rings,omitempty"`
	// Unbound are platform keys whose signatures name no version: applications
	// that require a signed version refuse them.
	Unbound   []string `json:"unbound,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Followers []*Plan  `json:"followers,omitempty"` // channels that move along
	// Probed is true once clients were seen to get it.
	Probed bool `json:"probed"`
	// Base is the end of the log that the plan was made for; the entry is appended
	// only there.
	Base channels.Position `json:"base"`
	// Entry is what the log gets; nil if it has it.
	Entry *channels.Entry `json:"entry,omitempty"`
	// Waiting is what the entry waits for, nil if it needs no more signatures.
	Waiting *approval.Waiting `json:"waiting,omitempty"`
	// Needs says, of a dry run, whose signatures the entry takes; nil if it takes none.
	Needs *approval.Need `json:"needs,omitempty"`

	why    string
	strand gate.VersionRange
	head   *channels.Entry    // what the channel shows: Entry, or the end of the log
	log    *channels.Log      // that the plan was made for
	seen   []channels.Pointer // the views when the plan was made
	record *library.Record    // to be created; nil if it exists
	files  map[string]bundle.Contents
	broken []error // of channels that should move along; a refusal is a warning instead
}

// Share is who gets a release that not everybody gets yet.
type Share struct {
	Version string            `json:"version"`
	Percent int               `json:"percent"` // of clients, now; 0 while paused
	Steps   []int             `json:"steps"`
	Every   channels.Duration `json:"every,omitempty"` // duration of each step
	Since   time.Time         `json:"since"`           // when this step was taken
	Due     time.Time         `json:"due,omitzero"`    // when the next step is due
	Cohorts []string          `json:"cohorts,omitempty"`
	// AllowMissing are platform keys whose clients are left as they are on purpose.
	AllowMissing []string `json:"allow_missing,omitempty"`
	Paused       bool     `json:"paused"`
	// Rings are those that it includes, where the channel keeps rings.
	Rings []int `json:"rings,omitempty"`
}

// ShareOf describes a rollout, with its rings if the channel keeps them. It is nil if everybody
// gets the release, which has no rollout then.
func ShareOf(r *channels.Rollout, rings bool) *Share {
	if r == nil {
		return nil
	}
	_, due, _ := r.Next()
	s := &Share{Version: r.Version, Percent: r.Share(), Steps: r.Steps, Every: r.Every, Since: r.Since, Due: due, Cohorts: r.Cohorts, AllowMissing: r.AllowMissing, Paused: !r.Paused.IsZero()}
	for ring, in := range r.Rings() {
		if in && rings {
			s.Rings = append(s.Rings, ring)
		}
	}
	return s
}

// newPlan returns the plan of an entry that follows a log, or is its head.
func newPlan(publicURL string, log *channels.Log, e *channels.Entry) *Plan {
	plan := &Plan{Action: e.Action, Channel: log.Channel, Version: e.Newest(), Sequence: e.Sequence, URL: publicURL + "/" + channels.ManifestKey(log.Channel),
		Bundles: []library.Stored{}, Reach: []gate.Reach{}, Base: log.End(), log: log, head: log.Head()}
	if plan.head != nil {
		plan.Previous = plan.head.Version
	}
	return plan
}

// planner works out plans. It reads and writes nothing.
type planner struct {
	publicURL string
	keys      signing.Keyring
	policies  map[string]Policy
	who       string
	origin    *channels.Origin
	now       time.Time
}

// planner returns what works out the moves of channels, all of which must be
// configured, so that a mistyped name doesn't create a channel.
func (p *Publisher) planner(names ...string) (planner, error) {
	pl := planner{publicURL: p.PublicURL, keys: p.Keys, policies: p.Policies, who: p.Who, origin: p.Origin, now: p.Now()}
	if p.PublicURL == "" {
		return pl, refuse(ErrConfig, "set public_url in tsmon.yaml or TSMON_PUBLIC_URL to the address where clients find the store; if a tsmon.yaml has it, run this in its folder, or name it with --config FILE", "public_url is missing")
	}
	if err := library.CheckKeys(p.Keys); err != nil {
		return pl, err
	}
	for _, name := range names {
		if err := channels.CheckName(name); err != nil {
			return pl, &Refusal{Cause: err, Mend: "name a channel that tsmon.yaml configures: " + strings.Join(pl.channels(), ", ")}
		}
		if _, ok := p.Policies[name]; !ok {
			return pl, refuse(ErrConfig, "add it under channels in tsmon.yaml; known are "+strings.Join(pl.channels(), ", "), "there is no channel %s", name)
		}
	}
	return pl, nil
}

// Configured returns an error unless all channels are configured, and everything that a move
// needs. A command that moves several channels calls it first, so that a mistyped name moves
// none.
func (p *Publisher) Configured(names ...string) error {
	_, err := p.planner(names...)
	return err
}

func (p planner) channels() []string { return slices.Sorted(maps.Keys(p.policies)) }

// state is a channel as it was read.
type state struct {
	channel string
	url     string // public address of the store
	log     *channels.Log
	seen    []channels.Pointer
	clients map[string]int // by version, nil if nothing is known of them
	types   map[string]int // clients by platform key, likewise
	err     error          // it could not be read
	// ahead is set if the manifest names an entry that the signed log lacks: the manifest is
	// forged, or the entry is lost.
	ahead error
}

// view is the channels as they were read.
type view map[string]*state

// before returns what clients of the channel see: the head of the log, or, before
// the first entry, a manifest that was put there by other means. It is nil if there
// is none, or none that clients can read.
func (s *state) before() *manifest.Response {
	data := s.seen[0].Data
	if head := s.log.Head(); head != nil {
		shown := head.Render(s.url)
		data, _ = shown.Encode() // it was decoded from the log
	}
	response, err := manifest.ParseResponse(data)
	if err != nil {
		return nil
	}
	return response
}

// change is what a channel is to get.
type change struct {
	action    channels.Action
	from, why string
	// version is the one whose bundles in the store are verified first, and whose record take
	// gets. It is empty if nothing in the store is new to clients.
	version string
	// release is what the change is about. The clients of manifest, which is rendered
	// from it, are judged, unless it is what they get already.
	release  channels.Release
	manifest manifest.Manifest
	standing bool
	// rollout is what the entry holds. If others is not nil, the rollout is of
	// release, and all other clients get others.
	rollout      *channels.Rollout
	others       *channels.Release
	bundles      []library.Stored
	warnings     []string
	allowMissing []string
	mayLose      bool // any platform may be missing: that was decided before, or must not wait
	allowUnbound bool
	strand       gate.VersionRange
	staged       bool // the bundles are those that were staged
	halted       bool // a guard decided it
	strandAll    bool // what clients get was decided before, or must not wait
}

// retreats reports whether a change is one that must not wait for a channel to be repaired:
// it takes a bad release out of the way, or follows.
func (c change) retreats() bool {
	return c.action == channels.Rollback || c.action == channels.Pause || c.action == channels.Follow
}

// next returns the log entry of a change.
func (p planner) next(s *state, c change) channels.Entry {
	e := channels.Entry{Action: c.action, From: c.from, Why: c.why, Who: p.who, Origin: p.origin, When: p.now, Halted: c.halted, Release: c.release, Rollout: c.rollout}
	if c.others != nil {
		rollout := *c.rollout
		rollout.Release = c.release
		e.Release, e.Rollout = *c.others, &rollout
	}
	if s.log.Head() == nil {
		e.Operators = p.policies[s.channel].Operators
	}
	return s.log.Next(e)
}

// plan holds a change to the gate, and works out what follows from it.
func (p planner) plan(v view, s *state, c change) (*Plan, error) {
	if !c.standing {
		c.release = s.log.Carry(c.release)
	}
	entry := p.next(s, c)
	c.manifest = c.release.Render(p.publicURL, entry.Sequence)
	move := p.move(s, c)
	if lost := move.Missing(); c.mayLose && len(lost) > 0 {
		move.AllowMissing = slices.Concat(lost, move.AllowMissing)
		if c.action == channels.Pause {
			c.warnings = append(c.warnings, fmt.Sprintf("%s has nothing for %s meanwhile", s.channel, strings.Join(lost, ", ")))
		}
	}
	plan := &Plan{
		Action: c.action, Channel: s.channel, Version: c.release.Version, URL: p.publicURL + "/" + channels.ManifestKey(s.channel),
		Bundles: c.bundles, Unbound: c.manifest.Unbound(), Warnings: c.warnings, Base: s.log.End(), Rings: p.policies[s.channel].Rings, why: c.why, strand: c.strand, log: s.log, seen: s.seen,
	}
	if len(plan.Unbound) > 0 && !showsUnbound(p.policies, s.channel) {
		plan.Warnings = append(plan.Warnings, "`tsmon serve` shows signatures that name no version only with allow_unbound: true for "+s.channel+" in its tsmon.yaml")
	}
	if s.ahead != nil {
		plan.Warnings = append(plan.Warnings, upkeep.NoEvidence(s.channel, s.ahead))
	}
	if move.Before != nil {
		plan.Previous = move.Before.Version.String()
	}
	plan.Rollout = ShareOf(c.rollout, p.policies[s.channel].Rings)
	head := s.log.Head()
	unchanged := head != nil && head.Release.Equal(&entry.Release) && head.Rollout.Alike(entry.Rollout)
	if !unchanged && s.log.Fed() {
		return nil, upkeep.Fed(s.channel)
	}
	if !c.standing {
		if err := v.resting(s, c.release.Version, p.now); err != nil {
			return nil, err
		}
	}
	move.Unchanged, move.Others = unchanged, v.others(s)
	reach, warnings, err := move.Judge(&entry)
	if err != nil {
		return nil, err
	}
	plan.Reach, plan.Warnings = reach, append(plan.Warnings, warnings...)
	if unchanged {
		plan.Action, plan.Sequence, plan.head = head.Action, head.Sequence, head
	} else if s.ahead != nil && !c.retreats() {
		return nil, s.ahead
	} else {
		plan.Sequence, plan.Changed, plan.Entry, plan.head = entry.Sequence, true, &entry, &entry
	}
	if c.rollout == nil && c.action != channels.Follow { // followers take what everybody gets
		p.follow(v, plan)
	}
	return plan, nil
}

// move is a change as the gate judges it.
func (p planner) move(s *state, c change) gate.Move {
	policy := p.policies[s.channel]
	return gate.Move{Action: c.action, Release: c.release, Manifest: c.manifest, Keys: p.keys, PublicURL: p.publicURL, Log: s.log, Before: s.before(), Fleet: s.clients, Types: s.types,
		Targets: policy.Targets, Rings: policy.Rings, ReadsManifest: policy.ReadsManifest, Downgrades: policy.AllowDowngrades, AllowMissing: c.allowMissing, AllowUnbound: c.allowUnbound,
		Strand: c.strand, Standing: c.standing, Staged: c.staged, StrandAll: c.strandAll}
}

// others returns the channels that could be read, without that of s, sorted by name.
func (v view) others(s *state) []gate.Channel {
	var others []gate.Channel
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if other := v[name]; name != s.channel && other.err == nil {
			others = append(others, gate.Channel{Log: other.log, Fleet: other.clients})
		}
	}
	return others
}

// follow adds the plans of the channels that follow a leader and are behind it.
func (p planner) follow(v view, leader *Plan) {
	for _, name := range p.channels() {
		if p.policies[name].Follows != leader.Channel || name == leader.Channel {
			continue
		}
		follower, err := p.followOne(v, name, leader)
		switch {
		case leader.Action == channels.Appoint && errors.Is(err, channels.ErrUnsigned): // appointed one after the other
			leader.Warnings = append(leader.Warnings, stillBare(name))
		case err != nil:
			leader.leaves(name, err)
		case follower != nil:
			leader.Followers = append(leader.Followers, follower)
		}
	}
}

// leaves records why a follower stays where it is.
func (leader *Plan) leaves(follower string, why error) {
	if errors.As(why, new(*Refusal)) {
		leader.Warnings = append(leader.Warnings, fmt.Sprintf("%s does not follow: %v", follower, why))
		return
	}
	leader.broken = append(leader.broken, fmt.Errorf("%s has moved to %s, but %s, which follows it, has not: %w", leader.Channel, leader.Version, follower, why))
}

// followOne returns the plan of one follower, nil if it has nothing to do.
func (p planner) followOne(v view, name string, leader *Plan) (*Plan, error) {
	s := v[name]
	if s.err != nil || s.log.Fed() {
		return nil, s.err
	}
	// What may be missing was allowed for the leader alone. What may be unbound goes
	// for every channel that shows the release.
	c := change{action: channels.Follow, from: leader.Channel, why: leader.why, release: leader.head.Release, allowUnbound: true, strand: leader.strand}
	version, err := manifest.ParseVersion(c.release.Version)
	if err != nil {
		return nil, err
	}
	if before := s.before(); before != nil && version.Compare(before.Version) < 0 || s.log.RolledBack(version.String()) != nil {
		return nil, nil
	}
	if head := s.log.Head(); head != nil && head.Rollout != nil {
		own, err := manifest.ParseVersion(head.Rollout.Version)
		switch order := version.Compare(own); {
		case err != nil:
			return nil, err
		case order == 0 && !head.Rollout.Paused.IsZero():
			return nil, nil // it holds back this very release
		case order < 0:
			c.rollout = head.Rollout // its own rollout of a newer release goes on
		}
	}
	follower, err := p.plan(v, s, c)
	if err != nil || !follower.Changed {
		return nil, err
	}
	return follower, nil
}

func checkRollout(r *channels.Rollout) error {
	if r == nil || r.Check() == nil {
		return nil
	}
	return &Refusal{Cause: r.Check(), Mend: "write --percent 10, or --steps 5,25,50,100 --every 6h"}
}

// changeTo returns the change that gives a version to everybody.
func (p planner) changeTo(version string, action channels.Action, o Options) change {
	return change{action: action, why: o.Why, version: version, allowMissing: o.AllowMissing,
		allowUnbound: o.AllowUnbound || p.policies[o.Channel].AllowUnbound, strand: o.Strand}
}

// take completes a change with the record of its version. The release of a rollout stays as the
// log has it.
func (c *change) take(record *library.Record) {
	c.bundles = record.Bundles
	if c.release.Version == "" {
		c.release = record.Release()
	}
}

// begin turns a change into a rollout, if one is wanted. If the channel is already rolling
// out the same release, that rollout goes on unchanged: the command may be an old job that
// runs again.
func (p planner) begin(s *state, c *change, wanted *channels.Rollout) {
	head := s.log.Head()
	switch {
	case head != nil && head.Rollout != nil && head.Rollout.Version == c.version:
		c.rollout, c.others = head.Rollout, &head.Release
		c.allowMissing = slices.Concat(c.allowMissing, head.Rollout.AllowMissing)
		c.warnings = append(c.warnings, fmt.Sprintf("%s is being rolled out already; `tsmon channel rollout %s --percent N` changes that", c.version, s.channel))
		return
	case wanted == nil || wanted.Steps[0] == 100 || head.Version == c.version:
	default:
		fresh := wanted.Allow(c.allowMissing).Begin(p.now.UTC().Truncate(time.Second))
		fresh.ID = s.channel + "/" + strconv.FormatUint(head.Sequence+1, 10)
		fresh.Version = c.version
		c.rollout, c.others = fresh, &head.Release
		if policy := p.policies[s.channel]; policy.ReadsManifest && !policy.Rings {
			c.warnings = append(c.warnings, fmt.Sprintf("clients that read %s get nothing of %s before 100 %%: set rings: true for %s, whose applications then read their ring, or have them ask `tsmon serve`",
				channels.ManifestKey(s.channel), c.version, s.channel))
		}
	}
	if head != nil && head.Rollout != nil {
		c.warnings = append(c.warnings, fmt.Sprintf("the rollout of %s ends with this", head.Rollout.Version))
	}
}
