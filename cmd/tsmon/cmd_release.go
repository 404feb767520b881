package main

import (
	"context"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/manifest"
	"tsmon/release"
)

func (a *app) releaseCommand() *cobra.Command {
	return group("release", "Sign, publish, promote and roll back releases",
		a.releaseSignCommand(), a.releasePublishCommand(), a.releasePromoteCommand(),
		a.releaseRollbackCommand(), a.releaseListCommand(), a.releaseShowCommand())
}

// moveFlags are what publish, promote and rollback have in common.
type moveFlags struct {
	allowMissing []string
	allowUnbound bool
	dryRun       bool
	noProbe      bool
	verbose      bool
	reason       string
}

func (f *moveFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.allowMissing, "allow-missing", nil, "platform `KEY`s that the channel may lose, comma-separated")
	cmd.Flags().BoolVar(&f.allowUnbound, "allow-unbound", false, "accept signatures that name no version; strict applications refuse them")
	noFiles(cmd, "allow-missing")
	f.addDry(cmd)
}

// addDry adds the flags of every command that moves a channel.
func (f *moveFlags) addDry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and who gets what, write nothing")
	cmd.Flags().BoolVar(&f.noProbe, "no-probe", false, "do not fetch the public address afterwards as a client would")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "list every installed version, instead of ranges that get the same")
}

func (f *moveFlags) addReason(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.reason, "reason", "", usage)
	noFiles(cmd, "reason")
}

const (
	remark         = "a remark for the channel's log"
	requiredReason = "why; kept in the channel's log (required)"
)

// check looks at the flags alone.
func (f *moveFlags) check() error {
	if len(f.reason) > 1000 || strings.ContainsFunc(f.reason, unicode.IsControl) {
		return usagef("--reason is one line of at most 1000 bytes")
	}
	for _, key := range f.allowMissing {
		if _, err := manifest.ParseKey(key); err != nil {
			return usagef("--allow-missing: %w", err)
		}
	}
	return nil
}

func (f *moveFlags) needReason() error {
	if strings.TrimSpace(f.reason) == "" {
		return &hinted{usagef("--reason is missing"), "say why; the channel's log keeps it"}
	}
	return nil
}

func (f *moveFlags) options(channel string) release.Options {
	return release.Options{Channel: channel, Why: f.reason, AllowMissing: f.allowMissing, AllowUnbound: f.allowUnbound, DryRun: f.dryRun}
}

