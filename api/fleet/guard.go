package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tsmon/api/fleet/verdict"
	"tsmon/store/record"
)

// ErrGuard means that a guard breaks the rules of Guard.Check.
var ErrGuard = errors.New("not a guard")

// Guard says when the rollouts of a channel are halted.
type Guard struct {
	// Failures is the percentage of the clients that a release may fail for; 0 halts at
	// the first failure, 100 never.
	Failures float64
	// Networks is the number of networks in which it must fail; 1 for a fleet behind one
	// address.
	Networks int
}

const maxNetworks = 1000

// Check returns an error unless Failures is from 0 to 100 and Networks from 1 to 1000.
// Errors wrap ErrGuard.
func (g Guard) Check() error {
	switch {
	case !(g.Failures >= 0 && g.Failures <= 100):
		return fmt.Errorf("%w: failures %v is not a percentage from 0 to 100", ErrGuard, g.Failures)
	case g.Networks < 1 || g.Networks > maxNetworks:
		return fmt.Errorf("%w: networks %d is not from 1 to %d", ErrGuard, g.Networks, maxNetworks)
	}
	return nil
}

// Guards judges rollouts by the outcomes of the release on the recorded clients.
type Guards struct {
	Guards   map[string]Guard // by channel
	Default  Guard            // for the other channels
	Channels func() map[string]Channel
	Records  GuardRecords
	Recorded func() uint64 // Sightings.Recorded of this server
	Now      func() time.Time
}

// GuardRecords are the records that Guards need.
type GuardRecords interface {
	record.Outcomes
	Clients(ctx context.Context, channel string, since time.Time) ([]record.ClientCount, error)
}

// Opinion is a guard's judgment of the newest release of a channel.
type Opinion struct {
	Channel  string `json:"channel"`
	Version  string `json:"version"`
	Sequence uint64 `json:"sequence"`         // entry of the log that was judged
	Before   string `json:"before,omitempty"` // release that it is compared with; empty if none is known

	Decision verdict.Decision `json:"decision"` // continue, wait or halt
	// Why the next step waits or the rollout is to be halted; empty for continue.
	Why string `json:"why,omitempty"`

	Verdict *verdict.Verdict `json:"verdict"` // of the clients alone
	// Clients are the outcomes since the release was published or resumed, BeforeClients those
	// of the previous release.
	Clients       verdict.Sums  `json:"clients"`
	BeforeClients *verdict.Sums `json:"before_clients,omitempty"`
	// Reach is how many clients of the sample the present step can reach; after a day, no more
	// than were offered the release. 0 if unknown.
	Reach    int64   `json:"reach"`
	Sample   float64 `json:"sample"` // share of the clients that is recorded
	Networks Spread  `json:"networks"`
	Required int     `json:"networks_required"` // networks in which a release must fail to be halted
	// Groups are the clients by target and cohort, not bounded by network; from Split.
	Groups []OutcomeGroup `json:"groups,omitempty"`
}

// OutcomeGroup are the outcomes of the release on the clients of one target and cohort.
type OutcomeGroup struct {
	Target  string `json:"target"` // empty if unknown
	Cohort  string `json:"cohort,omitempty"`
	Failing int64  `json:"failing"`
	Waiting int64  `json:"waiting"`
	Healthy int64  `json:"healthy"`
	Offered int64  `json:"offered"`
	// Doubt bounds the probability that a release within the limit looks this bad for
	// this group at any time.
	Doubt float64 `json:"doubt"`
}

// Split adds the outcomes by target and cohort to an opinion.
func (g *Guards) Split(ctx context.Context, o *Opinion, c Channel) error {
	test, err := verdict.New(o.Verdict.Limit, nil)
	if err != nil {
		return err
	}
	found, err := g.Records.Groups(ctx, record.Round{Channel: o.Channel, Version: o.Version, Round: c.Round})
	for i := range found {
		f := &found[i]
		sums := sumsOf(&f.Counts)
		v, err := test.Judge(sums, 0)
		if err != nil {
			return err
		}
		o.Groups = append(o.Groups, OutcomeGroup{f.Target, f.Cohort, sums.Failing, sums.Waiting, sums.Healthy, sums.Offered, v.Doubt})
	}
	return err
}

func (g *Guards) guard(channel string) Guard {
	if guard, ok := g.Guards[channel]; ok {
		return guard
	}
	return g.Default
}

// marks are the ages at which clients are counted.
var marks = verdict.MarkAges[:]

