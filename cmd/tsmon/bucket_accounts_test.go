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

// accounts are those of the guide on a MinIO server, each with its policy.
type accounts struct {
	t     *testing.T
	minio *servertest.MinIO
	guide string
}

// as returns the credentials of an account.
func (a accounts) as(name string) credentials.Value {
	a.t.Helper()
	begin := strings.Index(a.guide, `{"Version": "2012-10-17", "Statement": [`+"\n"+`  {"Sid": "`+name+`"`)
	if begin < 0 {
		a.t.Fatalf("the guide has no policy of %s", name)
	}
	policy, _, _ := strings.Cut(a.guide[begin:], "\n```")
	creds, err := credentials.NewSTSAssumeRole(a.minio.Endpoint, credentials.STSAssumeRoleOptions{
		AccessKey: a.minio.AccessKey, SecretKey: a.minio.SecretKey, Location: "us-east-1", DurationSeconds: 3600, Policy: policy})
	if err != nil {
		a.t.Fatal(err)
	}
	value, err := creds.GetWithContext(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return value
}

// TestBucketAccounts: with the policies of the guide a CI job can stage, publish and roll back, a
// server can take a step and pause, and a reader can verify. None of them can do more. If the
// job's account overwrites an entry of the log, it is restored from the versions of the bucket.
func TestBucketAccounts(t *testing.T) {
	t.Parallel()
	server := servertest.StartMinIO(t)
	server.MakeBucket("releases")
	if err := server.Client().EnableVersioning(t.Context(), "releases"); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../release/README.md")
	if err != nil {
		t.Fatal(err)
	}
	a := accounts{t, server, string(guide)}
	settings := filepath.Join(t.TempDir(), "tsmon.yaml")
	text := "storage: s3://releases/desktop?endpoint=" + server.Endpoint + "\npublic_url: https://releases.example.com/app\ntrusted_keys: [testdata/unencrypted.pub]\nchannels: {stable: {targets: [linux-x86_64]}, beta: {follows: stable}}\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	try := func(who credentials.Value, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		env := []string{"AWS_ACCESS_KEY_ID=" + who.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + who.SecretAccessKey, "AWS_SESSION_TOKEN=" + who.SessionToken,
			"TSMON_CONFIG=" + settings, "TSMON_DATA=" + data, "TAURI_SIGNING_PRIVATE_KEY=testdata/unencrypted.key", "AWS_EC2_METADATA_DISABLED=true"}
		return command(t, env, "tsmon", args...)
	}
	may := func(who credentials.Value, args ...string) string {
		t.Helper()
		stdout, stderr, code := try(who, args...)
		if code != 0 {
			t.Fatalf("tsmon %s: code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
		return stdout
	}
	mayNot := func(who credentials.Value, args ...string) {
		t.Helper()
		if stdout, stderr, code := try(who, args...); code != 1 || !strings.Contains(stderr, "permission denied") {
			t.Errorf("tsmon %s: code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
	}
	ci, steps, reader := a.as("ci"), a.as("server"), a.as("reader")
	may(ci, "release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	may(ci, "release", "stage", "--version", "1.1.0", bundles(t, "1.1.0", 100))
	may(ci, "release", "publish", "--no-probe", "--version", "1.1.0", "--percent", "10")
	may(steps, "channel", "rollout", "stable", "--percent", "50", "--no-probe")
	may(steps, "channel", "pause", "stable", "--reason", "x", "--no-probe")
	may(ci, "release", "rollback", "--no-probe", "--reason", "crashes")
	if out := may(reader, "channel", "verify", "stable", "--no-probe"); !strings.Contains(out, "all is well") {
		t.Error(out)
	}
	mayNot(steps, "release", "publish", "--no-probe", "--version", "1.2.0", bundles(t, "1.2.0", 100))
	mayNot(reader, "release", "rollback", "--no-probe", "--to", "1.1.0", "--reason", "x")

	const entry = "desktop/log/stable/0000000001.json"
	for name, who := range map[string]credentials.Value{"ci": ci, "server": steps, "reader": reader} {
		client, err := minio.NewCore(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(who.AccessKeyID, who.SecretAccessKey, who.SessionToken), Region: "us-east-1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{entry, "desktop/releases/1.0.0/release.json", "desktop/stable/latest.json"} {
			if err := client.RemoveObject(t.Context(), "releases", key, minio.RemoveObjectOptions{}); minio.ToErrorResponse(err).Code != "AccessDenied" {
				t.Errorf("%s deletes %s: %v", name, key, err)
			}
		}
		if name == "ci" {
			if _, err := client.PutObject(t.Context(), "releases", entry, bytes.NewReader([]byte("{}")), 2, "", "", minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, stderr, code := try(reader, "channel", "verify", "stable", "--no-probe"); code != 3 {
		t.Errorf("an entry was overwritten: code %d: %s", code, stderr)
	}
	old := ""
	for object := range server.Client().Client.ListObjects(t.Context(), "releases", minio.ListObjectsOptions{Prefix: entry, WithVersions: true}) {
		if !object.IsLatest {
			old = object.VersionID
		}
	}
	body, _, _, err := server.Client().GetObject(t.Context(), "releases", entry, minio.GetObjectOptions{VersionID: old})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	lost := filepath.Join(t.TempDir(), "entry")
	kept, err := io.ReadAll(body)
	if err == nil {
		err = os.WriteFile(lost, kept, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	owner := credentials.Value{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}
	may(owner, "channel", "repair", "stable", "--bundle", lost)
	if out := may(reader, "channel", "verify", "stable", "--no-probe"); !strings.Contains(out, "all is well") {
		t.Error(out)
	}
}
