package scaffold

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"

	"tsmon/cmd/tsmon/tauri"
)

// project reads a project whose bundle.targets are as given, with overlays.
func project(t *testing.T, targets string, overlays ...string) *tauri.Project {
	t.Helper()
	dir := t.TempDir()
	files := append([]string{"tauri.conf.json", targets}, overlays...)
	for i := 0; i < len(files); i += 2 {
		content := `{"bundle": {"targets": ` + files[i+1] + `}}`
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := tauri.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		project      *tauri.Project
		builds, keys string
	}{
		{project(t, `"all"`), "windows-x86_64 darwin-x86_64 darwin-aarch64 linux-x86_64", "windows-x86_64 darwin-x86_64 darwin-aarch64 linux-x86_64"},
		{project(t, `["deb", "rpm", "msi"]`), "windows-x86_64 linux-x86_64", "windows-x86_64 linux-x86_64-deb linux-x86_64-rpm"},
		{project(t, `["dmg", "nsis"]`), "windows-x86_64", "windows-x86_64"},
		{project(t, `"all"`, "tauri.linux.conf.json", `["deb"]`, "tauri.macos.conf.json", `["dmg"]`), "windows-x86_64 linux-x86_64", "windows-x86_64 linux-x86_64-deb"},
		{project(t, `[]`), "", ""},
	} {
		targets := defaultTargets(c.project)
		if got := strings.Join(targets, " "); got != c.builds {
			t.Errorf("targets %q, want %q", got, c.builds)
		}
		if got := strings.Join(requiredKeys(c.project, targets), " "); got != c.keys {
			t.Errorf("keys %q, want %q", got, c.keys)
		}
	}
}

func TestConfigFile(t *testing.T) {
	for _, c := range []Config{
		{Storage: "s3://releases/desktop?endpoint=https://minio.example.com&region=us-east-1", PublicURL: "https://example.com/app", Keys: []string{"RWQ+/="}},
		{Name: "a \"b\"\n- c", Storage: "./a: b # c", PublicURL: "https://example.com/'", Keys: []string{"RWa", "RWb"}, KeySource: "tauri.conf.json", Required: []string{"linux-x86_64", "windows-x86_64"}, Project: "com.example.app", Static: []string{"stable", "beta"}},
		{Storage: "a", PublicURL: "https://example.com", Static: []string{"stable"}},
		{Storage: "yes", PublicURL: "123"},
	} {
		content, err := render("tsmon.yaml", c)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Project   string
			Storage   string
			PublicURL string   `yaml:"public_url"`
			Keys      []string `yaml:"trusted_keys"`
			Channels  map[string]struct {
				Targets    []string
				Follows    string
				Prerelease bool
				Reads      bool `yaml:"reads_latest_json"`
			}
		}
		dec := yaml.NewDecoder(bytes.NewReader(content))
		dec.KnownFields(true)
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		if got.Storage != c.Storage || got.PublicURL != c.PublicURL || !slices.Equal(got.Keys, c.Keys) || !slices.Equal(got.Channels["stable"].Targets, c.Required) {
			t.Errorf("%+v from %+v", got, c)
		}
		for _, channel := range []string{"stable", "beta"} {
			if got.Channels[channel].Reads != slices.Contains(c.Static, channel) || got.Project != c.Project {
				t.Errorf("%s: %+v from %+v", channel, got, c)
			}
		}
		if beta := got.Channels["beta"]; beta.Follows != "stable" || !beta.Prerelease {
			t.Errorf("beta: %+v", beta)
		}
	}
}

// workflows are the cases that CI files differ in.
func workflows() map[string]workflow {
	channels := []string{"stable", "beta"}
	return map[string]workflow{
		"npm, bucket":       {usual, channels, "stable", "beta", true, true, true, ".", managers[4].Frontend},
		"pnpm, directory":   {[]string{"linux-x86_64"}, channels, "stable", "beta", false, false, false, "apps/water desk's $(exit 1)", managers[0].Frontend},
		"cargo alone":       {usual, []string{"main"}, "main", "main", true, false, false, ".", Frontend{Install: cargoCLI, Tauri: "cargo tauri"}},
		"trunk beside yarn": {usual, channels, "stable", "beta", true, true, true, "desktop", Frontend{true, corepack, "yarn install --immutable\n" + cargoCLI, "cargo tauri"}},
		"every target":      {slices.DeleteFunc(Targets(), func(t string) bool { return t == "windows-aarch64" }), channels, "stable", "beta", true, false, false, ".", managers[2].Frontend},
	}
}

// githubWorkflow is what the tests look at.
type githubWorkflow struct {
	On          map[string]any
	Permissions map[string]string
	Concurrency map[string]any
	Env         map[string]string
	Jobs        map[string]struct {
		Environment string
		Env         map[string]string
		Strategy    struct {
			Matrix struct{ Include []map[string]string }
		}
		Steps []struct {
			Name, Uses, Run string
			Env             map[string]string
			With            map[string]any
		}
	}
}

