// Package admin holds the commands that administer the monitoring side: tenants,
// users and time series.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tsmon/api/fleet"
	"tsmon/api/monitor"
	"tsmon/api/monitor/mqtt"
	"tsmon/api/monitor/times"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

// TenantCommand returns `tsmon tenant`.
func TenantCommand(app *cli.App) *cobra.Command {
	return cli.Group("tenant", "Create, change and delete tenants, export and import what they own",
		tenantCreateCommand(app), tenantListCommand(app), tenantUpdateCommand(app), tenantDeleteCommand(app),
		tenantExportCommand(app), tenantImportCommand(app),
		tenantDiagramsCommand(app), tenantVariablesCommand(app), tenantMenusCommand(app), tenantAuditCommand(app))
}

func withRecords(ctx context.Context, app *cli.App, f func(record.Store) error) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	return cli.WithRecords(ctx, c, f)
}

// fromRecords returns what read finds in the configured store of records.
func fromRecords[T any](ctx context.Context, app *cli.App, read func(record.Store) (T, error)) (found T, err error) {
	err = withRecords(ctx, app, func(s record.Store) (err error) {
		found, err = read(s)
		return err
	})
	return found, err
}

// printAll prints what read finds in the configured records: as JSON, or as a table with a row
// for each item.
func printAll[T any](ctx context.Context, app *cli.App, heading []string, read func(record.Store) ([]T, error), row func(T) []string) error {
	items, err := fromRecords(ctx, app, read)
	if err != nil {
		return err
	}
	return printTable(app, items, heading, row)
}

func printTable[T any](app *cli.App, items []T, heading []string, row func(T) []string) error {
	items = append([]T{}, items...) // a list in JSON
	rows := [][]string{heading}
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return app.Print(items, func(w io.Writer) { cli.Table(w, rows) })
}

// CreatedTenant is what `tsmon tenant create` prints.
type CreatedTenant struct {
	record.Tenant
	Created bool   `json:"created"`           // false if it existed already
	Deletes *int64 `json:"deletes,omitempty"` // values in the database that the retention deletes
}

func tenantCreateCommand(app *cli.App) *cobra.Command {
	var t record.Tenant
	var yes bool
	cmd := &cobra.Command{
		Use:   "create SCHEMA --ts-name NAME",
		Short: "Create a tenant and its time-series database",
		Long: `Create a tenant: the schema for its records and the database for its time series.
If the same tenant exists, the command does nothing, so an interrupted command can be
repeated. If a tenant with another database or other settings exists, the command is
refused. The data folder is created if it is missing (mode 0700).`,
		Example: `  tsmon tenant create acueducto --ts-name ts_acueducto
  tsmon tenant create acueducto --ts-name ts_acueducto --time-zone America/Bogota --save-menu 2`,
		Args:              cli.Args(1, 1, "one SCHEMA"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Schema = args[0]
			return runTenantCreate(cmd.Context(), app, t, yes)
		},
	}
	cmd.Flags().StringVar(&t.TsName, "ts-name", "", "`NAME` of the time-series database")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete the existing values that --retention does not keep")
	settingFlags(cmd, &t.Settings)
	return cmd
}

func runTenantCreate(ctx context.Context, app *cli.App, t record.Tenant, yes bool) error {
	if t.TsName == "" {
		return cli.Usagef("--ts-name is missing: it names the tenant's time-series database")
	}
	if err := checkTenant(t); err != nil {
		return cli.Usage(err)
	}
	c, err := app.Load()
	if err != nil {
		return err
	}
	result := CreatedTenant{Tenant: t}
	if err = createTenant(ctx, app, c, &result, yes); err != nil {
		return err
	}
	return app.Print(result, func(w io.Writer) {
		if result.Created {
			fmt.Fprintf(w, "created %s with the database %s\n", t.Schema, t.TsName)
		} else {
			fmt.Fprintf(w, "%s existed already\n", t.Schema)
		}
		printDeleted(w, result.Deletes)
	})
}

