package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/store/object"
)

const (
	StagedRoot = "staged/"
	// maxStaged bounds the targets of a version and, for each, how often it is
	// replaced or discarded.
	maxStaged = 1000
)

// Staged is what one job of a build matrix stored for one target. The bundles themselves
// already lie in the folder of the release. Each change creates a new object,
// staged/VERSION/TARGET/NUMBER.json; the highest number counts.
type Staged struct {
	Version string         `json:"version"`
	Target  string         `json:"target"` // OS-ARCH, darwin-universal, or "any" for files without one
	Who     string         `json:"who"`
	When    time.Time      `json:"when"`
	Notes   string         `json:"notes,omitempty"`
	Bundles []StagedBundle `json:"bundles"` // none: what was staged is discarded

	Number int   `json:"-"` // of the object, from 1
	Damage error `json:"-"` // why the object can't be read
}

// StagedBundle is a bundle that waits for its release. Its keys are those that it
// has among the bundles of its job.
type StagedBundle struct {
	Stored
	File  string   `json:"file"`            // its name before it was stored
	Given []string `json:"given,omitempty"` // platform keys that --bundle named
}

// AnyTarget is the target of files that name none.
const AnyTarget = "any"

func stagedKey(version, target string, number int) string {
	return fmt.Sprintf("%s%s/%s/%04d.json", StagedRoot, version, target, number)
}

// Find returns the bundle that another bundle replaces: the one of the same type, or, for files that
// only new users download, the one of the same name. It returns nil if there is none.
func (s *Staged) Find(other *StagedBundle) *StagedBundle {
	for i := range s.Bundles {
		b := &s.Bundles[i]
		if b.Updates() == other.Updates() && (b.Updates() && b.Type == other.Type || !b.Updates() && b.File == other.File) {
			return &s.Bundles[i]
		}
	}
	return nil
}

// decodeStaged reads an object of staged/. Anybody with access to the store may have written
// it; what it says about bundles is verified before they are released.
func decodeStaged(version, target string, data []byte) (*Staged, error) {
	var s Staged
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Version != version || s.Target != target {
		return nil, fmt.Errorf("it is about %s of %s", s.Target, s.Version)
	}
	if _, err := manifest.ParseKey(target); err != nil && target != manifest.Universal && target != AnyTarget {
		return nil, err
	}
	for _, b := range s.Bundles {
		err := object.ValidKey(BundleKey(version, b.Name))
		switch {
		case err != nil:
			return nil, err
		case strings.Contains(b.Name, "/") || b.File == "":
			return nil, fmt.Errorf("%q is no bundle", b.Name)
		}
		if !b.Updates() {
			for _, key := range append(slices.Clone(b.Given), b.Downloads...) {
				if err := bundle.CheckDownload(key); err != nil {
					return nil, err
				}
			}
			continue
		}
		for _, key := range append(slices.Clone(b.Keys), b.Given...) {
			if _, err := manifest.ParseKey(key); err != nil && key != manifest.Universal {
				return nil, err
			}
		}
	}
	return &s, nil
}

// Staged returns the staged bundles of a version, by target, including the marks of discarded ones and
// damaged ones.
func (l Library) Staged(ctx context.Context, version string) (map[string]*Staged, error) {
	numbers := map[string]int{}
	prefix := StagedRoot + version + "/"
	for info, err := range l.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		target, file, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		number, err := strconv.Atoi(strings.TrimSuffix(file, ".json"))
		if err != nil || info.Key != stagedKey(version, target, number) {
			continue
		}
		numbers[target] = max(numbers[target], number)
		if len(numbers) > maxStaged || number > maxStaged {
			return nil, bundle.Refuse(ErrStored, "stage under another version", "%s holds more than %d changes", prefix, maxStaged)
		}
	}
	byTarget := map[string]*Staged{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * sideBySide)
	for target, number := range numbers {
		s := &Staged{Target: target, Number: number}
		byTarget[target] = s
		group.Go(func() error { return l.readStaged(ctx, version, s) })
	}
	return byTarget, group.Wait()
}

func (l Library) readStaged(ctx context.Context, version string, s *Staged) error {
	key := stagedKey(version, s.Target, s.Number)
	data, err := l.Read(ctx, key, MaxRecord)
	if err != nil {
		return err
	}
	read, err := decodeStaged(version, s.Target, data)
	if err != nil {
		s.Damage = bundle.Refuse(ErrStored, "`tsmon release discard "+version+"` deletes what is staged; then stage all targets again", "%s: %v", key, err)
		return nil
	}
	read.Number = s.Number
	*s = *read
	return nil
}

// Merged returns the bundles of targets with the keys that they have together.
func Merged(targets map[string]*Staged, rules *bundle.Rules) ([]bundle.Bundle, []Stored, error) {
	var bundles []bundle.Bundle
	stored := map[string]Stored{}
	for target, s := range targets {
		for _, b := range s.Bundles {
			at := path.Join(target, b.File)
			bundles = append(bundles, bundle.Bundle{Path: at, Name: b.Name, Target: target, Type: b.Type, Size: b.Size, Given: b.Given, Also: !b.Updates()})
			stored[at] = b.Stored
		}
	}
	slices.SortFunc(bundles, func(a, b bundle.Bundle) int { return cmp.Compare(a.Path, b.Path) })
	bundles, err := bundle.Merge(bundles, rules)
	all := make([]Stored, len(bundles))
	for i, b := range bundles {
		all[i] = stored[b.Path]
		all[i].Keys, all[i].Downloads = sorted(b.Keys), b.Downloads
	}
	return bundles, all, err
}

// PutStaged writes the next object of a target. ErrRaced if somebody else has.
func (l Library) PutStaged(ctx context.Context, s *Staged) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return l.Create(ctx, stagedKey(s.Version, s.Target, s.Number), append(data, '\n'), stagedAttributes)
}

var stagedAttributes = object.Attributes{ContentType: "application/json", CacheControl: "private, no-cache"}

// Intact reports whether the store holds a staged bundle with a signature as good as the one
// that the same bytes have now. A signature by another key does not count: whoever stages the
// bundle again chooses the key.
func (l Library) Intact(ctx context.Context, version string, staged *StagedBundle, ours Stored, allowUnbound bool) (bool, error) {
	same, err := l.Holds(ctx, Folder(version)+staged.Name, staged.Size, staged.CRC64)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !same {
		return false, nil
	}
	if err != nil || staged.Signature == ours.Signature || !ours.Updates() {
		return true, err
	}
	return ours.signedAlike(l.Keys, version, staged.Signature, allowUnbound), nil
}

// Needed returns the names of the bundles in a version's folder to which its record or its staged
// bundles refer. The record may be nil.
func Needed(record *Record, staged map[string]*Staged) map[string]bool {
	names := map[string]bool{}
	if record != nil {
		for _, b := range record.Bundles {
			names[b.Name] = true
		}
	}
	for _, s := range staged {
		for _, b := range s.Bundles {
			names[b.Name] = true
		}
	}
	return names
}
