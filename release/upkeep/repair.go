package upkeep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// RepairOptions say which channel to repair, and how.
type RepairOptions struct {
	Channel string
	Why     string // reason for the log entry, if one is needed
	// Files are copies of lost objects (bundles, records or log entries), or folders of copies,
	// such as a copy of a log. They are recognised by their digests.
	Files []string
	// Own removes the marks of imports, so that the channel can be moved in this store.
	Own bool
	// TakeOut is a folder to which entries at the end of the log are moved that operators have
	// not signed or that don't follow from those before, with other objects among the entries.
	// Manifests that show later entries are rendered again. Empty if entries are not moved.
	TakeOut string
	// Rest only completes a repair whose entry is in the log: nothing else is declared lost.
	Rest   bool
	DryRun bool
}

// Mended is the repair of one object, or the planned one.
type Mended struct {
	Object string `json:"object"` // key in the store
	Done   string `json:"done"`
}

// RepairReport lists what Repair did, and the remaining problems.
type RepairReport struct {
	Channel string   `json:"channel"`
	Version string   `json:"version"` // that the channel shows
	Changed bool     `json:"changed"` // false: there was nothing to do
	DryRun  bool     `json:"dry_run,omitempty"`
	Mended  []Mended `json:"mended"`
	// Sequence is the number of the log entry that says what is lost, 0 if none was
	// needed.
	Sequence uint64 `json:"sequence,omitempty"`
	// Warnings need the judgment of somebody who knows what was in the store.
	Warnings []string `json:"warnings,omitempty"`
	// Unused are files that match no lost object.
	Unused   []string `json:"unused,omitempty"`
	Findings Findings `json:"findings"` // what is still wrong
	// Waiting is the plan of the log entry, if that lacks signatures of operators: nothing is
	// declared lost yet, and Findings are empty.
	Waiting *approval.Waiting `json:"waiting,omitempty"`
	// Needs says, after a dry run, who must sign that entry; nil if nobody must.
	Needs *approval.Need `json:"needs,omitempty"`
}

// repair is one run of Repair.
type repair struct {
	Keeper
	o      RepairOptions
	report *RepairReport
	files  []spare
	log    *channels.Log
	seen   []channels.Pointer
	lost   []channels.Lost
	gone   []string // versions with lost bundles
	wrong  []string // keys of their objects that differ from what was published
}

// spare is a file that may be a copy of a lost object.
type spare struct {
	path    string
	size    int64
	sha256  string
	blake2b string
	used    bool
	among   bool // it is in a folder that was given
}

