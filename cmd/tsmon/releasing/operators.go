package releasing

import (
	"context"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/release/library"
)

func channelAppointCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	all := false
	cmd := &cobra.Command{
		Use:   "appoint CHANNEL…",
		Short: "Put the configured operators of channels into force",
		Long: `Put the operators and approvals of tsmon.yaml into force for channels, with an entry in
the log of each. From then on every move needs their signatures, whatever tsmon.yaml says.
The operators in force until then must approve, and enough of the new ones must sign too.
If too many keys are lost, a key of server.operators_root can approve instead of the former
operators.

--all means every channel in tsmon.yaml except those that show nothing yet (their first
entry names the operators anyway) and those that are imported from another store.`,
		Example: `  tsmon channel appoint --all --reason "two of three from now on"
  tsmon channel appoint stable --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return cli.WithHint(cli.Usagef("one or more CHANNEL, or --all, are needed"), "write `tsmon channel appoint stable`, or --all for every channel of tsmon.yaml")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runAppoint(cmd.Context(), app, f, args) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "every channel in tsmon.yaml")
	f.add(cmd)
	return cmd
}

func runAppoint(ctx context.Context, app *cli.App, f moveFlags, names []string) error {
	_, p, err := f.publisher(ctx, app)
	if err != nil {
		return err
	}
	return f.moveEach(ctx, app, p, names, func(name string, names []string) (*release.Plan, error) {
		return p.Appoint(ctx, f.options(name), names...)
	}, library.ErrNoRelease, channels.ErrFed)
}
