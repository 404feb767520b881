package channels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsmon/manifest"
)

// ErrNothing means that a channel shows nothing yet.
var ErrNothing = errors.New("the channel shows nothing")

// Client is an installed application that asks what there is for it.
type Client struct {
	manifest.Client
	ID     string // any constant text; empty: the client sends none
	Cohort string // empty: none
}

// Offers answers the clients of a channel from its log as it was at one moment. It
// is immutable.
type Offers struct {
	Sequence uint64
	Since    time.Time // when the newest entry was made; a server that sees it arrive sets its own time

	names      names
	shown      *manifest.Response
	rollout    *Rollout           // nil: none
	candidate  *manifest.Response // of the rollout; nil if it does not verify
	watersheds []watershed        // in rising order
}

// watershed is a release that older clients must install before a newer one.
type watershed struct {
	version  manifest.Version
	response *manifest.Response // nil if it does not verify
}

// ErrUnverified means that the release to offer does not verify.
var ErrUnverified = errors.New("the release does not verify")

// Answer is the answer to one client.
type Answer struct {
	Offer *manifest.Offer // nil: the client has what there is for it
	// Extra are the members of the offered manifest that only applications read.
	Extra manifest.Extra
	// Held is true if there is a rollout that does not include the client yet.
	Held bool
}

// Compile prepares the offers of a log. check, which may be nil, is given the bytes
// of each manifest that clients could be offered. If it fails for what the channel
// shows, there are no offers. If it fails for a rollout or a watershed, the offers
// come with an error: the rollout then includes nobody, and clients before the
// watershed get ErrUnverified. ErrNothing if the log is empty.
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

// checked reads a manifest as clients do, after check has accepted its bytes.
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

// watersheds returns the manifests of the watersheds that stand, as they were last
// offered: those that the channel has shown to everybody, and those whose rollout
// was followed by a newer release.
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

// For returns the answer to a client. The error is manifest.ErrTarget if there is
// nothing for its platform, manifest.ErrVersion if it does not say what is
// installed, or ErrUnverified.
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

// Rolling returns the version that is being rolled out, empty if there is none or if
// it is paused.
func (o *Offers) Rolling() string {
	if o.rollout == nil || !o.rollout.Paused.IsZero() {
		return ""
	}
	return o.rollout.Version
}

// Newest returns the newest version of the channel, offered or held back.
func (o *Offers) Newest() string {
	if o.rollout != nil {
		return o.rollout.Version
	}
	return o.shown.Version.String()
}

// Older reports whether a text is a version below the newest one.
func (o *Offers) Older(text string) bool {
	version, err := manifest.ParseClientVersion(text)
	newest, err2 := manifest.ParseVersion(o.Newest())
	return err == nil && err2 == nil && version.Compare(newest) < 0
}

// Due reports whether a rollout has reached everybody and the channel does not show
// its release yet.
func (o *Offers) Due(now time.Time) bool { return o.rollout != nil && o.rollout.Complete(now) }