// Repair repairs a channel: it restores lost objects from files and from segments of the log,
// declares the rest lost in the log, and renders the manifests again. Objects that are as
// published are never rewritten. The same call again does nothing, or completes what was
// interrupted. If the log entry has to wait for signatures, the last signer makes it, and a call
// with Rest does the remaining work.
func (k Keeper) Repair(ctx context.Context, o RepairOptions) (*RepairReport, error) {
	if err := k.Ready(o.Channel); err != nil {
		return nil, err
	}
	r := &repair{Keeper: k, o: o, report: &RepairReport{Channel: o.Channel, DryRun: o.DryRun, Mended: []Mended{}, Findings: Findings{}}}
	if err := r.readFiles(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{r.own, r.mendLog, r.dropStrays, r.mendReleases, r.declare, r.mendViews, r.look} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for _, f := range r.files {
		if !f.used && !f.among {
			r.report.Unused = append(r.report.Unused, f.path)
		}
	}
	return r.report, nil
}

// do records a repair, and carries it out unless this is a dry run.
func (r *repair) do(key, done string, f func() error) error {
	r.report.mended(key, done)
	if r.o.DryRun {
		return nil
	}
	return f()
}

func (r *RepairReport) mended(key, done string) {
	r.Mended, r.Changed = append(r.Mended, Mended{key, done}), true
}

func (r *repair) readFiles(ctx context.Context) error {
	for _, given := range r.o.Files {
		paths, err := filesIn(given)
		isFolder := err == nil
		if !isFolder {
			paths = []string{given}
		}
		for _, path := range paths {
			if err := r.readFile(ctx, spare{path: path, among: isFolder}); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesIn returns the paths of the regular files in a folder.
func filesIn(folder string) (paths []string, err error) {
	all, err := os.ReadDir(folder)
	for _, f := range all {
		if f.Type().IsRegular() {
			paths = append(paths, filepath.Join(folder, f.Name()))
		}
	}
	return paths, err
}

func (r *repair) readFile(ctx context.Context, f spare) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return bundle.Refuse(bundle.ErrNoFile, "check the path", "%s", f.path)
	}
	if err != nil {
		return bundle.Refuse(bundle.ErrBundles, "check the path", "%v", err)
	}
	sum := sha256.New()
	digest, size, err := signing.HashReader(ctx, io.TeeReader(file, sum))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.size, f.sha256, f.blake2b = size, hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(digest[:])
	r.files = append(r.files, f)
	return nil
}

// bytesOf returns the content of the file with a SHA-256, nil if there is none.
func (r *repair) bytesOf(sum string) []byte {
	for i := range r.files {
		if f := &r.files[i]; f.sha256 == sum && f.size <= library.MaxRecord*4 {
			if data, err := os.ReadFile(f.path); err == nil && library.SumOf(data) == sum {
				f.used = true
				return data
			}
		}
	}
	return nil
}

// needed reports whether clients may be offered a version.
func (r *repair) needed(version string) bool {
	head := r.log.Head()
	return head.Version == version || head.Newest() == version || slices.Contains(r.log.Watersheds(), version)
}

// declare appends the entry that declares objects lost, or leaves a plan for the operators to
// sign.
func (r *repair) declare(ctx context.Context) error {
	if len(r.lost)+len(r.gone) == 0 || r.o.Rest {
		return nil
	}
	if r.log.Fed() {
		return Fed(r.o.Channel)
	}
	e, err := r.next(ctx)
	if err != nil {
		return err
	}
	entered, err := r.Enter(ctx, r.log, e, r.o.DryRun)
	if err != nil {
		return err
	}
	r.report.Waiting, r.report.Needs, r.report.Warnings = entered.Waiting, entered.Needs, append(r.report.Warnings, entered.Warnings...)
	if entered.Waiting != nil {
		return nil
	}
	r.log = entered.Log
	for _, lost := range r.lost {
		r.report.mended(channels.LogPrefix(r.o.Channel), lost.String()+" declared lost")
	}
	for _, version := range r.gone {
		r.report.mended(library.Folder(version), "bundles declared lost")
	}
	r.report.Sequence = e.Sequence
	return nil
}

// next returns the entry that lists the losses. Clients keep what they get: the release
// of the log's head, or that of the manifest if the end of the log is lost.
func (r *repair) next(ctx context.Context) (channels.Entry, error) {
	e := channels.Entry{Action: channels.Repair, Who: r.Who, When: r.Now(), Origin: r.Origin, Why: cmp.Or(r.o.Why, "what is lost is said to be"),
		Lost: r.lost, Pruned: r.gone}
	head := r.log.Head()
	if head != nil {
		e.Release, e.Rollout = head.Release, head.Rollout
	}
	if slices.ContainsFunc(r.lost, func(lost channels.Lost) bool { return lost.To > r.log.End().Sequence }) {
		shown, err := r.shown(ctx)
		if err != nil {
			return e, err
		}
		if shown != nil {
			e.Release, e.Rollout = *shown, nil
		} else if head == nil {
			return e, bundle.Refuse(channels.ErrLog, mendWith(r.o.Channel), "all of it is lost, and what %s shows is not in the store", r.o.Channel)
		}
	}
	return r.log.Next(e), nil
}

// shown returns the release that the manifest shows, found by the record with the same
// signatures, nil if there is none. It is used if the end of the log is lost.
func (r *repair) shown(ctx context.Context) (*channels.Release, error) {
	m, err := manifest.Decode(r.seen[0].Data)
	if err != nil {
		return nil, nil // not a manifest of ours
	}
	records, err := r.Library.Records(ctx, m.Version)
	if err != nil {
		if errors.As(err, new(*bundle.Refusal)) {
			return nil, nil
		}
		return nil, err
	}
	for _, record := range slices.Backward(records) {
		kept := r.log.Carry(record.Release())
		if !record.Discarded && shows(m, &kept) {
			return &kept, r.Library.VerifyStored(ctx, record, true)
		}
	}
	return nil, nil
}

// shows reports whether a manifest has the signatures of a release.
func shows(m *manifest.Manifest, release *channels.Release) bool {
	for key, platform := range m.Platforms {
		if release.Platforms[key].Signature != platform.Signature {
			return false
		}
	}
	return true
}

// mendViews renders the manifests again, unless the log can't be read until a waiting entry is
// made, or nothing is left of it.
func (r *repair) mendViews(ctx context.Context) error {
	if r.report.Waiting != nil && len(r.lost) > 0 || r.log.Head() == nil {
		return nil
	}
	before := r.seen
	if !r.o.DryRun {
		var err error
		if before, err = r.Channels.Peek(ctx, r.o.Channel); err != nil {
			return err
		}
		if r.log, _, err = r.Channels.Repoint(ctx, r.log); err != nil {
			return err
		}
	}
	behind, err := r.Channels.Behind(r.log, before)
	if err != nil {
		return err
	}
	for _, key := range behind {
		r.report.mended(key, "rendered anew")
	}
	return r.dropWrong(ctx)
}

// dropWrong removes objects of lost bundles that differ from what was published.
func (r *repair) dropWrong(ctx context.Context) error {
	var doomed []string
	for _, key := range r.wrong {
		if version, ok := library.VersionIn(key); ok && r.log.Pruned(version) {
			doomed = append(doomed, key)
			r.report.mended(key, "removed: it has other bytes than were published")
		}
	}
	if r.o.DryRun {
		return nil
	}
	return r.Library.Store.Delete(ctx, doomed...)
}

// look verifies the channel and reports the remaining problems.
func (r *repair) look(ctx context.Context) error {
	if head := r.log.Head(); head != nil {
		r.report.Version = head.Version
	}
	if r.o.DryRun || r.report.Waiting != nil {
		return nil
	}
	report, err := r.Verify(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	r.report.Findings = report.Findings
	return nil
}
