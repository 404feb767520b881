package admin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

// owned is a kind of item of a tenant that `tsmon tenant KINDS` lists and deletes.
type owned struct {
	kind, kinds string
	argument    string
	long        string
	list        func(ctx context.Context, app *cli.App, schema string) error
	find        func(ctx context.Context, s record.Store, schema, id string) (Deletion, error)
	remove      func(ctx context.Context, s record.Store, schema, id string) error
	// complete returns the existing ids, each with a name.
	complete func(ctx context.Context, s record.Store, schema string) ([]string, error)
}

func ownedCommand(app *cli.App, o owned) *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   fmt.Sprintf("%s SCHEMA list|delete [%s]", o.kinds, o.argument),
		Short: fmt.Sprintf("List and delete %ss", o.kind),
		Long:  o.long + "\n\nWithout --yes nothing is deleted; the command prints what would be.",
		Example: fmt.Sprintf(`  tsmon tenant %[1]s acueducto list
  tsmon tenant %[1]s acueducto delete 7 --dry-run
  tsmon tenant %[1]s acueducto delete 7 --yes`, o.kinds),
		Args:              cli.Args(2, 3, "a SCHEMA, and list or delete"),
		ValidArgsFunction: completeOwned(app, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, schema := cmd.Context(), args[0]
			switch {
			case args[1] != "list" && args[1] != "delete":
				return cli.Usagef("%.80q is neither list nor delete, which follow the SCHEMA", args[1])
			case args[1] == "list" && len(args) > 2:
				return cli.Usagef("list takes no further argument")
			case args[1] == "delete" && len(args) < 3:
				return cli.Usagef("delete takes a %s", o.argument)
			case args[1] == "list" && f != deleteFlags{}:
				return cli.Usagef("--dry-run and --yes are for delete; list changes nothing")
			case args[1] == "list":
				return o.list(ctx, app, schema)
			}
			id := args[2]
			return runDelete(ctx, app, f,
				func(s record.Store) (Deletion, error) { return o.find(ctx, s, schema, id) },
				func(s record.Store) error {
					return explainMissing(o.remove(ctx, s, schema, id), schema, o.kind, o.kinds, id)
				})
		},
	}
	f.add(cmd)
	return cmd
}

