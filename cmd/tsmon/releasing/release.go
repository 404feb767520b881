// Package releasing holds the commands of the release side: releases, channels and plans.
//
// A command that moves a channel builds options from its flags, has package release
// plan and apply the move, and prints the plan.
package releasing

import (
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/gate"
)

// ReleaseCommand returns `tsmon release`; others are commands of other packages.
func ReleaseCommand(app *cli.App, others ...*cobra.Command) *cobra.Command {
	return cli.Group("release", "Sign, stage, publish, promote and roll back releases",
		append([]*cobra.Command{releaseSignCommand(app), releasePublishCommand(app), releasePromoteCommand(app),
			releaseRollbackCommand(app), releaseListCommand(app), releaseShowCommand(app), releasePruneCommand(app)}, others...)...)
}

// moveFlags are those of the commands that move a channel.
type moveFlags struct {
	allowMissing []string
	allowUnbound bool
	strand       gate.VersionRange
	dryRun       bool
	noProbe      bool
	verbose      bool
	reason       string
	needsReason  bool
	wait         Wait
}

func (f *moveFlags) add(cmd *cobra.Command) {
	f.addReason(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and what each client would get, write nothing")
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "skip the check that fetches the public address afterwards, as a client would")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "list every installed version instead of grouping those that get the same")
	f.wait.Add(cmd)
}

// addGate adds add's flags, and those for a release that the channel would otherwise refuse.
func (f *moveFlags) addGate(cmd *cobra.Command) {
	f.add(cmd)
	f.addAllowMissing(cmd)
	cmd.Flags().BoolVar(&f.allowUnbound, "allow-unbound", false, "accept signatures that are not bound to a version; strict applications refuse them")
	AddStrand(cmd, &f.strand)
}

func (f *moveFlags) addReason(cmd *cobra.Command) {
	usage := "a remark for the channel's log"
	if f.needsReason {
		usage = "why, for the channel's log (required)"
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", usage)
}

func (f *moveFlags) addAllowMissing(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.allowMissing, "allow-missing", nil, "platform `KEY`s that the channel may lose, comma-separated")
}

// AddStrand adds --strand; an empty text is the empty range.
func AddStrand(cmd *cobra.Command, strand *gate.VersionRange) {
	cmd.Flags().Func("strand", "installed versions that may be offered an update that their keys can't verify, as a `RANGE` such as 1.0.0-1.2.0", func(text string) (err error) {
		if *strand = (gate.VersionRange{}); text == "" {
			return nil
		}
		if *strand, err = gate.ParseVersionRange(text); err != nil {
			err = cli.WithHint(err, "write --strand 1.0.0-1.2.0 for the versions from 1.0.0 to 1.2.0")
		}
		return err
	})
}

func (f *moveFlags) check() error {
	if f.needsReason && strings.TrimSpace(f.reason) == "" {
		return cli.WithHint(cli.Usagef("--reason is missing"), "give --reason TEXT; the channel's log records it")
	}
	if len(f.reason) > 1000 || strings.ContainsFunc(f.reason, unicode.IsControl) {
		return cli.Usagef("--reason is one line of at most 1000 bytes")
	}
	for _, key := range f.allowMissing {
		if _, err := manifest.ParseKey(key); err != nil {
			return cli.Usagef("--allow-missing: %w", err)
		}
	}
	return nil
}

func (f *moveFlags) options(channel string) release.Options {
	return release.Options{Channel: channel, Strand: f.strand, Why: f.reason, AllowMissing: f.allowMissing, AllowUnbound: f.allowUnbound, DryRun: f.dryRun}
}

// move runs one of the commands that move a channel and prints its plan.
func (f *moveFlags) move(ctx context.Context, app *cli.App, run func(*config.Config, *release.Publisher) (*release.Plan, error)) error {
	c, p, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	plan, err := run(c, p)
	if err == nil {
		plan, err = f.wait.Await(ctx, app, p, plan)
	}
	if plan != nil {
		if printErr := app.Print(plan, func(w io.Writer) { PrintPlan(w, plan, f.verbose) }); printErr != nil {
			return printErr
		}
		Warn(app, plan)
	}
	return err
}

func (f *moveFlags) publisher(ctx context.Context, app *cli.App) (*config.Config, *release.Publisher, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	c, p, err := app.LoadPublisher(ctx, "read")
	if err == nil && !f.noProbe {
		SetProbe(c, p)
	}
	return c, p, err
}

// Warn prints the warnings of a plan.
func Warn(app *cli.App, plan *release.Plan) {
	for _, moved := range append([]*release.Plan{plan}, plan.Followers...) {
		app.Warn(moved.Warnings)
	}
}

// SetProbe makes a publisher check before a move that clients may read its files, and fetch the
// manifest after it.
func SetProbe(c *config.Config, p *release.Publisher) {
	// Whether a signature may be unbound was decided for the move.
	p.Probe = probe(cli.HTTPClient(), string(c.Server.Updates.Token), p.Keys, true)
	if c.Server.Updates.Token == "" { // else clients send a token, which this check does not
		p.Readable = readable(cli.HTTPClient())
	}
}

