package release

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/release/library"
)

// StageOptions describe what one job of a build matrix stages.
type StageOptions struct {
	PublishOptions      // Channel decides which targets are required
	Replace        bool // staged bundles of the targets may be replaced
	Publish        bool // publish once all required targets are staged
}

// StageReport is the result of Stage.
type StageReport struct {
	Version string            `json:"version"`
	Channel string            `json:"channel"`
	Changed bool              `json:"changed"` // false: the bundles were already staged
	Staged  []*library.Staged `json:"staged"`  // by target, sorted
	// Missing are the platform keys that the channel requires, or has, and that are not staged yet.
	Missing []string `json:"missing"`
	// Hint says, with Publish, why the version is not published yet, and how to proceed.
	Hint      string   `json:"hint,omitempty"`
	Published *Plan    `json:"published,omitempty"` // by this job or another; nil: not yet
	Warnings  []string `json:"warnings,omitempty"`
}

// open returns the staged bundles, by target. ours replace those of their targets.
func (st *stage) open(ours map[string]*library.Staged) map[string]*library.Staged {
	targets := maps.Clone(st.staged)
	maps.Copy(targets, ours)
	return targets
}

// merged returns all staged bundles, with the keys that they have together. ours replace those of
// their targets.
func (st *stage) merged(ours map[string]*library.Staged, rules *bundle.Rules) ([]bundle.Bundle, []library.Stored, error) {
	together, all, err := library.Merged(st.open(ours), rules)
	if err != nil {
		err = &Refusal{Cause: err, Mend: "`tsmon release discard " + st.version + "` deletes what is staged; then stage one of them"}
	}
	return together, all, err
}

// bundles returns the bundles of a release of everything that is staged. If the version has a
// record that no channel showed, its bundles for other platforms are included.
func (st *stage) bundles(rules *bundle.Rules) ([]library.Stored, error) {
	_, all, err := st.merged(nil, rules)
	if err != nil || st.Counts == nil {
		return all, err
	}
	adds := func(b library.Stored) bool { return !st.Counts.Has(b) || st.Shown == "" && !st.Counts.Signed(b) }
	if !slices.ContainsFunc(all, adds) {
		return slices.Clone(st.Counts.Bundles), nil
	}
	for _, b := range st.Counts.Bundles {
		if st.Shown == "" && !slices.ContainsFunc(all, b.Overlaps) {
			all = append(all, b)
		}
	}
	return all, nil
}

// take completes a publish with the staged bundles.
func (st *stage) take(o *PublishOptions) ([]library.Stored, error) {
	all, err := st.bundles(o.Rules)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, refuse(library.ErrNoRelease, "name the bundles to publish, or stage them first with `tsmon release stage --version "+o.Version+"`", "nothing is staged of %s", o.Version)
	}
	for _, b := range all {
		o.Bundles = append(o.Bundles, bundle.Bundle{Keys: b.Keys})
	}
	if o.Notes == "" && st.Shown == "" {
		o.Notes, err = notesOf(o.Version, st.open(nil))
	}
	return all, err
}

// leavesNone refuses a publish that leaves out staged bundles.
func (st *stage) leavesNone(o PublishOptions, ours []library.Stored) error {
	if st.Shown != "" {
		return nil
	}
	_, all, err := st.merged(nil, o.Rules)
	if err != nil {
		return err
	}
	for _, b := range all {
		if !slices.ContainsFunc(ours, b.Same) {
			return refuse(ErrStaged, "`tsmon release publish --version "+o.Version+"` without bundles publishes what is staged, `tsmon release discard "+o.Version+"` deletes it",
				"%s of %s is staged, and not among these bundles", b.Label(), o.Version)
		}
	}
	return nil
}

// missing returns the platform keys that a channel would lack, none once it has shown the version.
func (st *stage) missing(pl planner, channel string, rules *bundle.Rules) ([]string, error) {
	all, err := st.bundles(rules)
	s := st.view[channel]
	switch {
	case err != nil || s.err != nil:
		return nil, cmp.Or(s.err, err)
	case s.log.Shown(st.version):
		return []string{}, nil
	}
	move := pl.move(s, gate.Move{Manifest: (&library.Record{Bundles: all}).Manifest("")})
	move.Targets = pl.required(channel)
	return append([]string{}, move.Missing()...), nil
}

