package channels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsmon/channels/ring"
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
	// Downgrades says that the channel has clients with allowDowngrades. A client whose
	// version is above that of the channel is then offered the channel's, as in a
	// manifest; those that only go forward ignore it.
	Downgrades bool
	// Round and Before are those of the log; 0 and empty without one.
	Round  uint64
	Before string

	shown      *manifest.Response
	rollout    *Rollout           // nil: none
	rings      ring.Set           // that the rollout includes
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
	// Extra are the members that only applications read: Watershed of what is offered,
	// MinimumVersion of Goal if the client is below that, and Critical if it has a
	// critical release ahead of it on its way there.
	Extra manifest.Extra
	// Back is true if the offer is below what the client has.
	Back bool
	// Held is true if there is a rollout that does not include the client yet.
	Held bool
	// Unfit says why there is no offer, although there is a newer version: no bundle
	// of it suits the client's type. It wraps manifest.ErrUnfit.
	Unfit error
	// Goal is the version that the client is on its way to, its own or another.
	Goal string
}

// Compile prepares the offers of a log, with the bundles at publicURL. check, which may be nil,
// verifies each manifest that clients could be offered. If it fails for what the channel shows,
// there are no offers. If it fails for a rollout or a watershed, the offers come with an error:
// the rollout then includes nobody, and clients before the watershed get ErrUnverified.
// ErrNothing if the log is empty.
func Compile(log *Log, publicURL string, check func(data []byte) error) (*Offers, error) {
	head := log.Head()
	if head == nil {
		return nil, ErrNothing
	}
	o := &Offers{Sequence: head.Sequence, Since: head.When, Round: log.Round(), Before: log.Before(), rollout: head.Rollout}
	var err error
	if o.shown, err = checked(head.Render(publicURL), check); err != nil {
		return nil, err
	}
	var faults []error
	if o.rollout != nil {
		o.rings = o.rollout.Rings()
		if o.candidate, err = checked(o.rollout.Release.Render(publicURL, head.Sequence), check); err != nil {
			faults = append(faults, err)
		}
	}
	for _, release := range log.watersheds() {
		w, err := checked(release.Render(publicURL, head.Sequence), check)
		version, err2 := manifest.ParseVersion(release.Version)
		faults = append(faults, err, err2)
		o.watersheds = append(o.watersheds, watershed{version, w})
	}
	slices.SortFunc(o.watersheds, func(a, b watershed) int { return a.version.Compare(b.version) })
	return o, errors.Join(faults...)
}

// Foreign returns the offers of a manifest that stands without a log: everybody gets
// it.
func Foreign(m manifest.Manifest, check func(data []byte) error) (*Offers, error) {
	shown, err := checked(m, check)
	if err != nil {
		return nil, err
	}
	return &Offers{shown: shown}, nil
}

// checked reads a manifest as clients do, after check, which may be nil, has accepted its bytes.
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

// watersheds returns the watersheds that stand and that clients pass, as they were
// last offered.
func (l *Log) watersheds() []Release {
	passed := l.passed(false)
	maps.DeleteFunc(passed, func(_ string, r Release) bool { return !r.Watershed })
	return slices.Collect(maps.Values(passed))
}

// Watersheds returns the versions that older clients must install before a newer one.
func (l *Log) Watersheds() []string {
	var versions []string
	for _, r := range l.watersheds() {
		versions = append(versions, r.Version)
	}
	return versions
}

// passed returns the standing releases by version, as they were last offered: those that the
// channel showed to everybody, and those whose rollout a newer release ended. With ongoing it
// adds the release that is being rolled out, unless that is paused.
func (l *Log) passed(ongoing bool) map[string]Release {
	standing := l.Standing()
	last := map[string]Release{}
	for i, e := range standing {
		last[e.Version] = e.Release
		r := e.Rollout
		switch {
		case r == nil:
		case r.Paused.IsZero() && (ongoing || i < len(standing)-1):
			last[r.Version] = r.Release
		default: // it is held back, or just being rolled out
			delete(last, r.Version)
		}
	}
	return last
}

// For returns the answer to a client. The error is manifest.ErrTarget if there is
// nothing for its platform, manifest.ErrVersion if it does not say what is
// installed, or ErrUnverified.
func (o *Offers) For(c Client) (Answer, error) {
	return o.Decide(c.Client, o.rollout != nil && o.rollout.admits(o.rings, c.ID, c.Cohort))
}

// Decide is For, of a client that the rollout includes or not.
func (o *Offers) Decide(c manifest.Client, in bool) (Answer, error) {
	goal := o.Shown(in)
	answer := Answer{Held: o.rollout != nil && goal == o.shown, Goal: goal.Version.String()}
	c.Downgrades = o.Downgrades
	installed, err := manifest.ParseClientVersion(c.Version)
	if err != nil {
		return Answer{}, err
	}
	next, err := o.next(goal, c, installed)
	if err != nil {
		return Answer{}, err
	}
	answer.Offer, err = next.Choose(c, installed)
	switch {
	case errors.Is(err, manifest.ErrUnfit):
		answer.Unfit = err
	case err != nil:
		return Answer{}, err // 204 would keep a client from its other endpoints
	}
	answer.Extra = next.Extra
	answer.Extra.Critical, answer.Extra.MinimumVersion = goal.CriticalTo(installed), goal.MinimumTo(installed)
	answer.Back = answer.Offer != nil && next.Version.Compare(installed) <= 0
	return answer, nil
}

// Shown returns the manifest of the clients that the rollout includes, or of all
// others.
func (o *Offers) Shown(in bool) *manifest.Response {
	if in && o.candidate != nil {
		return o.candidate
	}
	return o.shown
}

// next is the first watershed on a client's way to its goal, else the goal. A
// watershed without a bundle for the client lets it pass.
func (o *Offers) next(goal *manifest.Response, c manifest.Client, installed manifest.Version) (*manifest.Response, error) {
	for _, w := range o.watersheds {
		if w.version.Compare(installed) <= 0 || w.version.Compare(goal.Version) >= 0 {
			continue
		}
		if w.response == nil {
			return nil, fmt.Errorf("%s: %w", w.version, ErrUnverified)
		}
		if offer, err := w.response.Choose(c, installed); err == nil && offer != nil {
			return w.response, nil
		}
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

// Share returns the share of the clients of a cohort that gets the newest release, from
// 0 to 1.
func (o *Offers) Share(cohort string) float64 {
	switch r := o.rollout; {
	case r == nil:
		return 1
	case !r.Paused.IsZero():
		return 0
	case cohort != "" && slices.Contains(r.Cohorts, cohort):
		return 1
	default:
		return float64(r.Percent) / 100
	}
}

// Hands reports whether the channel shows or rolls out a version, and whether clients
// like this one may fetch it: anybody, but for a rollout that is paused, whose release
// only those may fetch that it included before.
func (o *Offers) Hands(version, id, cohort string) (about, hands bool) {
	r := o.rollout
	switch {
	case o.shown.Version.String() == version:
		return true, true
	case r == nil || r.Version != version:
		return false, false
	}
	return true, r.Paused.IsZero() || r.Resume(r.Paused).Admits(id, cohort)
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

// NextStep returns when the next step of a rollout is due; false if there is none.
func (o *Offers) NextStep() (due time.Time, ok bool) {
	if o.rollout == nil {
		return time.Time{}, false
	}
	_, due, ok = o.rollout.Next()
	return due, ok
}
