package upkeep

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/channels/mending"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/store/object"
)

// mendLog restores lost entries from copies, removes forged ones, and finds those that are lost
// for good.
func (r *repair) mendLog(ctx context.Context) (err error) {
	if r.seen, err = r.Channels.Peek(ctx, r.o.Channel); err != nil {
		return err
	}
	plan, err := r.planLog(ctx)
	if err == nil {
		err = r.lose(plan)
	}
	if err == nil && len(r.lost) == 0 { // else an entry that says so puts operators in force
		err = plan.Doubt
	}
	if err == nil {
		err = r.mayMove(ctx, plan.Steps)
	}
	if err == nil {
		err = r.carryOut(ctx, plan.Steps)
	}
	if err == nil && len(plan.Steps) > 0 && !r.o.DryRun {
		plan, err = mending.Plan(ctx, r.Channels, r.o.Channel, mending.Options{Seen: r.seen})
	}
	if err != nil {
		return err
	}
	r.log = plan.Log
	return r.pointBack(ctx)
}

// lose finds the entries that are still lost after a plan is carried out.
func (r *repair) lose(plan *mending.Mending) error {
	end := plan.Log.End().Sequence
	last, behind := end, false // the newest entry that exists or existed; there is an object after the log
	if r.o.TakeOut == "" {
		last = max(last, channels.Ahead(r.seen, end))
	}
	for _, gap := range plan.Gaps {
		switch {
		case gap.From > end:
			last, behind = max(last, gap.To), true
		case r.o.TakeOut != "" && len(plan.Steps) == 0:
			return &bundle.Refusal{Cause: gap.Problem, Mend: mendWith(r.o.Channel)}
		default:
			r.lost = append(r.lost, gap.Lost)
		}
	}
	switch {
	case plan.Log.Head() == nil && last == 0 && len(plan.Steps) == 0:
		return bundle.Refuse(library.ErrNoRelease, "publish to it first", "%s shows nothing", r.o.Channel)
	case last > end && plan.Log.Operators() != nil && !behind:
		r.report.Warnings = append(r.report.Warnings, NoEvidence(r.o.Channel, fmt.Errorf("%s shows entry %d, which is missing", r.o.Channel, last)))
	case last > end:
		if end == 0 && plan.Log.Head() == nil {
			r.report.Warnings = append(r.report.Warnings, "all entries of "+r.o.Channel+" are gone: "+mendEntries(r.o.Channel)+"; say that they are lost only if nobody has one")
		}
		r.lost = append(r.lost, channels.Lost{From: end + 1, To: last})
	}
	if len(r.lost) > 0 && plan.Log.Fed() && !r.o.Rest {
		return Fed(r.o.Channel)
	}
	return nil
}

// planLog plans the repair of the log.
func (r *repair) planLog(ctx context.Context) (*mending.Mending, error) {
	var given []string
	for _, f := range r.files {
		given = append(given, f.path)
	}
	spares, err := readEntries(given)
	if err != nil {
		return nil, err
	}
	takenOut, err := filesIn(r.o.TakeOut)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	witnesses, err := readEntries(takenOut)
	if err != nil {
		return nil, err
	}
	o := mending.Options{Spares: spares, Witnesses: witnesses, Seen: r.seen, Cut: r.o.TakeOut != ""}
	plan, err := mending.Plan(ctx, r.Channels, r.o.Channel, o)
	switch blame := fault.Of(err, r.o.Channel).Blame; {
	case !o.Cut || !errors.Is(err, channels.ErrLog) || blame == fault.Needed, errors.Is(err, fault.ErrBare), errors.Is(err, fault.ErrStrangers):
		return plan, err
	}
	return nil, &bundle.Refusal{Cause: err, Mend: mendWith(r.o.Channel)}
}

