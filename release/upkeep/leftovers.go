package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/approval"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/store/object"
)

// leftovers adds to the report the objects that Prune removes besides the bundles of doomed
// versions. It passes over versions with an object younger than leftoverAge, since
// somebody may be publishing them. Of a version that a channel has shown, all staging
// records go, and all bundles that no log entry names, unless the version is doomed. Of any
// other version, bundles go that neither its record nor its staging records name. With Strays
// it adds what no log names, unless a plan waits to show the version.
func (w *pruning) leftovers(ctx context.Context) (err error) {
	if err := w.readLinks(ctx); err != nil {
		return err
	}
	var planned map[string]*approval.Waiting
	if w.o.Strays {
		if err = w.whole(ctx); err == nil {
			planned, err = w.planned(ctx)
		}
		if err != nil {
			return err
		}
		w.leave(w.astray, nobody)
	}
	offered, named := lastOffered(w.logs), library.NamedFiles{}
	for _, log := range w.logs {
		named.Add(log)
	}
	for version, s := range w.stocks {
		if w.began.Sub(s.newest) < leftoverAge {
			continue
		}
		strays := w.o.Strays && len(s.records) > 0 && planned[version] == nil
		_, shown := offered[version]
		if shown {
			w.leave(s.staged, nobody)
		}
		if shown && !slices.Contains(w.doomed, version) {
			w.leave(s.objects, named.Has)
		}
		switch {
		case !shown:
			err = w.unreleased(ctx, version, s, strays)
		case strays:
			err = w.surplus(ctx, version, s)
		}
		if err != nil {
			return err
		}
	}
	slices.Sort(w.report.Leftovers)
	w.report.Leftovers = slices.Compact(w.report.Leftovers)
	return nil
}

// readLinks reads the manifests of channels that have no log: somebody wrote them before the
// channel is moved for the first time, and its clients get what they link.
func (w *pruning) readLinks(ctx context.Context) error {
	for folder, err := range object.Folders(ctx, w.Library.Store, "") {
		if err != nil {
			return err
		}
		if channels.CheckName(folder) != nil || slices.ContainsFunc(w.logs, func(log *channels.Log) bool { return log.Channel == folder }) {
			continue
		}
		shown, err := w.Channels.Peek(ctx, folder)
		if err != nil {
			return err
		}
		for _, pointer := range channels.Distinct(shown) {
			var m manifest.Manifest // clients may take more than manifest.Decode does
			if json.Unmarshal(pointer.Data, &m) != nil {
				continue
			}
			for _, platform := range m.Platforms {
				if u, err := url.Parse(platform.URL); err == nil {
					w.linked = append(w.linked, u.Path)
				}
			}
		}
	}
	return nil
}

// isLinked reports whether a manifest that readLinks found offers an object, or the bundle that
// it is the signature of.
func (w *pruning) isLinked(key string) bool {
	return slices.ContainsFunc(w.linked, func(path string) bool { return strings.HasSuffix(path, "/"+strings.TrimSuffix(key, ".sig")) })
}

// leave adds objects to the leftovers unless they, or the bundles that they are the
// signatures of, are needed.
func (w *pruning) leave(objects []object.Info, needed func(key string) bool) {
	for _, info := range objects {
		if !needed(info.Key) && !needed(strings.TrimSuffix(info.Key, ".sig")) && !w.isLinked(info.Key) {
			w.report.Leftovers = append(w.report.Leftovers, info.Key)
		}
	}
}

// nobody needs an object.
func nobody(string) bool { return false }

