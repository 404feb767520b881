package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/object"
)

// abandoned are the prefixes of the objects that litter leaves.
var abandoned = []string{"releases/2.0.0/", "releases/2.1.0/", "releases/2.2.0/"}

// litter leaves objects that prune removes a day later: the bundles of a killed publish, and those of
// a discarded version.
func (k *kit) litter(t *testing.T) {
	t.Helper()
	for _, key := range []string{"App_2.0.0_amd64.AppImage", "App_2.0.0_amd64.AppImage.sig"} {
		if _, err := k.store.Create(t.Context(), abandoned[0]+key, strings.NewReader("part"), 4, object.Attributes{}); err != nil {
			t.Fatal(err)
		}
	}
	k.must(t, "release", "stage", "--version", "2.1.0", bundles(t, "2.1.0", 100))
	k.must(t, "release", "discard", "2.1.0")
}

// begin leaves an upload that nobody finishes, and a day later in a directory, which looks
// at the age of files.
func (k *kit) begin(t *testing.T) {
	t.Helper()
	if k.minio == nil {
		file := filepath.Join(k.storage, ".tsmon", "temp-begun")
		if err := os.WriteFile(file, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-48 * time.Hour)
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, prefix, _ := strings.Cut(strings.TrimPrefix(k.storage, "s3://"), "/")
	prefix, _, _ = strings.Cut(prefix, "?")
	if _, err := k.minio.Client().NewMultipartUpload(t.Context(), k.minio.Bucket, prefix+"/"+abandoned[2]+"App_2.2.0_amd64.AppImage", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := len(k.begun(t)); n != 1 {
		t.Fatalf("%d uploads were begun", n)
	}
}

// begun returns what is left of unfinished uploads.
func (k *kit) begun(t *testing.T) (left []string) {
	t.Helper()
	store, err := cli.OpenStore(t.Context(), k.storage) // which sweeps a directory
	if err != nil {
		t.Fatal(err)
	}
	uploads, ok := store.(object.Uploads)
	if !ok {
		if left, err = filepath.Glob(filepath.Join(k.storage, ".tsmon", "temp-*")); err != nil {
			t.Fatal(err)
		}
		return left
	}
	found, err := uploads.Unfinished(context.WithoutCancel(t.Context()), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		left = append(left, u.Key)
	}
	return left
}

// swept checks that nothing of litter and begin is left.
func (k *kit) swept(t *testing.T) {
	t.Helper()
	left := k.begun(t)
	for _, prefix := range abandoned {
		for info, err := range k.store.List(t.Context(), prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(info.Key, ".json") { // records stay
				continue
			}
			left = append(left, info.Key)
		}
	}
	if len(left) > 0 {
		t.Errorf("prune left %q", left)
	}
}
