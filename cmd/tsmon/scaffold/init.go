package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/tauri"
	"tsmon/signing"
)

// Options are the user's choices. Empty values are taken from the environment, asked for, or
// detected.
type Options struct {
	TauriConf string // configuration file or its folder
	Storage   string
	PublicURL string
	CI        string // github, gitlab or empty
	Targets   []string
	Yes       bool // ask nothing
	Force     bool // replace existing files
	DryRun    bool
}

// mistake says that Init was given something wrong. Nothing was written.
func mistake(err error, hint string) error { return cli.WithHint(cli.Usage(err), hint) }

// Report is what Init found and did.
type Report struct {
	Project    string          `json:"project"` // Tauri's configuration file
	Name       string          `json:"name,omitempty"`
	Identifier string          `json:"identifier,omitempty"`
	Version    string          `json:"version,omitempty"`
	KeyIDs     []string        `json:"key_ids"`
	Targets    []string        `json:"targets,omitempty"` // platform keys that every stable release must have
	DryRun     bool            `json:"dry_run,omitempty"`
	Files      []Written       `json:"files"`
	Findings   []tauri.Finding `json:"findings"`
	Warnings   []string        `json:"warnings,omitempty"`
	Next       []string        `json:"next"` // the remaining tasks
}

// Written is one file and what Init did with it.
type Written struct {
	Path    string `json:"path"`
	Action  string `json:"action"`            // create, replace or keep
	Content string `json:"content,omitempty"` // with --dry-run
}

// What Init does with a file.
const (
	Create  = "create"
	Replace = "replace"
	Keep    = "keep"
)

// plan is everything that Init prepares before it writes.
type plan struct {
	Options
	app     *cli.App
	file    string                              // the path of tsmon.yaml
	ask     func(prompt string) (string, error) // asks the user; nil without a terminal
	project *tauri.Project
	keys    []signing.PublicKey
	root    string // of the repository
	config  *config.Config
	kept    bool     // tsmon.yaml exists, and is kept except for storage and public_url
	builds  []string // OS-ARCH
	report  *Report
	files   []File // paths as they are opened
}

// Init sets a project up and returns what it did. The project, the repository and relative paths
// are looked up from the current folder.
func Init(ctx context.Context, app *cli.App, o Options) (*Report, error) {
	p := &plan{Options: o, app: app, file: cmp.Or(app.ConfigPath, app.Variable("TSMON_CONFIG"), "tsmon.yaml")}
	if cli.IsTerminal(app.Stdin) && !o.Yes {
		p.ask = func(prompt string) (string, error) { return cli.Ask(ctx, app.Stdin, app.Stderr, prompt) }
	}
	for _, step := range []func(context.Context) error{p.readProject, p.decide, p.configure, p.workflows, p.compare, p.write} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p.report, nil
}

// readProject reads the Tauri project and its keys.
func (p *plan) readProject(context.Context) error {
	project, err := p.app.Project(p.TauriConf)
	if err != nil {
		return tauriError(err)
	}
	p.project = project
	c := project.Base
	p.report = &Report{Project: project.File, Name: c.ProductName, Identifier: c.Identifier, DryRun: p.DryRun, KeyIDs: []string{}, Findings: []tauri.Finding{}, Next: []string{}}
	if p.report.Version, err = project.Version(); err != nil {
		p.report.Findings = append(p.report.Findings, tauri.Finding{File: project.File, Member: "version", Problem: err.Error()})
	}
	pubkeys := project.Pubkeys()
	if len(pubkeys) == 0 {
		return mistake(fmt.Errorf("%s has no plugins.updater.pubkey, the key that clients verify updates with", project.File),
			"`tsmon keys generate --output ~/.tauri/app.key` makes a key and prints the pubkey line, or `tsmon keys show ~/.tauri/app.key.pub` shows it if you have one; write it into plugins.updater of "+project.File+", then run init again")
	}
	for _, text := range pubkeys {
		key, err := signing.ParsePublicKey(text)
		if err != nil {
			return mistake(fmt.Errorf("plugins.updater.pubkey in %s: %w", project.File, err), "write the content of the .pub file there, as `tsmon keys show FILE.pub` prints it after pubkey:")
		}
		p.keys = append(p.keys, key)
		p.report.KeyIDs = append(p.report.KeyIDs, key.ID())
	}
	return nil
}

