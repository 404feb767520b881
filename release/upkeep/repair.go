package upkeep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
)

// RepairOptions say which channel is repaired.
type RepairOptions struct {
	Channel string
	Why     string // recorded in the log, if that gets an entry
	// Files have the bytes of lost objects: bundles, records or log entries, which are
	// recognised by their digests.
	Files []string
	// Own has the channel moved here again, where its log passes for that of another store.
	Own bool
	// TakeOut is a folder that entries at the end of the log are moved to which operators
	// have not signed, or that don't follow from those before; manifests that show entries
	// behind the others are rendered anew. Empty: they stay.
	TakeOut string
	// Rest does only what is left of a repair whose entry stands: nothing more is said to be
	// lost.
	Rest   bool
	DryRun bool
}

// Mended is what Repair did, or would do, about one object.
type Mended struct {
	Object string `json:"object"` // key in the store
	Done   string `json:"done"`
}

// RepairReport is what Repair did, and what is left.
type RepairReport struct {
	Channel string   `json:"channel"`
	Version string   `json:"version"` // that the channel shows
	Changed bool     `json:"changed"` // false: there was nothing to do
	DryRun  bool     `json:"dry_run,omitempty"`
	Mended  []Mended `json:"mended"`
	// Sequence is the number of the log entry that says what is lost, 0 if none was
	// needed.
	Sequence uint64 `json:"sequence,omitempty"`
	// Waits says that this entry lacks signatures of operators: nothing is said to be lost yet,
	// and Findings are empty.
	Waits bool `json:"-"`
	// Warnings are what somebody has to look at who knows what was there.
	Warnings []string `json:"warnings,omitempty"`
	// Unused are files that are the bytes of nothing that is lost.
	Unused   []string  `json:"unused,omitempty"`
	Findings []Finding `json:"findings"` // what is still wrong
}

// repair is one run of Repair.
type repair struct {
	Keeper
	o      RepairOptions
	report *RepairReport
	files  []spare
	log    *channels.Log
	seen   []channels.Pointer
	end    uint64 // number of the newest entry that there is, or was
	behind uint64 // number of the newest object behind the end of the log, 0 if there is none
	lost   []channels.Lost
	gone   []string // versions with bundles that nobody has any more
	wrong  []string // keys of objects of those, with other bytes than were published
}

// spare is a file that may have the bytes of a lost object.
type spare struct {
	path    string
	size    int64
	sha256  string
	blake2b string
	used    bool
}

// Repair brings a channel in order: it puts back the bytes of lost objects that files or
// segments of the log have, has the log say what is lost for good, and brings what
// clients read up to date. Nothing that is as it was published is rewritten. The same
// call again does nothing, or completes what was interrupted.
func (k Keeper) Repair(ctx context.Context, o RepairOptions) (*RepairReport, error) {
	if err := k.Ready(o.Channel); err != nil {
		return nil, err
	}
	r := &repair{Keeper: k, o: o, report: &RepairReport{Channel: o.Channel, DryRun: o.DryRun, Mended: []Mended{}, Findings: []Finding{}}}
	if err := r.readFiles(ctx); err != nil {
		return nil, err
	}
	if done, err := r.takeOut(ctx); err != nil || done {
		return r.report, err
	}
	for _, step := range []func(context.Context) error{r.own, r.mendLog, r.dropStrays, r.mendReleases, r.declare, r.mendViews, r.look} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for _, f := range r.files {
		if !f.used {
			r.report.Unused = append(r.report.Unused, f.path)
		}
	}
	return r.report, nil
}

// do records a repair, and carries it out unless only the report is wanted.
func (r *repair) do(key, done string, f func() error) error {
	r.report.Mended, r.report.Changed = append(r.report.Mended, Mended{key, done}), true
	if r.o.DryRun {
		return nil
	}
	return f()
}

