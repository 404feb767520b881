package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/scaffold"
	"tsmon/cmd/tsmon/tauri"
	"tsmon/signing"
)

// initOptions are the flags of init.
type initOptions struct {
	tauriConf string
	storage   string
	publicURL string
	ci        string
	targets   []string
	yes       bool
	force     bool
	dryRun    bool
}

func (a *app) initCommand() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init --storage S --public-url URL [--ci github|gitlab]",
		Short: "Write tsmon.yaml and a CI workflow for a Tauri project",
		Long: `Write tsmon.yaml and, with --ci, a workflow that builds a version tag on every
platform, signs, stages and publishes it, and one that rolls back by hand.

The Tauri 2 project is found as the Tauri CLI finds it, from the current folder.
Its updater key becomes the trusted key, its bundle targets decide what is built
and required. What keeps clients from their updates (endpoints that lead
elsewhere, no updater artifacts) is listed with the line to write.

On a terminal init asks for what is missing; --yes takes the defaults instead.
An existing file is kept if it is the same and never replaced without --force.
An existing tsmon.yaml is used as it is unless --storage or --public-url says
otherwise, so that init --ci adds a workflow to it.`,
		Example: `  tsmon init --storage 's3://releases/desktop?endpoint=https://minio.example.com' --public-url https://releases.example.com/desktop --ci github
  tsmon init --ci gitlab --targets windows-x86_64,linux-x86_64 --dry-run
  tsmon init --storage ./releases --public-url https://updates.example.com/updates --yes`,
		Args: exactly(0, "no arguments; --tauri-conf names the project"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := initEnv{app: a, variable: a.variable, configPath: cmp.Or(a.configPath, a.variable("TSMON_CONFIG"), "tsmon.yaml")}
			if a.interactive() && !o.yes {
				env.ask = func(prompt string) (string, error) { return ask(cmd.Context(), a.stdin, a.stderr, prompt) }
			}
			report, err := runInit(cmd.Context(), env, o)
			if err != nil {
				return err
			}
			return a.print(report, func() { printInit(a.stdout, report) })
		},
	}
	cmd.Flags().StringVar(&o.tauriConf, "tauri-conf", "", "Tauri configuration `FILE`, or its folder (default: looked for as the Tauri CLI does)")
	cmd.Flags().StringVar(&o.storage, "storage", "", "s3://BUCKET/PREFIX?endpoint=URL, or a `DIRECTORY`")
	cmd.Flags().StringVar(&o.publicURL, "public-url", "", "`URL` where clients find the root of the storage")
	cmd.Flags().StringVar(&o.ci, "ci", "", "write a workflow for `github` or gitlab")
	cmd.Flags().StringSliceVar(&o.targets, "targets", nil, "`TARGET`s to build and to require, comma-separated (default with --ci: Windows, macOS and Linux on x86_64, macOS on aarch64)")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "ask nothing, take the defaults; replaces no file")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace existing files")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the files, write nothing")
	return cmd
}

// initEnv is what init needs from its surroundings.
type initEnv struct {
	app        *app
	variable   func(name string) string
	configPath string
	// ask asks a person; nil where there is nobody to ask.
	ask func(prompt string) (string, error)
}

// initReport is what init prints.
type initReport struct {
	Project    string          `json:"project"` // Tauri's configuration file
	Name       string          `json:"name,omitempty"`
	Identifier string          `json:"identifier,omitempty"`
	Version    string          `json:"version,omitempty"`
	KeyIDs     []string        `json:"key_ids"`
	Targets    []string        `json:"targets,omitempty"` // platform keys that every stable release must have
	DryRun     bool            `json:"dry_run,omitempty"`
	Files      []initFile      `json:"files"`
	Findings   []tauri.Finding `json:"findings"`
	Next       []string        `json:"next"` // what is left to do
}

// initFile is a file that init is about, and what becomes of it.
type initFile struct {
	Path    string `json:"path"`
	Action  string `json:"action"`            // create, replace or keep
	Content string `json:"content,omitempty"` // with --dry-run
}

// What init does with a file.
const (
	actionCreate  = "create"
	actionReplace = "replace"
	actionKeep    = "keep"
)

// initPlan is what init works out before it writes anything.
type initPlan struct {
	initOptions
	project *tauri.Project
	keys    []signing.PublicKey
	root    string // of the repository
	config  *config.Config
	kept    bool     // tsmon.yaml is there and stays
	builds  []string // OS-ARCH
	report  *initReport
	files   []scaffold.File // paths as they are opened
}