func TestGitHub(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w/-]+@[0-9a-f]{40}$`)
	for name, w := range workflows() {
		t.Run(name, func(t *testing.T) {
			files, err := w.files(github)
			if err != nil || len(files) != 3 {
				t.Fatal(files, err)
			}
			var schedule any // of the workflow that advances rollouts
			for _, f := range files {
				lint(t, f)
				var g githubWorkflow
				if err := yaml.Unmarshal(f.Content, &g); err != nil {
					t.Fatalf("%s: %v", f.Path, err)
				}
				if !reflect.DeepEqual(g.Permissions, map[string]string{"contents": "read"}) || g.Concurrency["cancel-in-progress"] != false || len(g.On) == 0 || g.On["pull_request"] != nil {
					t.Errorf("%s: permissions %v, concurrency %v, on %v", f.Path, g.Permissions, g.Concurrency, g.On)
				}
				if g.On["schedule"] != nil {
					schedule = g.On["schedule"]
				}
				for _, job := range g.Jobs {
					if job.Environment != "release" || len(job.Env)+len(g.Env) > 0 {
						t.Errorf("%s: environment %q, secrets may be in %v, %v", f.Path, job.Environment, job.Env, g.Env)
					}
					for _, step := range job.Steps {
						if step.Uses != "" && !pinned.MatchString(step.Uses) {
							t.Errorf("%s: %s is not pinned", f.Path, step.Uses)
						}
						if strings.Contains(step.Run, "${{") {
							t.Errorf("%s: an expression is pasted into the script of %s", f.Path, step.Name)
						}
						if step.Env["TAURI_SIGNING_PRIVATE_KEY"] != "" && step.Name != "Bundle and sign" {
							t.Errorf("%s: %s gets the private key", f.Path, step.Name)
						}
						if step.Env["AWS_ACCESS_KEY_ID"] != "" != (w.S3 && regexp.MustCompile("tsmon (release|channel)").MatchString(step.Run)) {
							t.Errorf("%s: credentials in %s: %v", f.Path, step.Name, step.Env)
						}
						if step.Env["TSMON_OPERATOR_KEY"] != "" != (w.Operators && strings.Contains(step.Run, "tsmon release stage")) {
							t.Errorf("%s: an operator's key in %s: %v", f.Path, step.Name, step.Env)
						}
						bash(t, step.Run)
					}
				}
				if matrix := g.Jobs["release"].Strategy.Matrix.Include; g.Jobs["release"].Steps != nil && len(matrix) != len(w.Targets) {
					t.Errorf("%s: matrix %v for %v", f.Path, matrix, w.Targets)
				}
			}
			advance, release, rollback := string(files[0].Content), string(files[1].Content), string(files[2].Content)
			if !strings.Contains(release, `tsmon release stage --version "${TAG#v}" --channel "$channel" --publish `) || !strings.Contains(release, "bundle --target") {
				t.Error("nothing is bundled or staged")
			}
			if strings.Contains(rollback, "SIGNING") || !strings.Contains(rollback, "workflow_dispatch") || !strings.Contains(rollback, `--reason "$REASON"`) {
				t.Error("a rollback gets the key, or no reason")
			}
			if (schedule != nil) != w.Rings || strings.Contains(advance, "SIGNING") {
				t.Errorf("rollouts are advanced at %v, with rings: %v", schedule, w.Rings)
			}
		})
	}
}

func lint(t *testing.T, f File) {
	t.Helper()
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	errs, err := linter.Lint(f.Path, f.Content, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range errs {
		t.Errorf("%s:%d: %s", f.Path, e.Line, e.Message)
	}
}

// bash checks the syntax of a script.
func bash(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, script)
	}
}

func TestGitLab(t *testing.T) {
	for name, w := range workflows() {
		t.Run(name, func(t *testing.T) {
			files, err := w.files(gitlab)
			if err != nil || len(files) != 2 {
				t.Fatal(files, err)
			}
			script, jobs := files[0], files[1]
			bash(t, string(script.Content))
			for _, f := range files {
				if strings.Contains(string(f.Content), "TSMON_OPERATOR_KEY") != w.Operators {
					t.Errorf("%s: an operator's key, with operators: %v", f.Path, w.Operators)
				}
			}
			parsed := gitlabJobs(t, jobs.Content)
			for _, m := range w.Machines() {
				job := parsed["tsmon "+m.Target]
				base := parsed[job.Extends]
				if base.Extends != ".tsmon-release" || job.Variables["TRIPLE"] != m.Triple || !slices.Equal(job.Tags, []string{m.Tag}) || len(base.Script) != 1 {
					t.Errorf("%s: %+v", m.Target, job)
				}
			}
			release := parsed[".tsmon-release"]
			if release.Environment["name"] != "release/sign" || len(release.Rules) != 1 || !strings.Contains(release.Rules[0]["if"], `CI_COMMIT_REF_PROTECTED == "true"`) {
				t.Errorf("%+v", release)
			}
			rollback := parsed["tsmon rollback"]
			if rollback.Environment["name"] != "release/move" || len(rollback.Rules) != 1 || rollback.Rules[0]["when"] != "manual" || len(rollback.Script) != 1 {
				t.Errorf("%+v", rollback)
			}
			bash(t, strings.Join(rollback.Script, "\n"))
			advance := parsed["tsmon advance"]
			if advance.Environment["name"] != "release/move" || len(advance.Rules) != 1 || !strings.Contains(advance.Rules[0]["if"], `== "schedule" && $CI_COMMIT_REF_PROTECTED == "true" && $TSMON_ADVANCE`) || len(advance.Script) != 1 {
				t.Errorf("%+v", advance)
			}
			bash(t, strings.Join(advance.Script, "\n"))
			for name, job := range parsed { // what signs is of the scope release/sign
				if strings.HasPrefix(name, "tsmon ") && job.Extends == "" && job.Environment["name"] != "release/move" {
					t.Errorf("%s gets the private key", name)
				}
			}
		})
	}
	if _, err := (workflow{Targets: []string{"windows-aarch64"}}).files(gitlab); err == nil {
		t.Error("a job for a machine that GitLab lacks")
	}
}

type gitlabJob struct {
	Extends, Stage string
	Tags           []string
	Variables      map[string]string
	Rules          []map[string]string
	Script         []string
	Environment    map[string]string
}

func gitlabJobs(t *testing.T, content []byte) map[string]gitlabJob {
	t.Helper()
	var members map[string]yaml.Node
	if err := yaml.Unmarshal(content, &members); err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	jobs := map[string]gitlabJob{}
	for name, node := range members {
		var job gitlabJob
		if name == "variables" {
			continue
		}
		if err := node.Decode(&job); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		jobs[name] = job
	}
	return jobs
}

// The signing key and the credentials reach the Tauri CLI's bundling and tsmon,
// and nothing before.
func TestGitLabSecrets(t *testing.T) {
	server := downloads(t, "#!/bin/sh\necho tsmon $AWS_SECRET_ACCESS_KEY $TSMON_OPERATOR_KEY $TAURI_SIGNING_PRIVATE_KEY $* >> \"$CI_PROJECT_DIR/calls\"\n")
	dir := t.TempDir()
	tool := "#!/bin/sh\necho ${0##*/} $TAURI_SIGNING_PRIVATE_KEY $TSMON_OPERATOR_KEY $AWS_SECRET_ACCESS_KEY $* >> \"$CI_PROJECT_DIR/calls\"\n"
	if err := os.Mkdir(filepath.Join(dir, "app's desk"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rustup", "npm", "corepack", "pnpm"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(tool), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files, err := workflow{Targets: usual, Stable: "stable", Prerelease: "beta", S3: true, Operators: true, Dir: "app's desk", Frontend: managers[0].Frontend}.files(gitlab)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-s", "x86_64-unknown-linux-gnu")
	cmd.Stdin = bytes.NewReader(files[0].Content)
	cmd.Env = append(server, "PATH="+dir+":"+os.Getenv("PATH"), "CI_PROJECT_DIR="+dir, "CI_COMMIT_TAG=v1.5.0-beta.1",
		"TAURI_SIGNING_PRIVATE_KEY=KEY", "TSMON_OPERATOR_KEY=OPERATOR", "AWS_ACCESS_KEY_ID=ID", "AWS_SECRET_ACCESS_KEY=SECRET")
	cmd.Env = append(cmd.Env, "TSMON_DOWNLOADS="+variable(server, "DOWNLOADS"), "TSMON_CHECKSUMS="+variable(server, "CHECKSUMS"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	want := `rustup target add x86_64-unknown-linux-gnu
