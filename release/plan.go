package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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

// Plan is a planned move of a channel: the next log entry, and what every kind of client gets after
// it. Apply carries it out.
type Plan struct {
	Action   channels.Action `json:"action"` // of the entry with number Sequence
	Channel  string          `json:"channel"`
	Version  string          `json:"version"`            // that the plan is about
	Previous string          `json:"previous,omitempty"` // version that the channel showed
	Sequence uint64          `json:"sequence"`           // of an earlier entry if there is nothing to do
	// Changed is false if there is nothing to do. Without an Entry it is true if only what
	// clients read was behind the log, once Apply or a dry run has looked.
	Changed bool `json:"changed"`
	// Rendered are the keys of manifests that were behind the log and were rendered again, or
	// would be, without a new entry.
	Rendered  []string          `json:"rendered,omitempty"`
	DryRun    bool              `json:"dry_run,omitempty"` // it is not to be applied
	URL       string            `json:"url"`               // of the manifest
	Bundles   []library.Stored  `json:"bundles"`
	Reach     []gate.Reach      `json:"reach"`
	Rollout   *Share            `json:"rollout,omitempty"` // who gets Version; nil: everybody
	Rings     bool              `json:"rings,omitempty"`   // static clients in and out of the rollout read rings
	Unbound   []string          `json:"unbound,omitempty"` // platform keys whose signatures name no version
	Warnings  []string          `json:"warnings,omitempty"`
	Followers []*Plan           `json:"followers,omitempty"` // channels that move along
	Probed    bool              `json:"probed"`              // clients were seen to get it
	Base      channels.Position `json:"base"`                // end of the log; the entry is appended only there
	Entry     *channels.Entry   `json:"entry,omitempty"`     // nil: the log has it already
	Waiting   *approval.Waiting `json:"waiting,omitempty"`   // nil: the entry needs no more signatures
	// Needs says, after a dry run, who must sign the entry; nil if nobody must.
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
	// AllowMissing are platform keys whose clients get no update on purpose.
	AllowMissing []string `json:"allow_missing,omitempty"`
	Paused       bool     `json:"paused"`
	Rings        []int    `json:"rings,omitempty"` // included, if the channel keeps rings
}

// ShareOf describes a rollout, with its rings if the channel keeps them; nil without a rollout.
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

func newPlanner(p *Publisher) planner {
	return planner{publicURL: p.PublicURL, keys: p.Keys, policies: p.Policies, who: p.Who, origin: p.Origin, now: p.Now()}
}

