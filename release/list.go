package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

// Version is what the store holds of a version.
type Version struct {
	Version string
	Record  *Record   // nil: there is none, or it was discarded; List leaves it out
	Staged  []*Staged // of a version that is not complete, by target
	// Missing are the platform keys that channels would lack, by channel; those that
	// would lack none are left out. List leaves it out.
	Missing map[string][]string
	// Size is that of everything in its folder, in bytes; only List says it.
	Size int64
	keys map[string]bool // of everything in its folder; only List says them
}

// List returns the versions that are complete or of which something is staged, in the
// updater's order.
func (l Library) List(ctx context.Context) ([]Version, error) {
	complete, folders, err := l.complete(ctx)
	if err != nil {
		return nil, err
	}
	staged, err := versionsBelow(ctx, l.Store, stagedRoot, func(string, object.Info) bool { return true })
	if err != nil {
		return nil, err
	}
	var all []Version
	for _, v := range complete {
		all = append(all, Version{Version: v, Size: folders[v].size, keys: folders[v].keys})
	}
	for _, v := range staged {
		if slices.Contains(complete, v) {
			continue
		}
		targets, err := l.staged(ctx, v)
		if err != nil {
			return nil, err
		}
		if found := standing(targets); len(found) > 0 {
			all = append(all, Version{Version: v, Staged: found, Size: folders[v].size, keys: folders[v].keys})
		}
	}
	slices.SortFunc(all, func(a, b Version) int { return CompareVersions(a.Version, b.Version) })
	return all, nil
}

// standing returns the targets of which something is staged, sorted.
func standing(targets map[string]*Staged) []*Staged {
	var found []*Staged
	for _, target := range sortedTargets(targets) {
		if s := targets[target]; len(s.Bundles) > 0 {
			found = append(found, s)
		}
	}
	return found
}

// holdings are what the folder of a version holds.
type holdings struct {
	size int64 // of all objects, in bytes
	keys map[string]bool
}

// complete returns the versions with a record that was not discarded, and what every
// folder of a version holds, complete or not.
func (l Library) complete(ctx context.Context) (complete []string, folders map[string]holdings, err error) {
	several := map[string]bool{} // that have more than one record
	folders = map[string]holdings{}
	versions, err := versionsBelow(ctx, l.Store, root, func(version string, info object.Info) bool {
		f := folders[version]
		if f.keys == nil {
			f.keys = map[string]bool{}
		}
		f.size, f.keys[info.Key] = f.size+info.Size, true
		folders[version] = f
		several[version] = several[version] || info.Key == recordKey(version, 2)
		return info.Key == recordKey(version, 1)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, v := range versions {
		if several[v] {
			if h, err := l.holding(ctx, v); err != nil {
				return nil, nil, err
			} else if h.counts == nil {
				continue
			}
		}
		complete = append(complete, v)
	}
	return complete, folders, nil
}

// versionsBelow returns the folders below a prefix that hold a wanted object.
func versionsBelow(ctx context.Context, store object.Store, prefix string, wanted func(version string, info object.Info) bool) ([]string, error) {
	var versions []string
	for info, err := range store.List(ctx, prefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if _, err := manifest.ParseVersion(text); err == nil && wanted(text, info) {
			versions = append(versions, text)
		}
	}
	slices.SortFunc(versions, CompareVersions)
	return slices.Compact(versions), nil
}

// Version returns what the store holds of a version. A *Refusal with ErrNoRelease if
// that is nothing.
func (in Inspector) Version(ctx context.Context, version string, rules *bundle.Rules) (*Version, error) {
	if _, err := manifest.ParseVersion(version); err != nil {
		return nil, &Refusal{Cause: err, Mend: "write it like 1.4.0"}
	}
	st, err := in.lookAtStage(ctx, version)
	if err != nil {
		return nil, err
	}
	found := &Version{Version: version, Record: st.counts, Staged: standing(st.staged), Missing: map[string][]string{}}
	switch {
	case st.shown != "":
		found.Staged = nil
		return found, nil
	case found.Record == nil && len(found.Staged) == 0:
		return nil, refuse(ErrNoRelease, "`tsmon release list` shows what is published and what is staged", "%s is not in the store", version)
	}
	for channel := range in.policies {
		missing, err := st.missing(planner{policies: in.policies}, channel, version, rules)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			found.Missing[channel] = missing
		}
	}
	return found, nil
}