// move runs one of the commands that move a channel and prints its plan.
func (a *app) move(ctx context.Context, f moveFlags, run func(*config.Config, *release.Publisher) (*release.Plan, error)) error {
	if err := f.check(); err != nil {
		return err
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	progress := a.newProgress("read")
	p, err := a.publisherFor(ctx, c, progress)
	if err != nil {
		return err
	}
	p.Uploaded = progress.uploaded
	if !f.noProbe {
		p.Probe = probe(httpClient(), string(c.Server.Updates.Token), p.Keys, f.allowUnbound)
	}
	plan, err := run(c, p)
	progress.done()
	if plan != nil {
		if printErr := a.print(plan, func() { a.printPlan(plan, f.verbose) }); printErr != nil {
			return printErr
		}
		for _, moved := range append([]*release.Plan{plan}, plan.Followers...) {
			a.warn(moved.Warnings)
		}
	}
	return err
}

type publishFlags struct {
	moveFlags
	contentFlags
	shareFlags
	channel string
}

func (a *app) releasePublishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish --version V [flags] DIR|BUNDLE…",
		Short: "Upload a release and move a channel to it",
		Long: `Upload the update bundles of a version and move a channel to it.

Bundles are found in a folder or named; the names that the Tauri bundler gives
include their target, --bundle TARGET=FILE sets it explicitly. A bundle with a
.sig beside it is verified against trusted_keys; the others are signed with the
private key. The channel moves only once everything is in the store and verified,
and only if every installed version can update to the release.

With --percent or --steps only a share of the clients of tsmon serve gets it at
first, see ` + "`tsmon channel rollout --help`" + `.

The same command again does nothing, or completes what was interrupted.`,
		Example: `  tsmon release publish --version 1.4.0 --notes-file CHANGES.md src-tauri/target/release/bundle
  tsmon release publish --version 1.5.0-beta.1 --channel beta dist/
  tsmon release publish --version 1.6.0 --steps 5,25,50,100 --every 6h dist/
  tsmon release publish --version 1.4.0 --dry-run --bundle darwin-universal=App.app.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runPublish(cmd.Context(), f, args) },
	}
	f.addReason(cmd, remark)
	a.channelFlag(cmd, &f.channel)
	f.contentFlags.add(cmd)
	f.shareFlags.add(cmd)
	f.moveFlags.add(cmd)
	return cmd
}

func (a *app) runPublish(ctx context.Context, f publishFlags, args []string) error {
	rollout, err := f.rollout()
	if err == nil {
		err = f.contentFlags.check(args)
	}
	if err != nil {
		return err
	}
	return a.move(ctx, f.moveFlags, func(c *config.Config, p *release.Publisher) (*release.Plan, error) {
		o, err := a.gather(ctx, c, f.contentFlags, args)
		if err != nil {
			return nil, err
		}
		o.Options = f.options(f.channel)
		o.Rollout = rollout
		return p.Publish(ctx, o)
	})
}

func (a *app) releasePromoteCommand() *cobra.Command {
	var f moveFlags
	var share shareFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "promote [--from CHANNEL] [--to CHANNEL] [VERSION]",
		Short: "Move a channel to a release that another channel shows",
		Long: `Move a channel to the release that another channel shows, or to a VERSION that
it showed before and that was not rolled back. Nothing is uploaded. The bundles in
the store are verified, and the same checks apply as to a publish.`,
		Example: `  tsmon release promote --from beta --to stable
  tsmon release promote --from beta --to stable 1.4.0 --dry-run`,
		Args:              atMost(1, "at most one VERSION"),
		ValidArgsFunction: a.completeVersions(func(ctx context.Context, p *release.Publisher) ([]string, error) { return loggedVersions(ctx, p, from) }),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := release.PromoteOptions{Options: f.options(to), From: from}
			var err error
			if o.Rollout, err = share.rollout(); err != nil {
				return err
			}
			if len(args) == 1 {
				o.Version = args[0]
			}
			return a.move(cmd.Context(), f, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Promote(cmd.Context(), o)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "beta", "`CHANNEL` that shows the release")
	cmd.Flags().StringVar(&to, "to", "stable", "`CHANNEL` that is moved")
	f.addReason(cmd, remark)
	a.completeChannel(cmd, "from")
	a.completeChannel(cmd, "to")
	share.add(cmd)
	f.add(cmd)
	return cmd
}

func (a *app) releaseRollbackCommand() *cobra.Command {
	var f moveFlags
	var channel, to string
	cmd := &cobra.Command{
		Use:   "rollback --channel CHANNEL [--to VERSION] --reason TEXT",
		Short: "Point a channel at an earlier release",
		Long: `Point a channel at the release before the one it shows, or at any VERSION that
it showed. That stops the spread: clients below it get the earlier release.
Clients that have the bad release keep it, because the updater only goes
forward; reaching them takes a new build with a higher version.

The same command again, with the same reason, does nothing, and so that two
people don't go back twice, going back further takes --to. --to with a version
that was rolled back brings it back.`,
		Example: `  tsmon release rollback --channel stable --reason "crashes at start"
  tsmon release rollback --channel stable --to 1.2.0 --reason "data loss since 1.3.0" --dry-run`,
		Args:              exactly(0, "no arguments; --to names the version"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.needReason(); err != nil {
				return err
			}
			o := release.RollbackOptions{Options: f.options(channel), To: to}
			return a.move(cmd.Context(), f, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Rollback(cmd.Context(), o)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`VERSION` to go back to (default: the one before)")
	complete(cmd, "to", a.completeVersions(func(ctx context.Context, p *release.Publisher) ([]string, error) {
		return loggedVersions(ctx, p, channel)
	}))
	f.addReason(cmd, requiredReason)
	a.channelFlag(cmd, &channel)
	f.add(cmd)
	return cmd
}
