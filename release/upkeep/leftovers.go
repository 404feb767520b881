package upkeep

import (
	"cmp"
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
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/store/object"
)

// leftovers adds to the report the objects that Prune removes besides the bundles of doomed
// versions. It passes over versions with an object younger than leftoverAge, since
// somebody may be publishing them. Of a version that a channel has shown, all staging
// records go, and all bundles that no log entry names, unless the version is doomed. Of any
// other version, bundles go that neither its record nor its staging records name.
func (w *pruning) leftovers(ctx context.Context, doomed []string) error {
	if err := w.readLinks(ctx); err != nil {
		return err
	}
	offered, named := lastOffered(w.logs), library.NamedFiles{}
	for _, log := range w.logs {
		named.Add(log)
	}
	for version, s := range w.stocks {
		if w.began.Sub(s.newest) < leftoverAge {
			continue
		}
		if _, shown := offered[version]; shown {
			if !slices.Contains(doomed, version) {
				w.leave(s.objects, named.Has)
			}
			w.leave(s.staged, func(string) bool { return false })
			continue
		}
		needed, err := w.needed(ctx, version, s)
		if err != nil {
			return err
		}
		w.leave(s.objects, func(key string) bool {
			return needed == nil || needed[strings.TrimPrefix(key, library.Folder(version))]
		})
	}
	if w.o.Strays {
		if err := w.unnamed(ctx); err != nil {
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
	for after := ""; ; {
		folder, err := nextFolder(ctx, w.Library.Store, after)
		if err != nil || folder == "" {
			return err
		}
		after = folder + "0" // sorts behind all that is in the folder
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
}

// nextFolder returns the first folder of a store with an object behind a key, empty if there is
// none.
func nextFolder(ctx context.Context, store object.Store, after string) (string, error) {
	for info, err := range store.List(ctx, "", after) {
		if err != nil {
			return "", err
		}
		if folder, _, found := strings.Cut(info.Key, "/"); found {
			return folder, nil
		}
	}
	return "", nil
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

// needed returns the names of the bundles that the record and the staging records of an
// unreleased version refer to, or nil if one of these can't be read.
func (w *pruning) needed(ctx context.Context, version string, s *stock) (map[string]bool, error) {
	var record *library.Record
	var staged map[string]*library.Staged
	var err error
	if len(s.records) > 0 {
		var records []*library.Record
		if records, err = w.Library.Records(ctx, version); err == nil && len(records) > 0 {
			if record = records[len(records)-1]; record.Discarded {
				record = nil
			}
		}
	}
	if err == nil && len(s.staged) > 0 {
		staged, err = w.Library.Staged(ctx, version)
	}
	for _, s := range staged {
		err = cmp.Or(err, s.Damage)
	}
	if errors.As(err, new(*bundle.Refusal)) {
		return nil, nil
	}
	return library.Needed(record, staged), err
}

// unfinished finds uploads of bundles that nobody goes on with.
func (w *pruning) unfinished(ctx context.Context) (left []object.Upload, err error) {
	store, ok := w.Library.Store.(object.Uploads)
	if !ok {
		return nil, nil
	}
	uploads, err := store.Unfinished(ctx, library.Root)
	if errors.Is(err, fs.ErrPermission) {
		w.report.Warnings = append(w.report.Warnings, fmt.Sprintf("unfinished uploads stay: %v", err))
		return nil, nil
	}
	for _, u := range uploads {
		if w.began.Sub(u.Begun) >= leftoverAge {
			left, w.report.Unfinished = append(left, u), append(w.report.Unfinished, u.Key)
		}
	}
	return left, err
}

// clear removes the leftovers and aborts uploads. Of what is staged for a target the
// object with the highest number counts: it goes last.
func (w *pruning) clear(ctx context.Context, uploads []object.Upload) error {
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
	if store, ok := w.Library.Store.(object.Uploads); ok && len(uploads) > 0 {
		return store.Abort(ctx, uploads...)
	}
	return nil
}
