package library

import (
	"context"
	"slices"
	"strings"

	"tsmon/manifest"
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
	staged, err := versionsBelow(ctx, l.Store, StagedRoot, func(string, object.Info) bool { return true })
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
		targets, err := l.Staged(ctx, v)
		if err != nil {
			return nil, err
		}
		if found := Standing(targets); len(found) > 0 {
			all = append(all, Version{Version: v, Staged: found, Size: folders[v].size, keys: folders[v].keys})
		}
	}
	slices.SortFunc(all, func(a, b Version) int { return CompareVersions(a.Version, b.Version) })
	return all, nil
}

// Standing returns the targets of which something is staged, sorted.
func Standing(targets map[string]*Staged) []*Staged {
	var found []*Staged
	for _, target := range SortedTargets(targets) {
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
	versions, err := versionsBelow(ctx, l.Store, Root, func(version string, info object.Info) bool {
		f := folders[version]
		if f.keys == nil {
			f.keys = map[string]bool{}
		}
		f.size, f.keys[info.Key] = f.size+info.Size, true
		folders[version] = f
		several[version] = several[version] || info.Key == RecordKey(version, 2)
		return info.Key == RecordKey(version, 1)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, v := range versions {
		if several[v] {
			if h, err := l.recordSet(ctx, v); err != nil {
				return nil, nil, err
			} else if h.Counts == nil {
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
			return nil, err
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if _, err := manifest.ParseVersion(text); err == nil && wanted(text, info) {
			versions = append(versions, text)
		}
	}
	slices.SortFunc(versions, CompareVersions)
	return slices.Compact(versions), nil
}

// CompareVersions orders versions as the updater does.
func CompareVersions(a, b string) int {
	v, errA := manifest.ParseClientVersion(a)
	w, errB := manifest.ParseClientVersion(b)
	if errA == nil && errB == nil {
		return v.Compare(w)
	}
	return strings.Compare(a, b)
}
