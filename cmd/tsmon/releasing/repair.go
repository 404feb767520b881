package releasing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/release/upkeep"
)

func channelRepairCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	var o upkeep.RepairOptions
	cmd := &cobra.Command{
		Use:   "repair CHANNEL [--bundle FILE…]",
		Short: "Fix what channel verify reports",
		Long: `Repair a channel. Manifests that lag behind the log are rendered again, also after
public_url has changed. Objects that were lost or changed are restored from the files
that --bundle names, or from the files in a folder: bundles, release.json files and log
entries, which are recognised by their digests. A copy of a log restores any missing
entries, even the whole log, and entries that changed the operators.

What can't be restored is declared lost in a new log entry. Bundles that clients are
offered are an exception: they must be restored, or replaced by a higher version. With
operators that entry needs their signatures like any move, so the command leaves a plan.
Objects that are as published are never rewritten. Objects in the folder of the log that
are not part of it are removed; those of an interrupted import after an hour.

--take-out moves entries at the end of the log to a folder if they keep the log from being
read, such as forged ones that operators have not signed. Other objects found among them
move too, and a manifest that is ahead of the remaining entries is ignored. Entries that
operators signed are never moved: --bundle restores what was changed or lost before them,
and --bundle with --take-out replaces forged entries by the original ones. Run it with the
right operators in tsmon.yaml.

--own ends the import of a channel, so that it can be moved in this store. Use it if the
other store is gone, or if somebody forged the objects that mark an import.`,
		Example: `  tsmon channel repair stable
  tsmon channel repair stable --bundle backup/App_1.4.0_x64-setup.exe
  tsmon channel repair stable --bundle backup/log/stable --dry-run
  tsmon channel repair stable --take-out forged`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Channel = args[0]
			if cmd.Flags().Changed("take-out") && o.TakeOut == "" {
				return cli.Usagef("--take-out is empty")
			}
			return runRepair(cmd.Context(), app, f, o)
		},
	}
	cmd.Flags().StringArrayVar(&o.Files, "bundle", nil, "`FILE` with the bytes of a lost object, or a folder of such files, repeatable")
	cmd.Flags().BoolVar(&o.Own, "own", false, "let an imported channel be moved in this store")
	cmd.Flags().StringVar(&o.TakeOut, "take-out", "", "move forged entries at the end of the log to `FOLDER`")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done, write nothing")
	f.addReason(cmd)
	f.wait.Add(cmd)
	return cmd
}

func runRepair(ctx context.Context, app *cli.App, f moveFlags, o upkeep.RepairOptions) error {
	f.noProbe = true
	c, p, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	if o.TakeOut != "" && inside(c.Storage, o.TakeOut) {
		return cli.Usagef("--take-out: %s is in the storage; name a folder elsewhere", o.TakeOut)
	}
	o.Why, o.DryRun = f.reason, f.dryRun
	report, err := p.Keeper().Repair(ctx, o)
	if err != nil {
		return err
	}
	var failed error
	if report.Waiting != nil && f.wait.Duration > 0 {
		report, failed = f.awaitRepair(ctx, app, p, o, report)
	}
	err = app.Print(report, func(w io.Writer) { printRepair(w, report) })
	app.Warn(report.Warnings)
	for _, file := range report.Unused {
		app.Warn([]string{file + " matches no lost object"})
	}
	return cmp.Or(err, failed, unsound(report.Channel, report.Findings, "is not sound yet"))
}

// inside reports whether a path, which need not exist, is that of a folder or below it, also
// through links.
func inside(folder, path string) bool {
	place, err := os.Stat(folder)
	if err != nil {
		return false
	}
	for path, err = filepath.Abs(path); err == nil; path = filepath.Dir(path) {
		if above, failed := os.Stat(path); failed == nil && os.SameFile(place, above) {
			return true
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	return false
}

// awaitRepair waits for the missing signatures of a repair's entry, then completes the repair.
func (f *moveFlags) awaitRepair(ctx context.Context, app *cli.App, p *release.Publisher, o upkeep.RepairOptions, report *upkeep.RepairReport) (*upkeep.RepairReport, error) {
	w := report.Waiting
	if _, err := f.wait.Await(ctx, app, p, &release.Plan{Channel: o.Channel, Waiting: w}); err != nil {
		return report, err
	}
	rest, err := p.Keeper().Repair(ctx, o)
	if err != nil {
		return report, err
	}
	rest.Mended, rest.Changed = append(report.Mended, rest.Mended...), true
	rest.Sequence = cmp.Or(rest.Sequence, w.Entry.Sequence)
	return rest, nil
}

// repairRest completes a repair whose entry was just made.
func repairRest(ctx context.Context, app *cli.App, p *release.Publisher, channel string) error {
	report, err := p.Keeper().Repair(ctx, upkeep.RepairOptions{Channel: channel, Rest: true})
	if err != nil {
		return err
	}
	app.Warn(report.Warnings)
	return unsound(report.Channel, report.Findings, "is not sound yet")
}

func printRepair(w io.Writer, r *upkeep.RepairReport) {
	for _, m := range r.Mended {
		fmt.Fprintf(w, "%s: %s\n", m.Object, m.Done)
	}
	printFindings(w, r.Findings)
	switch wait := r.Waiting; {
	case wait != nil:
		fmt.Fprintf(w, "%s: waits for approvals, %s (entry %d, %s)\n", r.Channel, approvals(wait), wait.Entry.Sequence, wait.Entry.Action)
		printLosses(w, wait.Entry)
		printToApprove(w, wait)
	case r.DryRun && r.Changed:
		fmt.Fprintf(w, "%s: would be repaired\n", r.Channel)
		printNeeds(w, r.Needs)
	case !r.Changed && len(r.Findings) == 0:
		fmt.Fprintf(w, "%s: %s, nothing to repair\n", r.Channel, r.Version)
	case len(r.Findings) == 0:
		fmt.Fprintf(w, "%s: %s, all is well\n", r.Channel, r.Version)
	}
}
