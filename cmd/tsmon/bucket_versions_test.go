package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"tsmon/store/servertest"
)

// TestBucketVersions: doctor says whether a bucket keeps overwritten entries of the log. The cases
// are no versions, versions, versions without the log, object lock, and credentials that may not
// ask. In a bucket with object lock a channel is moved as usual, nobody can remove the original
// bytes of an entry, and they are restored.
func TestBucketVersions(t *testing.T) {
	t.Parallel()
	server := servertest.StartMinIO(t)
	client := server.Client()
	guide, err := os.ReadFile("../../release/README.md")
	if err != nil {
		t.Fatal(err)
	}
	server.MakeBucket("releases")
	guided := accounts{t, server, string(guide)}
	job := guided.as("ci")
	owner := credentials.Value{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}
	data := t.TempDir()
	run := func(who credentials.Value, bucket string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		env := []string{"AWS_ACCESS_KEY_ID=" + who.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + who.SecretAccessKey, "AWS_SESSION_TOKEN=" + who.SessionToken,
			"TSMON_STORAGE=s3://" + bucket + "/desktop?endpoint=" + server.Endpoint, "TSMON_PUBLIC_URL=http://127.0.0.1:1", "TSMON_TRUSTED_KEYS=testdata/unencrypted.pub",
			"TSMON_DATA=" + data, "TAURI_SIGNING_PRIVATE_KEY=testdata/unencrypted.key", "AWS_EC2_METADATA_DISABLED=true"}
		return command(t, env, "tsmon", args...)
	}
	must := func(bucket string, args ...string) string {
		t.Helper()
		stdout, stderr, code := run(owner, bucket, args...)
		if code != 0 {
			t.Fatalf("tsmon %s: code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
		return stdout
	}
	says := func(who credentials.Value, bucket, text string) {
		t.Helper()
		if stdout, _, _ := run(who, bucket, "doctor"); !strings.Contains(stdout, text) {
			t.Errorf("doctor of %s does not say %q:\n%s", bucket, text, stdout)
		}
	}
	must("releases", "release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	// follows: switch on versions (`mc version enable ALIAS/BUCKET`), or make the bucket with object lock
	says(owner, "releases", "warning  storage: the bucket keeps no versions of log/: ")
	if err := client.EnableVersioning(t.Context(), "releases"); err != nil {
		t.Fatal(err)
	}
	says(owner, "releases", "ok       storage: keeps versions of what is overwritten or deleted in log/; without object lock")
	if err := client.SetBucketVersioning(t.Context(), "releases", minio.BucketVersioningConfiguration{Status: "Enabled", ExcludedPrefixes: []minio.ExcludedPrefix{{Prefix: "desktop/log/*"}}}); err != nil {
		t.Fatal(err)
	}
	says(owner, "releases", "the bucket keeps no versions of log/: ")
	says(job, "releases", "ok       storage: whether the bucket keeps versions of log/ is not known: these credentials may not ask")
	for _, account := range []string{"server", "reader"} {
		who := guided.as(account)
		// follows: give them the rights of a CI job (release/README.md, Give each the rights that it needs)
		says(who, "releases", "warning  storage: these credentials may read and not publish, as those of a server or a reader")
		says(who, "releases", "ok       storage: whether the bucket keeps versions of log/ is not known: these credentials may not ask")
		if stdout, _, code := run(who, "releases", "doctor"); strings.Contains(stdout, "error    storage") {
			t.Errorf("code %d: %s", code, stdout)
		}
	}
	says(job, "releases", "ok       storage: honours conditional writes")

	if err := client.MakeBucket(t.Context(), "locked", minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	says(owner, "locked", "ok       storage: keeps versions of what is overwritten or deleted in log/; without object lock")
	mode, days, unit := minio.Governance, uint(30), minio.Days
	if err := client.SetObjectLockConfig(t.Context(), "locked", &mode, &days, &unit); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		must("locked", "release", "publish", "--no-probe", "--version", version, bundles(t, version, 100))
	}
	must("locked", "release", "rollback", "--no-probe", "--reason", "crashes")
	must("locked", "channel", "verify", "stable", "--no-probe")
	says(owner, "locked", "ok       storage: keeps versions of what is overwritten or deleted in log/, and lets nobody remove them for 30 days (object lock)")

	const entry = "desktop/log/stable/0000000001.json"
	rightful, err := client.StatObject(t.Context(), "locked", entry, minio.StatObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Client.PutObject(t.Context(), "locked", entry, bytes.NewReader([]byte("{}")), 2, minio.PutObjectOptions{SendContentMd5: true}); err != nil {
		t.Fatal(err)
	}
	if err := client.RemoveObject(t.Context(), "locked", entry, minio.RemoveObjectOptions{VersionID: rightful.VersionID}); err == nil {
		t.Error("a version of an entry was removed")
	}
	if stdout, _, code := run(owner, "locked", "channel", "verify", "stable", "--no-probe"); code != 3 || !strings.Contains(stdout, "log/stable/0000000001.json: ") {
		t.Errorf("code %d: %s", code, stdout)
	}
	body, err := client.Client.GetObject(t.Context(), "locked", entry, minio.GetObjectOptions{VersionID: rightful.VersionID})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := io.ReadAll(body)
	lost := filepath.Join(t.TempDir(), "entry")
	if err == nil {
		err = os.WriteFile(lost, kept, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	must("locked", "channel", "repair", "stable", "--bundle", lost)
	must("locked", "channel", "verify", "stable", "--no-probe")
}