// carryOut carries out the steps of a plan.
func (r *repair) carryOut(ctx context.Context, steps []mending.Step) error {
	for _, s := range steps {
		if s.Out {
			if err := r.moveOut(ctx, s.Key); err != nil {
				return err
			}
		}
		if s.Back == nil {
			continue
		}
		sum := library.SumOf(s.Back)
		for i := range r.files {
			r.files[i].used = r.files[i].used || r.files[i].sha256 == sum
		}
		if err := r.do(s.Key, "put back", func() error { return r.Channels.Salvage().PutBack(ctx, r.o.Channel, s.Back) }); err != nil {
			return err
		}
	}
	return nil
}

// pointBack renders the manifests of an unsigned log again where TakeOut ignores manifests that
// are ahead of it.
func (r *repair) pointBack(ctx context.Context) error {
	if r.o.TakeOut == "" || r.o.DryRun || channels.Ahead(r.seen, r.log.End().Sequence) <= r.log.End().Sequence || r.log.Head() == nil {
		return nil
	}
	return r.do(channels.ManifestKey(r.o.Channel), "rendered anew", func() error {
		_, _, err := r.Channels.Point(ctx, r.log, r.seen)
		return err
	})
}

// readEntries returns the contents of the files that are small enough to be log entries.
func readEntries(paths []string) (all [][]byte, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && info.Size() > channels.MaxEntry {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// kept returns the file in a folder to which an object is moved.
func kept(folder, key string) string {
	plain := func(c rune) rune {
		if c == '.' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '-'
	}
	name := strings.Map(plain, path.Clean(key))
	if name != strings.ReplaceAll(key, "/", "-") || len(name) > 100 { // not every system allows such file names
		name = name[:min(len(name), 100)] + "-" + library.SumOf([]byte(key))[:16]
	}
	return filepath.Join(folder, name)
}

// mayMove returns an error if the folder has a different file under the name of an object to be
// moved there.
func (r *repair) mayMove(ctx context.Context, steps []mending.Step) error {
	if r.o.TakeOut == "" {
		return nil
	}
	strays, err := r.abandoned(ctx, r.o.Channel)
	for _, s := range strays {
		steps = append(slices.Clip(steps), mending.Step{Key: s.Key, Out: r.goesOut(s)})
	}
	for _, s := range steps {
		if s.Out && err == nil {
			err = r.mayKeep(ctx, s.Key, kept(r.o.TakeOut, s.Key))
		}
	}
	return err
}

// mayKeep returns an error if there is a file that does not have the first bytes of an object,
// or all of them, as an interrupted run leaves it.
func (r *repair) mayKeep(ctx context.Context, key, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return inTheWay(err)
	}
	defer f.Close()
	body, _, err := r.Library.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	for here, there := bufio.NewReader(f), bufio.NewReader(body); ; {
		want, err := here.ReadByte()
		if err == io.EOF {
			return nil
		}
		is, failed := there.ReadByte()
		if failed != nil && failed != io.EOF {
			return failed
		}
		if err != nil || failed != nil || is != want {
			return inTheWay(cmp.Or(err, fmt.Errorf("%s: %w", file, fs.ErrExist)))
		}
	}
}

func inTheWay(err error) error {
	return &bundle.Refusal{Cause: err, Mend: "name another folder, or move that file away"}
}

// goesOut reports whether a stray is moved to the TakeOut folder.
func (r *repair) goesOut(s channels.Stray) bool {
	return r.o.TakeOut != "" && !s.Begun && strings.HasPrefix(s.Key, channels.LogPrefix(r.o.Channel))
}

// moveOut moves an object to the TakeOut folder.
func (r *repair) moveOut(ctx context.Context, key string) error {
	file := kept(r.o.TakeOut, key)
	return r.do(key, "moved to "+file, func() error { return r.moveTo(ctx, key, file) })
}

// moveTo moves an object of any size to a new file, or to the unfinished one of an interrupted run.
func (r *repair) moveTo(ctx context.Context, key, file string) error {
	if err := r.mayKeep(ctx, key, file); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	body, info, err := r.Library.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return inTheWay(err)
	}
	_, err = io.Copy(f, object.Exactly(body, info.Size))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return r.Library.Store.Delete(ctx, key)
}
