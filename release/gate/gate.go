// Package gate judges the effect of a channel's move on installed applications: what each kind
// of client gets afterwards, which clients would lose updates, and which would get something
// that they can't install or verify. It reads and writes nothing.
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

// Causes of refusals.
var (
	ErrCoverage = errors.New("platforms would be lost")
	ErrMissing  = errors.New("platforms are missing") // required platforms that the channel never had
	ErrGate     = errors.New("installed applications could not update")
	// ErrStrands means that installed applications would be offered updates that their keys
	// can't verify. They would stay on their version for good.
	ErrStrands = errors.New("installed applications could not verify the update")
)

// Move describes a move of a channel, and what is known about the channel and its clients.
type Move struct {
	Action   channels.Action
	Release  channels.Release  // what the move is about
	Manifest manifest.Manifest // rendered from Release, with the number of the entry

	Keys      signing.Keyring
	PublicURL string
	Log       *channels.Log
	Before    *manifest.Response // what clients see now; nil if nothing
	Fleet     map[string]int     // clients by version, nil if unknown
	Types     map[string]int     // clients by platform key, nil if unknown
	Others    []Channel          // the other channels, sorted by name

	Targets       []string // platform keys that the channel requires
	Rings         bool     // the channel keeps rings
	ReadsManifest bool     // installed applications are known to read latest.json
	Downgrades    bool     // some applications install older versions

	AllowMissing []string // platform keys that it may lose
	AllowUnbound bool     // signatures need not be bound to a version
	Strand       VersionRange
	// Standing says that clients get Release already; it was judged before.
	Standing  bool
	Unchanged bool // the log has the release already
	Staged    bool // the bundles were staged
	Part      bool // the bundles are those of one job of a build matrix
	StrandAll bool // skip the check for stranded clients: it was done before, or the move is urgent
}

// Channel is another channel of the store.
type Channel struct {
	Log   *channels.Log
	Fleet map[string]int // as in Move
}

// Judge computes what every kind of client gets once entry is in the log. It refuses a move that
// takes updates away from clients, or gives them what they can't install. It only warns about
// clients that may exist, or were given up on purpose.
func (m Move) Judge(entry *channels.Entry) (reach []Reach, warnings []string, err error) {
	if !m.Standing {
		if err := cmp.Or(m.Covers(), m.sound()); err != nil {
			return nil, nil, err
		}
	}
	reach, err = m.replay(entry)
	if err != nil || m.Standing {
		return reach, nil, err
	}
	misfits, err := m.misfits(reach)
	if err != nil {
		return nil, nil, err
	}
	left, err := m.LeavesBehind()
	return reach, append(misfits, left...), err
}

// Covers refuses a manifest that lacks a platform which the channel requires or had.
func (m Move) Covers() error {
	missing := slices.DeleteFunc(m.Missing(), func(key string) bool { return slices.Contains(m.AllowMissing, key) })
	if len(missing) == 0 {
		return nil
	}
	cause := ErrMissing
	if slices.ContainsFunc(missing, m.had) {
		cause = ErrCoverage
	}
	return bundle.Refuse(cause, m.mendMissing(missing), "%s would have no %s", m.Log.Channel, strings.Join(missing, ", "))
}

