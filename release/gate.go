package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
)

// Reach is what one kind of installed application makes of a channel's new
// state.
type Reach struct {
	Version    string `json:"version"`               // installed
	Target     string `json:"target"`                // OS-ARCH
	BundleType string `json:"bundle_type,omitempty"` // empty: the application does not tell
	// Outcome is "offered" (it gets Offered), "current" (it has it), "ahead" (it
	// has a higher version and keeps it), "dropped" (its platform was left out
	// on purpose), or "broken" (Error says why).
	Outcome string `json:"outcome"`
	Offered string `json:"offered,omitempty"` // version
	Bundle  string `json:"bundle,omitempty"`  // file name of the download
	Error   string `json:"error,omitempty"`
}

// move is a channel's next state while it is judged.
type move struct {
	channel  string
	policy   Policy
	log      *channels.Log
	manifest manifest.Manifest
	before   *manifest.Response // what clients see now; nil if there is nothing
	// others is what clients get that are not part of the rollout which manifest
	// is for; nil: manifest is for everybody.
	others       *manifest.Manifest
	rollout      *channels.Rollout // to enter; its manifest is set where others is not nil
	shown        bool              // manifest is what the channel shows anyway: there is nothing to judge
	allowMissing []string
	allowUnbound bool
}

// predecessor reads what clients of the channel see now: the head of the log,
// or, before the first entry, a manifest that was put there by other means.
func (p *Publisher) predecessor(ctx context.Context, log *channels.Log) (*manifest.Response, error) {
	if head := log.Head(); head != nil {
		data, err := head.Manifest.Encode()
		if err != nil {
			return nil, err
		}
		return manifest.ParseResponse(data)
	}
	data, err := p.channels().Shown(ctx, log.Channel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	response, err := manifest.ParseResponse(data)
	if err != nil {
		return nil, nil // clients can't read it either: nothing is lost with it
	}
	return response, nil
}

// covers refuses a manifest that lacks a platform which the channel requires or
// had.
func (m *move) covers() error {
	required := slices.Clone(m.policy.Targets)
	if m.before != nil {
		for key := range m.before.Platforms {
			required = append(required, key)
		}
	}
	slices.Sort(required)
	var missing []string
	for _, key := range slices.Compact(required) {
		if _, ok := m.manifest.Platforms[key]; !ok && !slices.Contains(m.allowMissing, key) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return refuse(ErrCoverage, "add the bundles, or say --allow-missing "+strings.Join(missing, ",")+" to leave those clients without updates",
		"%s would have no %s", m.channel, strings.Join(missing, ", "))
}

// losses are the platform keys that the manifest lacks.
func (m *move) losses() []string {
	var lost []string
	for _, key := range m.required() {
		if _, ok := m.manifest.Platforms[key]; !ok && !slices.Contains(lost, key) {
			lost = append(lost, key)
		}
	}
	slices.Sort(lost)
	return lost
}

// replay plays the updater of every client that the channel knows against the
// new manifest.
func (p *Publisher) replay(m *move) ([]Reach, error) {
	m.manifest.Sequence = uint64(len(m.log.Entries)) + 1
	data, err := m.manifest.Encode()
	if err != nil {
		return nil, err
	}
	if _, problems := manifest.Check(data, manifest.Rules{Keys: p.Keys, AllowUnbound: m.allowUnbound}); len(problems) > 0 {
		return nil, &Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, problems), Mend: problems[0].Mend}
	}
	outcomes := manifest.Replay(data, m.clients(), p.Keys, !m.allowUnbound)
	table := make([]Reach, len(outcomes))
	for i, o := range outcomes {
		table[i] = m.reach(o)
		if o.Err != nil && m.tolerated(o) {
			table[i].Outcome, table[i].Error = "dropped", ""
		} else if o.Err != nil {
			return table, &Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, o.Err), Mend: "publish a bundle that these clients can follow",
				Text: fmt.Sprintf("%s on %s", o.Client.Version, o.Client.Target)}
		}
	}
	return table, nil
}

