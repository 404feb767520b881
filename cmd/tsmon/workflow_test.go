package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// packageManager replaces npm in a CI job. "bundle" creates the bundles of the Tauri CLI for the
// triple, signed if it was given the key.
const packageManager = `#!/bin/bash
set -eu
case "$*" in *" bundle "*) ;; *) [ -z "${TAURI_SIGNING_PRIVATE_KEY-}" ]; exit ;; esac
triple=${!#} out=$CARGO_TARGET_DIR/${!#}/release/bundle v=$(cat "$HOME/version")
put() { mkdir -p "$out/$1"; for i in {1..99}; do echo "$triple $v $2"; done > "$out/$1/$2"; tsmon --quiet release sign --version "$v" "$out/$1/$2" > "$HOME/signed"; }
case $triple in
  *windows*) put nsis "App_${v}_x64-setup.exe"; put msi "App_${v}_x64_en-US.msi" ;;
  *linux*) put appimage "App_${v}_amd64.AppImage"; put deb "App_${v}_amd64.deb" ;;
  *) put macos App.app.tar.gz ;;
esac
`

// pipeline is a project with CI files, and the machine that runs them.
type pipeline struct {
	*kit
	home    string // of the jobs, with tools in bin
	project string
	env     []string
}

// newPipeline runs `tsmon init --ci` in a project.
func newPipeline(t *testing.T, k *kit, system string) *pipeline {
	t.Helper()
	p := &pipeline{kit: k, home: t.TempDir(), project: t.TempDir()}
	public, err := os.ReadFile("testdata/unencrypted.pub")
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, p.project, map[string]string{
		"src-tauri/tauri.conf.json": `{"productName": "App", "version": "1.0.0", "identifier": "com.example.app", "bundle": {"active": true, "targets": "all", "createUpdaterArtifacts": true},
			"plugins": {"updater": {"pubkey": "` + base64.StdEncoding.EncodeToString(public) + `", "endpoints": ["` + k.url + `/stable/latest.json"]}}}`,
		"package.json":      `{"devDependencies": {"@tauri-apps/cli": "^2"}}`,
		"package-lock.json": "{}",
		".git/HEAD":         "ref: refs/heads/main\n",
	})
	p.write(t, p.home, map[string]string{"bin/npm": packageManager, "bin/rustup": "#!/bin/sh\n", "bin/sudo": "#!/bin/sh\n"})
	p.env = append(install(t), "HOME="+p.home, "AWS_EC2_METADATA_DISABLED=true")
	initialise := exec.Command("tsmon", "init", "--storage", k.storage, "--public-url", k.url, "--ci", system, "--yes")
	initialise.Dir, initialise.Env = p.project, append(k.withoutSettings(), "PATH="+os.Getenv("PATH"), "HOME="+p.home)
	if out, err := initialise.CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	return p
}

// withoutSettings is the environment of a kit without settings, which are in tsmon.yaml instead.
func (k *kit) withoutSettings() []string {
	var env []string
	for _, pair := range k.env {
		if strings.HasPrefix(pair, "AWS_") {
			env = append(env, pair)
		}
	}
	return env
}

func (p *pipeline) write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// install serves a program for CI to download, and returns the variables of the script that downloads
// it. The program is a script that starts tsmon, so that tsmon is not unpacked for each job.
func install(t *testing.T) []string {
	t.Helper()
	program, err := exec.LookPath("tsmon")
	if err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", program)
	var archive bytes.Buffer
	gz := gzip.NewWriter(&archive)
	w := tar.NewWriter(gz)
	if err := w.WriteHeader(&tar.Header{Name: "tsmon", Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil || w.Close() != nil || gz.Close() != nil {
		t.Fatal("no archive: ", err)
	}
	list := fmt.Sprintf("%x  tsmon_0.1.0_linux_%s.tar.gz\n", sha256.Sum256(archive.Bytes()), runtime.GOARCH)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/checksums.txt") {
			_, _ = w.Write([]byte(list)) // curl notices
			return
		}
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"CURL_CA_BUNDLE=" + ca, "TSMON_DOWNLOADS=" + server.URL, fmt.Sprintf("TSMON_CHECKSUMS=%x", sha256.Sum256([]byte(list)))}
}

