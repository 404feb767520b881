package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/release"
)

// contentFlags say what a release consists of.
type contentFlags struct {
	version, notes, notesFile, key string
	bundles                        []string
	extra                          manifest.Extra
}

func (f *contentFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.version, "version", "", "`VERSION` of the release, MAJOR.MINOR.PATCH without a v")
	flags.StringVar(&f.notes, "notes", "", "release notes")
	flags.StringVar(&f.notesFile, "notes-file", "", "read the release notes from `FILE`, - for stdin")
	flags.StringVar(&f.key, "key", "", "private key `FILE` for bundles without a .sig (default from the environment)")
	flags.StringVar(&f.extra.MinimumVersion, "minimum-version", "", "oldest `VERSION` that may go on being used, for the application to read")
	flags.BoolVar(&f.extra.Critical, "critical", false, "tell the application not to put the update off")
	flags.BoolVar(&f.extra.Watershed, "watershed", false, "offer older clients of tsmon serve nothing newer before they have this one")
	flags.StringArrayVar(&f.bundles, "bundle", nil, "a bundle as `TARGET=FILE`, repeatable")
}

// gather finds the bundles and reads the notes and, where a bundle has no
// signature, the private key.
func (a *app) gather(ctx context.Context, c *config.Config, f contentFlags, args []string) (o release.PublishOptions, err error) {
	if f.version == "" {
		return o, usagef("--version is missing")
	}
	if len(args)+len(f.bundles) == 0 {
		return o, usagef("name the bundles, or the folder that holds them")
	}
	if _, err := manifest.ParseVersion(f.version); err != nil {
		return o, &release.Refusal{Cause: err, Mend: "write MAJOR.MINOR.PATCH, such as 1.4.0"}
	}
	o.Version, o.Extra = f.version, f.extra
	if o.Notes, err = a.notes(f.notes, f.notesFile); err != nil {
		return o, err
	}
	var skipped []string
	if o.Bundles, skipped, err = release.Gather(f.version, args, f.bundles, c.BundleTypes); err != nil {
		return o, err
	}
	for _, s := range skipped {
		a.say("left aside: %s", s)
	}
	if needsKey(o.Bundles) {
		o.Key, err = a.privateKey(ctx, c, f.key)
	}
	return o, err
}

func needsKey(bundles []release.Bundle) bool {
	for _, b := range bundles {
		if b.Signature == nil {
			return true
		}
	}
	return false
}

func (a *app) notes(notes, file string) (string, error) {
	if file == "" {
		return notes, nil
	}
	if notes != "" {
		return "", usagef("--notes and --notes-file exclude each other")
	}
	var r io.Reader = a.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("notes: %w", err)
		}
		defer opened.Close()
		r = opened
	}
	data, err := io.ReadAll(io.LimitReader(r, release.MaxNotes+1))
	return strings.TrimSpace(string(data)), err
}