// createTenant creates the files that are not configured elsewhere, the tenant,
// then its database: a repetition completes what an interruption left. The database may
// have values already.
func createTenant(ctx context.Context, app *cli.App, c *config.Config, t *CreatedTenant, yes bool) error {
	if err := errors.Join(cli.MakeFile(cli.RecordsFile(c)), cli.MakeFile(cli.SeriesFile(c))); err != nil {
		return err
	}
	values, err := cli.OpenSeries(ctx, c)
	if err != nil {
		return cli.ExplainSeries(err)
	}
	if t.Settings.Retention != 0 {
		if t.Deletes, err = countDeleted(ctx, app, values, t.Tenant, yes); errors.Is(err, series.ErrNoDatabase) {
			err = nil
		}
		err = cli.ExplainSeries(err)
	}
	if err == nil {
		err = cli.WithRecords(ctx, c, func(records record.Store) error {
			t.Created, err = addTenant(ctx, records, t.Tenant)
			return err
		})
	}
	if err == nil {
		err = cli.ExplainSeries(values.Create(ctx, t.TsName))
	}
	if err == nil {
		err = cli.ExplainSeries(keepValues(ctx, values, t.Tenant, false))
	}
	return errors.Join(err, values.Close())
}

func addTenant(ctx context.Context, records record.Store, t record.Tenant) (created bool, err error) {
	tenants, err := records.Tenants(ctx)
	if err != nil {
		return false, err
	}
	if err := checkShared(t, tenants); err != nil {
		return false, err
	}
	created = !slices.ContainsFunc(tenants, func(other record.Tenant) bool { return other.Schema == t.Schema })
	err = records.CreateTenant(ctx, t)
	if errors.Is(err, record.ErrExists) {
		err = cli.WithHint(err, "`tsmon tenant list --json` shows the tenants and their settings")
	}
	return created, err
}

// checkShared refuses a database or topics that belong to another tenant.
func checkShared(t record.Tenant, tenants []record.Tenant) error {
	for _, other := range tenants {
		own, theirs := monitor.TopicPrefix(t), monitor.TopicPrefix(other)
		switch {
		case other.Schema == t.Schema:
		case other.TsName == t.TsName:
			err := fmt.Errorf("the database %s belongs to the tenant %s", t.TsName, other.Schema)
			return cli.WithHint(cli.Refuse(err), "choose another with --ts-name")
		case strings.HasPrefix(own, theirs) || strings.HasPrefix(theirs, own):
			err := fmt.Errorf("the topics below %s belong to the tenant %s", theirs, other.Schema)
			return cli.WithHint(cli.Refuse(err), "choose others with --topic-prefix")
		}
	}
	return nil
}

func settingFlags(cmd *cobra.Command, s *record.Settings) {
	flags := cmd.Flags()
	flags.StringVar(&s.TimeZone, "time-zone", "", "IANA `ZONE` of times that are shown as text (default UTC)")
	flags.StringVar(&s.TimeLayout, "time-layout", "", "`LAYOUT` of such times, in Go's notation (3:04:05 PM on 2 January 2006); PM becomes a. m. or p. m. in Spanish (default \"02/01/06, 03:04 PM\")")
	flags.StringVar(&s.Language, "language", "", "`LANGUAGE` of month names, day names and AM/PM in such times: es or en (default es)")
	flags.DurationVar((*time.Duration)(&s.SeriesRange), "series-range", 0, "`TIME` that a series covers if the request names none (default 24h)")
	flags.DurationVar((*time.Duration)(&s.Window), "window", 0, "`TIME` over which mean, max, min and sum are computed (default 24h)")
	flags.Int64Var(&s.SaveMenu, "save-menu", 0, "`ID` of the menu item whose permission allows saving diagrams (default: administrators only)")
	flags.Int64Var(&s.PublishMenu, "publish-menu", 0, "`ID` of the menu item whose permission allows publishing (default: administrators only)")
	flags.Var((*ageFlag)(&s.Retention), "retention", "`AGE` at which values are deleted: 2y, 6w, 90d or 36h; hourly figures are kept five times as long (default: never)")
	flags.StringVar(&s.TopicPrefix, "topic-prefix", "", "`TOPIC` that prefixes published topics (default: the schema)")
}

type ageFlag record.Age

func (a *ageFlag) String() string { return record.Age(*a).String() }

// Set parses an age. Its error does not quote the text, which pflag does.
func (a *ageFlag) Set(text string) error {
	if (*record.Age)(a).UnmarshalText([]byte(text)) != nil {
		return cli.WithHint(errors.New("it is not a number of years, weeks, days or hours"), "write it like 2y, 6w, 90d or 36h")
	}
	return nil
}

func (a *ageFlag) Type() string { return "age" }

// maxSpan is the longest time that a series or an aggregate may cover.
const maxSpan = 366 * 24 * time.Hour

