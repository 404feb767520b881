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
	"tsmon/store/durable"
)

// compare lists settings that keep clients from their updates, and the remaining tasks.
func (p *plan) compare(context.Context) error {
	r := p.report
	r.Findings = append(r.Findings, p.project.Check(p.config.PublicURL, p.config.ChannelNames())...)
	if len(p.keys) > 1 {
		r.Warnings = append(r.Warnings, "the platforms of "+p.project.File+" have different updater keys; all are trusted")
	}
	bucket := strings.HasPrefix(p.config.Storage, "s3:")
	if p.CI != "" && !bucket {
		r.Warnings = append(r.Warnings, "storage is a directory; the workflow works only where all its machines share it")
	}
	p.compareTargets()
	signing, credentials := "TAURI_SIGNING_PRIVATE_KEY and TAURI_SIGNING_PRIVATE_KEY_PASSWORD", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	if len(p.config.Operators) > 0 {
		signing = "TAURI_SIGNING_PRIVATE_KEY, TAURI_SIGNING_PRIVATE_KEY_PASSWORD and TSMON_OPERATOR_KEY"
	}
	if bucket && !strings.HasSuffix(p.config.PublicURL, "/updates") { // else tsmon serve shows it
		r.Next = append(r.Next, "let everybody read "+strings.Join(p.config.ChannelNames(), "/, ")+"/ and releases/ in the bucket, and nothing else: the guide (release/README.md, Configure the storage) has the policy")
	}
	version := cmp.Or(r.Version, "1.0.0")
	release := "commit the files; pushing the tag v" + version + " releases that version"
	if p.kept {
		release += "; if it is published already, write a higher one into " + p.project.File + " first"
	}
	switch p.CI {
	case github:
		secrets := signing
		if bucket {
			secrets = strings.ReplaceAll(signing, " and ", ", ") + ", " + credentials
		}
		r.Next = append(r.Next, "add the secrets "+secrets+" to an environment named release (Settings, Environments)",
			"add the variables TSMON_DOWNLOADS, the address of a folder with the archives of tsmon, and TSMON_CHECKSUMS, the SHA-256 of checksums.txt there (Settings, Secrets and variables, Actions)",
			release)
		p.rotating("the secret")
	case gitlab:
		r.Next = append(r.Next, "add the variables "+signing+", protected, masked, for the environment release/sign (Settings, CI/CD)")
		if bucket {
			r.Next = append(r.Next, "add the variables "+credentials+" there, for the environments release/*")
		}
		r.Next = append(r.Next, "add the variables TSMON_DOWNLOADS, the address of a folder with the archives of tsmon, and TSMON_CHECKSUMS, the SHA-256 of checksums.txt in that folder, and protect the tags v*",
			release)
		p.rotating("the variable")
	default:
		bundles := filepath.ToSlash(filepath.Join(p.project.Dir(), "target/release/bundle"))
		command := "tsmon release publish "
		if r.Version == "" { // else it is that of the project
			command += "--version " + version + " "
		}
		if !bucket {
			r.Next = append(r.Next, "run `"+config.ServeCommand(p.config.PublicURL, "")+"`, or another server that shows the directory at public_url")
		}
		r.Next = append(r.Next, "after `tauri build`: "+command+bundles)
	}
	return nil
}

// rotating says which private key CI needs, if trusted_keys has a key that only later versions have.
func (p *plan) rotating(secret string) {
	if key := p.config.TrustedKeys.Later(); key != "" {
		p.report.Next = append(p.report.Next, secret+" TAURI_SIGNING_PRIVATE_KEY is the private key that signs the next release: replace the old one with the new one only once `tsmon keys rotate --to "+key+"` says that the new key signs")
	}
}

// compareTargets warns if the workflow does not build the targets in tsmon.yaml, or if an existing
// tsmon.yaml has other targets than were given.
func (p *plan) compareTargets() {
	channel := p.releaseChannel()
	required := p.config.Channels[channel].Targets
	if wanted := requiredKeys(p.project, p.Targets); p.kept && len(p.Targets) > 0 && !slices.Equal(required, wanted) {
		p.report.Warnings = append(p.report.Warnings, "the targets of "+channel+" in tsmon.yaml stay as they are; write targets: ["+strings.Join(wanted, ", ")+"] there")
		return
	}
	if p.CI == "" {
		return
	}
	if len(required) == 0 {
		p.report.Warnings = append(p.report.Warnings, "the workflow publishes once all targets are there, but "+channel+" requires none in tsmon.yaml: add targets: ["+strings.Join(requiredKeys(p.project, p.builds), ", ")+"]")
	}
	for _, key := range required {
		if !slices.ContainsFunc(p.builds, func(target string) bool { return key == target || strings.HasPrefix(key, target+"-") }) {
			p.report.Warnings = append(p.report.Warnings, channel+" requires "+key+", which the workflow does not build: nothing is published without it")
		}
	}
}

// write writes all files, or none if one may not be replaced.
func (p *plan) write(context.Context) error {
	var changed []File
	var replaced []string
	for _, f := range p.files {
		action, err := p.action(f)
		if err != nil {
			return err
		}
		shown := Written{Path: f.Path, Action: action}
		if p.DryRun {
			shown.Content = string(f.Content)
		}
		p.report.Files = append(p.report.Files, shown)
		if action != Keep {
			changed = append(changed, f)
		}
		if action == Replace {
			replaced = append(replaced, f.Path)
		}
	}
	if p.DryRun {
		return nil
	}
	if err := p.consent(replaced); err != nil {
		return err
	}
	for _, f := range changed {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := durable.Replace(f.Path, 0o644, f.Content); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) action(f File) (string, error) {
	before, err := os.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Create, nil
	case err != nil:
		return "", err
	case bytes.Equal(before, f.Content):
		return Keep, nil
	}
	return Replace, nil
}

// consent requires --force, or the user's confirmation, before files are replaced.
func (p *plan) consent(replaced []string) error {
	if len(replaced) == 0 || p.Force {
		return nil
	}
	names := strings.Join(replaced, ", ")
	if p.ask != nil {
		answer, err := p.ask("Replace " + names + "? [y/N] ")
		if err != nil {
			return err
		}
		if strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes") {
			return nil
		}
	}
	return cli.WithHint(cli.Refuse(fmt.Errorf("%s would be replaced; nothing was written", names)), "--dry-run shows the new content, --force replaces")
}
