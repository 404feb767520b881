package channels

import (
	"errors"
	"fmt"
	"maps"
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
	Sequence uint64
	Since    time.Time // when the newest entry of the log was made; a server that sees it come puts its own time here

	names      names
	shown      *manifest.Response
	rollout    *Rollout           // nil: none
	candidate  *manifest.Response // of the rollout; nil if it does not verify
	watersheds []watershed        // in rising order
}

// watershed is a release that older clients have to pass through.
type watershed struct {
	version  manifest.Version
	response *manifest.Response // nil if it does not verify
}

// ErrUnverified says that what a client should be offered does not verify.
var ErrUnverified = errors.New("the release does not verify")

// Answer is what one client is told.
type Answer struct {
	Offer *manifest.Offer // nil: the client has what there is for it
	// Extra are the members of the offered manifest that the updater itself does
	// not know.
	Extra manifest.Extra
	// Held says that there is a rollout which the client is not part of by now.
	Held bool
}

// Compile makes a log ready. check, which may be nil, sees the bytes of each
// manifest that clients could be offered. Where it finds a fault with what the
// channel shows, that is an error and there are no offers; where it does with a
// rollout or a watershed, there are offers without it, besides the error: the
// rollout is then for nobody, and who would have to pass the watershed is told
// nothing. ErrNothing if the log is empty.
func Compile(log *Log, check func(data []byte) error) (*Offers, error) {
	head := log.Head()
	if head == nil {
		return nil, ErrNothing
	}
	o := &Offers{Sequence: head.Sequence, Since: head.When, rollout: head.Rollout, names: namesOf(log)}
	var err error
	if o.shown, err = checked(head.Manifest, check); err != nil {
		return nil, err
	}
	var faults []error
	if o.rollout != nil {
		if o.candidate, err = checked(o.rollout.Manifest, check); err != nil {
			faults = append(faults, err)
		}
	}
	for _, m := range log.watersheds() {
		w, err := checked(m, check)
		version, err2 := manifest.ParseVersion(m.Version)
		faults = append(faults, err, err2)
		o.watersheds = append(o.watersheds, watershed{version, w})
	}
	slices.SortFunc(o.watersheds, func(a, b watershed) int { return a.version.Compare(b.version) })
	return o, errors.Join(faults...)
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
// pass through, as they were last offered: those that stand and that the channel
// has shown to everybody, or has begun to and gone on to a newer one.
func (l *Log) watersheds() []manifest.Manifest {
	standing := l.Standing()
	last := map[string]manifest.Manifest{}
	for i, e := range standing {
		if e.Manifest.Watershed {
			last[e.Version] = e.Manifest
		}
		r := e.Rollout
		switch {
		case r == nil || !r.Manifest.Watershed:
		case r.Paused.IsZero() && i < len(standing)-1:
			last[r.Version] = r.Manifest
		default: // it is held back, or just being rolled out
			delete(last, r.Version)
		}
	}
	return slices.Collect(maps.Values(last))
}

// For decides what a client is told. Errors are those of manifest.Response:
// ErrTarget where there is nothing for its platform, ErrVersion where it does
// not say what is installed; or ErrUnverified.
func (o *Offers) For(c Client, now time.Time) (Answer, error) {
	answer := Answer{}
	goal := o.shown
	if o.rollout != nil {
		if o.candidate != nil && o.rollout.Admits(c.ID, c.Cohort, now) {
			goal = o.candidate
		} else {
			answer.Held = true
		}
	}
	next, err := o.next(goal, c.Version)
	if err != nil {
		return Answer{}, err
	}
	if _, _, err := next.Lookup(c.Target, c.BundleType); err != nil {
		return Answer{}, err // 204 would keep a client from its other endpoints
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
		if w.version.Compare(version) <= 0 || w.version.Compare(goal.Version) >= 0 {
			continue
		}
		if w.response == nil {
			return nil, fmt.Errorf("%s: %w", w.version, ErrUnverified)
		}
		return w.response, nil
	}
	return goal, nil
}

// Rolling returns the version that some clients are offered by now, empty if
// there is none or it is paused.
func (o *Offers) Rolling() string {
	if o.rollout == nil || !o.rollout.Paused.IsZero() {
		return ""
	}
	return o.rollout.Version
}

// Newest returns the newest version that the channel has for any client, or holds
// back.
func (o *Offers) Newest() string {
	if o.rollout != nil {
		return o.rollout.Version
	}
	return o.shown.Version.String()
}

// Older reports that a text is a version before the newest one.
func (o *Offers) Older(text string) bool {
	version, err := manifest.ParseClientVersion(text)
	newest, err2 := manifest.ParseVersion(o.Newest())
	return err == nil && err2 == nil && version.Compare(newest) < 0
}

// Due reports that everybody is offered the release of a rollout by now, which
// the channel itself does not show yet.
func (o *Offers) Due(now time.Time) bool { return o.rollout != nil && o.rollout.Complete(now) }