type publishFlags struct {
	moveFlags
	ContentFlags
	shareFlags
	channel string
}

func releasePublishCommand(app *cli.App) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish [--version V] [flags] [DIR|BUNDLE…]",
		Short: "Upload a release and move a channel to it",
		Long: `Upload the update bundles of a version and move a channel to it. Without bundles
it publishes what ` + "`tsmon release stage`" + ` stored, and needs no private key.

Name the bundles or a folder that contains them. The target is part of the names that
the Tauri bundler gives; --bundle TARGET=FILE sets it explicitly. A bundle with a
.sig beside it is verified against trusted_keys; the others are signed with the
private key. The channel moves only once everything is in the store and verified,
and only if every installed version can update to the release.

Disk images and installers beside the bundles, and the files that --also names, are
stored for new users and listed in CHANNEL/downloads.json.

The version defaults to that of the Tauri project in the current folder or below. The
notes default to the staged ones, or else to that version's section in the CHANGELOG.md
beside the project.

With --percent or --steps only a share of the clients gets the release at first; see
` + "`tsmon channel rollout --help`" + `.

Running the same command again does nothing, or completes what was interrupted.`,
		Example: `  tsmon release publish --version 1.4.0 --notes-file CHANGES.md src-tauri/target/release/bundle
  tsmon release publish --version 1.5.0-beta.1 --channel beta dist/
  tsmon release publish --version 1.6.0 --steps 5,25,50,100 --every 6h dist/
  tsmon release publish --version 1.4.0 --also windows-x86_64-zip=App-portable.zip dist/
  tsmon release publish --version 1.4.0
  tsmon release publish --version 1.4.0 --dry-run --bundle darwin-universal=App.app.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error { return runPublish(cmd.Context(), app, f, args) },
	}
	channelFlag(cmd, &f.channel)
	f.Add(cmd)
	f.AddAlso(cmd)
	f.shareFlags.add(cmd)
	f.addGate(cmd)
	return cmd
}

func runPublish(ctx context.Context, app *cli.App, f publishFlags, args []string) error {
	rollout, err := f.rollout()
	if err != nil {
		return err
	}
	return f.move(ctx, app, func(c *config.Config, p *release.Publisher) (*release.Plan, error) {
		o, err := f.Gather(ctx, app, c, args)
		if err != nil {
			return nil, err
		}
		o.Options = f.options(f.channel)
		o.Rollout = rollout
		return p.Publish(ctx, o)
	})
}

func releasePromoteCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	var share shareFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "promote [--from CHANNEL] [--to CHANNEL] [VERSION]",
		Short: "Move a channel to a release that another channel shows",
		Long: `Move a channel to the release that another channel shows, or to a VERSION that the
other channel showed before and that was not rolled back. Nothing is uploaded. The
bundles in the store are verified, and the same checks apply as for a publish.`,
		Example: `  tsmon release promote --from beta --to stable
  tsmon release promote --from beta --to stable 1.4.0 --dry-run`,
		Args: cli.Args(0, 1, "at most one VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := release.PromoteOptions{Options: f.options(to), From: from, Version: strings.Join(args, "")}
			var err error
			if o.Rollout, err = share.rollout(); err != nil {
				return err
			}
			return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Promote(cmd.Context(), o)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "beta", "`CHANNEL` that shows the release")
	cmd.Flags().StringVar(&to, "to", "stable", "`CHANNEL` to move")
	share.add(cmd)
	f.addGate(cmd)
	return cmd
}

func releaseRollbackCommand(app *cli.App) *cobra.Command {
	f := moveFlags{needsReason: true}
	var channel, to string
	cmd := &cobra.Command{
		Use:   "rollback --channel CHANNEL [--to VERSION] --reason TEXT",
		Short: "Point a channel at an earlier release",
		Long: `Point a channel at the release before the one it shows, or at any VERSION that
it showed. That stops the bad release from spreading: clients with older versions
get the earlier release. Clients that have the bad release keep it, because the
updater only moves forward; to reach them, publish a new build with a higher version.

The same command with the same reason does nothing the second time, so that two
people don't roll back twice; use --to to go back further. --to with a version that
was rolled back offers that version again.`,
		Example: `  tsmon release rollback --channel stable --reason "crashes at start"
  tsmon release rollback --channel stable --to 1.2.0 --reason "data loss since 1.3.0" --dry-run`,
		Args: cli.Args(0, 0, "no arguments; --to names the version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := release.RollbackOptions{Options: f.options(channel), To: to}
			return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Rollback(cmd.Context(), o)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`VERSION` to go back to (default: the previous one)")
	channelFlag(cmd, &channel)
	f.addGate(cmd)
	return cmd
}
