package releasing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/bundle"
)

// ContentFlags describe a release, or the bundles that one job stages.
type ContentFlags struct {
	version, notes, notesFile, key string
	bundles, also                  []string
	extra                          manifest.Extra
}

// Add adds the flags of a release.
func (f *ContentFlags) Add(cmd *cobra.Command) {
	f.AddPart(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.extra.MinimumVersion, "minimum-version", "", "oldest `VERSION` that may still be used, for the application to read")
	flags.BoolVar(&f.extra.Critical, "critical", false, "tell the application that the update should not be postponed")
	flags.BoolVar(&f.extra.Watershed, "watershed", false, "clients of tsmon serve must install this release before they are offered a newer one")
}

// AddPart adds the flags that a part of a release has.
func (f *ContentFlags) AddPart(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.version, "version", "", "`VERSION` of the release, MAJOR.MINOR.PATCH without a v (default: that of tauri.conf.json)")
	flags.StringVar(&f.notes, "notes", "", "release notes (default: the section of the version in CHANGELOG.md)")
	flags.StringVar(&f.notesFile, "notes-file", "", "read the release notes from `FILE`, - for stdin")
	flags.StringVar(&f.key, "key", "", "private key `FILE` for bundles without a .sig (default from the environment)")
	flags.StringArrayVar(&f.bundles, "bundle", nil, "bundle as `TARGET=FILE`, repeatable")
}

// AddAlso adds the flag for files that only new users download.
func (f *ContentFlags) AddAlso(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.also, "also", nil, "`FILE` or KEY=FILE that new users download, in addition to the bundles, repeatable; KEY is OS-ARCH or OS-ARCH-TYPE")
}

// named reports whether arguments or flags name bundles.
func (f *ContentFlags) named(args []string) bool { return len(args)+len(f.bundles)+len(f.also) > 0 }

// GatherPart is Gather for a command that needs bundles.
func (f *ContentFlags) GatherPart(ctx context.Context, app *cli.App, c *config.Config, args []string) (o release.PublishOptions, err error) {
	if !f.named(args) {
		return o, cli.Usagef("name the bundles, or the folder that holds them")
	}
	return f.Gather(ctx, app, c, args)
}

// Gather finds the version, which may be that of the Tauri project, and the bundles, if any are
// named. It reads the notes and, if a bundle has no signature, the private key, which is not
// decrypted yet.
func (f *ContentFlags) Gather(ctx context.Context, app *cli.App, c *config.Config, args []string) (o release.PublishOptions, err error) {
	if f.version, err = app.ProjectVersion(f.version); err != nil {
		return o, err
	}
	if f.notes != "" && f.notesFile != "" {
		return o, cli.Usagef("--notes and --notes-file can't be combined")
	}
	if _, err = bundle.ParseVersion(f.version); err != nil {
		return o, err
	}
	o.Version, o.Extra = f.version, f.extra
	o.Rules = &bundle.Rules{Types: c.BundleTypes, WindowsInstaller: c.WindowsInstaller}
	if o.Notes, err = readNotes(app, f.notes, f.notesFile); err != nil {
		return o, err
	}
	if o.Notes == "" {
		o.DefaultNotes = app.ChangelogNotes(f.version)
	}
	if !f.named(args) {
		return o, nil
	}
	var skipped []string
	if o.Bundles, skipped, err = bundle.Gather(f.version, args, f.bundles, f.also, o.Rules); err != nil {
		return o, err
	}
	for _, s := range skipped {
		app.Say("skipped: %s", s)
	}
	for _, b := range o.Bundles {
		if b.Also {
			app.Say("for new users: %s", b.Path)
		}
	}
	if slices.ContainsFunc(o.Bundles, func(b bundle.Bundle) bool { return b.Signature == nil && !b.Also }) {
		o.Unlock, err = app.LockedKey(ctx, c, f.key)
	}
	return o, err
}

func readNotes(app *cli.App, notes, file string) (string, error) {
	if file == "" {
		return notes, nil
	}
	data, err := app.ReadInput(file, release.MaxNotes+1)
	if err != nil {
		return "", fmt.Errorf("notes: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