// runInit carries init out and returns its report.
func runInit(ctx context.Context, env initEnv, o initOptions) (*initReport, error) {
	p := &initPlan{initOptions: o}
	for _, step := range []func(context.Context, initEnv) error{p.readProject, p.decide, p.configure, p.workflows, p.compare, p.write} {
		if err := step(ctx, env); err != nil {
			return nil, err
		}
	}
	return p.report, nil
}

// readProject reads the Tauri project and its keys.
func (p *initPlan) readProject(_ context.Context, env initEnv) error {
	file := p.tauriConf
	if file == "" {
		var err error
		if file, err = tauri.Find(cmp.Or(env.variable("TAURI_APP_PATH"), ".")); err != nil {
			return tauriError(err)
		}
	}
	project, err := tauri.Read(file)
	if err != nil {
		return tauriError(err)
	}
	p.project = project
	c := project.Base
	p.report = &initReport{Project: project.File, Name: c.ProductName, Identifier: c.Identifier, DryRun: p.dryRun, KeyIDs: []string{}, Findings: []tauri.Finding{}, Next: []string{}}
	if p.report.Version, err = project.Version(); err != nil {
		p.report.Findings = append(p.report.Findings, tauri.Finding{File: project.File, Member: "version", Problem: err.Error()})
	}
	pubkeys := project.Pubkeys()
	if len(pubkeys) == 0 {
		return &hinted{usagef("%s has no plugins.updater.pubkey, the key that clients verify updates with", project.File),
			"`tsmon keys generate --output ~/.tauri/app.key` makes a key and prints the pubkey line; write it into plugins.updater of " + project.File + ", then run init again"}
	}
	for _, text := range pubkeys {
		key, err := signing.ParsePublicKey(text)
		if err != nil {
			return &hinted{&usageError{fmt.Errorf("plugins.updater.pubkey in %s: %w", project.File, err)}, "write the content of the .pub file there, as `tsmon keys show FILE.pub` prints it after pubkey:"}
		}
		p.keys = append(p.keys, key)
		p.report.KeyIDs = append(p.report.KeyIDs, key.ID())
	}
	return nil
}

// tauriError adds the way out to an error of reading a project.
func tauriError(err error) error {
	switch {
	case errors.Is(err, tauri.ErrNoProject), errors.Is(err, fs.ErrNotExist):
		return &hinted{&usageError{err}, "run init in the application's folder, or name the file with --tauri-conf"}
	case errors.Is(err, tauri.ErrV1):
		return &hinted{&usageError{err}, "`tauri migrate` turns it into a Tauri 2 project"}
	}
	return &hinted{&usageError{err}, "correct the file; `tauri build` reads it, too"}
}

// decide settles the storage, the address and the CI system: from flags, the
// existing tsmon.yaml, the environment or the person who is asked.
func (p *initPlan) decide(_ context.Context, env initEnv) error {
	_, err := os.Lstat(env.configPath)
	p.kept = err == nil && !p.force && p.storage == "" && p.publicURL == ""
	if !p.kept {
		if p.storage, err = p.answer(env, p.storage, "TSMON_STORAGE", "--storage", "Storage (s3://BUCKET/PREFIX?endpoint=URL, or a directory): "); err != nil {
			return err
		}
		if p.publicURL, err = p.answer(env, p.publicURL, "TSMON_PUBLIC_URL", "--public-url", "Public address of the storage (https://…): "); err != nil {
			return err
		}
	}
	if p.root, err = repositoryRoot(); err != nil {
		return err
	}
	if p.ci == "" && env.ask != nil {
		if p.ci, err = env.ask("CI workflow (github, gitlab, empty for none): "); err != nil {
			return err
		}
	}
	if p.ci != "" && p.ci != scaffold.GitHub && p.ci != scaffold.GitLab {
		return usagef("--ci is github or gitlab, not %q", p.ci)
	}
	for _, target := range p.targets {
		if !slices.Contains(scaffold.Targets(), target) {
			return usagef("--targets: %q is none of %s", target, strings.Join(scaffold.Targets(), ", "))
		}
		if len(scaffold.RequiredKeys(p.project, []string{target})) == 0 {
			return usagef("--targets: %s builds nothing for %s that the updater can install; see bundle.targets", p.project.File, target)
		}
	}
	return nil
}

// answer returns a flag's value, else the environment's, else asks for it.
func (p *initPlan) answer(env initEnv, value, variable, flag, prompt string) (string, error) {
	value = cmp.Or(value, env.variable(variable))
	var err error
	if value == "" && env.ask != nil {
		value, err = env.ask(prompt)
	}
	if err == nil && value == "" {
		err = &hinted{usagef("%s is missing", flag), "`tsmon init --help` shows examples; " + variable + " says the same"}
	}
	return value, err
}