// tauriError adds a hint to an error of reading a project.
func tauriError(err error) error {
	switch {
	case errors.Is(err, tauri.ErrNoProject), errors.Is(err, fs.ErrNotExist):
		return mistake(err, "run init in the application's folder, or name the file with --tauri-conf")
	case errors.Is(err, tauri.ErrV1):
		return mistake(err, "`tauri migrate` turns it into a Tauri 2 project")
	}
	return mistake(err, "correct the file; `tauri build` reads it, too")
}

// decide determines the storage, the address and the CI system, from flags, the existing
// tsmon.yaml, the environment or the user's answers.
func (p *plan) decide(context.Context) error {
	_, err := os.Lstat(p.file)
	p.kept = err == nil
	if !p.kept {
		if p.Storage, err = p.answer(p.Storage, "TSMON_STORAGE", "--storage", "Storage (s3://BUCKET/PREFIX?endpoint=URL, or a directory): "); err != nil {
			return err
		}
		if p.PublicURL, err = p.answer(p.PublicURL, "TSMON_PUBLIC_URL", "--public-url", "Public address of the storage (https://…): "); err != nil {
			return err
		}
	}
	if p.root, err = repositoryRoot(); err != nil {
		return err
	}
	if p.CI == "" && p.ask != nil {
		if p.CI, err = p.ask("CI workflow (github, gitlab, empty for none): "); err != nil {
			return err
		}
	}
	if p.CI != "" && ciFiles[p.CI] == nil {
		return cli.Usagef("--ci is github or gitlab, not %q", p.CI)
	}
	for i, target := range p.Targets {
		if slices.Contains(p.Targets[:i], target) {
			return cli.Usagef("--targets: %s is given twice", target)
		}
		if !slices.Contains(Targets(), target) {
			return cli.Usagef("--targets: %q is none of %s", target, strings.Join(Targets(), ", "))
		}
		if len(requiredKeys(p.project, []string{target})) == 0 {
			return cli.Usagef("--targets: %s builds nothing for %s that the updater can install; see bundle.targets", p.project.File, target)
		}
	}
	return nil
}

// answer returns the value of a flag or, if that is empty, of a variable, or else asks for it.
func (p *plan) answer(value, variable, flag, prompt string) (string, error) {
	value = cmp.Or(value, p.app.Variable(variable))
	var err error
	if value == "" && p.ask != nil {
		value, err = p.ask(prompt)
	}
	if err == nil && value == "" {
		err = mistake(fmt.Errorf("%s is missing", flag), "`tsmon init --help` shows examples; "+variable+" says the same")
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

// configure reads the existing tsmon.yaml, or renders and checks a new one.
func (p *plan) configure(ctx context.Context) error {
	if p.kept {
		return p.existing(ctx)
	}
	p.builds = p.Targets
	if len(p.builds) == 0 && p.CI != "" {
		p.builds = defaultTargets(p.project)
	}
	p.report.Targets = requiredKeys(p.project, p.builds)
	c := Config{Name: p.project.Base.ProductName, Storage: p.Storage, PublicURL: strings.TrimRight(p.PublicURL, "/"), Required: p.report.Targets,
		KeySource: "plugins.updater.pubkey of " + filepath.ToSlash(p.project.File)}
	if id := p.project.Base.Identifier; id != tauri.DefaultIdentifier && config.CheckProject(id) == nil {
		c.Project = id
	}
	for _, key := range p.keys {
		c.Keys = append(c.Keys, key.String())
	}
	asks := p.project.Asks(c.PublicURL)
	for channel, reads := range asks {
		if reads {
			c.Static = append(c.Static, channel)
		}
	}
	if len(asks) == 0 {
		c.Static = []string{"stable"} // which Check suggests
	}
	content, err := render("tsmon.yaml", c)
	if err != nil {
		return cli.Usage(err)
	}
	p.config, err = p.add(ctx, content)
	return err
}

// add adds tsmon.yaml to the files, and returns what it says. It reports what is wrong with the
// bucket that was chosen, if one was.
func (p *plan) add(ctx context.Context, content []byte) (*config.Config, error) {
	c, err := checkedConfig(content)
	if err != nil {
		return nil, mistake(err, "check --storage and --public-url")
	}
	if strings.Contains(p.Storage, "://") || strings.HasPrefix(p.Storage, "s3:") {
		if _, err := p.app.OpenStore(ctx, p.Storage); err != nil {
			return nil, err
		}
	}
	p.files = append(p.files, File{Path: p.file, Content: content})
	return c, nil
}

// checkedConfig reads a rendered tsmon.yaml as every command will.
func checkedConfig(content []byte) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "tsmon-init-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tsmon.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil { //nolint:gosec // the path is our own
		return nil, err
	}
	c, err := config.Load(path, nil)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), path, "tsmon.yaml"))
	}
	return c, nil
}

