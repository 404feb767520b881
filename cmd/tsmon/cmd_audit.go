package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tsmon/store/record"
)

func (a *app) tenantAuditCommand() *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "audit SCHEMA",
		Short: "Show who logged in, saved and published, newest first",
		Long: `Show the audit rows of a schema, newest first: logins that succeeded or failed,
saved diagrams and published messages. The schema need not be a tenant's: a failed
login may name anything.`,
		Example: `  tsmon tenant audit acueducto
  tsmon tenant audit acueducto --limit 1000 --json`,
		Args:              exactly(1, "one SCHEMA"),
		ValidArgsFunction: a.tenantNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runTenantAudit(cmd.Context(), args[0], limit) },
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most `N` rows")
	return cmd
}

const maxAuditRows = 100_000

func (a *app) runTenantAudit(ctx context.Context, schema string, limit int) error {
	if limit < 1 || limit > maxAuditRows {
		return usagef("--limit is from 1 to %d", maxAuditRows)
	}
	audits := []record.Audit{}
	err := a.withRecords(ctx, func(s record.Store) error {
		found, err := s.LastAudits(ctx, schema, limit)
		audits = append(audits, found...)
		return err
	})
	if err != nil {
		return err
	}
	rows := [][]string{{"TIME", "USER", "ACTION", "TARGET", "OK", "ADDRESS", "REQUEST"}}
	for _, row := range audits {
		rows = append(rows, []string{row.Time.Format(time.RFC3339), row.User, row.Action, row.Target, strconv.FormatBool(row.OK), row.Address, row.Request})
	}
	return a.print(audits, func() { table(a.stdout, rows) })
}