// variable returns a variable of a job.
func variable(env []string, name string) string {
	value := ""
	for _, pair := range env {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// bash runs a script of a job in the project, which must succeed.
func (p *pipeline) bash(t *testing.T, env []string, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir = p.project
	cmd.Env = append([]string{"PATH=" + filepath.Join(p.home, "bin") + ":" + os.Getenv("PATH")}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// tag sets the version that is built.
func (p *pipeline) tag(t *testing.T, version string) {
	p.write(t, p.home, map[string]string{"version": version})
}

// step is a step of a job on GitHub.
type step struct {
	Name, Uses, Run string
	Env             map[string]string
}

type job struct {
	Strategy struct {
		Matrix struct{ Include []map[string]string }
	}
	Steps []step
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.]+) *\}\}`)

// github runs the steps of a job as GitHub does, with the values of expressions.
func (p *pipeline) github(t *testing.T, j job, values map[string]string) (output string) {
	t.Helper()
	workspace := t.TempDir()
	added := filepath.Join(workspace, "env")
	env := append(p.env, "RUNNER_TEMP="+t.TempDir(), "GITHUB_WORKSPACE="+workspace, "GITHUB_ENV="+added, "GITHUB_PATH="+filepath.Join(workspace, "path"))
	for _, s := range j.Steps {
		own := env
		if lines, err := os.ReadFile(added); err == nil {
			own = append(own, strings.Split(strings.TrimSpace(string(lines)), "\n")...)
		}
		for name, value := range s.Env {
			own = append(own, name+"="+expression.ReplaceAllStringFunc(value, func(e string) string {
				return values[expression.FindStringSubmatch(e)[1]]
			}))
		}
		script := s.Run
		if path, err := os.ReadFile(filepath.Join(workspace, "path")); err == nil {
			script = "PATH=" + strings.TrimSpace(string(path)) + ":$PATH\n" + script
		}
		if s.Run != "" {
			output = p.bash(t, own, script)
		}
	}
	return output
}

// readYAML reads a file.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *pipeline) secrets() map[string]string {
	return map[string]string{
		"secrets.TAURI_SIGNING_PRIVATE_KEY": variable(p.kit.env, "TAURI_SIGNING_PRIVATE_KEY"),
		"secrets.AWS_ACCESS_KEY_ID":         variable(p.kit.env, "AWS_ACCESS_KEY_ID"),
		"secrets.AWS_SECRET_ACCESS_KEY":     variable(p.kit.env, "AWS_SECRET_ACCESS_KEY"),
		"vars.TSMON_DOWNLOADS":              variable(p.env, "TSMON_DOWNLOADS"),
		"vars.TSMON_CHECKSUMS":              variable(p.env, "TSMON_CHECKSUMS"),
	}
}

// TestGitHubWorkflow runs the workflows that `tsmon init --ci github` writes: two releases and a
// pre-release, built on four machines, a rollback, and a step of a rollout.
func TestGitHubWorkflow(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		p := newPipeline(t, fresh(t), "github")
		var release, rollback, advance struct{ Jobs map[string]job }
		readYAML(t, filepath.Join(p.project, ".github/workflows/tsmon-advance.yml"), &advance)
		readYAML(t, filepath.Join(p.project, ".github/workflows/tsmon-release.yml"), &release)
		readYAML(t, filepath.Join(p.project, ".github/workflows/tsmon-rollback.yml"), &rollback)
		matrix := release.Jobs["release"].Strategy.Matrix.Include
		if len(matrix) != 4 {
			t.Fatalf("%d machines, want 4", len(matrix))
		}
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0-beta.1"} {
			p.tag(t, version)
			for i, machine := range append(matrix, matrix[1]) { // one of them runs again
				values := p.secrets()
				values["github.ref_name"] = "v" + version
				for name, value := range machine {
					values["matrix."+name] = value
				}
				out := p.github(t, release.Jobs["release"], values)
				if missing := strings.Contains(out, "missing for"); missing != (i < 3) {
					t.Errorf("%s, job %d: %s", version, i, out)
				}
			}
		}
		if stable, beta := p.verified(t, "stable"), p.verified(t, "beta"); stable != "1.1.0" || beta != "1.2.0-beta.1" {
			t.Errorf("stable shows %s, beta %s", stable, beta)
		}
		values := p.secrets()
		values["inputs.channel"], values["inputs.reason"] = "stable", "crashes at start"
		p.github(t, rollback.Jobs["rollback"], values)
		if got := p.verified(t, "stable"); got != "1.0.0" {
			t.Errorf("after the rollback stable shows %s", got)
		}
		p.rollOut(t, "2.0.0")
		if out := p.github(t, advance.Jobs["advance"], p.secrets()); p.verified(t, "stable") != "2.0.0" {
			t.Errorf("the step of a rollout is not taken: %s", out)
		}
	})
}

// rollOut publishes a version. Its first step is over when the next command runs.
func (p *pipeline) rollOut(t *testing.T, version string) {
	t.Helper()
	args := append([]string{"release", "publish", "--no-probe", "--version", version, "--steps", "5,100", "--every", "6h"}, matrix(t, version)...)
	if _, stderr, code := command(t, p.kit.env, "tsmon", args...); code != 0 {
		t.Fatal(stderr)
	}
	if got := p.verified(t, "stable"); got == version {
		t.Fatalf("everybody gets %s at once", version)
	}
	p.env = append(p.env, "LATER=7h")
}

// TestGitLabPipeline runs the pipeline that `tsmon init --ci gitlab` writes.
func TestGitLabPipeline(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		p := newPipeline(t, fresh(t), "gitlab")
		var jobs map[string]struct {
			Extends   string
			Variables map[string]any
			Script    []string
		}
		readYAML(t, filepath.Join(p.project, ".gitlab/tsmon.yml"), &jobs)
		env := append(p.env, p.kit.withoutSettings()...)
		env = append(env, "CI_PROJECT_DIR="+p.project, "TAURI_SIGNING_PRIVATE_KEY="+variable(p.kit.env, "TAURI_SIGNING_PRIVATE_KEY"))
		for _, version := range []string{"1.0.0", "1.1.0"} {
			p.tag(t, version)
			machines := 0
			for _, j := range jobs {
				if triple, ok := j.Variables["TRIPLE"].(string); ok {
					machines++
					own := append(env, "CI_COMMIT_TAG=v"+version, "TRIPLE="+triple)
					p.bash(t, own, "bash .gitlab/tsmon-release.sh \"$TRIPLE\"")
				}
			}
			if got := p.verified(t, "stable"); got != version || machines != 4 {
				t.Errorf("stable shows %s after %d jobs, want %s", got, machines, version)
			}
		}
		p.bash(t, append(env, "ROLLBACK_CHANNEL=stable", "ROLLBACK_REASON=crashes at start"), strings.Join(jobs["tsmon rollback"].Script, "\n"))
		if got := p.verified(t, "stable"); got != "1.0.0" {
			t.Errorf("after the rollback stable shows %s", got)
		}
		p.rollOut(t, "2.0.0")
		if out := p.bash(t, append(env, "LATER=7h"), strings.Join(jobs["tsmon advance"].Script, "\n")); p.verified(t, "stable") != "2.0.0" {
			t.Errorf("the step of a rollout is not taken: %s", out)
		}
	})
}

// TestAction runs the script of the GitHub action, and the jobs of the GitLab template.
func TestAction(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../.github/actions/tsmon/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]yaml.Node
	readYAML(t, "packaging/gitlab/tsmon.yml", &template)
	var stage struct{ Script []yaml.Node }
	node := template[".tsmon-stage"]
	if err := node.Decode(&stage); err != nil {
		t.Fatal(err)
	}
	p := newPipeline(t, newKit(t, filepath.Join(t.TempDir(), "store"), nil), "github")
	for _, c := range []struct {
		version, script string
		env             []string
		folder          string // variable of the folder
	}{
		{"1.0.0", string(script), []string{"COMMAND=stage", "VERSION=v1.0.0", "CHANNEL=stable"}, "BUNDLES"},
		{"1.1.0", stage.Script[len(stage.Script)-1].Value, []string{"CI_COMMIT_TAG=v1.1.0", "TSMON_CHANNEL=stable"}, "TSMON_BUNDLES"},
	} {
		for _, folder := range matrix(t, c.version) {
			p.bash(t, append(append(p.env, p.kit.env...), append(c.env, c.folder+"="+folder)...), c.script)
		}
		if got := p.verified(t, "stable"); got != c.version {
			t.Errorf("stable shows %s, want %s", got, c.version)
		}
	}
}
