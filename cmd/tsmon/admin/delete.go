package admin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

// Deletion is the output of the commands that delete.
type Deletion struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"` // tenant, user, diagram, variable or menu item
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	With   []Part `json:"with"`    // what is deleted with it
	UsedBy []Use  `json:"used_by"` // items that are kept and refer to it
	// Database is the time-series database of a deleted tenant, which is kept.
	Database string `json:"database,omitempty"`
	DryRun   bool   `json:"dry_run"`
}

// Part is how much of one kind is deleted.
type Part struct {
	Kind  string `json:"kind"` // in the plural
	Count int    `json:"count"`
}

// Use is an item that refers to the deleted one.
type Use struct {
	Kind string `json:"kind"` // diagram or setting
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// with adds a part, unless count is 0.
func (d *Deletion) with(kind string, count int) {
	if count > 0 {
		d.With = append(d.With, Part{kind, count})
	}
}

// maxUses is how many uses a line of text names.
const maxUses = 10

func (d Deletion) String() string {
	text := "the " + d.Kind + " " + named(d.ID, d.Name)
	if d.Kind != "tenant" {
		text += " of " + d.Schema
	}
	var parts, uses []string
	for _, p := range d.With {
		parts = append(parts, cli.Count(p.Count, strings.TrimSuffix(p.Kind, "s"), p.Kind))
	}
	for _, u := range d.UsedBy[:min(len(d.UsedBy), maxUses)] {
		uses = append(uses, "the "+u.Kind+" "+named(u.ID, u.Name))
	}
	if len(parts) > 0 {
		text += " with " + strings.Join(parts, ", ")
	}
	if len(uses) > 0 {
		text += "; it is used by " + strings.Join(uses, ", ")
	}
	if more := len(d.UsedBy) - len(uses); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if d.Database != "" {
		text += "; the database " + d.Database + " and its values stay"
	}
	return text
}

func named(id, name string) string {
	if name == "" {
		return cli.OneLine(id)
	}
	return cli.OneLine(id + " (" + name + ")")
}

type deleteFlags struct{ dryRun, yes bool }

func (f *deleteFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be deleted, and what uses it; delete nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "delete it")
}

// runDelete finds what would be deleted and deletes it. Without --yes it prints that and
// refuses.
func runDelete(ctx context.Context, app *cli.App, f deleteFlags,
	find func(record.Store) (Deletion, error), remove func(record.Store) error) error {
	var d Deletion
	err := withRecords(ctx, app, func(s record.Store) (err error) {
		if d, err = find(s); err != nil || f.dryRun {
			return err
		}
		if !f.yes {
			return cli.WithHint(cli.Refuse(fmt.Errorf("this deletes %s", d)), "add --yes to delete it")
		}
		return remove(s)
	})
	if err != nil {
		return err
	}
	d.DryRun = f.dryRun
	d.With, d.UsedBy = append([]Part{}, d.With...), append([]Use{}, d.UsedBy...) // lists in JSON
	return app.Print(d, func(w io.Writer) { fmt.Fprintln(w, cli.Verb(f.dryRun, "deleted", "would delete"), d) })
}

func tenantDeleteCommand(app *cli.App) *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete SCHEMA",
		Short: "Delete a tenant and its records",
		Long: `Delete a tenant and its records: users, variables, diagrams with their versions, menus,
permissions, notification configuration and charts. Its users are logged out within a
minute. The audit rows are kept until they expire. The values in its time-series
database are kept too; a tenant created with the same --ts-name uses them again.

Without --yes nothing is deleted; the command prints what would be.`,
		Example: `  tsmon tenant export acueducto --output acueducto.yaml
  tsmon tenant delete acueducto --dry-run
  tsmon tenant delete acueducto --yes`,
		Args: cli.Args(1, 1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, schema := cmd.Context(), args[0]
			return runDelete(ctx, app, f,
				func(s record.Store) (Deletion, error) { return findTenant(ctx, s, schema) },
				func(s record.Store) error { return s.DeleteTenant(ctx, schema) })
		},
	}
	f.add(cmd)
	return cmd
}

func findTenant(ctx context.Context, s record.Store, schema string) (Deletion, error) {
	tenant, err := s.Tenant(ctx, schema)
	if err != nil {
		return Deletion{}, err
	}
	users, err := s.Users(ctx, schema)
	if err != nil {
		return Deletion{}, err
	}
	owned, err := s.Export(ctx, schema)
	d := Deletion{Schema: schema, Kind: "tenant", ID: schema, Database: tenant.TsName}
	d.with("users", len(users))
	d.with("variables", len(owned.Variables))
	d.with("diagrams", len(owned.Diagrams))
	d.with("menu items", len(owned.Menus))
	d.with("permissions", len(owned.Permissions))
	d.with("device kinds", len(owned.Notifications))
	d.with("charts", len(owned.Charts))
	return d, err
}

func userDeleteCommand(app *cli.App) *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete SCHEMA EMAIL",
		Short: "Delete a user and the user's own permissions",
		Long: `Delete a user and the permissions that name the user. Access tokens of the user stop
working within a minute; the ID is never given to another user. To keep the user but
lock it out, use tsmon user disable.

Without --yes nothing is deleted; the command prints what would be.`,
		Example: `  tsmon user delete acueducto ana@example.com --dry-run
  tsmon user delete acueducto ana@example.com --yes`,
		Args: cli.Args(2, 2, "a SCHEMA and an EMAIL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, schema, email := cmd.Context(), args[0], args[1]
			return runDelete(ctx, app, f,
				func(s record.Store) (Deletion, error) { return findUser(ctx, s, schema, email) },
				func(s record.Store) error { return s.DeleteUser(ctx, schema, email) })
		},
	}
	f.add(cmd)
	return cmd
}

func findUser(ctx context.Context, s record.Store, schema, email string) (Deletion, error) {
	u, err := s.User(ctx, schema, email)
	if err != nil {
		return Deletion{}, fmt.Errorf("%.80q: %w", email, err)
	}
	rows, err := s.Permissions(ctx, schema, u.ID, 0)
	d := Deletion{Schema: schema, Kind: "user", ID: u.Email}
	d.with("permissions", len(rows))
	return d, err
}
