package gate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// Reach is what one kind of client gets from a channel's new state: a cell of the
// plan's table.
type Reach struct {
	Version    string `json:"version"`               // installed
	Target     string `json:"target"`                // OS-ARCH
	BundleType string `json:"bundle_type,omitempty"` // empty: the application does not name it
	// Address is "static" for clients that read latest.json or their ring's, "dynamic"
	// for those that ask the server.
	Address string `json:"address"`
	// Rollout is "in" for clients that the rollout includes, "out" for the others, and empty
	// without a rollout. At a static address, "in" is what the manifests of included rings
	// show, and what latest.json will show in the end.
	Rollout string `json:"rollout,omitempty"`
	// Downgrades marks clients with allowDowngrades, where they get something else.
	Downgrades bool `json:"downgrades,omitempty"`
	// Outcome is "offered" (it gets Offered), "current" (it is up to date), "ahead"
	// (it has a higher version and keeps it), "dropped" (its platform was left out on
	// purpose), "stranded" (it is offered Offered and lacks the key that signed it),
	// "unfit" (it is offered nothing, since no bundle suits its type),
	// "misfit" (it is offered Bundle, which does not suit its type), or "broken" (its
	// update fails). Error says why of the last two.
	Outcome string `json:"outcome"`
	Offered string `json:"offered,omitempty"` // version
	Bundle  string `json:"bundle,omitempty"`  // file name of the download
	Error   string `json:"error,omitempty"`
}

// Values of Reach.
const (
	Static  = "static"
	Dynamic = "dynamic"
	In      = "in"
	Out     = "out"
)

// client returns a client of the kind.
func (r *Reach) client() manifest.Client {
	return manifest.Client{Version: r.Version, Target: r.Target, BundleType: r.BundleType, Downgrades: r.Downgrades}
}

// replay computes what every kind of client gets from the log with the new entry. It refuses
// what would break clients that get the release of the move, unless they get it already.
func (m Move) replay(entry *channels.Entry) ([]Reach, error) {
	log := &channels.Log{Channel: m.Log.Channel, Entries: append(slices.Clip(m.Log.Entries), *entry)}
	offers, err := channels.Compile(log, m.PublicURL, nil)
	if err != nil {
		return nil, err
	}
	offers.Downgrades = m.Downgrades
	t := &table{Move: m, offers: offers, verified: map[manifest.Offer]error{}}
	reach := t.cells(log)
	for i := range reach {
		if err := t.judge(&reach[i]); err != nil {
			return reach[:i+1], err
		}
	}
	return reach, nil
}

// Past returns what every kind of client got from an existing entry. Problems that Judge would
// refuse are in the cells.
func (m Move) Past(entry *channels.Entry) ([]Reach, error) {
	m.AllowMissing, m.Standing = m.Missing(), true
	return m.replay(entry)
}

type table struct {
	Move
	offers   *channels.Offers
	verified map[manifest.Offer]error // results by offer
}

// judge computes one cell: what the address offers, and what the client does with it. All
// outcomes are decided here. An error refuses the move.
func (t *table) judge(r *Reach) error {
	offer, unfit, err := t.answer(r)
	if offer != nil {
		r.Offered, r.Bundle = offer.Version, cmp.Or(manifest.FileOf(offer.URL), offer.URL)
		err = t.accepts(r, offer)
	}
	switch {
	case errors.Is(err, manifest.ErrTarget) && t.tolerated(r.Target):
		r.Outcome = "dropped"
	case errors.Is(err, signing.ErrNotBuiltIn):
		r.Outcome = "stranded" // strands judges that
	case errors.Is(err, manifest.ErrFormat), errors.Is(err, manifest.ErrBeside):
		r.Outcome, r.Error = "misfit", err.Error()
	case err != nil:
		r.Outcome, r.Error = "broken", err.Error()
	case offer != nil:
		r.Outcome = "offered"
	case unfit:
		r.Outcome = "unfit"
	default:
		r.Outcome = t.standing(r)
	}
	if r.Outcome == "broken" && !t.Standing && t.gets(r, offer) {
		return &bundle.Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, err), Text: fmt.Sprintf("%s on %s", r.Version, r.Target)}
	}
	return nil
}