// unreleased adds the bundles of a version that no channel has shown which neither its record
// nor its staging records name. If one of these can't be read, only strays go: the records
// behind those that can be read, and the bundles that none of these names. A version that is
// complete becomes one of unshown then.
func (w *pruning) unreleased(ctx context.Context, version string, s *stock, strays bool) (err error) {
	var records []*library.Record
	var staged map[string]*library.Staged
	if len(s.records) > 0 {
		records, err = w.Library.Readable(ctx, version)
	}
	if err == nil && len(s.staged) > 0 {
		staged, err = w.Library.Staged(ctx, version)
	}
	if errors.As(err, new(*bundle.Refusal)) {
		return nil
	} else if err != nil {
		return err
	}
	behind := library.RecordKey(version, len(records)+1)
	damaged := slices.ContainsFunc(s.records, func(info object.Info) bool { return info.Key == behind })
	for _, s := range staged {
		damaged = damaged || s.Damage != nil
	}
	if damaged && !strays {
		return nil
	}
	var counts *library.Record
	if n := len(records); n > 0 && !records[n-1].Discarded {
		counts = records[n-1]
	}
	needed := library.Needed(counts, staged)
	w.leave(s.objects, func(key string) bool { return needed[strings.TrimPrefix(key, library.Folder(version))] })
	if strays {
		w.keepRecords(s, records)
	}
	if strays && counts != nil && len(library.Standing(staged)) == 0 {
		w.unshown = append(w.unshown, version)
	}
	return nil
}

// surplus handles a version that a channel has shown. It adds the records after the one that logs name,
// except marks of a discard. If the named record is lost, another may turn out to be it, so all stay.
func (w *pruning) surplus(ctx context.Context, version string, s *stock) error {
	if len(s.records) == 1 && s.records[0].Key == library.RecordKey(version, 1) {
		return nil // Verify compares it with the log
	}
	records, err := w.Library.Readable(ctx, version)
	if err != nil {
		return err
	}
	var stay []*library.Record
	named := false
	for _, r := range records {
		if !named || r.Discarded {
			stay = append(stay, r)
		}
		named = named || library.RecordOf(w.logs, version, r.Sum) == r.Sum
	}
	if named {
		w.keepRecords(s, stay)
	}
	return nil
}

// keepRecords adds the records of a version to the leftovers, except those in stay.
func (w *pruning) keepRecords(s *stock, stay []*library.Record) {
	w.leave(s.records, func(key string) bool {
		return slices.ContainsFunc(stay, func(r *library.Record) bool { return library.RecordKey(r.Version, r.Number) == key })
	})
}

// unfinished finds uploads of bundles that nobody goes on with.
func (w *pruning) unfinished(ctx context.Context) error {
	store, ok := w.Library.Store.(object.Uploads)
	if !ok {
		return nil
	}
	uploads, err := store.Unfinished(ctx, library.Root)
	if errors.Is(err, fs.ErrPermission) {
		w.report.Warnings = append(w.report.Warnings, fmt.Sprintf("unfinished uploads stay: %v", err))
		return nil
	}
	for _, u := range uploads {
		if w.began.Sub(u.Begun) >= leftoverAge {
			w.uploads, w.report.Unfinished = append(w.uploads, u), append(w.report.Unfinished, u.Key)
		}
	}
	return err
}

// clear removes the leftovers and aborts unfinished uploads. Of what is staged for a target the
// object with the highest number counts: it goes last.
func (w *pruning) clear(ctx context.Context) error {
	highest := map[string]string{} // by folder
	for _, key := range w.report.Leftovers {
		if strings.HasPrefix(key, library.StagedRoot) {
			highest[key[:strings.LastIndex(key, "/")]] = key
		}
	}
	last := slices.Sorted(maps.Values(highest))
	first := slices.DeleteFunc(slices.Clone(w.report.Leftovers), func(key string) bool { return slices.Contains(last, key) })
	if err := w.Library.Store.Delete(ctx, first...); err != nil {
		return err
	}
	if err := w.Library.Store.Delete(ctx, last...); err != nil {
		return err
	}
	if store, ok := w.Library.Store.(object.Uploads); ok && len(w.uploads) > 0 {
		return store.Abort(ctx, w.uploads...)
	}
	return nil
}