// planner returns the planner, and refuses channels that are not configured: a mistyped name
// must not create one.
func (p *Publisher) planner(names ...string) (planner, error) {
	pl := newPlanner(p)
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

// Configured returns an error unless these channels and everything that a move needs are
// configured. A command that moves several channels calls it first.
func (p *Publisher) Configured(names ...string) error {
	_, err := p.planner(names...)
	return err
}

func (p planner) channels() []string { return slices.Sorted(maps.Keys(p.policies)) }

// state is a channel as it was read.
type state struct {
	channel string
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

// before returns the manifest that clients of a channel see: that of the log's head, or, before the
// first entry, one that was written by other means. It returns nil if clients can read none.
func (p planner) before(s *state) *manifest.Response {
	data := s.seen[0].Data
	if head := s.log.Head(); head != nil {
		shown := head.Render(p.publicURL)
		data, _ = shown.Encode() // it was decoded from the log
	}
	response, err := manifest.ParseResponse(data)
	if err != nil {
		return nil
	}
	return response
}

// change is the next state of a channel.
type change struct {
	gate.Move
	from, why string
	version   string // the version to verify in the store first; empty: clients have it already
	// rollout is the rollout of the entry. If others is not nil, the rollout offers Release, and
	// all other clients get others.
	rollout  *channels.Rollout
	others   *channels.Release
	bundles  []library.Stored
	warnings []string
	mayLose  bool // any platform may be missing: that was decided before, or must not wait
	halted   bool // a guard decided it
}

// urgent are the actions that don't wait for a channel to be repaired: they take a bad release
// out of the way, or follow.
var urgent = []channels.Action{channels.Rollback, channels.Pause, channels.Follow}

// next returns the log entry of a change.
func (p planner) next(s *state, c change) channels.Entry {
	e := channels.Entry{Action: c.Action, From: c.from, Why: c.why, Who: p.who, Origin: p.origin, When: p.now, Halted: c.halted, Release: c.Release, Rollout: c.rollout}
	if c.others != nil {
		rollout := *c.rollout
		rollout.Release = c.Release
		e.Release, e.Rollout = *c.others, &rollout
	}
	if s.log.Head() == nil {
		e.Operators = p.policies[s.channel].Operators
	}
	return s.log.Next(e)
}

// plan checks a change by the rules of the gate, and plans the move and those of the followers.
func (p planner) plan(v view, s *state, c change) (*Plan, error) {
	if !c.Standing {
		c.Release = s.log.Carry(c.Release)
	}
	entry := p.next(s, c)
	c.Manifest = c.Release.Render(p.publicURL, entry.Sequence)
	c.Move = p.move(s, c.Move)
	if lost := c.Missing(); c.mayLose && len(lost) > 0 {
		c.AllowMissing = slices.Concat(lost, c.AllowMissing)
		if c.Action == channels.Pause {
			c.warnings = append(c.warnings, fmt.Sprintf("%s has nothing for %s meanwhile", s.channel, strings.Join(lost, ", ")))
		}
	}
	plan := newPlan(p.publicURL, s.log, &entry)
	plan.Version, plan.Bundles, plan.Warnings = c.Release.Version, c.bundles, c.warnings
	plan.Unbound, plan.Rollout, plan.Rings = c.Manifest.Unbound(), ShareOf(c.rollout, c.Rings), c.Rings
	plan.why, plan.strand, plan.seen = c.why, c.Strand, s.seen
	if len(plan.Unbound) > 0 && !showsUnbound(p.policies, s.channel) {
		plan.Warnings = append(plan.Warnings, "`tsmon serve` shows signatures that name no version only with allow_unbound: true for "+s.channel+" in its tsmon.yaml")
	}
	if s.ahead != nil {
		plan.Warnings = append(plan.Warnings, upkeep.NoEvidence(s.channel, s.ahead))
	}
	if c.Before != nil {
		plan.Previous = c.Before.Version.String()
	}
	head := s.log.Head()
	c.Unchanged = head != nil && head.Release.Equal(&entry.Release) && head.Rollout.Alike(entry.Rollout)
	c.Others = v.others(s)
	if !c.Unchanged && s.log.Fed() {
		return nil, upkeep.Fed(s.channel)
	}
	if !c.Standing {
		if err := v.resting(s, c.Release.Version, p.now); err != nil {
			return nil, err
		}
	}
	reach, warnings, err := c.Judge(&entry)
	if err != nil {
		return nil, err
	}
	plan.Reach, plan.Warnings = reach, append(plan.Warnings, warnings...)
	switch {
	case c.Unchanged:
		plan.Action, plan.Sequence = head.Action, head.Sequence
	case s.ahead != nil && !slices.Contains(urgent, c.Action):
		return nil, s.ahead
	default:
		plan.Changed, plan.Entry, plan.head = true, &entry, &entry
	}
	if c.rollout == nil && c.Action != channels.Follow { // followers take what everybody gets
		p.follow(v, plan)
	}
	return plan, nil
}

// move fills in what the gate must know about the channel.
func (p planner) move(s *state, m gate.Move) gate.Move {
	policy := p.policies[s.channel]
	m.Keys, m.PublicURL, m.Log, m.Before, m.Fleet, m.Types = p.keys, p.publicURL, s.log, p.before(s), s.clients, s.types
	m.Targets, m.Rings, m.ReadsManifest, m.Downgrades = policy.Targets, policy.Rings, policy.ReadsManifest, policy.AllowDowngrades
	return m
}

// others returns the channels that could be read, except the channel of s, sorted by name.
func (v view) others(s *state) (others []gate.Channel) {
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
	// The leader alone may lack platforms; a release may be unbound wherever it is shown.
	c := change{Move: gate.Move{Action: channels.Follow, Release: leader.head.Release, AllowUnbound: true, Strand: leader.strand}, from: leader.Channel, why: leader.why}
	version := c.Release.Version
	if before := p.before(s); before != nil && library.CompareVersions(version, before.Version.String()) < 0 || s.log.RolledBack(version) != nil {
		return nil, nil
	}
	if head := s.log.Head(); head != nil && head.Rollout != nil {
		switch order := library.CompareVersions(version, head.Rollout.Version); {
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
	return change{why: o.Why, version: version, Move: gate.Move{Action: action, AllowMissing: o.AllowMissing,
		AllowUnbound: o.AllowUnbound || p.policies[o.Channel].AllowUnbound, Strand: o.Strand}}
}

// take completes a change with the record of its version. The release of a rollout stays as the
// log has it.
func (c *change) take(record *library.Record) {
	c.bundles = record.Bundles
	if c.Release.Version == "" {
		c.Release = record.Release()
	}
}

// begin turns a change into a rollout, if one is wanted. A rollout of the same release goes on
// unchanged: the command may be an old job that runs again.
func (p planner) begin(s *state, c *change, wanted *channels.Rollout) {
	head := s.log.Head()
	if head == nil {
		return
	}
	running := head.Rollout
	if running != nil && running.Version == c.version {
		c.rollout, c.others = running, &head.Release
		c.AllowMissing = slices.Concat(c.AllowMissing, running.AllowMissing)
		c.warnings = append(c.warnings, fmt.Sprintf("%s is being rolled out already; `tsmon channel rollout %s --percent N` changes that", c.version, s.channel))
		return
	}
	if wanted != nil && wanted.Steps[0] != 100 && head.Version != c.version {
		fresh := wanted.Allow(c.AllowMissing).Begin(p.now.UTC().Truncate(time.Second))
		fresh.ID, fresh.Version = rolloutID(head), c.version
		c.rollout, c.others = fresh, &head.Release
		if policy := p.policies[s.channel]; policy.ReadsManifest && !policy.Rings {
			c.warnings = append(c.warnings, fmt.Sprintf("clients that read %s get nothing of %s before 100 %%: set rings: true for %s, whose applications then read their ring, or have them ask `tsmon serve`",
				channels.ManifestKey(s.channel), c.version, s.channel))
		}
	}
	if running != nil {
		c.warnings = append(c.warnings, fmt.Sprintf("the rollout of %s ends with this", running.Version))
	}
}

// rolloutID returns the ID of a rollout that begins with the entry after head.
func rolloutID(head *channels.Entry) string {
	return fmt.Sprintf("%s/%d", head.Channel, head.Sequence+1)
}