// answer returns what the address offers a client. unfit is true if it offers nothing because
// no bundle suits the client's type.
func (t *table) answer(r *Reach) (offer *manifest.Offer, unfit bool, err error) {
	if r.Address == Static {
		offer, err = t.shown(r).OfferTo(r.client())
		return offer, false, err
	}
	answer, err := t.offers.Decide(r.client(), r.Rollout == In)
	if !r.Downgrades && t.standing(r) == "ahead" {
		return nil, false, err // it only goes forward
	}
	return answer.Offer, answer.Unfit != nil, err
}

// shown returns the manifest that a client reads.
func (t *table) shown(r *Reach) *manifest.Response { return t.offers.Shown(r.Rollout == In) }

// accepts returns why a client can't install an offer: first its signature, checked without
// the bundle, then its type.
func (t *table) accepts(r *Reach, offer *manifest.Offer) error {
	err, judged := t.verified[*offer]
	if !judged {
		_, err = offer.Verifier(t.Keys, !t.AllowUnbound)
		t.verified[*offer] = err
	}
	return cmp.Or(err, r.client().Suits(offer.Key, offer.Platform))
}

// standing returns "ahead" for a client that has a newer version than the channel shows it,
// and otherwise "current".
func (t *table) standing(r *Reach) string {
	installed, err := manifest.ParseClientVersion(r.Version)
	if err == nil && installed.Compare(t.shown(r).Version) > 0 {
		return "ahead"
	}
	return "current"
}

// gets reports whether a client gets the release of the move; other faults don't hold it up.
func (t *table) gets(r *Reach, offer *manifest.Offer) bool {
	if offer != nil {
		return offer.Version == t.Manifest.Version
	}
	return t.shown(r).Version.String() == t.Manifest.Version
}

// tolerated reports whether a platform was left without updates on purpose.
func (m Move) tolerated(target string) bool {
	return slices.Contains(m.AllowMissing, target) || !slices.Contains(m.required(), target)
}

// cells returns every version × target × bundle type × address that the log with the new entry or
// the channel's policy has, in and out of the rollout, and with allowDowngrades where clients
// have more than the channel shows.
func (t *table) cells(log *channels.Log) (cells []Reach) {
	rollouts := []string{""}
	if r := log.Head().Rollout; r != nil && r.Paused.IsZero() {
		rollouts = []string{In, Out}
	}
	versions, targets := t.known(log)
	for _, version := range versions {
		for _, target := range targets {
			os, _, _ := strings.Cut(target, "-")
			for _, kind := range append([]string{""}, manifest.TypesOf(os)...) {
				cells = t.ask(cells, Reach{Version: version, Target: target, BundleType: kind}, rollouts)
			}
		}
	}
	return cells
}

// ask adds the cells of one client.
func (t *table) ask(cells []Reach, client Reach, rollouts []string) []Reach {
	for _, address := range []string{Dynamic, Static} {
		for _, rollout := range rollouts {
			r := client
			r.Address, r.Rollout = address, rollout
			cells = append(cells, r)
			if t.offers.Downgrades && t.standing(&r) == "ahead" {
				r.Downgrades = true
				cells = append(cells, r)
			}
		}
	}
	return cells
}

// known returns the versions and targets that clients of a channel with a log have, in order.
func (m Move) known(log *channels.Log) (versions, targets []string) {
	on := map[string]bool{}
	add := func(keys []string) {
		for _, key := range keys {
			if k, err := manifest.ParseKey(key); err == nil {
				on[k.Target()] = true
			}
		}
	}
	add(m.required())
	versions = Installed(log, m.Fleet)
	if m.Before != nil { // perhaps put there by other means
		versions = append(versions, m.Before.Version.String())
	}
	for _, e := range log.Entries {
		add(e.Targets)
		if e.Rollout != nil {
			add(slices.Collect(maps.Keys(e.Rollout.Release.Platforms)))
		}
	}
	slices.SortFunc(versions, library.CompareVersions)
	return slices.Compact(versions), slices.Sorted(maps.Keys(on))
}

