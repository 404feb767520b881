package channels

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tsmon/manifest"
)

// ErrNothing says that a channel shows nothing yet.
var ErrNothing = errors.New("the channel shows nothing")

// Client is an installed application that asks what there is for it.
type Client struct {
	manifest.Client
	ID     string // any text that stays the same; empty: it does not tell
	Cohort string // empty: none
}

// Offers is a channel made ready to answer clients, as its log stood. It is
// immutable.
type Offers struct {
	Sequence   uint64
	shown      *manifest.Response
	rollout    *Rollout             // nil: none
	candidate  *manifest.Response   // of the rollout
	watersheds []*manifest.Response // standing, in rising order
}

// Answer is what one client is told.
type Answer struct {
	Offer *manifest.Offer // nil: the client has what there is for it
	// Extra are the members of the offered manifest that the updater itself does
	// not know.
	Extra manifest.Extra
	// Held says that a rollout goes on which the client is not part of.
	Held bool
}

// Compile makes a log ready, if check, which may be nil, finds nothing wrong with
// the manifests that clients can be offered. ErrNothing if it is empty.
func Compile(log *Log, check func(data []byte) error) (*Offers, error) {
	head := log.Head()
	if head == nil {
		return nil, ErrNothing
	}
	o := &Offers{Sequence: head.Sequence, rollout: head.Rollout}
	var err error
	if o.shown, err = checked(head.Manifest, check); err != nil {
		return nil, err
	}
	if o.rollout != nil {
		if o.candidate, err = checked(o.rollout.Manifest, check); err != nil {
			return nil, err
		}
	}
	for _, m := range log.watersheds() {
		w, err := checked(m, check)
		if err != nil {
			return nil, err
		}
		o.watersheds = append(o.watersheds, w)
	}
	slices.SortFunc(o.watersheds, func(a, b *manifest.Response) int { return a.Version.Compare(b.Version) })
	return o, nil
}

// checked reads a manifest as clients do, after check has seen its bytes.
func checked(m manifest.Manifest, check func(data []byte) error) (*manifest.Response, error) {
	data, err := m.Encode()
	if err == nil && check != nil {
		err = check(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Version, err)
	}
	return manifest.ParseResponse(data)
}

// response reads a manifest as clients do.
func response(m manifest.Manifest) (*manifest.Response, error) {
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	return manifest.ParseResponse(data)
}

// watersheds returns the manifests of the releases that every older client must
// pass through: of those that the channel has shown to everybody and not taken
// off.
func (l *Log) watersheds() []manifest.Manifest {
	var found []manifest.Manifest
	for _, e := range l.Standing() {
		known := slices.ContainsFunc(found, func(f manifest.Manifest) bool { return f.Version == e.Version })
		if e.Manifest.Watershed && !known {
			found = append(found, e.Manifest)
		}
	}
	return found
}

// For decides what a client is told. Errors are those of manifest.Response:
// ErrTarget where there is nothing for its platform, ErrVersion where it does
// not say what is installed.
func (o *Offers) For(c Client, now time.Time) (Answer, error) {
	answer := Answer{}
	goal := o.shown
	if o.rollout != nil {
		if o.rollout.Admits(c.ID, c.Cohort, now) {
			goal = o.candidate
		} else {
			answer.Held = true
		}
	}
	next, err := o.next(goal, c.Version)
	if err != nil {
		return Answer{}, err
	}
	if answer.Offer, err = next.OfferTo(c.Client); err != nil {
		return Answer{}, err
	}
	answer.Extra = next.Extra
	return answer, nil
}

// next is the first watershed on a client's way to its goal, else the goal.
func (o *Offers) next(goal *manifest.Response, installed string) (*manifest.Response, error) {
	version, err := manifest.ParseClientVersion(installed)
	if err != nil {
		return nil, err
	}
	for _, w := range o.watersheds {
		if w.Version.Compare(version) > 0 && w.Version.Compare(goal.Version) < 0 {
			return w, nil
		}
	}
	return goal, nil
}

// Due reports that everybody is offered the release of a rollout by now, which
// the channel itself does not show yet.
func (o *Offers) Due(now time.Time) bool { return o.rollout != nil && o.rollout.Complete(now) }
