package dir

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"tsmon/store/object"
)

// List reads one folder at a time, and skips folders that hold only keys up to after.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		err := s.list(ctx, prefix, after, func(info object.Info) bool { return yield(info, nil) })
		if err != nil && !errors.Is(err, errStop) {
			s.explain("list", prefix, &err)
			yield(object.Info{}, err)
		}
	}
}

// errStop says that the caller has stopped the iteration.
var errStop = errors.New("stop")

func (s *Store) list(ctx context.Context, prefix, after string, yield func(object.Info) bool) error {
	root, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return ctx.Err() // nothing was written yet
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if !object.ValidPrefix(prefix) {
		return ctx.Err()
	}
	w := walk{root: root, prefix: prefix, after: after, yield: yield}
	return w.folder(ctx, prefix[:strings.LastIndex(prefix, "/")+1])
}

type walk struct {
	root          *os.Root
	prefix, after string
	yield         func(object.Info) bool
}

// folder lists one folder, whose name ends with a slash; the root is "".
func (w walk) folder(ctx context.Context, folder string) error {
	names, err := w.names(folder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if key, isFolder := strings.CutSuffix(folder+name, "/"); !isFolder {
			err = w.file(key)
		} else if w.reaches(key + "/") {
			err = w.folder(ctx, key+"/")
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// names reads the names in a folder in byte order of their keys: the names of folders
// end with a slash, so that "a.b" sorts before "a/b". A missing folder has none.
func (w walk) names(folder string) ([]string, error) {
	var entries []fs.DirEntry
	f, err := w.root.Open(path.Clean("./" + folder))
	if err == nil {
		defer f.Close()
		entries, err = f.ReadDir(-1)
	}
	if errors.Is(err, fs.ErrNotExist) || isNotFolder(err) || isTooLong(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case object.ValidKey(folder+name) != nil: // no object, and no part of one's key
		case e.IsDir():
			names = append(names, name+"/")
		case e.Type().IsRegular():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// reaches reports whether a folder may contain keys to list.
func (w walk) reaches(folder string) bool {
	fits := strings.HasPrefix(folder, w.prefix) || strings.HasPrefix(w.prefix, folder)
	return fits && (folder > w.after || strings.HasPrefix(w.after, folder))
}

// file yields one object, unless it is gone by now.
func (w walk) file(key string) error {
	if !strings.HasPrefix(key, w.prefix) || key <= w.after {
		return nil
	}
	fi, err := lookUp(w.root, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !w.yield(object.Info{Key: key, Size: fi.Size(), ModTime: fi.ModTime()}) {
		return errStop
	}
	return nil
}
