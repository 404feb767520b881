package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/api/monitor/content"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/durable"
	"tsmon/store/record"
)

func tenantExportCommand(app *cli.App) *cobra.Command {
	var output string
	var users bool
	cmd := &cobra.Command{
		Use:   "export SCHEMA",
		Short: "Write what a tenant owns as YAML or JSON",
		Long: `Write a consistent copy of what a tenant owns as a file that tenant import reads:
variables, diagrams, menus, permissions, notification configuration and charts. It is
JSON with --json or if the name of the file ends in .json, else YAML.

With --users the file also has the users, with the digests of their partner tokens: after
an import they log in with their present tokens. No token can be derived from the file.`,
		Example: `  tsmon tenant export acueducto --output acueducto.yaml
  tsmon tenant export acueducto --users --output acueducto.yaml
  tsmon tenant export acueducto --json`,
		Args: cli.Args(1, 1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTenantExport(cmd.Context(), app, args[0], output, users)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` (default stdout)")
	cmd.Flags().BoolVar(&users, "users", false, "write users and the digests of their tokens too")
	return cmd
}

func runTenantExport(ctx context.Context, app *cli.App, schema, output string, users bool) error {
	owned, err := fromRecords(ctx, app, func(s record.Store) (owned content.Owned, err error) {
		if owned.Content, err = s.Export(ctx, schema); err != nil || !users {
			return owned, err
		}
		list, err := s.Users(ctx, schema)
		owned.Users = content.UsersOf(list)
		return owned, err
	})
	if err != nil {
		return err
	}
	encode := content.EncodeYAML
	if app.JSON || strings.HasSuffix(output, ".json") {
		encode = content.EncodeJSON
	}
	data, err := encode(owned)
	if err != nil {
		return err
	}
	if output == "" {
		return app.Write(data)
	}
	if err = durable.Replace(output, 0o600, data); err == nil {
		app.Say("wrote %s", output)
	}
	return err
}

func tenantImportCommand(app *cli.App) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import SCHEMA FILE",
		Short: "Store variables, diagrams, menus and more from a YAML or JSON file",
		Long: `Store the contents of a file: variables, diagrams, menus, permissions, notifications
and charts, each of which is optional. Either everything is stored or nothing. An item
replaces the stored one with the same ID; everything else is kept, so importing the
same file again changes nothing. FILE - is stdin.

If the file was written by tenant export --users, its users are stored too, with their
IDs and tokens. If another user has one of these IDs or addresses, nothing is stored
(exit code 3).

The file is checked first. If it has mistakes they are reported with their lines, and
nothing is stored (exit code 3). A file may have at most 32 MiB; YAML anchors, aliases
and custom tags are not supported.`,
		Example: `  tsmon tenant import acueducto acueducto.yaml --dry-run
  tsmon tenant import acueducto acueducto.yaml
  tsmon tenant export acueducto --json | tsmon tenant import copy -`,
		Args: cli.Args(2, 2, "a SCHEMA and a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTenantImport(cmd.Context(), app, args[0], args[1], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the file, store nothing")
	return cmd
}

// ImportedContent is what `tsmon tenant import` prints.
type ImportedContent struct {
	Schema        string `json:"schema"`
	DryRun        bool   `json:"dry_run"`
	Variables     int    `json:"variables"`
	Diagrams      int    `json:"diagrams"`
	Menus         int    `json:"menus"`
	Permissions   int    `json:"permissions"`
	Notifications int    `json:"notifications"` // device kinds
	Charts        int    `json:"charts"`
	Users         int    `json:"users"`
}

func runTenantImport(ctx context.Context, app *cli.App, schema, path string, dryRun bool) error {
	file, err := readContent(app, path)
	if err != nil {
		return refuseContent(err)
	}
	err = withRecords(ctx, app, func(s record.Store) error {
		menus, err := s.Menus(ctx, schema) // fails if there is no such tenant
		if err != nil {
			return err
		}
		if err := file.CheckMenus(menus); err != nil {
			return refuseContent(err)
		}
		if dryRun {
			return nil
		}
		if len(file.Users) > 0 {
			err := s.ImportUsers(ctx, schema, file.Users.Records())
			if errors.Is(err, record.ErrExists) {
				err = cli.WithHint(err, "delete that user with `tsmon user delete`, or take users out of the file; nothing was imported")
			}
			if err != nil {
				return err
			}
		}
		return s.Import(ctx, schema, file.Content)
	})
	if err != nil {
		return err
	}
	c := file.Content
	r := ImportedContent{schema, dryRun, len(c.Variables), len(c.Diagrams), len(c.Menus), len(c.Permissions), len(c.Notifications), len(c.Charts), len(file.Users)}
	return app.Print(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %s, %s, %s, %s, %s, %s\n", cli.Verb(dryRun, "imported into", "valid for"), schema,
			cli.Count(r.Variables, "variable", "variables"), cli.Count(r.Diagrams, "diagram", "diagrams"), cli.Count(r.Menus, "menu", "menus"),
			cli.Count(r.Permissions, "permission", "permissions"), cli.Count(r.Notifications, "device kind", "device kinds"), cli.Count(r.Charts, "chart", "charts"))
		if r.Users > 0 {
			fmt.Fprintf(w, "with %s\n", cli.Count(r.Users, "user", "users"))
		}
	})
}

func readContent(app *cli.App, path string) (*content.File, error) {
	file, err := app.OpenInput(path, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if path == "-" {
		path = "stdin"
	}
	return content.Read(path, file)
}

// refuseContent refuses the content of a file: nothing was imported.
func refuseContent(err error) error {
	if errors.Is(err, content.ErrInvalid) {
		err = cli.WithHint(cli.Refuse(err), "correct the file; nothing was imported")
	}
	return err
}