func (r *repair) readFiles(ctx context.Context) error {
	for _, path := range r.o.Files {
		f := spare{path: path}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return bundle.Refuse(bundle.ErrNoFile, "check the path", "%s", path)
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
	}
	return nil
}

// bytesOf returns the content of a file with a SHA-256, nil if there is none.
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

// mendLog puts back lost entries whose bytes are at hand, and finds those that are lost
// for good.
func (r *repair) mendLog(ctx context.Context) (err error) {
	repository := r.Channels
	if r.seen, err = repository.Peek(ctx, r.o.Channel); err != nil {
		return err
	}
	log, gaps, err := repository.Salvage().Examine(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	restored := false
	for _, gap := range gaps {
		left, err := r.fill(ctx, gap.Lost)
		if err != nil {
			return err
		}
		restored = restored || left != gap.Lost
		switch {
		case left.From > left.To:
		case gap.Hash == "": // at the end
			r.end, r.behind = left.To, left.To
		default:
			r.lost = append(r.lost, left)
		}
	}
	if restored && !r.o.DryRun {
		if log, _, err = repository.Salvage().Examine(ctx, r.o.Channel); err != nil {
			return err
		}
	}
	r.log, r.end = log, max(r.end, channels.Ahead(r.seen, log.End().Sequence))
	if err := r.mendEnd(ctx); err != nil {
		return err
	}
	if r.log.Head() == nil && r.end == 0 {
		return bundle.Refuse(library.ErrNoRelease, "publish to it first", "%s shows nothing", r.o.Channel)
	}
	return nil
}

// fill puts back the entries of a gap, from the last one, whose hash is known. It
// returns what is left of the gap.
func (r *repair) fill(ctx context.Context, gap channels.Lost) (channels.Lost, error) {
	packed := r.Channels.Salvage().Packed(ctx, r.o.Channel, gap)
	for gap.From <= gap.To && gap.Hash != "" {
		data := packed[gap.To]
		if data == nil || library.SumOf(data) != gap.Hash {
			data = r.bytesOf(gap.Hash)
		}
		e, sum, ok := channels.Candidate(data)
		if !ok || sum != gap.Hash || e.Sequence != gap.To {
			break
		}
		err := r.do(fmt.Sprintf("%s%010d.json", channels.LogPrefix(r.o.Channel), e.Sequence), "put back", func() error {
			return r.Channels.Salvage().PutBack(ctx, r.o.Channel, data)
		})
		if err != nil {
			return gap, err
		}
		gap.To, gap.Hash = gap.To-1, e.Previous
	}
	return gap, nil
}

// mendEnd puts back entries behind the end of the log, which what clients read shows
// to have been there, and says that the others are lost.
func (r *repair) mendEnd(ctx context.Context) error {
	if err := r.putBackEnd(ctx, r.end); err != nil {
		return err
	}
	switch end := r.log.End().Sequence; {
	case r.end <= end:
	case r.log.Operators() != nil && r.behind <= end:
		r.report.Warnings = append(r.report.Warnings, NoEvidence(r.o.Channel, fmt.Errorf("%s shows entry %d, which is missing", r.o.Channel, r.end)))
	default:
		r.lost = append(r.lost, channels.Lost{From: end + 1, To: r.end})
	}
	return nil
}

// putBackEnd puts back the entries behind the end of the log, up to a number, that files have.
func (r *repair) putBackEnd(ctx context.Context, last uint64) error {
	for i := 0; i < len(r.files); i++ {
		f := &r.files[i]
		if f.used || f.size > library.MaxRecord*4 {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		e, _, ok := channels.Candidate(data)
		if end := r.log.End(); !ok || e.Sequence != end.Sequence+1 || e.Previous != end.Hash || e.Sequence > last {
			continue
		}
		f.used = true
		err = r.do(fmt.Sprintf("%s%010d.json", channels.LogPrefix(r.o.Channel), e.Sequence), "put back", func() error {
			return r.Channels.Salvage().PutBack(ctx, r.o.Channel, data)
		})
		if err != nil || r.o.DryRun {
			return err
		}
		if r.log, err = r.Channels.Extend(ctx, r.log); err != nil {
			return err
		}
		i = -1 // another may follow it
	}
	return nil
}

// needed reports whether clients may be offered a version.
func (r *repair) needed(version string) bool {
	head := r.log.Head()
	return head.Version == version || head.Newest() == version || slices.Contains(r.log.Watersheds(), version)
}

// declare has the log say what is lost for good, or leaves a plan for the operators to sign.
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
	longer, err := r.Enter(ctx, r.log, e, r.o.DryRun)
	if err != nil {
		return err
	}
	if r.report.Waits = longer == nil; r.report.Waits {
		return nil
	}
	r.log = longer
	for _, lost := range r.lost {
		what := fmt.Sprintf("entries %d to %d are said to be lost", lost.From, lost.To)
		if lost.From == lost.To {
			what = fmt.Sprintf("entry %d is said to be lost", lost.From)
		}
		r.report.Mended = append(r.report.Mended, Mended{channels.LogPrefix(r.o.Channel), what})
	}
	for _, version := range r.gone {
		r.report.Mended = append(r.report.Mended, Mended{library.Folder(version), "bundles are said to be lost"})
	}
	r.report.Changed, r.report.Sequence = true, e.Sequence
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

// shown returns the release that the manifest shows, by the record that has its signatures;
// nil if none has. Which one the log names is not known: its end is lost.
func (r *repair) shown(ctx context.Context) (*channels.Release, error) {
	m, err := manifest.Decode(r.seen[0].Data)
	if err != nil {
		return nil, nil // it is no manifest of ours
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

// mendViews brings what clients read up to date, unless the log can't be read before an entry
// that waits.
func (r *repair) mendViews(ctx context.Context) error {
	if r.report.Waits && len(r.lost) > 0 {
		return nil
	}
	if r.o.DryRun {
		for i, v := range r.log.Views(r.Channels.HasRings(r.o.Channel)) {
			if base, ok := v.Shows(r.seen[i].Data); !ok || base != "" && base != r.Channels.PublicURL {
				r.report.Mended, r.report.Changed = append(r.report.Mended, Mended{v.Key, "rendered anew"}), true
			}
		}
		return nil
	}
	before, err := r.Channels.Peek(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	log, _, err := r.Channels.Repoint(ctx, r.log)
	if err != nil {
		return err
	}
	after, err := r.Channels.Peek(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	for i, v := range log.Views(r.Channels.HasRings(r.o.Channel)) {
		if before[i].ETag != after[i].ETag {
			r.report.Mended, r.report.Changed = append(r.report.Mended, Mended{v.Key, "rendered anew"}), true
		}
	}
	r.log = log
	return r.dropWrong(ctx)
}

// dropWrong removes objects of lost bundles that have other bytes than were published.
func (r *repair) dropWrong(ctx context.Context) error {
	var doomed []string
	for _, key := range r.wrong {
		if version, ok := library.VersionIn(key); ok && r.log.Pruned(version) {
			doomed = append(doomed, key)
			r.report.Mended, r.report.Changed = append(r.report.Mended, Mended{key, "removed: it has other bytes than were published"}), true
		}
	}
	return r.Library.Store.Delete(ctx, doomed...)
}

// look says what is still wrong.
func (r *repair) look(ctx context.Context) error {
	if head := r.log.Head(); head != nil {
		r.report.Version = head.Version
	}
	if r.o.DryRun || r.report.Waits {
		return nil
	}
	report, err := r.Verify(ctx, r.o.Channel)
	if err != nil {
		return err
	}
	r.report.Findings = report.Findings
	return nil
}

// Err joins what is still wrong, nil if nothing is.
func (r *RepairReport) Err() error { return (&VerifyReport{Findings: r.Findings}).Err() }