// repositoryRoot returns the nearest folder above with .git, else the current one.
func repositoryRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return here, nil
		}
	}
}

// configure reads tsmon.yaml where it stays, else renders and checks it.
func (p *initPlan) configure(ctx context.Context, env initEnv) error {
	var err error
	if p.kept {
		if p.config, err = config.Load(env.configPath, nil); err != nil {
			return &hinted{&usageError{err}, "correct the file, or have --force replace it"}
		}
		p.report.Files = append(p.report.Files, initFile{Path: env.configPath, Action: actionKeep})
		p.builds = p.configuredBuilds()
		return nil
	}
	p.builds = p.targets
	if len(p.builds) == 0 && p.ci != "" {
		p.builds = scaffold.DefaultTargets(p.project)
	}
	p.report.Targets = scaffold.RequiredKeys(p.project, p.builds)
	c := scaffold.Config{Name: p.project.Base.ProductName, Storage: p.storage, PublicURL: strings.TrimRight(p.publicURL, "/"), Required: p.report.Targets,
		KeySource: "plugins.updater.pubkey of " + filepath.ToSlash(p.project.File)}
	for _, key := range p.keys {
		c.Keys = append(c.Keys, key.String())
	}
	content, err := scaffold.ConfigFile(c)
	if err != nil {
		return &usageError{err}
	}
	if p.config, err = checkedConfig(content); err != nil {
		return &hinted{&usageError{err}, "check --storage and --public-url"}
	}
	if strings.Contains(p.storage, "://") || strings.HasPrefix(p.storage, "s3:") {
		if _, err := env.app.openStore(ctx, p.storage); err != nil {
			return err
		}
	}
	p.files = append(p.files, scaffold.File{Path: env.configPath, Content: content})
	return nil
}

// checkedConfig reads a rendered tsmon.yaml as every command will.
func checkedConfig(content []byte) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "tsmon-init-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tsmon.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	c, err := config.Load(path, nil)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), path, "tsmon.yaml"))
	}
	return c, nil
}

// configuredBuilds are the targets to build for a tsmon.yaml that stays: those
// that its stable channel requires.
func (p *initPlan) configuredBuilds() []string {
	if len(p.targets) > 0 {
		return p.targets
	}
	var builds []string
	for _, key := range p.config.Channels["stable"].Targets {
		for _, target := range scaffold.Targets() {
			if (key == target || strings.HasPrefix(key, target+"-")) && !slices.Contains(builds, target) {
				builds = append(builds, target)
			}
		}
	}
	if len(builds) == 0 {
		return scaffold.DefaultTargets(p.project)
	}
	return builds
}

// channels returns the configured channels, those that follow another last.
func (p *initPlan) channels() []string {
	names := slices.Sorted(maps.Keys(p.config.Channels))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(len(p.config.Channels[a].Follows), len(p.config.Channels[b].Follows))
	})
	return names
}

// workflows renders the files of the CI system.
func (p *initPlan) workflows(context.Context, initEnv) error {
	if p.ci == "" {
		return nil
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(p.root, here)
	if err != nil {
		return err
	}
	w := scaffold.Workflow{Targets: p.builds, Channels: p.channels(), S3: strings.HasPrefix(p.config.Storage, "s3:"), Dir: filepath.ToSlash(dir)}
	if w.Frontend, err = scaffold.DetectFrontend(here, p.root); err != nil {
		return err
	}
	render := scaffold.GitHubFiles
	if p.ci == scaffold.GitLab {
		render = scaffold.GitLabFiles
	}
	files, err := render(w)
	if err != nil {
		return &usageError{err}
	}
	if p.ci == scaffold.GitLab {
		files = append(files, p.gitlabMain()...)
	}
	for _, f := range files {
		path, err := filepath.Rel(here, filepath.Join(p.root, filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		p.files = append(p.files, scaffold.File{Path: path, Content: f.Content})
	}
	return nil
}

// gitlabMain returns .gitlab-ci.yml where there is none. One that is there is the
// project's own; what is left to write there is said.
func (p *initPlan) gitlabMain() []scaffold.File {
	const name = ".gitlab-ci.yml"
	include := "include: [{local: " + scaffold.GitLabInclude + "}]"
	content, err := os.ReadFile(filepath.Join(p.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return []scaffold.File{{Path: name, Content: []byte(include + "\n")}}
	}
	if !bytes.Contains(content, []byte(scaffold.GitLabInclude)) {
		p.report.Next = append(p.report.Next, "write into "+name+": "+include)
	}
	return nil
}
