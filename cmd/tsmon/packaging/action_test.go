package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const actionFolder = "../../../.github/actions/tsmon"

// job runs the steps of the action and of the GitLab template on this machine, with
// the distribution served over HTTPS.
type job struct {
	t       *testing.T
	folder  string   // of tsmon.yaml and the bundles
	environ []string // of every step
}

func newJob(t *testing.T) job {
	t.Helper()
	folder := t.TempDir()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dist.folder)))
	mux.Handle("/store/", http.StripPrefix("/store", http.FileServer(http.Dir(filepath.Join(folder, "store")))))
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(folder, "authority.pem"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	action, err := filepath.Abs(actionFolder)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dist.folder, "..", "..", "release.key")
	j := job{t, folder, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "RUNNER_TEMP=" + folder, "GITHUB_PATH=" + filepath.Join(folder, "path"),
		"GITHUB_ACTION_PATH=" + action, "CURL_CA_BUNDLE=" + filepath.Join(folder, "authority.pem"),
		"SSL_CERT_FILE=" + filepath.Join(folder, "authority.pem"), "CI_PROJECT_DIR=" + folder,
		"DOWNLOADS=" + server.URL, "CHECKSUMS=" + digest(t, filepath.Join(dist.folder, "checksums.txt")),
		"TAURI_SIGNING_PRIVATE_KEY_PATH=" + key, "TAURI_SIGNING_PRIVATE_KEY_PASSWORD=", "CHANNEL=stable",
	}}
	config := "storage: store\npublic_url: " + server.URL + "/store\ntrusted_keys: [" + key + ".pub]\nchannels: {stable: {}}\n"
	if err := os.WriteFile(filepath.Join(folder, "tsmon.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return j
}

// script runs one step and returns what it wrote.
func (j job) script(text string, environ ...string) (string, error) {
	cmd := exec.CommandContext(j.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text)
	cmd.Dir = j.folder
	cmd.Env = append(append([]string{}, j.environ...), environ...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// steps returns the scripts of the action: the one that installs, and the one that
// runs a command.
func steps(t *testing.T) (install, run string) {
	t.Helper()
	var action struct {
		Runs struct {
			Steps []struct{ Run string }
		}
	}
	data, err := os.ReadFile(actionFolder + "/action.yml")
	if err == nil {
		err = yaml.Unmarshal(data, &action)
	}
	if err != nil || len(action.Runs.Steps) != 2 {
		t.Fatalf("%v, %v", action, err)
	}
	return action.Runs.Steps[0].Run, action.Runs.Steps[1].Run
}

// bundle writes the bundle of a version.
func (j job) bundle(version string) {
	j.t.Helper()
	path := filepath.Join(j.folder, "bundles", "App_"+version+"_amd64.AppImage.tar.gz")
	err := os.RemoveAll(filepath.Dir(path))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, []byte("AppImage of "+version), 0o600)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// TestAction installs by checksum, publishes two versions, rolls back and advances.
func TestAction(t *testing.T) {
	j := newJob(t)
	install, run := steps(t)
	if out, err := j.script(install, "CHECKSUMS="+strings.Repeat("0", 64)); err == nil {
		t.Errorf("a wrong checksum is accepted: %s", out)
	}
	if out, err := j.script(install); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	added, err := os.ReadFile(filepath.Join(j.folder, "path"))
	if err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + strings.TrimSpace(string(added)) + ":" + os.Getenv("PATH")
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		j.bundle(version[1:])
		if out, err := j.script(run, path, "COMMAND=publish", "VERSION="+version, "BUNDLES=bundles"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := j.script(run, path, "COMMAND=rollback", "VERSION=", "REASON="); err == nil {
		t.Errorf("rolled back without a reason: %s", out)
	}
	if out, err := j.script(run, path, "COMMAND=rollback", "VERSION=", "REASON=crashes at start"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	j.wantShown(path, "1.0.0", "crashes at start")
	j.forgetManifest()
	if out, err := j.script(run, path, "COMMAND=advance", "VERSION="); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	j.wantManifest("1.0.0")
	if out, err := j.script(run, path, "COMMAND=bogus", "VERSION="); err == nil || !strings.Contains(out, "bogus is none of") {
		t.Errorf("%v: %s", err, out)
	}
}

// forgetManifest removes what clients of stable read, which advance then writes anew.
func (j job) forgetManifest() {
	j.t.Helper()
	if err := os.Remove(filepath.Join(j.folder, "store", "stable", "latest.json")); err != nil {
		j.t.Fatal(err)
	}
}

func (j job) wantManifest(version string) {
	j.t.Helper()
	data, err := os.ReadFile(filepath.Join(j.folder, "store", "stable", "latest.json"))
	if err != nil || !strings.Contains(string(data), `"version": "`+version+`"`) {
		j.t.Errorf("stable does not show %s: %v: %s", version, err, data)
	}
}

func (j job) wantShown(path, version, reason string) {
	j.t.Helper()
	out, err := j.script("tsmon channel log stable --json", path)
	if err != nil || !strings.Contains(out, reason) {
		j.t.Errorf("the log lacks the reason: %v: %s", err, out)
	}
	out, err = j.script("tsmon channel show stable --json", path)
	if err != nil || !strings.Contains(out, `"version": "`+version+`"`) {
		j.t.Errorf("the channel does not show %s: %v: %s", version, err, out)
	}
}

// TestGitLab walks through the template's jobs.
func TestGitLab(t *testing.T) {
	data, err := os.ReadFile("gitlab/tsmon.yml")
	if err != nil {
		t.Fatal(err)
	}
	publish, rollback, advance := gitLabScript(t, data, ".tsmon-publish"), gitLabScript(t, data, ".tsmon-rollback"), gitLabScript(t, data, ".tsmon-advance")
	j := newJob(t)
	for _, pair := range j.environ {
		if name, value, _ := strings.Cut(pair, "="); name == "DOWNLOADS" || name == "CHECKSUMS" {
			j.environ = append(j.environ, "TSMON_"+name+"="+value)
		}
	}
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		j.bundle(version)
		if out, err := j.script(publish, "CI_COMMIT_TAG=v"+version, "TSMON_CHANNEL=stable", "TSMON_BUNDLES=bundles"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := j.script(rollback, "TSMON_CHANNEL=stable", "ROLLBACK_REASON=loses data", "ROLLBACK_VERSION=1.0.0"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := unpacked(t, "linux_amd64")
	j.wantShown("PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "1.0.0", "loses data")
	j.forgetManifest()
	if out, err := j.script(advance); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	j.wantManifest("1.0.0")
}

// gitLabScript returns the script of a job, with the references to other scripts
// resolved.
func gitLabScript(t *testing.T, data []byte, name string) string {
	t.Helper()
	var jobs map[string]yaml.Node
	if err := yaml.Unmarshal(data, &jobs); err != nil {
		t.Fatal(err)
	}
	var hold struct{ Script yaml.Node }
	node := jobs[name]
	if err := node.Decode(&hold); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, line := range hold.Script.Content {
		if line.Tag != "!reference" {
			script.WriteString(line.Value + "\n")
			continue
		}
		for _, inner := range jobs[line.Content[0].Value].Content {
			script.WriteString(inner.Value + "\n")
		}
	}
	if !regexp.MustCompile(`tsmon (release|channel)`).MatchString(script.String()) {
		t.Fatalf("%s has no script", name)
	}
	return script.String()
}

// TestOneInstaller: the template installs exactly as the action does.
func TestOneInstaller(t *testing.T) {
	install, err := os.ReadFile(actionFolder + "/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile("gitlab/tsmon.yml")
	if err != nil {
		t.Fatal(err)
	}
	indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSpace(string(install)), "    ")
	if !strings.Contains(string(template), indented) {
		t.Error("gitlab/tsmon.yml has another installer than the action")
	}
}