// tolerated says that a client was left without updates on purpose.
func (m *move) tolerated(o manifest.Outcome) bool {
	if !errors.Is(o.Err, manifest.ErrTarget) {
		return false
	}
	return slices.Contains(m.allowMissing, o.Client.Target) || !slices.Contains(m.required(), o.Client.Target)
}

// required are the plain keys that clients of the channel rely on now.
func (m *move) required() []string {
	keys := slices.Clone(m.policy.Targets)
	if m.before != nil {
		for key := range m.before.Platforms {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *move) reach(o manifest.Outcome) Reach {
	r := Reach{Version: o.Client.Version, Target: o.Client.Target, BundleType: o.Client.BundleType}
	installed, err := manifest.ParseVersion(o.Client.Version)
	announced, err2 := manifest.ParseVersion(m.manifest.Version)
	switch {
	case o.Err != nil:
		r.Outcome, r.Error = "broken", o.Err.Error()
	case o.Offer != nil:
		r.Outcome, r.Offered, r.Bundle = "offered", o.Offer.Version, fileOf(o.Offer.URL)
	case err == nil && err2 == nil && installed.Compare(announced) > 0:
		r.Outcome = "ahead"
	default:
		r.Outcome = "current"
	}
	return r
}

// clients are the installed version × target × bundle type that the channel
// knows from its log, and those of the new manifest.
func (m *move) clients() []manifest.Client {
	versions := map[string]bool{m.manifest.Version: true}
	kinds := map[manifest.Client]bool{}
	addKinds(kinds, m.manifest.Platforms)
	for _, e := range m.log.Entries {
		versions[e.Version] = true
		addKinds(kinds, e.Manifest.Platforms)
		if e.Rollout != nil { // some clients have it
			versions[e.Rollout.Version] = true
			addKinds(kinds, e.Rollout.Manifest.Platforms)
		}
	}
	if m.before != nil {
		versions[m.before.Version.String()] = true
		addKinds(kinds, m.before.Platforms)
	}
	var clients []manifest.Client
	for version := range versions {
		for kind := range kinds {
			kind.Version = version
			clients = append(clients, kind)
		}
	}
	slices.SortFunc(clients, compareClients)
	return clients
}

// addKinds adds the targets of a manifest, each as a client that does not tell
// its bundle type and as one installed from the bundle that stands there.
func addKinds(kinds map[manifest.Client]bool, platforms map[string]manifest.Platform) {
	for text, p := range platforms {
		key, err := manifest.ParseKey(text)
		if err != nil {
			continue
		}
		if key.Type == "" {
			kinds[manifest.Client{Target: key.Target()}] = true
		}
		if key.Type == "" {
			kind, _ := Recognize(fileOf(p.URL))
			key.Type = kind.Type
		}
		if key.Type != "" {
			kinds[manifest.Client{Target: key.Target(), BundleType: key.Type}] = true
		}
	}
}

func compareClients(a, b manifest.Client) int {
	v, errA := manifest.ParseVersion(a.Version)
	w, errB := manifest.ParseVersion(b.Version)
	if errA == nil && errB == nil {
		if c := v.Compare(w); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Version+" "+a.Target+" "+a.BundleType, b.Version+" "+b.Target+" "+b.BundleType)
}

// fileOf is the file name in a bundle's address.
func fileOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return path.Base(u.Path)
}

// crossings warns of clients that would install another kind of bundle over
// their own, such as an MSI over an NSIS installation.
func crossings(table []Reach) []string {
	var warnings []string
	for _, r := range table {
		kind, ok := Recognize(r.Bundle)
		if r.Outcome != "offered" || r.BundleType == "" || !ok || kind.Type == r.BundleType {
			continue
		}
		warning := fmt.Sprintf("%s clients that were installed from %s get %s, which is %s", r.Target, r.BundleType, r.Bundle, kind.Type)
		if !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}