corepack enable
pnpm install --frozen-lockfile
pnpm exec tauri build --no-bundle --target x86_64-unknown-linux-gnu
pnpm KEY exec tauri bundle --target x86_64-unknown-linux-gnu
tsmon SECRET OPERATOR release stage --version 1.5.0-beta.1 --channel beta --publish ` + dir + `/target/x86_64-unknown-linux-gnu/release/bundle
`
	if string(calls) != want {
		t.Errorf("%s\nwant\n%s", calls, want)
	}
}

func TestInstallScript(t *testing.T) {
	env := downloads(t, "#!/bin/sh\necho installed\n")
	run := func(env []string) (string, error) {
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", installScript+"\n./tsmon")
		cmd.Env, cmd.Dir = append(slices.Clone(env), "PATH="+os.Getenv("PATH")), t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(env); err != nil || !strings.Contains(out, "installed") {
		t.Errorf("%v: %s", err, out)
	}
	for name, set := range map[string]string{
		"checksums.txt that was replaced": "CHECKSUMS=" + strings.Repeat("0", 64),
		"archive that was replaced":       "CHECKSUMS=" + variable(env, "WRONG_CHECKSUMS") + "\nDOWNLOADS=" + variable(env, "DOWNLOADS") + "/wrong",
		"no address":                      "DOWNLOADS=",
		"no checksum":                     "CHECKSUMS=",
		"no TLS":                          "DOWNLOADS=http://127.0.0.1:1",
	} {
		if out, err := run(append(slices.Clone(env), strings.Split(set, "\n")...)); err == nil || strings.Contains(out, "installed") {
			t.Errorf("%s was installed: %s", name, out)
		}
	}
}

// TestInstallScriptElsewhere: the GitHub action and the GitLab template install tsmon
// with the same script.
func TestInstallScriptElsewhere(t *testing.T) {
	for file, indentation := range map[string]int{"../../../.github/actions/tsmon/install.sh": 0, "../packaging/gitlab/tsmon.yml": 4} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), indent(indentation, installScript)) {
			t.Errorf("%s has another script than templates/install.sh", file)
		}
	}
}

func variable(env []string, name string) string {
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// downloads serves archives of a program, and under /wrong ones that don't have
// their checksums. It returns the environment of the script that installs it.
func downloads(t *testing.T, program string) []string {
	t.Helper()
	archive := func(content string) []byte {
		var b bytes.Buffer
		gz := gzip.NewWriter(&b)
		w := tar.NewWriter(gz)
		err := w.WriteHeader(&tar.Header{Name: "tsmon", Mode: 0o755, Size: int64(len(content))})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil || w.Close() != nil || gz.Close() != nil {
			t.Fatal("no archive", err)
		}
		return b.Bytes()
	}
	sum := func(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }
	good := archive(program)
	list := "0000  tsmon_1.0.0_checksums.sig\n"
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"} {
		list += fmt.Sprintf("%s  tsmon_1.0.0_%s.tar.gz\n", sum(good), platform)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/checksums.txt"):
			io.WriteString(w, list)
		case strings.HasPrefix(r.URL.Path, "/wrong/"):
			w.Write(archive("#!/bin/sh\necho installed the wrong one\n"))
		default:
			w.Write(good)
		}
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"CURL_CA_BUNDLE=" + ca, "DOWNLOADS=" + server.URL, "CHECKSUMS=" + sum([]byte(list)), "WRONG_CHECKSUMS=" + sum([]byte(list))}
}

func TestDetectFrontend(t *testing.T) {
	const withCLI, without = `{"devDependencies": {"@tauri-apps/cli": "^2"}}`, `{"dependencies": {"react": "19"}}`
	for name, c := range map[string]struct {
		files                  map[string]string
		prepare, install, call string
	}{
		"npm":             {map[string]string{"app/package.json": withCLI, "app/package-lock.json": ""}, "", "npm ci", "npm exec -- tauri"},
		"pnpm workspace":  {map[string]string{"app/package.json": withCLI, "pnpm-lock.yaml": ""}, corepack, "pnpm install --frozen-lockfile", "pnpm exec tauri"},
		"yarn 1":          {map[string]string{"app/package.json": withCLI, "app/yarn.lock": "# THIS IS AN AUTOGENERATED FILE.\n# yarn lockfile v1\n"}, corepack, "yarn install --frozen-lockfile", "yarn tauri"},
		"yarn 4":          {map[string]string{"app/package.json": withCLI, "app/yarn.lock": "__metadata:\n  version: 8\n"}, corepack, "yarn install --immutable", "yarn tauri"},
		"bun":             {map[string]string{"app/package.json": withCLI, "app/bun.lock": ""}, "npm install --global bun@1", "bun install --frozen-lockfile", "bunx tauri"},
		"no lock file":    {map[string]string{"app/package.json": withCLI}, "", "npm install", "npm exec -- tauri"},
		"npm without CLI": {map[string]string{"app/package.json": without, "app/package-lock.json": ""}, "", "npm ci\n" + cargoCLI, "cargo tauri"},
		"no npm":          {map[string]string{"app/Cargo.toml": ""}, "", cargoCLI, "cargo tauri"},
	} {
		root := t.TempDir()
		for file, content := range c.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := detectFrontend(filepath.Join(root, "app"), root)
		if err != nil || f.Prepare != c.prepare || f.Install != c.install || f.Tauri != c.call {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "package.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := detectFrontend(root, root); err == nil || !strings.Contains(err.Error(), "package.json") {
		t.Error(err)
	}
}
