package releasing

import (
	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
)

func channelAppointCommand(app *cli.App) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "appoint CHANNEL",
		Short: "Put the configured operators of a channel in force",
		Long: `Put the operators and approvals of tsmon.yaml in force for a channel, with an entry
of its log. From then on every move needs their signatures, whatever tsmon.yaml says.
Those who are in force must agree, and enough of the new ones must sign, too; where too
many keys are lost, a key of server.operators_root takes the place of the former.`,
		Example: `  tsmon channel appoint stable --reason "two of three from now on"
  tsmon channel appoint stable --dry-run`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.move(cmd.Context(), app, func(_ *config.Config, p *release.Publisher) (*release.Plan, error) {
				return p.Appoint(cmd.Context(), f.options(args[0]))
			})
		},
	}
	f.addReason(cmd, remark)
	f.addDry(cmd)
	f.wait.Add(cmd)
	return cmd
}
