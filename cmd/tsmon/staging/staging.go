// Package staging holds the commands of a build matrix, where each machine stages the bundles
// of its own platform: `tsmon release stage` and `tsmon release discard`.
package staging

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/releasing"
	"tsmon/release"
	"tsmon/release/gate"
)

type stageFlags struct {
	releasing.ContentFlags
	channel                            string
	strand                             gate.VersionRange
	publish, replace, unbound, noProbe bool
	wait                               releasing.Wait
}

// StageCommand returns `tsmon release stage`.
func StageCommand(app *cli.App) *cobra.Command {
	var f stageFlags
	cmd := &cobra.Command{
		Use:   "stage [--version V] [--publish] [flags] DIR|BUNDLE…",
		Short: "Store the bundles of one machine until the release is complete",
		Long: `Store the update bundles of one machine of a build matrix. Machines may stage in any
order, and repeat a job. Once all bundles are there, ` + "`tsmon release publish --version V`" + `
without bundles publishes them.

With --publish the job that stages the last platform publishes the release. The platforms
are those that the channel requires and those of its previous release. The other jobs say
what is still missing, and what to do if a platform is no longer built, and exit with 0.
If tsmon.yaml has no targets for the channel, --publish is refused, because no job can
know that it is the last.

Different bytes for a staged platform are refused without --replace, and nothing can be
staged after the release was published. Staging the same bytes again changes nothing,
unless their signature is by another key: it then replaces the staged one. Bundles signed
by a key that installed applications lack are refused before anything is uploaded;
--strand leaves those applications behind on purpose.

Any job may bring the release notes; otherwise the publish takes them from CHANGELOG.md.
The version defaults to that of the Tauri project. Disk images and installers beside the
bundles, and the files that --also names, are staged for new users.`,
		Example: `  tsmon release stage --version 1.4.0 src-tauri/target/release/bundle
  tsmon release stage --version 1.4.0 --publish src-tauri/target/release/bundle
  tsmon release stage --version 1.4.0 --replace --bundle windows-x86_64=App-setup.exe`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStage(cmd.Context(), app, &f, args)
		},
	}
	f.AddPart(cmd)
	f.AddAlso(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.channel, "channel", "stable", "`CHANNEL` whose required platforms must be complete, and that --publish moves")
	flags.BoolVar(&f.publish, "publish", false, "publish once everything that the channel requires is there")
	flags.BoolVar(&f.replace, "replace", false, "replace what is staged for these platforms")
	flags.BoolVar(&f.unbound, "allow-unbound", false, "accept signatures that are not bound to a version; strict applications refuse them")
	releasing.AddStrand(cmd, &f.strand)
	flags.BoolVar(&f.noProbe, "no-probe", false, "skip the check that fetches the public address afterwards, as a client would")
	f.wait.Add(cmd)
	return cmd
}

func runStage(ctx context.Context, app *cli.App, f *stageFlags, args []string) error {
	if f.wait.Duration > 0 && !f.publish {
		return cli.Usagef("--wait needs --publish; staging alone needs no signatures")
	}
	c, p, err := app.LoadPublisher(ctx, "read")
	if err != nil {
		return err
	}
	content, err := f.GatherPart(ctx, app, c, args)
	if err != nil {
		return err
	}
	content.Channel, content.AllowUnbound, content.Strand = f.channel, f.unbound, f.strand
	if !f.noProbe {
		releasing.SetProbe(c, p)
	}
	report, err := p.Stage(ctx, release.StageOptions{PublishOptions: content, Replace: f.replace, Publish: f.publish})
	if report == nil || err != nil && report.Published == nil {
		return err
	}
	if err == nil && report.Published != nil {
		report.Published, err = f.wait.Await(ctx, app, p, report.Published)
	}
	if printErr := app.Print(report, func(w io.Writer) { printStage(w, report) }); printErr != nil {
		return printErr
	}
	app.Warn(report.Warnings)
	if report.Hint != "" && !app.JSON {
		app.Say("hint: %s", report.Hint)
	}
	if report.Published != nil { // nil if the wait for its approvals failed
		releasing.Warn(app, report.Published)
	}
	return err
}

func printStage(w io.Writer, r *release.StageReport) {
	verb := "staged"
	if !r.Changed {
		verb = "already there"
	}
	fmt.Fprintf(w, "%s: %s\n", r.Version, verb)
	var rows [][]string
	for _, s := range r.Staged {
		for _, b := range s.Bundles {
			rows = append(rows, []string{"  " + s.Target, b.Name, s.Who})
		}
	}
	cli.Table(w, rows)
	switch {
	case r.Published != nil:
		fmt.Fprintln(w)
		releasing.PrintPlan(w, r.Published, false)
	case len(r.Missing) > 0:
		fmt.Fprintf(w, "missing for %s: %s\n", r.Channel, strings.Join(r.Missing, ", "))
	}
}

// DiscardCommand returns `tsmon release discard`.
func DiscardCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "discard VERSION",
		Short: "Delete a release that no channel ever showed",
		Long: `Delete the staged bundles of a version, and its release if no channel ever showed it.
The version can then be used for other bundles. A release that a channel showed is
kept, because clients may have installed it. Withdraw a plan that waits to show the
release first; while the log of a channel, or its end, is lost, the release is kept too.`,
		Example: "  tsmon release discard 1.4.0",
		Args:    cli.Args(1, 1, "one VERSION"),
		RunE:    func(cmd *cobra.Command, args []string) error { return runDiscard(cmd.Context(), app, args[0]) },
	}
}

func runDiscard(ctx context.Context, app *cli.App, version string) error {
	_, p, err := app.LoadPublisher(ctx, "")
	if err != nil {
		return err
	}
	done, err := p.Discard(ctx, version)
	if err != nil {
		return err
	}
	return app.Print(done, func(w io.Writer) {
		switch {
		case !done.Changed:
			fmt.Fprintf(w, "%s: nothing to discard\n", version)
		case len(done.Staged) == 0:
			fmt.Fprintf(w, "%s: discarded\n", version)
		default:
			fmt.Fprintf(w, "%s: discarded, with what was staged for %s\n", version, strings.Join(done.Staged, ", "))
		}
	})
}