// configuredBuilds returns the targets to build with an existing tsmon.yaml: those that the release
// channel requires.
func (p *plan) configuredBuilds() []string {
	if len(p.Targets) > 0 {
		return p.Targets
	}
	var builds []string
	for _, key := range p.config.Channels[p.releaseChannel()].Targets {
		for _, target := range Targets() {
			if (key == target || strings.HasPrefix(key, target+"-")) && !slices.Contains(builds, target) {
				builds = append(builds, target)
			}
		}
	}
	if len(builds) == 0 {
		return defaultTargets(p.project)
	}
	return builds
}

// releaseChannel returns the channel to publish releases to: the one that the application asks, if
// releases are published to it, or else the first.
func (p *plan) releaseChannel() string {
	names, asks := p.config.ChannelNames(), p.project.Asks(p.config.PublicURL)
	for _, name := range names {
		if _, asked := asks[name]; asked && p.config.Channels[name].Follows == "" && !p.config.Channels[name].Prerelease {
			return name
		}
	}
	return names[0]
}

// prereleaseChannel returns the channel to publish pre-releases to. Of those that accept them it
// prefers the follower of the release channel, then one that follows none. If none accepts them,
// it is the release channel, which refuses them.
func (p *plan) prereleaseChannel() string {
	stable := p.releaseChannel()
	accepting := slices.DeleteFunc(p.config.ChannelNames(), func(name string) bool { return !p.config.Channels[name].Prerelease })
	for _, follows := range []string{stable, ""} {
		if i := slices.IndexFunc(accepting, func(name string) bool { return p.config.Channels[name].Follows == follows }); i >= 0 {
			return accepting[i]
		}
	}
	return append(accepting, stable)[0]
}

// workflows renders the files of the CI system.
func (p *plan) workflows(context.Context) error {
	if p.CI == "" {
		return nil
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, _ := filepath.Rel(p.root, here) // can't fail: one is in the other
	channels := p.config.ChannelNames()
	w := workflow{Targets: p.builds, Channels: channels, Stable: p.releaseChannel(), Prerelease: p.prereleaseChannel(),
		S3: strings.HasPrefix(p.config.Storage, "s3:"), Operators: len(p.config.Operators) > 0, Dir: filepath.ToSlash(dir)}
	w.Rings = slices.ContainsFunc(channels, func(name string) bool { return p.config.Channels[name].Rings })
	if w.Frontend, err = detectFrontend(here, p.root); err != nil {
		return err
	}
	files, err := w.files(p.CI)
	if err != nil {
		return cli.Usage(err)
	}
	if p.CI == gitlab {
		files = append(files, p.gitlabMain()...)
	}
	for _, f := range files {
		path, _ := filepath.Rel(here, filepath.Join(p.root, filepath.FromSlash(f.Path)))
		p.files = append(p.files, File{Path: path, Content: f.Content})
	}
	return nil
}

// gitlabMain returns .gitlab-ci.yml if there is none. An existing one is not changed; the report
// says which line to add.
func (p *plan) gitlabMain() []File {
	const name = ".gitlab-ci.yml"
	include := "include: [{local: " + gitlabInclude + "}]"
	content, err := os.ReadFile(filepath.Join(p.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return []File{{Path: name, Content: []byte(include + "\n")}}
	}
	if !bytes.Contains(content, []byte(gitlabInclude)) {
		p.report.Next = append(p.report.Next, "add to "+name+": "+include)
	}
	return nil
}
