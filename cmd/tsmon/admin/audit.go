package admin

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

func tenantAuditCommand(app *cli.App) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "audit SCHEMA",
		Short: "Show who logged in, saved and published, newest first",
		Long: `Show the audit rows of a schema, newest first: successful and failed logins, saved
diagrams and published messages. SCHEMA need not be an existing tenant, because a
failed login may name anything.`,
		Example: `  tsmon tenant audit acueducto
  tsmon tenant audit acueducto --limit 1000 --json`,
		Args: cli.Args(1, 1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			const most = 100_000
			if limit < 1 || limit > most {
				return cli.Usagef("--limit is from 1 to %d", most)
			}
			read := func(s record.Store) ([]record.Audit, error) { return s.LastAudits(cmd.Context(), args[0], limit) }
			return printAll(cmd.Context(), app, []string{"TIME", "USER", "ACTION", "TARGET", "OK", "ADDRESS", "REQUEST"}, read, func(a record.Audit) []string {
				return []string{a.Time.Format(time.RFC3339), a.User, a.Action, a.Target, strconv.FormatBool(a.OK), a.Address, a.Request}
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "show at most `N` rows")
	return cmd
}
