package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/servertest"
)

// TestBucketPolicy: if clients may not read the bucket, publish moves no channel, and publish and
// doctor say which folders clients must be able to read. With the policy in the guide clients can
// read these and nothing else, and the same command publishes.
func TestBucketPolicy(t *testing.T) {
	t.Parallel()
	minio := servertest.StartMinIO(t)
	minio.MakeBucket("releases")
	guide, err := os.ReadFile("../../release/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, found := strings.Cut(string(guide), "```json\n{\"Version\"")
	policy, _, closed := strings.Cut(policy, "\n```")
	if !found || !closed {
		t.Fatal("the guide has no policy")
	}
	public := minio.Endpoint + "/releases/desktop"
	settings := filepath.Join(t.TempDir(), "tsmon.yaml")
	text := "storage: s3://releases/desktop?endpoint=" + minio.Endpoint + "\npublic_url: " + public + "\ntrusted_keys: [testdata/unencrypted.pub]\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(minio.Env(), "TSMON_CONFIG="+settings, "TSMON_DATA="+t.TempDir(), "TAURI_SIGNING_PRIVATE_KEY=testdata/unencrypted.key", "AWS_EC2_METADATA_DISABLED=true")
	publish := []string{"release", "publish", "--version", "1.0.0", bundles(t, "1.0.0", 100)}
	_, stderr, code := command(t, env, "tsmon", publish...)
	if code != cli.ExitRefused || !strings.Contains(stderr, "error: clients may not read what would be published: stable stays as it is: "+public+"/releases/1.0.0/App_universal.app.tar.gz.sig answers with status 403") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if stdout, stderr, code := command(t, env, "tsmon", "channel", "list"); code != 0 || strings.Contains(stdout, "stable") {
		t.Fatalf("the channel has moved: code %d: %s%s", code, stdout, stderr)
	}
	stdout, _, _ := command(t, env, "tsmon", "doctor")
	if !strings.Contains(stdout, "let everybody read stable/, beta/ and releases/ in the bucket, and nothing else") {
		t.Errorf("doctor says %s", stdout)
	}
	if err := minio.Client().SetBucketPolicy(t.Context(), "releases", "{\"Version\""+policy); err != nil {
		t.Fatal(err)
	}
	// follows: let everybody read releases/ and the folder of each channel in the storage, such as …/, and nothing else, with the policy in the guide
	if stdout, stderr, code = command(t, env, "tsmon", publish...); code != 0 || !strings.Contains(stdout, "fetched and verified as a client gets it") || strings.Contains(stderr, "warning:") {
		t.Errorf("after the policy: code %d: %s%s", code, stdout, stderr)
	}
	if stdout, _, _ := command(t, env, "tsmon", "doctor"); strings.Contains(stdout, "anybody can read") {
		t.Errorf("after the policy: doctor says %s", stdout)
	}
	for path, want := range map[string]int{"/stable/latest.json": 200, "/beta/latest.json": 200, "/releases/1.0.0/release.json": 200, "/log/stable/0000000001.json": 403, "/uploads/x": 403, "/staged/x": 403, "/plans/stable/x": 403, "/segments/stable/x": 403, "/": 403} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, public+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body) // only the status counts
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
		}
	}
}