// mendMissing returns the hint for missing platforms. A machine that builds one of several should
// stage; only the one that publishes what all have staged may leave platforms out.
func (m Move) mendMissing(missing []string) string {
	keys, version := strings.Join(missing, ","), m.Manifest.Version
	switch {
	case m.Action == channels.Rollback:
		if other := m.covering(missing); other != "" {
			return "say --to " + other + " instead, which has that, or --allow-missing " + keys + " to leave those clients without updates until a release has that again"
		}
		return "say --allow-missing " + keys + " to leave those clients without updates until a release has that again"
	case m.Action != channels.Publish:
		return "publish a higher version that has that, or say --allow-missing " + keys + " to leave those clients without updates"
	case m.Staged && slices.ContainsFunc(missing, m.requires):
		return "stage the rest with `tsmon release stage --version " + version + " DIR`; take what is no longer built out of targets in tsmon.yaml"
	case m.Staged:
		return "stage the rest with `tsmon release stage --version " + version + " DIR`, or say --allow-missing " + keys + " to leave those clients without updates"
	case !slices.ContainsFunc(missing, m.lacksTarget):
		for key := range m.Manifest.Platforms {
			if plain := library.PlainKey(key); strings.HasPrefix(plain, "linux-") && slices.Contains(missing, plain) {
				return fmt.Sprintf("build an AppImage, list %s under targets instead of %s, or say --allow-missing %s", key, plain, keys)
			}
		}
	}
	mend := "add the bundles; if other machines build them, run `tsmon release stage --version " + version + " DIR` on each machine, then `tsmon release publish --version " + version + " --channel " + m.Log.Channel + "` without bundles"
	has := slices.DeleteFunc(m.Manifest.Keys(), func(key string) bool { return library.PlainKey(key) != key })
	used := func(key string) bool { return m.had(key) || !m.requires(key) } // else it is only configured
	if len(has) > 0 && !slices.ContainsFunc(missing, used) {
		return mend + "; if nobody builds them, name under targets in tsmon.yaml what is built, " + m.Log.Channel + ": {targets: [" + strings.Join(has, ", ") + "]}, as `tsmon init --targets " + strings.Join(has, ",") + "` writes it"
	}
	return mend
}

// had reports whether clients see a platform key now.
func (m Move) had(key string) bool {
	return m.Before != nil && m.Before.Platforms[key] != (manifest.Platform{})
}

// covering returns the newest version below the one that clients see now that had some platform
// keys and was not rolled back; empty if there is none.
func (m Move) covering(keys []string) string {
	for _, e := range slices.Backward(m.Log.Entries) {
		lacks := func(key string) bool { return !slices.Contains(e.Targets, key) }
		if m.Before != nil && library.CompareVersions(e.Version, m.Before.Version.String()) < 0 && m.Log.RolledBack(e.Version) == nil && !slices.ContainsFunc(keys, lacks) {
			return e.Version
		}
	}
	return ""
}

// requires reports whether the channel's policy names a platform key, or a type of it.
func (m Move) requires(key string) bool {
	return slices.ContainsFunc(m.Targets, func(target string) bool { return key == target || key == library.PlainKey(target) })
}

// lacksTarget reports whether the manifest has no bundle of any type for the target of a key.
func (m Move) lacksTarget(key string) bool {
	return !slices.ContainsFunc(m.Manifest.Keys(), func(other string) bool { return library.PlainKey(other) == library.PlainKey(key) })
}

// Missing returns the platform keys that clients rely on and the manifest lacks, sorted; without
// those of bundle types if the plain key is missing too.
func (m Move) Missing() []string {
	missing := slices.DeleteFunc(m.required(), func(key string) bool {
		_, ok := m.Manifest.Platforms[key]
		return ok
	})
	slices.Sort(missing)
	missing = slices.Compact(missing)
	return slices.DeleteFunc(slices.Clone(missing), func(key string) bool {
		return library.PlainKey(key) != key && slices.Contains(missing, library.PlainKey(key))
	})
}

// required returns the platform keys that clients of the channel rely on.
func (m Move) required() []string {
	keys := slices.Clone(m.Targets)
	if m.Before != nil {
		keys = slices.AppendSeq(keys, maps.Keys(m.Before.Platforms))
	}
	return keys
}

// sound refuses a manifest that breaks the strict rules.
func (m Move) sound() error {
	data, err := m.Manifest.Encode()
	if err != nil {
		return err
	}
	if _, problems := manifest.Check(data, manifest.Rules{Keys: m.Keys, AllowUnbound: m.AllowUnbound}); len(problems) > 0 {
		return &bundle.Refusal{Cause: fmt.Errorf("%w: %w", ErrGate, problems), Mend: problems[0].Mend}
	}
	return nil
}