func checkTenant(t record.Tenant) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := series.ValidDatabase(t.TsName); err != nil {
		return fmt.Errorf("--ts-name: %w", err)
	}
	if t.TsName == fleet.Database {
		return fmt.Errorf("--ts-name: %s is reserved for the time series of updates", t.TsName)
	}
	s := t.Settings
	if err := times.CheckSettings(s); err != nil {
		return err
	}
	switch {
	case time.Duration(max(s.SeriesRange, s.Window)) > maxSpan:
		return fmt.Errorf("--series-range and --window are at most %s", maxSpan)
	case s.SeriesRange < 0 || s.Window < 0 || s.SaveMenu < 0 || s.PublishMenu < 0:
		return errors.New("--series-range, --window, --save-menu and --publish-menu can't be below zero")
	}
	if err := series.ValidKeeping(series.Keeping{Retention: time.Duration(s.Retention)}); err != nil {
		return fmt.Errorf("--retention: %w", err)
	}
	if err := mqtt.ValidTopic(cmp.Or(s.TopicPrefix, t.Schema) + "/x"); err != nil {
		return fmt.Errorf("--topic-prefix: %w", err)
	}
	return nil
}

// UpdatedTenant is what `tsmon tenant update` prints.
type UpdatedTenant struct {
	record.Tenant
	Deletes *int64 `json:"deletes,omitempty"` // values that the retention deletes
}

func tenantUpdateCommand(app *cli.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "update SCHEMA",
		Short: "Change settings of a tenant",
		Long: `Change those settings of a tenant whose flags are given; an empty text or 0 restores
the default. Running servers apply them within a minute.

A shorter --retention deletes values. The command prints how many, and does nothing
without --yes. With --yes it also goes on if the values can't be counted, with a warning.
Hourly figures are kept five times as long as values. The embedded store deletes whole
days. InfluxDB deletes shards of a day or a week once all of their values are too old; the
hourly figures are written first, which may take minutes.`,
		Example: `  tsmon tenant update acueducto --save-menu 2 --time-zone America/Bogota
  tsmon tenant update acueducto --retention 2y`,
		Args: cli.Args(1, 1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTenantUpdate(cmd, app, args[0], yes)
		},
	}
	settingFlags(cmd, &record.Settings{})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete the values that --retention does not keep")
	return cmd
}

func runTenantUpdate(cmd *cobra.Command, app *cli.App, schema string, yes bool) error {
	ctx := cmd.Context()
	c, err := app.Load()
	if err != nil {
		return err
	}
	var updated UpdatedTenant
	err = cli.WithRecords(ctx, c, func(records record.Store) (err error) {
		if updated.Tenant, err = records.Tenant(ctx, schema); err != nil {
			return err
		}
		before := updated.Settings
		if err := change(&updated.Settings, cmd); err != nil {
			return err
		}
		if err := checkTenant(updated.Tenant); err != nil {
			return cli.Usage(err)
		}
		tenants, err := records.Tenants(ctx)
		if err == nil {
			err = checkShared(updated.Tenant, tenants)
		}
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("retention") && updated.Settings.TimeZone == before.TimeZone {
			return records.UpdateTenant(ctx, updated.Tenant)
		}
		return cli.WithSeries(ctx, c, func(values cli.SeriesStore) (err error) {
			if cmd.Flags().Changed("retention") && updated.Settings.Retention != 0 {
				updated.Deletes, err = countDeleted(ctx, app, values, updated.Tenant, yes)
			}
			if err == nil {
				err = records.UpdateTenant(ctx, updated.Tenant)
			}
			if err == nil {
				err = keepValues(ctx, values, updated.Tenant, cmd.Flags().Changed("retention"))
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return app.Print(updated, func(w io.Writer) {
		fmt.Fprintf(w, "updated %s\n", updated.Schema)
		printDeleted(w, updated.Deletes)
	})
}

func change(s *record.Settings, given *cobra.Command) (err error) {
	before := *s
	changed := &cobra.Command{}
	settingFlags(changed, s) // which sets defaults
	*s = before
	given.Flags().Visit(func(f *pflag.Flag) {
		if changed.Flags().Lookup(f.Name) != nil {
			err = errors.Join(err, changed.Flags().Set(f.Name, f.Value.String()))
		}
	})
	return err
}

func tenantListCommand(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tenants and their time-series databases",
		Example: "  tsmon tenant list --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tenants, err := fromRecords(cmd.Context(), app, func(s record.Store) ([]record.Tenant, error) { return s.Tenants(cmd.Context()) })
			if err != nil && !errors.Is(err, cli.ErrNoRecords) {
				return err
			}
			return printTable(app, tenants, []string{"SCHEMA", "DATABASE", "TIME ZONE"}, func(t record.Tenant) []string {
				return []string{t.Schema, t.TsName, t.Settings.TimeZone}
			})
		},
	}
}
