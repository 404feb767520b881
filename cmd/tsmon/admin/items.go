package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

// action is what `tsmon tenant KINDS SCHEMA ACTION` does to the items of a tenant.
type action struct {
	name, short string
	least, most int // number of arguments
	takes       string
	changes     bool // takes --dry-run
	run         func(ctx context.Context, schema string, args []string, f deleteFlags) error
}

// itemsCommand completes cmd, which has these actions. complete returns the candidates for the
// argument that follows the given ones.
func itemsCommand(app *cli.App, cmd *cobra.Command, actions []action,
	complete func(ctx context.Context, s record.Store, schema string, given []string) ([]string, error)) *cobra.Command {
	var f deleteFlags
	f.add(cmd)
	var names []string
	for _, a := range actions {
		names = append(names, a.name)
	}
	last := len(names) - 1
	choice := strings.Join(names[:last], ", ") + " or " + names[last]
	cmd.Args = cli.Args(2, -1, "a SCHEMA, and "+choice)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		schema, rest := args[0], args[2:]
		i := slices.Index(names, args[1])
		if i < 0 {
			return cli.Usagef("%.80q is not %s, which follow the SCHEMA", args[1], choice)
		}
		switch a := actions[i]; {
		case len(rest) < a.least || len(rest) > a.most:
			return cli.Usagef("%s takes %s", a.name, a.takes)
		case f.dryRun && !a.changes:
			return cli.Usagef("%s has no --dry-run: it changes nothing", a.name)
		case f.yes && a.name != "delete":
			return cli.Usagef("--yes is only for delete")
		default:
			return a.run(cmd.Context(), schema, rest, f)
		}
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (found []string, _ cobra.ShellCompDirective) {
		var err error
		switch {
		case len(args) == 0:
			found, err = app.Schemas(cmd)
		case len(args) == 1:
			for _, a := range actions {
				found = append(found, a.name+"\t"+a.short)
			}
		default:
			i, given := slices.Index(names, args[1]), args[2:]
			if i < 0 || len(given) >= actions[i].most {
				break
			}
			err = app.LocalRecords(cmd.Context(), func(s record.Store) (err error) {
				found, err = complete(cmd.Context(), s, args[0], given)
				return err
			})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	return cmd
}

// listedCommand completes cmd, whose actions list all items and delete one of them. The first
// columns of a row are the ID and the name of an item.
func listedCommand[T, ID any](app *cli.App, cmd *cobra.Command, heading []string,
	read func(s record.Store, ctx context.Context, schema string) ([]T, error), row func(T) []string, items deletable[ID]) *cobra.Command {
	list := action{name: "list", short: "list all of them", takes: "no further argument",
		run: func(ctx context.Context, schema string, _ []string, _ deleteFlags) error {
			return printAll(ctx, app, heading, func(s record.Store) ([]T, error) { return read(s, ctx, schema) }, row)
		}}
	complete := func(ctx context.Context, s record.Store, schema string, _ []string) (names []string, err error) {
		all, err := read(s, ctx, schema)
		for _, item := range all {
			columns := row(item)
			names = append(names, columns[0]+"\t"+cli.OneLine(columns[1]))
		}
		return names, err
	}
	return itemsCommand(app, cmd, []action{list, deleteAction(app, items)}, complete)
}

// deletable is a kind of items that can be deleted by their IDs.
type deletable[ID any] struct {
	kind, kinds string // such as menu item and, in the command, menus
	argument    string // such as MENU
	parse       func(argument, text string) (ID, error)
	// find and remove return record.ErrNotFound if the item does not exist. find need not set the
	// schema, the kind and the ID.
	find   func(ctx context.Context, s record.Store, t record.Tenant, id ID) (Deletion, error)
	remove func(s record.Store, ctx context.Context, schema string, id ID) error
}

func deleteAction[ID any](app *cli.App, items deletable[ID]) action {
	return action{name: "delete", short: "delete one", least: 1, most: 1, takes: "a " + items.argument, changes: true,
		run: func(ctx context.Context, schema string, args []string, f deleteFlags) error {
			id, err := items.parse(items.argument, args[0])
			if err != nil {
				return err
			}
			explain := func(err error) error {
				if errors.Is(err, record.ErrNotFound) {
					err = cli.WithHint(cli.Reword(err, "%s has no %s %.80q", schema, items.kind, args[0]), fmt.Sprintf("`tsmon tenant %s %s list` shows them all", items.kinds, schema))
				}
				return err
			}
			return runDelete(ctx, app, f,
				func(s record.Store) (Deletion, error) {
					t, err := s.Tenant(ctx, schema)
					if err != nil {
						return Deletion{}, err
					}
					d, err := items.find(ctx, s, t, id)
					d.Schema, d.Kind, d.ID = schema, items.kind, args[0]
					return d, explain(err)
				},
				func(s record.Store) error { return explain(items.remove(s, ctx, schema, id)) })
		}}
}

// number reads an argument that is the number of an item.
func number(argument, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, cli.Usagef("%.80q is not a %s, which is an integer of at least 1", text, argument)
	}
	return n, nil
}

func tenantVariablesCommand(app *cli.App) *cobra.Command {
	return listedCommand(app, &cobra.Command{
		Use:   "variables SCHEMA list|delete [VARIABLE]",
		Short: "List and delete variables",
		Long: `List the variables of a tenant, or delete one. Diagram lines that show a deleted
variable are kept without a value, and show one again if a variable with the same ID is
imported. The time series are kept. Charts have their own copy of what they show.

Without --yes nothing is deleted; the command prints what would be.`,
		Example: `  tsmon tenant variables acueducto list
  tsmon tenant variables acueducto delete 7 --dry-run
  tsmon tenant variables acueducto delete 7 --yes`,
	}, []string{"ID", "NAME", "UNIT", "TYPE", "EQUATION", "ACTIVE"}, record.Store.Variables, variableRow, deletable[string]{
		kind: "variable", kinds: "variables", argument: "VARIABLE", find: findVariable, remove: record.Store.DeleteVariable,
		parse: func(_, id string) (string, error) { return id, nil },
	})
}

func variableRow(v record.Variable) []string {
	unit, equation := "", ""
	if v.Unit != nil {
		unit = *v.Unit
	}
	if v.Calc && v.Equation != nil {
		equation = *v.Equation
	}
	return []string{v.Key(), v.Name, unit, v.Type, equation, strconv.FormatBool(v.Status)}
}

func findVariable(ctx context.Context, s record.Store, t record.Tenant, id string) (Deletion, error) {
	all, err := s.Export(ctx, t.Schema)
	if err != nil {
		return Deletion{}, err
	}
	i := slices.IndexFunc(all.Variables, func(v record.Variable) bool { return v.Key() == id })
	if i < 0 {
		return Deletion{}, record.ErrNotFound
	}
	d := Deletion{Name: all.Variables[i].Name}
	for _, diagram := range all.Diagrams {
		if diagram.Shows(id) {
			d.UsedBy = append(d.UsedBy, Use{"diagram", strconv.FormatInt(diagram.ID, 10), diagram.Title})
		}
	}
	return d, nil
}

func tenantMenusCommand(app *cli.App) *cobra.Command {
	return listedCommand(app, &cobra.Command{
		Use:   "menus SCHEMA list|delete [MENU]",
		Short: "List and delete menu items",
		Long: `List the menu items of a tenant, or delete one with its permissions. Where the item
allows saving diagrams or publishing (--save-menu, --publish-menu), only administrators
may do so from then on.

Without --yes nothing is deleted; the command prints what would be.`,
		Example: `  tsmon tenant menus acueducto list
  tsmon tenant menus acueducto delete 7 --dry-run
  tsmon tenant menus acueducto delete 7 --yes`,
	}, []string{"ID", "NAME", "PATH", "ACTIVE"}, record.Store.Menus, menuRow, deletable[int64]{
		kind: "menu item", kinds: "menus", argument: "MENU", parse: number, find: findMenu, remove: record.Store.DeleteMenu,
	})
}

func menuRow(m record.Menu) []string {
	return []string{strconv.FormatInt(m.ID, 10), m.Name, m.Path, strconv.FormatBool(m.Status)}
}

func findMenu(ctx context.Context, s record.Store, t record.Tenant, id int64) (Deletion, error) {
	all, err := s.Export(ctx, t.Schema)
	if err != nil {
		return Deletion{}, err
	}
	i := slices.IndexFunc(all.Menus, func(m record.Menu) bool { return m.ID == id })
	if i < 0 {
		return Deletion{}, record.ErrNotFound
	}
	d := Deletion{Name: all.Menus[i].Name}
	permissions := slices.DeleteFunc(all.Permissions, func(p record.Permission) bool { return p.Menu != id })
	d.with("permissions", len(permissions))
	if t.Settings.SaveMenu == id {
		d.UsedBy = append(d.UsedBy, Use{Kind: "setting", ID: "save-menu"})
	}
	if t.Settings.PublishMenu == id {
		d.UsedBy = append(d.UsedBy, Use{Kind: "setting", ID: "publish-menu"})
	}
	return d, nil
}