// mayStage refuses a version that the channel would refuse no matter what else is staged.
func (p planner) mayStage(s *state, o StageOptions) error {
	if s.err != nil || !o.Publish || s.log.Shown(o.Version) {
		return s.err
	}
	if len(p.required(s.channel)) == 0 {
		return refuse(ErrConfig, "name all that the matrix builds in tsmon.yaml, such as channels: {"+s.channel+": {targets: [windows-x86_64, linux-x86_64]}}; or leave --publish out, and run `tsmon release publish --version "+o.Version+" --channel "+s.channel+"` once all is staged",
			"%s requires no targets in tsmon.yaml, so nobody knows when a release is complete", s.channel)
	}
	return p.forward(s, o.Version, o.Rollout)
}

// waiting says why a version with missing platform keys is not published, and how to proceed.
// It suggests a publish without them only if everything in targets is staged: then no other
// machine can be late.
func (p planner) waiting(s *state, version string, missing []string) string {
	stage := "`tsmon release stage --version " + version + " --channel " + s.channel + " --publish DIR`"
	if slices.ContainsFunc(p.required(s.channel), func(key string) bool {
		return slices.Contains(missing, key) || slices.Contains(missing, library.PlainKey(key))
	}) {
		return version + " is published by the machine that stages the rest with " + stage + "; take what is no longer built out of targets in tsmon.yaml"
	}
	return s.channel + " shows " + p.before(s).Version.String() + " with " + strings.Join(missing, ", ") + ", and " + version + " waits for that: stage it with " + stage +
		"; if it is no longer built, `tsmon release publish --version " + version + " --channel " + s.channel + "` says how to go on without"
}

// required returns the platform keys that a complete release of a channel has: its targets, or
// those of the channel that it follows.
func (p planner) required(channel string) []string {
	if policy := p.policies[channel]; len(policy.Targets) == 0 {
		return p.policies[policy.Follows].Targets
	}
	return p.policies[channel].Targets
}

// late refuses bundles of a version that a channel has shown, unless the release has them.
func (st *stage) late(ours map[string]*library.Staged, together []bundle.Bundle, all []library.Stored) error {
	for i, b := range together {
		if ours[b.Target] == nil || st.Counts.Has(all[i]) {
			continue
		}
		return refuse(library.ErrOtherBytes, "publish a higher version: this one can't change any more", "%s showed %s without this %s", st.Shown, st.version, all[i].Label())
	}
	return nil
}

// differs refuses bundles other than those of a record that no channel showed.
func (st *stage) differs(ours map[string]*library.Staged) error {
	for _, target := range slices.Sorted(maps.Keys(ours)) {
		for _, b := range ours[target].Bundles {
			for _, other := range st.Counts.Bundles {
				if other.BLAKE2b != b.BLAKE2b && b.Overlaps(other) {
					return refuse(ErrStaged, "if it was built again on purpose, add --replace", "%s is complete with another %s, and was shown by no channel yet", st.version, b.Label())
				}
			}
		}
	}
	return nil
}

// Version returns what the store holds of a version. A *Refusal with ErrNoRelease if it
// holds nothing.
func (in Inspector) Version(ctx context.Context, version string, rules *bundle.Rules) (*library.Version, error) {
	if _, err := bundle.ParseVersion(version); err != nil {
		return nil, err
	}
	st, err := in.lookAtStage(ctx, version)
	if err != nil {
		return nil, err
	}
	found := &library.Version{Version: version, Record: st.Counts, Staged: library.Standing(st.staged), Missing: map[string][]string{}}
	switch {
	case st.Shown != "":
		found.Staged = nil
		return found, nil
	case found.Record == nil && len(found.Staged) == 0:
		return nil, library.NotInStore(version)
	}
	for channel := range in.p.Policies {
		missing, err := st.missing(newPlanner(in.p), channel, rules)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			found.Missing[channel] = missing
		}
	}
	return found, nil
}

// notesOf returns the notes that were staged, and refuses two different ones.
func notesOf(version string, targets map[string]*library.Staged) (string, error) {
	notes, from := "", ""
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		s := targets[target]
		switch {
		case s.Notes == "" || s.Notes == notes || len(s.Bundles) == 0:
		case notes != "":
			return "", refuse(ErrNotes, "stage without notes; once all is there, `tsmon release publish --version "+version+" --notes TEXT` says which count",
				"%s was staged with other notes than %s", target, from)
		default:
			notes, from = s.Notes, target
		}
	}
	return notes, nil
}