// misfits refuses a release, or a step of its rollout, that latest.json would give to clients
// of a known type that can't install it, except those in AllowMissing and those that get, or
// got, such a release already. It only warns about types that the channel may have clients of,
// and not on a follower, since the leader's plan has the same warning.
func (m Move) misfits(reach []Reach) (warnings []string, err error) {
	step := m.Action == channels.Advance && m.StrandAll
	refuses := m.Action != channels.Rollback && !m.Unchanged && (step || !m.StrandAll)
	kinds, files := map[string][]string{}, map[string]string{} // by target
	for _, r := range reach {
		key := r.Target + "-" + r.BundleType
		if r.Outcome != "misfit" || slices.Contains(kinds[r.Target], r.BundleType) || m.Types[key] == 0 && !m.expected(r.Target, r.BundleType) {
			continue
		}
		kinds[r.Target], files[r.Target] = append(kinds[r.Target], r.BundleType), r.Bundle
		if m.Types[key] > 0 && r.Offered == m.Manifest.Version && refuses && !slices.Contains(m.AllowMissing, key) {
			return nil, bundle.Refuse(ErrGate, m.mendMisfit(key, step),
				"latest.json would give %s clients installed from %s %s, %s (such clients that tsmon serve knows: %d)", r.Target, r.BundleType, r.Bundle, misfitting(r.Target), m.Types[key])
		}
	}
	if m.Action == channels.Follow {
		return nil, nil
	}
	for _, target := range slices.Sorted(maps.Keys(kinds)) {
		warnings = append(warnings, fmt.Sprintf("latest.json gives %s clients installed from %s %s, %s; publish their type too, or let them ask tsmon serve, which leaves them out",
			target, strings.Join(kinds[target], " or "), files[target], misfitting(target)))
	}
	return warnings, nil
}

// mendMisfit returns the hint for clients of a platform key that a release, or the due step of a
// rollout, does not suit.
func (m Move) mendMisfit(key string, step bool) string {
	switch {
	case step:
		return "`tsmon channel advance " + m.Log.Channel + " --allow-missing " + key + "` takes this step and those after it and leaves those clients as they are; else publish a higher version that has " + key + " too"
	case m.Action == channels.Publish:
		return "publish " + key + " too, or say --allow-missing " + key + " to leave those clients as they are"
	}
	return "say --allow-missing " + key + " to leave those clients as they are, or publish a higher version that has " + key + " too"
}

// misfitting describes what happens to a client that takes a bundle of another type.
func misfitting(target string) string {
	if strings.HasPrefix(target, "windows-") {
		return "which they install beside their own"
	}
	return "which they can't install"
}

// expected reports whether the channel's log suggests that a target has clients of a bundle
// type: the channel has or had such bundles or, on Linux, bundles of no type at all.
func (m Move) expected(target, kind string) bool {
	os, _, _ := strings.Cut(target, "-")
	var typed []string
	for _, e := range m.Log.Entries {
		typed = append(typed, e.Targets...)
	}
	typed = append(append(typed, m.required()...), m.Manifest.Keys()...)
	if m.Before != nil { // perhaps written by hand, without keys of types
		address := m.Before.Platforms[target].URL
		plain, _ := bundle.Recognize(cmp.Or(manifest.FileOf(address), address))
		typed = append(typed, target+"-"+plain.Type)
	}
	others := slices.DeleteFunc(manifest.TypesOf(os), func(other string) bool {
		return other == "appimage" || !slices.Contains(typed, target+"-"+other)
	})
	return slices.Contains(others, kind) || os == "linux" && len(others) == 0
}
