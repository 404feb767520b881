package library

import (
	"context"
	"maps"
	"slices"
	"strings"

	"tsmon/manifest"
	"tsmon/store/object"
)

// Version is the content of the store for a version.
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

// List returns the versions that are complete or partly staged, in the updater's order.
func (l Library) List(ctx context.Context) ([]Version, error) {
	found, err := folders(ctx, l.Store, Root)
	if err != nil {
		return nil, err
	}
	staged, err := folders(ctx, l.Store, StagedRoot)
	if err != nil {
		return nil, err
	}
	var all []Version
	for version, v := range found {
		if whole, err := v.complete(ctx, l); err != nil {
			return nil, err
		} else if whole {
			all = append(all, *v)
			delete(staged, version)
		}
	}
	for version := range staged {
		targets, err := l.Staged(ctx, version)
		if err != nil {
			return nil, err
		}
		v := Version{Version: version}
		if folder := found[version]; folder != nil {
			v = *folder
		}
		if v.Staged = Standing(targets); len(v.Staged) > 0 {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Version) int { return CompareVersions(a.Version, b.Version) })
	return all, nil
}

// Standing returns the targets with staged bundles, sorted.
func Standing(targets map[string]*Staged) []*Staged {
	var found []*Staged
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if s := targets[target]; len(s.Bundles) > 0 {
			found = append(found, s)
		}
	}
	return found
}

// folders returns the versions that have a folder below a prefix, with what it holds.
func folders(ctx context.Context, store object.Store, prefix string) (map[string]*Version, error) {
	found := map[string]*Version{}
	for info, err := range store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		version, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if _, err := manifest.ParseVersion(version); err != nil {
			continue
		}
		v := found[version]
		if v == nil {
			v = &Version{Version: version, keys: map[string]bool{}}
			found[version] = v
		}
		v.Size += info.Size
		v.keys[info.Key] = true
	}
	return found, nil
}

// complete reports whether a version has a record and was not discarded, which only a further
// record can say.
func (v *Version) complete(ctx context.Context, l Library) (bool, error) {
	if !v.keys[RecordKey(v.Version, 1)] || !v.keys[RecordKey(v.Version, 2)] {
		return v.keys[RecordKey(v.Version, 1)], nil
	}
	h, err := l.recordSet(ctx, v.Version)
	return err == nil && h.Counts != nil, err
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
