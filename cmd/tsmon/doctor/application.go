package doctor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"tsmon/cmd/tsmon/tauri"
)

// applicationArea compares the Tauri project with the channels.
type applicationArea struct{ *patient }

func (p applicationArea) examine(_ context.Context, n *notes) {
	switch {
	case errors.Is(p.projectErr, tauri.ErrNoProject) && p.TauriConf == "":
		n.ok("no Tauri project below this folder; --tauri-conf names one elsewhere")
		return
	case errors.Is(p.projectErr, tauri.ErrV1):
		n.fail("`tauri migrate` turns it into a Tauri 2 project", "%v", p.projectErr)
		return
	case p.projectErr != nil:
		n.failed(p.projectErr, "correct the file; `tauri build` reads it, too")
		return
	}
	n.at(p.project.File)
	if len(p.project.Pubkeys()) == 0 {
		n.fail(p.pubkeyLine(), "plugins.updater.pubkey is missing, the key that clients verify updates with")
	}
	if _, err := p.project.Version(); err != nil {
		n.warn(`write "version": "1.0.0" into it, or give --version to every command`, "%v", err)
	}
	for _, f := range p.project.Check(p.config.PublicURL, p.config.ChannelNames()) {
		p.mismatch(n.at(f.File), f)
	}
	if len(n.found) == 0 {
		n.ok("builds update bundles, and asks the configured channels")
	}
}

func (p applicationArea) pubkeyLine() string {
	if len(p.keys) == 1 {
		return `write "pubkey": "` + p.keys[0].Tauri() + `" into plugins.updater`
	}
	return "`tsmon keys generate --output ~/.tauri/app.key` makes a key and prints the line for plugins.updater"
}

// mismatch reports a finding of package tauri: a warning if updates work elsewhere.
func (p applicationArea) mismatch(n *notes, f tauri.Finding) {
	mend := map[string]string{
		"bundle.targets": "add one of them to bundle.targets, or ignore it if that platform is not built",
		"dependencies":   "run `tauri add updater`",
	}[f.Member]
	if f.Write != "" {
		mend = "write " + f.Write + " at the top level"
		if dot := strings.LastIndex(f.Member, "."); dot > 0 {
			mend = "write " + f.Write + " into " + f.Member[:dot]
		}
	}
	text := f.Member + ": " + f.Problem
	if f.Member == "bundle.targets" || f.Member == "plugins.updater.endpoints" && p.someEndpointFits() {
		n.warn(mend, "%s", text)
		return
	}
	n.fail(mend, "%s", text)
}

// someEndpointFits reports whether every platform has at least one endpoint that leads to a
// channel.
func (p applicationArea) someEndpointFits() bool {
	for _, platform := range tauri.Platforms() {
		u := p.project.On(platform).Updater
		if !slices.ContainsFunc(u.Endpoints, func(endpoint string) bool {
			return tauri.CheckEndpoint(endpoint, p.config.PublicURL, p.config.ChannelNames(), u.AllowHTTP) == ""
		}) {
			return false
		}
	}
	return true
}

// firstRelease returns the command that publishes the project. If several machines build what
// the channel requires, it is the command that each of them runs.
func (p *patient) firstRelease(channel string) string {
	version, known, bundles := "1.0.0", false, "src-tauri/target/release/bundle"
	if p.project != nil {
		if is, err := p.project.Version(); err == nil {
			version, known = is, true
		}
		bundles = filepath.ToSlash(filepath.Join(p.project.Dir(), "target/release/bundle"))
	}
	command := "after `tauri build`, tsmon release publish"
	several := machines(p.config.Channels[channel].Targets) > 1
	if several {
		command = "on each machine, after `tauri build`, tsmon release stage"
	}
	if several || !known { // else it is that of the project
		command += " --version " + version
	}
	if channel != "stable" {
		command += " --channel " + channel
	}
	if several {
		command += " --publish"
	}
	return command + " " + bundles
}

// machines counts the machines needed to build these platform keys. A Mac builds for both of
// its architectures.
func machines(keys []string) int {
	needed := map[string]bool{}
	for _, key := range keys {
		os, rest, _ := strings.Cut(key, "-")
		arch, _, _ := strings.Cut(rest, "-")
		if os == "darwin" {
			arch = ""
		}
		needed[os+"-"+arch] = true
	}
	return len(needed)
}