// Judge returns the guard's opinion of the newest release of a channel. Errors are those of the
// records.
func (g *Guards) Judge(ctx context.Context, channel string, c Channel) (*Opinion, error) {
	guard, now := g.guard(channel), g.Now()
	o := &Opinion{Channel: channel, Version: c.Newest(), Sequence: c.Sequence, Required: guard.Networks}
	before, err := g.before(ctx, channel, c.Before)
	if err != nil {
		return nil, err
	}
	if before != nil {
		o.Before, o.BeforeClients = c.Before, before
	}
	crowds, err := g.Records.Crowds(ctx, record.Round{Channel: channel, Version: o.Version, Round: c.Round}, now, marks)
	if err != nil {
		return nil, err
	}
	o.Clients, o.Networks = Bounded(crowds.List, guard.Networks)
	o.Sample = crowds.Rate() * o.Networks.Counted
	if crowds.OfNetwork == 0 {
		if o.Reach, err = g.reach(ctx, channel, c, o, now); err != nil {
			return nil, err
		}
	}
	test, err := verdict.New(guard.Failures/100, before)
	if err == nil {
		o.Verdict, err = test.Judge(o.Clients, o.Reach)
	}
	if err != nil {
		return nil, fmt.Errorf("judge %s on %s: %w", o.Version, channel, err)
	}
	o.decide(now.Sub(crowds.Refused) < fullTime)
	return o, nil
}

// decide completes the verdict with what it does not consider: the number of networks, and
// whether all clients are recorded.
func (o *Opinion) decide(full bool) {
	o.Decision = o.Verdict.Decision
	if o.Decision != verdict.Continue {
		o.Why = o.Verdict.Sentence
	}
	networks := o.Networks.Failing
	if o.Verdict.Cause == verdict.CauseWaiting {
		networks = o.Networks.Networks
	}
	switch {
	case o.Decision == verdict.Halt && networks < o.Required:
		o.Decision = verdict.Wait
		o.Why = fmt.Sprintf("%s All of that is from %s, and a halt requires %d: guard.networks of the channel.", o.Verdict.Sentence, verdict.Plural(int64(networks), "network", "networks"), o.Required)
	case o.Decision == verdict.Continue && full:
		o.Decision, o.Why = verdict.Wait, o.Verdict.Sentence+" But clients of the release find no room in the records: made-up ones may have taken it."
	}
}

// before returns the outcomes of a release, nil if none are known.
func (g *Guards) before(ctx context.Context, channel, version string) (*verdict.Sums, error) {
	if version == "" {
		return nil, nil //nolint:nilnil // which verdict.New accepts
	}
	kept, err := g.Records.Summary(ctx, channel, version)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil //nolint:nilnil // as above
	}
	var sums verdict.Sums
	if err == nil {
		err = json.Unmarshal(kept.Sums, &sums)
	}
	if err != nil {
		return nil, fmt.Errorf("outcomes of %s on %s: %w", version, channel, err)
	}
	return &sums, nil
}

// reachTime is how recently a client must have been seen to count as one that a step can reach.
const reachTime = 24 * time.Hour

// reach returns how many clients the present step can reach, of the share that is counted. In a
// small fleet the step may contain far fewer clients than its share, by chance or because
// others have the release already. Once a step has lasted for reachTime, all clients that were
// seen within reachTime have asked: it then reaches those that were offered the release, and
// waits for no others.
func (g *Guards) reach(ctx context.Context, channel string, c Channel, o *Opinion, now time.Time) (int64, error) {
	groups, err := g.Records.Clients(ctx, channel, now.Add(-reachTime))
	total := 0.0
	for _, group := range groups {
		total += float64(group.Estimate()) * c.Share(group.Cohort)
	}
	reach := int64(total * o.Sample)
	if now.Sub(c.Since) >= reachTime {
		reach = min(reach, o.Clients.Handed()+o.Clients.Offered)
	}
	return reach, err
}

// Keep stores the present outcomes of a channel's newest release, so that later releases can be
// compared with it. Errors are those of the records.
func (g *Guards) Keep(ctx context.Context, channel string, c Channel) error {
	now := g.Now()
	crowds, err := g.Records.Crowds(ctx, record.Round{Channel: channel, Version: c.Newest()}, now, marks)
	if err != nil {
		return err
	}
	sums, _ := Bounded(crowds.List, g.guard(channel).Networks)
	if sums.Handed() == 0 {
		return nil
	}
	text, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	return g.Records.KeepSummary(ctx, record.Summary{Channel: channel, Version: c.Newest(), Clients: sums.Handed(), Counted: now, Sums: text})
}

// Trip is a rollout that a guard wants to halt.
type Trip struct {
	Channel  string
	Version  string
	Sequence uint64 // entry of the log that was judged
	Why      string // for the channel's log
}

// Tripped returns the rollouts to halt. Errors are those of the records.
func (g *Guards) Tripped(ctx context.Context) ([]Trip, error) {
	var trips []Trip
	for name, c := range g.Channels() {
		if c.Rolling() == "" {
			continue
		}
		o, err := g.Judge(ctx, name, c)
		if err != nil {
			return trips, err
		}
		if o.Decision == verdict.Halt {
			trips = append(trips, Trip{name, o.Version, o.Sequence, o.Why})
		}
	}
	return trips, nil
}
