package releasing

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/release/upkeep"
)

type pruneFlags struct {
	moveFlags
	keep   int
	older  string
	strays bool
}

func releasePruneCommand(app *cli.App) *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune [--keep N] [--older-than 90d] | --strays [--dry-run]",
		Short: "Remove the bundles of old releases",
		Long: `Remove the bundles of releases that no client is offered any more: those that are not
among the newest N of any channel (--keep) and that no channel has offered for a given
time (--older-than). If only one of the flags is given, only that rule applies.

Kept are all releases that a channel offers, in a rollout or as a watershed too, those
that the last two rollbacks would lead to, those that are staged, and those that no
channel has shown. Before bundles are removed, the logs of all channels say which. For
half an hour no channel can return to these releases. Their records are kept, so that no
version is used twice. Leftovers of crashed uploads and of discarded versions are removed
after a day, and so are the staging records of published releases.
` + "`tsmon channel repair --bundle`" + ` puts bundles back.

--strays removes no old releases, but those leftovers, and everything else that has been
among the releases for a day and that no log names, for example files put there by
somebody with stolen credentials. Where operators sign, ` + "`tsmon channel verify`" + ` and
` + "`tsmon doctor`" + ` name them. Complete releases are kept; ` + "`tsmon release discard`" + ` deletes
one that no channel has shown.`,
		Example: `  tsmon release prune --keep 10 --older-than 90d --dry-run
  tsmon release prune --keep 10 --older-than 90d
  tsmon release prune --strays --dry-run`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrune(cmd.Context(), app, f) },
	}
	cmd.Flags().IntVar(&f.keep, "keep", 0, "keep the newest `N` releases of each channel")
	cmd.Flags().StringVar(&f.older, "older-than", "", "remove what no channel has offered for this `DURATION`, such as 90d or 36h")
	cmd.Flags().BoolVar(&f.strays, "strays", false, "remove only leftovers, and what somebody put among the releases")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be removed, write nothing")
	f.addReason(cmd)
	return cmd
}

// age parses --older-than, a duration that may be of days; 0 if it is not given.
func age(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, cli.WithHint(cli.Usagef("--older-than is a duration, not %q", text), "write --older-than 90d or --older-than 36h")
	}
	return d, nil
}

func runPrune(ctx context.Context, app *cli.App, f pruneFlags) error {
	older, err := age(f.older)
	if err != nil {
		return err
	}
	if f.keep < 0 {
		return cli.WithHint(cli.Usagef("--keep %d: it can't be negative", f.keep), "write --keep 10")
	}
	if f.strays && (f.keep > 0 || f.older != "") {
		return cli.WithHint(cli.Usagef("--strays can't be combined with --keep or --older-than"), "run one after the other")
	}
	if f.keep == 0 && f.older == "" && !f.strays {
		return cli.WithHint(cli.Usagef("--keep and --older-than are missing"), "for example --keep 10 --older-than 90d; add --dry-run to see what would be removed")
	}
	f.noProbe = true
	_, p, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	report, err := p.Keeper().Prune(ctx, upkeep.PruneOptions{Keep: f.keep, OlderThan: older, Why: f.reason, Strays: f.strays, DryRun: f.dryRun})
	if err != nil {
		return err
	}
	err = app.Print(report, func(w io.Writer) { printPrune(w, report) })
	app.Warn(report.Warnings)
	return err
}

func printPrune(w io.Writer, r *upkeep.PruneReport) {
	if !r.Changed {
		fmt.Fprintln(w, "nothing to prune")
		return
	}
	var bytes int64
	rows := [][]string{{"VERSION", "OBJECTS", "SIZE"}}
	for _, v := range r.Pruned {
		bytes += v.Bytes
		rows = append(rows, []string{v.Version, strconv.Itoa(v.Objects), cli.Size(v.Bytes)})
	}
	if len(r.Pruned) > 0 {
		cli.Table(w, rows)
	}
	for _, key := range r.Leftovers {
		fmt.Fprintf(w, "%s: no release needs it\n", key)
	}
	for _, key := range r.Unfinished {
		fmt.Fprintf(w, "%s: an upload that was not finished\n", key)
	}
	verb := cli.Verb(r.DryRun, "removed", "would be removed")
	fmt.Fprintf(w, "%s: bundles of %s (%s), leftovers: %d\n", verb, cli.Count(len(r.Pruned), "release", "releases"), cli.Size(bytes), len(r.Leftovers)+len(r.Unfinished))
}
