// Package scaffold sets up a Tauri project for releases with tsmon: Init reads the
// project and writes tsmon.yaml and the workflows for GitHub Actions or GitLab CI.
//
// A workflow builds a pushed version tag on one machine per platform. Each job
// stages its bundles, and the job that completes the required targets publishes.
// The updater's private key is given only to the step that bundles and signs,
// after all code of dependencies that builds the application has run. Nothing runs
// for pull requests. A second workflow, started by hand with a reason, rolls a
// channel back. A third takes the rollout steps that are due, every hour if a
// channel keeps rings.
package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"tsmon/cmd/tsmon/tauri"
)

// CI systems that a workflow can be written for.
const (
	github = "github"
	gitlab = "gitlab"
)

// machine is a machine that builds one target.
type machine struct {
	Target string // OS-ARCH, such as darwin-aarch64
	Triple string // of Rust
	Runner string // label of the GitHub-hosted runner
	Tag    string // of the GitLab-hosted runner
}

// machines build the targets. Apple silicon machines build for Intel too, because hosted Intel
// runners are about to be withdrawn.
var machines = []machine{
	{"linux-x86_64", "x86_64-unknown-linux-gnu", "ubuntu-22.04", "saas-linux-medium-amd64"},
	{"linux-aarch64", "aarch64-unknown-linux-gnu", "ubuntu-22.04-arm", "saas-linux-medium-arm64"},
	{"windows-x86_64", "x86_64-pc-windows-msvc", "windows-2022", "saas-windows-medium-amd64"},
	{"windows-aarch64", "aarch64-pc-windows-msvc", "windows-11-arm", ""},
	{"darwin-aarch64", "aarch64-apple-darwin", "macos-15", "saas-macos-medium-m1"},
	{"darwin-x86_64", "x86_64-apple-darwin", "macos-15", "saas-macos-medium-m1"},
}

// usual are the targets that are built by default.
var usual = []string{"windows-x86_64", "darwin-x86_64", "darwin-aarch64", "linux-x86_64"}

// OS returns linux, windows or darwin.
func (m machine) OS() string { os, _, _ := strings.Cut(m.Target, "-"); return os }

// Targets returns the targets that can be built and chosen.
func Targets() []string {
	var targets []string
	for _, m := range machines {
		targets = append(targets, m.Target)
	}
	return targets
}

// defaultTargets returns the usual targets for which the project builds a bundle that the updater
// can install.
func defaultTargets(p *tauri.Project) []string {
	return slices.DeleteFunc(slices.Clone(usual), func(t string) bool { return len(requiredKeys(p, []string{t})) == 0 })
}

// requiredKeys returns the platform keys of the project's releases for some targets: the plain key
// if one bundle suits clients of every installer type, or else one for each type.
func requiredKeys(p *tauri.Project, targets []string) []string {
	var keys []string
	for _, target := range targets {
		os, _, _ := strings.Cut(target, "-")
		types := p.Updatable(platforms[os])
		if os != "linux" && len(types) > 0 || slices.Contains(types, "appimage") {
			keys = append(keys, target)
			continue
		}
		for _, kind := range types {
			keys = append(keys, target+"-"+kind)
		}
	}
	return keys
}

// platforms maps the updater's names of systems to Tauri's.
var platforms = map[string]string{"linux": tauri.Linux, "windows": tauri.Windows, "darwin": tauri.MacOS}

// Config is the content of tsmon.yaml.
type Config struct {
	Name      string // of the application, for a comment
	Project   string // empty for none
	Storage   string
	PublicURL string
	Keys      []string // RW… lines
	KeySource string   // where the keys are from, for a comment
	// Required are the platform keys that every release must have; empty if undecided.
	Required []string
	// Static lists the channels, of stable and beta, whose latest.json the application reads.
	Static []string
}

// Reads reports whether the application reads the latest.json of a channel.
func (c Config) Reads(channel string) bool { return slices.Contains(c.Static, channel) }

// File is a file to write.
type File struct {
	Path    string // from the root of the repository, with slashes
	Content []byte
}

// workflow is what CI files depend on.
type workflow struct {
	Targets  []string // OS-ARCH, out of Targets
	Channels []string // that can be rolled back
	// Stable is the channel for releases, Prerelease that for pre-releases.
	Stable, Prerelease string
	S3                 bool // the storage is a bucket, which takes credentials
	Rings              bool // a channel keeps rings, whose rollouts need no server
	Operators          bool // moves are signed, so publishing jobs get an operator's key
	// Dir is the folder of tsmon.yaml and package.json from the root of the
	// repository, with slashes; "." is the root.
	Dir      string
	Frontend Frontend
}

// Machines returns the machines that build the targets.
func (w workflow) Machines() []machine {
	var chosen []machine
	for _, target := range w.Targets {
		if i := slices.IndexFunc(machines, func(m machine) bool { return m.Target == target }); i >= 0 {
			chosen = append(chosen, machines[i])
		}
	}
	return chosen
}

// gitlabInclude is the file that .gitlab-ci.yml has to include.
const gitlabInclude = ".gitlab/tsmon.yml"

// ciFiles are the files of each CI system with their templates.
var ciFiles = map[string]map[string]string{
	github: {
		".github/workflows/tsmon-advance.yml":  "github-advance.yml",
		".github/workflows/tsmon-release.yml":  "github-release.yml",
		".github/workflows/tsmon-rollback.yml": "github-rollback.yml",
	},
	gitlab: {gitlabInclude: "gitlab.yml", ".gitlab/tsmon-release.sh": "gitlab.sh"},
}

// files renders the files for a CI system, sorted by path.
func (w workflow) files(system string) (files []File, err error) {
	for _, m := range w.Machines() {
		if system == gitlab && m.Tag == "" {
			return nil, fmt.Errorf("%s has no hosted runner on GitLab", m.Target)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(ciFiles[system])) {
		content, err := render(ciFiles[system][path], w)
		if err != nil {
			return nil, err
		}
		files = append(files, File{path, content})
	}
	return files, nil
}

var (
	//go:embed templates/*.tmpl
	embedded embed.FS
	// installScript downloads and checks tsmon in the working directory.
	//go:embed templates/install.sh
	installScript string
)

// templates are delimited by [[ and ]], because workflows use braces themselves.
var templates = template.Must(template.New("").Delims("[[", "]]").Funcs(template.FuncMap{
	"yaml":    scalar,
	"list":    list,
	"quote":   quote,
	"indent":  indent,
	"install": func() string { return strings.TrimSpace(installScript) },
}).ParseFS(embedded, "templates/*.tmpl"))

func render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name+".tmpl", data)
	return b.Bytes(), err
}

// scalar returns a text as YAML on one line, in quotes if it needs them.
func scalar(text string) (string, error) {
	node := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\n\r\t,[]{}#: ") {
		node.Style = yaml.DoubleQuotedStyle
	}
	data, err := yaml.Marshal(&node)
	line := strings.TrimSpace(string(data))
	if err == nil && strings.Contains(line, "\n") {
		err = fmt.Errorf("%q does not fit on a line", text)
	}
	return line, err
}

// list returns words as a YAML list on one line.
func list(words []string) (string, error) {
	quoted := make([]string, len(words))
	for i, word := range words {
		var err error
		if quoted[i], err = scalar(word); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]", nil
}

// quote returns a text as one word of a shell, in quotes if it needs them.
func quote(text string) string {
	if text != "" && strings.IndexFunc(text, needsQuotes) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("._-/", r)
}

// indent puts spaces before each line but the first.
func indent(spaces int, text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", spaces))
}