func completeOwned(app *cli.App, o owned) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		var err error
		switch {
		case len(args) == 0:
			names, err = app.Schemas(cmd)
		case len(args) == 1:
			names = []string{"delete\tdelete one", "list\tthose that there are"}
		case len(args) == 2 && args[1] == "delete":
			err = app.LocalRecords(cmd.Context(), func(s record.Store) (err error) {
				names, err = o.complete(cmd.Context(), s, args[0])
				return err
			})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func tenantVariablesCommand(app *cli.App) *cobra.Command {
	return ownedCommand(app, owned{
		kind: "variable", kinds: "variables", argument: "VARIABLE",
		long: `List the variables of a tenant, or delete one. Diagram lines that show a deleted
variable are kept without a value, and show one again if a variable with the same ID is
imported. The time series are kept. Charts have their own copy of what they show.`,
		list: runVariablesList,
		find: findVariable,
		remove: func(ctx context.Context, s record.Store, schema, id string) error {
			return s.DeleteVariable(ctx, schema, id)
		},
		complete: func(ctx context.Context, s record.Store, schema string) (names []string, err error) {
			variables, err := s.Variables(ctx, schema)
			for _, v := range variables {
				names = append(names, v.Key()+"\t"+cli.OneLine(v.Name))
			}
			return names, err
		},
	})
}

func runVariablesList(ctx context.Context, app *cli.App, schema string) error {
	variables := []record.Variable{}
	rows := [][]string{{"ID", "NAME", "UNIT", "TYPE", "EQUATION", "ACTIVE"}}
	err := withRecords(ctx, app, func(s record.Store) error {
		found, err := s.Variables(ctx, schema)
		variables = append(variables, found...)
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range variables {
		equation := ""
		if v.Calc && v.Equation != nil {
			equation = *v.Equation
		}
		unit := ""
		if v.Unit != nil {
			unit = *v.Unit
		}
		rows = append(rows, []string{v.Key(), v.Name, unit, v.Type, equation, strconv.FormatBool(v.Status)})
	}
	return app.Print(variables, func(w io.Writer) { cli.Table(w, rows) })
}

func findVariable(ctx context.Context, s record.Store, schema, id string) (Deletion, error) {
	all, err := s.Export(ctx, schema)
	if err != nil {
		return Deletion{}, err
	}
	i := slices.IndexFunc(all.Variables, func(v record.Variable) bool { return v.Key() == id })
	if i < 0 {
		return Deletion{}, missing(schema, "variable", "variables", id)
	}
	d := Deletion{Schema: schema, Kind: "variable", ID: id, Name: all.Variables[i].Name}
	for _, diagram := range all.Diagrams {
		if diagram.Shows(id) {
			d.UsedBy = append(d.UsedBy, Use{"diagram", strconv.FormatInt(diagram.ID, 10), diagram.Title})
		}
	}
	return d, nil
}

func tenantMenusCommand(app *cli.App) *cobra.Command {
	return ownedCommand(app, owned{
		kind: "menu item", kinds: "menus", argument: "MENU",
		long: `List the menu items of a tenant, or delete one with its permissions. Where the item
allows saving diagrams or publishing (--save-menu, --publish-menu), only administrators
may do so from then on.`,
		list: runMenusList,
		find: findMenu,
		remove: func(ctx context.Context, s record.Store, schema, id string) error {
			n, err := menuID(id)
			if err == nil {
				err = s.DeleteMenu(ctx, schema, n)
			}
			return err
		},
		complete: func(ctx context.Context, s record.Store, schema string) (names []string, err error) {
			menus, err := s.Menus(ctx, schema)
			for _, m := range menus {
				names = append(names, strconv.FormatInt(m.ID, 10)+"\t"+cli.OneLine(m.Name))
			}
			return names, err
		},
	})
}

func runMenusList(ctx context.Context, app *cli.App, schema string) error {
	menus := []record.Menu{}
	rows := [][]string{{"ID", "NAME", "PATH", "ACTIVE"}}
	err := withRecords(ctx, app, func(s record.Store) error {
		found, err := s.Menus(ctx, schema)
		menus = append(menus, found...)
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range menus {
		rows = append(rows, []string{strconv.FormatInt(m.ID, 10), m.Name, m.Path, strconv.FormatBool(m.Status)})
	}
	return app.Print(menus, func(w io.Writer) { cli.Table(w, rows) })
}

func menuID(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, cli.Usagef("%.80q is not a MENU, which is an integer", text)
	}
	return n, nil
}

func findMenu(ctx context.Context, s record.Store, schema, id string) (Deletion, error) {
	n, err := menuID(id)
	if err != nil {
		return Deletion{}, err
	}
	tenant, err := s.Tenant(ctx, schema)
	if err != nil {
		return Deletion{}, fmt.Errorf("%.80q: %w", schema, err)
	}
	all, err := s.Export(ctx, schema)
	if err != nil {
		return Deletion{}, err
	}
	i := slices.IndexFunc(all.Menus, func(m record.Menu) bool { return m.ID == n })
	if i < 0 {
		return Deletion{}, missing(schema, "menu item", "menus", id)
	}
	d := Deletion{Schema: schema, Kind: "menu item", ID: strconv.FormatInt(n, 10), Name: all.Menus[i].Name}
	permissions := 0
	for _, p := range all.Permissions {
		if p.Menu == n {
			permissions++
		}
	}
	d.with("permissions", permissions)
	if tenant.Settings.SaveMenu == n {
		d.UsedBy = append(d.UsedBy, Use{Kind: "setting", ID: "save-menu"})
	}
	if tenant.Settings.PublishMenu == n {
		d.UsedBy = append(d.UsedBy, Use{Kind: "setting", ID: "publish-menu"})
	}
	return d, nil
}
