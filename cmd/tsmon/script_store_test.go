package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/rogpeppe/go-internal/testscript"
)

// backdoor looks at a storage behind the program's back.
type backdoor interface {
	list() (map[string]string, error) // a digest by key
	get(key string) ([]byte, error)
	put(key string, data []byte) error
	lose(key string) error
	// begun reports an upload of a key that was neither completed nor aborted.
	begun(key string) (bool, error)
}

// behind opens the storage that TSMON_STORAGE names now.
func behind(ts *testscript.TestScript) backdoor {
	storage := ts.Getenv("TSMON_STORAGE")
	u, err := url.Parse(storage)
	ts.Check(err)
	if u.Scheme != "s3" {
		return folder(ts.MkAbs(storage))
	}
	return bucket{scriptOf(ts).server.Client(), u.Host, strings.TrimPrefix(u.Path, "/") + "/"}
}

func scriptSnapshot(ts *testscript.TestScript, _ []string) {
	var err error
	scriptOf(ts).before, err = behind(ts).list()
	ts.Check(err)
}

func scriptUnchanged(ts *testscript.TestScript, prefixes []string) {
	after, err := behind(ts).list()
	ts.Check(err)
	before := scriptOf(ts).before
	if before == nil {
		ts.Fatalf("there is no snapshot")
	}
	var changes []string
	for key := range maps.Keys(union(before, after)) {
		concerned := len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
		switch {
		case !concerned || before[key] == after[key]:
		case before[key] == "":
			changes = append(changes, "+ "+key)
		case after[key] == "":
			changes = append(changes, "- "+key)
		default:
			changes = append(changes, "~ "+key)
		}
	}
	slices.Sort(changes)
	if len(changes) > 0 {
		ts.Fatalf("the storage changed:\n%s", strings.Join(changes, "\n"))
	}
}

func union[T any](a, b map[string]T) map[string]T {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func scriptStored(ts *testscript.TestScript, neg bool, keys []string) {
	found, err := behind(ts).list()
	ts.Check(err)
	for _, key := range keys {
		if _, ok := found[key]; ok == neg {
			ts.Fatalf("%s is stored: %v; all that is: %q", key, ok, slices.Sorted(maps.Keys(found)))
		}
		begun, err := behind(ts).begun(key)
		ts.Check(err)
		if begun {
			ts.Fatalf("an upload of %s was left behind", key)
		}
	}
}

func scriptFetch(ts *testscript.TestScript, args []string) {
	data, err := behind(ts).get(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o644))
}

func scriptPut(ts *testscript.TestScript, args []string) {
	ts.Check(behind(ts).put(args[1], []byte(ts.ReadFile(args[0]))))
}

func scriptLose(ts *testscript.TestScript, keys []string) {
	for _, key := range keys {
		ts.Check(behind(ts).lose(key))
	}
}

// scriptPublic lets anybody read the storage.
func scriptPublic(ts *testscript.TestScript, _ []string) {
	switch s := behind(ts).(type) {
	case folder:
		server := httptest.NewServer(http.FileServerFS(os.DirFS(string(s))))
		ts.Defer(server.Close)
		ts.Setenv("TSMON_PUBLIC_URL", server.URL)
	case bucket:
		policy := `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::` + s.name + `/desktop/script-release-*"}]}`
		ts.Check(s.client.SetBucketPolicy(context.Background(), s.name, policy))
		ts.Setenv("TSMON_PUBLIC_URL", scriptOf(ts).server.Endpoint+"/"+s.name+"/"+strings.TrimSuffix(s.prefix, "/"))
	}
}

// folder is a storage in a directory.
type folder string

// list leaves out locks, which stay, but not temporary files, which must not.
func (f folder) list() (map[string]string, error) {
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(string(f)), ".", func(key string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && key == "." {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasPrefix(key, ".tsmon/lock-") || strings.HasPrefix(key, ".tsmon/clock-") {
			return err
		}
		data, err := f.get(key)
		found[key] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	return found, err
}

func (f folder) get(key string) ([]byte, error) { return os.ReadFile(f.path(key)) }

func (f folder) put(key string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(f.path(key)), 0o755), os.WriteFile(f.path(key), data, 0o644))
}

func (f folder) lose(key string) error { return os.Remove(f.path(key)) }

// begun need not look: list shows temporary files.
func (f folder) begun(string) (bool, error) { return false, nil }

func (f folder) path(key string) string {
	return filepath.Join(string(f), filepath.FromSlash(key))
}

// bucket is a storage in a bucket.
type bucket struct {
	client *minio.Core
	name   string
	prefix string
}

func (b bucket) lose(key string) error {
	return b.client.RemoveObject(context.Background(), b.name, b.prefix+key, minio.RemoveObjectOptions{})
}

func (b bucket) list() (map[string]string, error) {
	page, err := b.client.ListObjectsV2(b.name, b.prefix, "", "", "", 1000)
	if err == nil && page.IsTruncated {
		err = errors.New("more objects than fit on a page")
	}
	found := map[string]string{}
	for _, o := range page.Contents {
		found[strings.TrimPrefix(o.Key, b.prefix)] = o.ETag
	}
	return found, err
}

func (b bucket) get(key string) ([]byte, error) {
	body, _, _, err := b.client.GetObject(context.Background(), b.name, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func (b bucket) put(key string, data []byte) error {
	_, err := b.client.PutObject(context.Background(), b.name, b.prefix+key, bytes.NewReader(data), int64(len(data)), "", "", minio.PutObjectOptions{})
	return err
}

func (b bucket) begun(key string) (bool, error) {
	page, err := b.client.ListMultipartUploads(context.Background(), b.name, b.prefix+key, "", "", "", 1)
	return len(page.Uploads) > 0, err
}

// hintsOfStores are the scripts about hints of releases that don't spoil the files of a
// directory.
var hintsOfStores = []string{"hints-address.txtar", "hints-operators.txtar", "hints-release.txtar", "hints-stage.txtar", "hints-store.txtar", "hints-update.txtar"}

// onMinIO returns which scripts a run takes through MinIO: those about it, and of those that
// run on a directory too, numbered from 0, the ones that has reports.
func onMinIO(has func(number int) bool) func(name string) bool {
	number := -1
	return func(name string) bool {
		if !strings.HasPrefix(name, "release-") && !slices.Contains(hintsOfStores, name) {
			return strings.HasPrefix(name, "minio-")
		}
		number++
		return has(number)
	}
}