// TestBucketHalfPublic: if clients may read releases but not the channel, publish moves nothing,
// before the first release and later. For a channel that follows it warns. Following these
// messages, and that of update check, fixes the bucket.
func TestBucketHalfPublic(t *testing.T) {
	t.Parallel()
	minio := servertest.StartMinIO(t)
	minio.MakeBucket("releases")
	public := minio.Endpoint + "/releases/desktop"
	open := func(folders ...string) {
		t.Helper()
		var resources []string
		for _, folder := range folders {
			resources = append(resources, `"arn:aws:s3:::releases/desktop/`+folder+`/*"`)
		}
		policy := `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": [` + strings.Join(resources, ", ") + `]}]}`
		if err := minio.Client().SetBucketPolicy(t.Context(), "releases", policy); err != nil {
			t.Fatal(err)
		}
	}
	env := append(minio.Env(), "TSMON_STORAGE=s3://releases/desktop?endpoint="+minio.Endpoint, "TSMON_PUBLIC_URL="+public, "TSMON_TRUSTED_KEYS=testdata/unencrypted.pub",
		"TSMON_DATA="+t.TempDir(), "TAURI_SIGNING_PRIVATE_KEY=testdata/unencrypted.key", "AWS_EC2_METADATA_DISABLED=true")
	check := []string{"update", "check", "--current", "0.9.0", "--target", "darwin-aarch64", "--endpoint", public + "/stable/latest.json"}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		publish := []string{"release", "publish", "--version", version, bundles(t, version, 100)}
		open("releases")
		_, stderr, code := command(t, env, "tsmon", publish...)
		if code != cli.ExitRefused || !strings.Contains(stderr, "error: clients may not read what would be published: stable stays as it is: "+public+"/stable/latest.json answers with status 403") {
			t.Fatalf("%s: code %d: %s", version, code, stderr)
		}
		// follows: if a bucket answers there, let everybody read releases/ and the folder of each channel in it, with the policy in the guide (release/README.md, Configure the storage); if a server wants a token
		if _, stderr, code = command(t, env, "tsmon", check...); code != 1 || !strings.Contains(stderr, "hint: if a bucket answers there, let everybody read releases/ and the folder of each channel in it") {
			t.Fatalf("%s: code %d: %s", version, code, stderr)
		}
		open("releases", "stable")
		if _, stderr, code = command(t, env, "tsmon", publish...); code != 0 || !strings.Contains(stderr, "clients may not read "+public+"/beta/latest.json") || !strings.Contains(stderr, "(status 403): let everybody read releases/ and the folder of each channel in the storage, this one, too, or set") {
			t.Fatalf("%s: code %d: %s", version, code, stderr)
		}
		if stdout, stderr, code := command(t, env, "tsmon", check...); code != 0 || !strings.Contains(stdout, version) {
			t.Fatalf("%s: code %d: %s%s", version, code, stdout, stderr)
		}
		open("releases", "stable", "beta")
		if stdout, stderr, code := command(t, env, "tsmon", publish...); code != 0 || !strings.Contains(stdout, "fetched and verified as a client gets it") || strings.Contains(stderr, "clients may not read") {
			t.Errorf("%s, after the policy: code %d: %s%s", version, code, stdout, stderr)
		}
	}
	// A download meets the same, and so does a promotion to a channel that clients may not read.
	file := filepath.Join(t.TempDir(), "App.tar.gz")
	download := append([]string{"update", "download", "--output", file}, check[2:]...)
	open("stable", "beta")
	if _, stderr, code := command(t, env, "tsmon", download...); code != 1 || !strings.Contains(stderr, "hint: if a bucket answers there, let everybody read releases/") {
		t.Errorf("code %d: %s", code, stderr)
	}
	open("releases", "beta")
	if _, stderr, code := command(t, env, "tsmon", "release", "publish", "--channel", "beta", "--version", "1.2.0", bundles(t, "1.2.0", 100)); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	promote := []string{"release", "promote", "--from", "beta", "--to", "stable"}
	if _, stderr, code := command(t, env, "tsmon", promote...); code != cli.ExitRefused || !strings.Contains(stderr, "stable stays as it is: "+public+"/stable/latest.json answers with status 403") {
		t.Errorf("code %d: %s", code, stderr)
	}
	open("releases", "stable", "beta")
	if stdout, stderr, code := command(t, env, "tsmon", promote...); code != 0 || !strings.Contains(stdout, "stable: 1.1.0 → 1.2.0") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := command(t, env, "tsmon", download...); code != 0 || !strings.Contains(stdout, "version 1.2.0, verified") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}
