package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // --time-zone means the same on machines without zone files

	"github.com/spf13/cobra"

	"tsmon/api/fleet"
	"tsmon/api/monitor"
	"tsmon/api/monitor/mqtt"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

func (a *app) tenantCommand() *cobra.Command {
	return group("tenant", "Create and change tenants, export and import what they own",
		a.tenantCreateCommand(), a.tenantListCommand(), a.tenantUpdateCommand(), a.tenantExportCommand(), a.tenantImportCommand(), a.tenantAuditCommand())
}

// tenantNames completes the name of a tenant in the first argument, from a file
// only: a server may take its time.
func (a *app) tenantNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	c, err := a.load()
	if err != nil || recordsFile(c) == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err = withRecordsOf(cmd.Context(), c, func(s record.Store) error {
		tenants, err := s.Tenants(cmd.Context())
		for _, t := range tenants {
			names = append(names, t.Schema)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// createdTenant is what `tsmon tenant create` prints.
type createdTenant struct {
	record.Tenant
	Created bool `json:"created"` // false if it was there already
}

func (a *app) tenantCreateCommand() *cobra.Command {
	var t record.Tenant
	cmd := &cobra.Command{
		Use:   "create SCHEMA --ts-name NAME",
		Short: "Create a tenant and its time-series database",
		Long: `Create a tenant: the schema of its records and the database of its time series.
Where the same tenant stands already nothing is done, so that an interrupted
command can be repeated; one with another database or other settings is left as
it is and refused. The data folder is made if need be (mode 0700).`,
		Example: `  tsmon tenant create acueducto --ts-name ts_acueducto
  tsmon tenant create acueducto --ts-name ts_acueducto --time-zone America/Bogota --save-menu 2`,
		Args: exactly(1, "one SCHEMA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Schema = args[0]
			return a.runTenantCreate(cmd.Context(), t)
		},
	}
	cmd.Flags().StringVar(&t.TsName, "ts-name", "", "`NAME` of the time-series database")
	settingFlags(cmd, &t.Settings)
	return cmd
}

// settingFlags are those of a tenant's settings.
func settingFlags(cmd *cobra.Command, s *record.Settings) {
	flags := cmd.Flags()
	flags.StringVar(&s.TimeZone, "time-zone", "", "IANA `ZONE` of times that are shown as text (default UTC)")
	flags.StringVar(&s.TimeLayout, "time-layout", "", "`LAYOUT` of such times, as Go writes 3:04:05 PM on 2 January 2006; PM stands for a. m. and p. m. (default \"02/01/06, 03:04 PM\")")
	flags.DurationVar((*time.Duration)(&s.SeriesRange), "series-range", 0, "`TIME` that a series covers unless asked otherwise (default 24h)")
	flags.DurationVar((*time.Duration)(&s.Window), "window", 0, "`TIME` that mean, max, min and sum cover (default 24h)")
	flags.Int64Var(&s.SaveMenu, "save-menu", 0, "`ID` of the menu item whose grant allows saving diagrams (default: administrators may)")
	flags.Int64Var(&s.PublishMenu, "publish-menu", 0, "`ID` of the menu item whose grant allows publishing (default: administrators may)")
	flags.StringVar(&s.TopicPrefix, "topic-prefix", "", "`TOPIC` that published topics lie under (default: the schema)")
}

func (a *app) tenantUpdateCommand() *cobra.Command {
	var s record.Settings
	cmd := &cobra.Command{
		Use:   "update SCHEMA",
		Short: "Change settings of a tenant",
		Long: `Change those settings of a tenant whose flags are given; an empty text or 0 is the
default again. Running servers take them up within a minute.`,
		Example:           "  tsmon tenant update acueducto --save-menu 2 --time-zone America/Bogota",
		Args:              exactly(1, "one SCHEMA"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runTenantUpdate(cmd.Context(), args[0], cmd.Flags().Changed, s)
		},
	}
	settingFlags(cmd, &s)
	return cmd
}

func (a *app) runTenantUpdate(ctx context.Context, schema string, changed func(flag string) bool, given record.Settings) error {
	var updated record.Tenant
	err := a.withRecords(ctx, func(records record.Store) (err error) {
		if updated, err = records.Tenant(ctx, schema); err != nil {
			return fmt.Errorf("%.80q: %w", schema, err)
		}
		change(&updated.Settings, given, changed)
		if err := checkTenant(updated); err != nil {
			return &usageError{err}
		}
		tenants, err := records.Tenants(ctx)
		if err == nil {
			err = apart(updated, tenants)
		}
		if err != nil {
			return err
		}
		return records.UpdateTenant(ctx, updated)
	})
	if err != nil {
		return err
	}
	return a.print(updated, func() { fmt.Fprintf(a.stdout, "updated %s\n", updated.Schema) })
}

// change takes over the settings whose flags were given.
func change(s *record.Settings, given record.Settings, changed func(flag string) bool) {
	if changed("time-zone") {
		s.TimeZone = given.TimeZone
	}
	if changed("time-layout") {
		s.TimeLayout = given.TimeLayout
	}
	if changed("series-range") {
		s.SeriesRange = given.SeriesRange
	}
	if changed("window") {
		s.Window = given.Window
	}
	if changed("save-menu") {
		s.SaveMenu = given.SaveMenu
	}
	if changed("publish-menu") {
		s.PublishMenu = given.PublishMenu
	}
	if changed("topic-prefix") {
		s.TopicPrefix = given.TopicPrefix
	}
}

func (a *app) runTenantCreate(ctx context.Context, t record.Tenant) error {
	if t.TsName == "" {
		return usagef("--ts-name is missing: it names the tenant's time-series database")
	}
	if err := checkTenant(t); err != nil {
		return &usageError{err}
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	result := createdTenant{Tenant: t}
	if result.Created, err = createTenant(ctx, c, t); err != nil {
		return err
	}
	return a.print(result, func() {
		if result.Created {
			fmt.Fprintf(a.stdout, "created %s with the database %s\n", t.Schema, t.TsName)
		} else {
			fmt.Fprintf(a.stdout, "%s was there already\n", t.Schema)
		}
	})
}

func checkTenant(t record.Tenant) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := series.ValidDatabase(t.TsName); err != nil {
		return fmt.Errorf("--ts-name: %w", err)
	}
	if t.TsName == fleet.Database {
		return fmt.Errorf("--ts-name: the time series of updates are kept in %s", t.TsName)
	}
	s := t.Settings
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
		return fmt.Errorf("--time-zone: %.80q is no IANA zone, such as America/Bogota", s.TimeZone)
	}
	switch layout := s.TimeLayout; {
	case layout != "" && time.Unix(0, 0).UTC().Format(layout) == layout:
		return fmt.Errorf("--time-layout: %.80q shows no time", layout)
	case time.Duration(max(s.SeriesRange, s.Window)) > maxSpan:
		return fmt.Errorf("--series-range and --window are at most %s", maxSpan)
	case s.SeriesRange < 0 || s.Window < 0 || s.SaveMenu < 0 || s.PublishMenu < 0:
		return errors.New("--series-range, --window, --save-menu and --publish-menu can't be below zero")
	}
	if err := mqtt.ValidTopic(cmp.Or(s.TopicPrefix, t.Schema) + "/x"); err != nil {
		return fmt.Errorf("--topic-prefix: %w", err)
	}
	return nil
}

// maxSpan is the longest time that a series or an aggregate may cover.
const maxSpan = 366 * 24 * time.Hour

// createTenant makes the files where none are configured elsewhere, the tenant
// and then its database: a repetition completes what an interruption left.
func createTenant(ctx context.Context, c *config.Config, t record.Tenant) (created bool, err error) {
	if err := errors.Join(makeFile(recordsFile(c)), makeFile(seriesFile(c))); err != nil {
		return false, err
	}
	values, err := openSeries(ctx, c)
	if err != nil {
		return false, explainSeries(err)
	}
	err = withRecordsOf(ctx, c, func(records record.Store) error {
		created, err = addTenant(ctx, records, t)
		return err
	})
	if err == nil {
		err = explainSeries(values.Create(ctx, t.TsName))
	}
	return created, errors.Join(err, values.Close())
}

// addTenant refuses a database that belongs to another tenant, whose values it
// would show.
func addTenant(ctx context.Context, records record.Store, t record.Tenant) (created bool, err error) {
	tenants, err := records.Tenants(ctx)
	if err != nil {
		return false, err
	}
	if err := apart(t, tenants); err != nil {
		return false, err
	}
	created = !slices.ContainsFunc(tenants, func(other record.Tenant) bool { return other.Schema == t.Schema })
	err = records.CreateTenant(ctx, t)
	if errors.Is(err, record.ErrExists) {
		err = &hinted{err, "`tsmon tenant list --json` shows the tenants and their settings"}
	}
	return created, err
}

// apart refuses what a tenant would share with another one: values, and topics.
func apart(t record.Tenant, tenants []record.Tenant) error {
	for _, other := range tenants {
		mine, theirs := monitor.TopicPrefix(t), monitor.TopicPrefix(other)
		switch {
		case other.Schema == t.Schema:
		case other.TsName == t.TsName:
			return &hinted{&refused{fmt.Errorf("the database %s belongs to the tenant %s", t.TsName, other.Schema)}, "name another with --ts-name"}
		case strings.HasPrefix(mine, theirs) || strings.HasPrefix(theirs, mine):
			return &hinted{&refused{fmt.Errorf("the topics below %s belong to the tenant %s", theirs, other.Schema)}, "name others with --topic-prefix"}
		}
	}
	return nil
}

func (a *app) tenantListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tenants and their time-series databases",
		Example: "  tsmon tenant list --json",
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runTenantList(cmd.Context()) },
	}
}

func (a *app) runTenantList(ctx context.Context) error {
	tenants := []record.Tenant{}
	err := a.withRecords(ctx, func(s record.Store) error {
		list, err := s.Tenants(ctx)
		tenants = append(tenants, list...)
		return err
	})
	if err != nil && !errors.Is(err, errNoRecords) {
		return err
	}
	rows := [][]string{{"SCHEMA", "DATABASE", "TIME ZONE"}}
	for _, t := range tenants {
		rows = append(rows, []string{t.Schema, t.TsName, t.Settings.TimeZone})
	}
	return a.print(tenants, func() { table(a.stdout, rows) })
}

func (a *app) tenantExportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "export SCHEMA",
		Short: "Write what a tenant owns, except its users, as YAML or JSON",
		Long: `Write what a tenant owns as one file that tenant import takes: variables, diagrams,
menus, permissions, notification configuration and charts, as they stood at one
moment. Users and their tokens are not among it. It is JSON with --json or where
the file's name ends in .json, else YAML.`,
		Example: `  tsmon tenant export acueducto --output acueducto.yaml
  tsmon tenant export acueducto --json`,
		Args:              exactly(1, "one SCHEMA"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runTenantExport(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` (default stdout)")
	return cmd
}

func (a *app) runTenantExport(ctx context.Context, schema, output string) error {
	var content record.Content
	err := a.withRecords(ctx, func(s record.Store) (err error) {
		content, err = s.Export(ctx, schema)
		return err
	})
	if err != nil {
		return err
	}
	encode := encodeYAML
	if a.json || strings.HasSuffix(output, ".json") {
		encode = encodeJSON
	}
	data, err := encode(content)
	if err != nil {
		return err
	}
	if output == "" {
		_, err = a.stdout.Write(data)
		return err
	}
	if err = writeFile(output, 0o600, data); err == nil {
		a.say("wrote %s", output)
	}
	return err
}

func (a *app) tenantImportCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import SCHEMA FILE",
		Short: "Store variables, diagrams, menus and more from a YAML or JSON file",
		Long: `Store what a file names, all of it or nothing: variables, diagrams, menus,
permissions, notifications and charts, each a member of the file that may be
missing. What has the id of something that is there replaces it, everything else
stays; importing the same file again changes nothing. FILE - is stdin.

The file is checked first. Its mistakes are named with their lines, and nothing is
stored (exit code 3). It has at most 32 MiB; YAML has neither anchors, aliases nor
tags of its own.`,
		Example: `  tsmon tenant import acueducto acueducto.yaml --dry-run
  tsmon tenant import acueducto acueducto.yaml
  tsmon tenant export acueducto --json | tsmon tenant import copy -`,
		Args:              exactly(2, "a SCHEMA and a FILE"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runTenantImport(cmd.Context(), args[0], args[1], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check the file, store nothing")
	return cmd
}

// importedContent is what `tsmon tenant import` prints.
type importedContent struct {
	Schema        string `json:"schema"`
	DryRun        bool   `json:"dry_run"`
	Variables     int    `json:"variables"`
	Diagrams      int    `json:"diagrams"`
	Menus         int    `json:"menus"`
	Permissions   int    `json:"permissions"`
	Notifications int    `json:"notifications"` // device kinds
	Charts        int    `json:"charts"`
}

func (a *app) runTenantImport(ctx context.Context, schema, path string, dryRun bool) error {
	f, err := a.readContent(path)
	if err != nil {
		return err
	}
	err = a.withRecords(ctx, func(s record.Store) error {
		known, err := s.Menus(ctx, schema) // also finds out whether there is such a tenant
		if err != nil {
			return err
		}
		if err := f.checkMenus(known); err != nil || dryRun {
			return err
		}
		return s.Import(ctx, schema, f.content)
	})
	if err != nil {
		return err
	}
	c := f.content
	r := importedContent{schema, dryRun, len(c.Variables), len(c.Diagrams), len(c.Menus), len(c.Permissions), len(c.Notifications), len(c.Charts)}
	verb := "imported into"
	if dryRun {
		verb = "valid for"
	}
	return a.print(r, func() {
		fmt.Fprintf(a.stdout, "%s %s: %d variables, %d diagrams, %d menus, %d permissions, %d device kinds, %d charts\n",
			verb, schema, r.Variables, r.Diagrams, r.Menus, r.Permissions, r.Notifications, r.Charts)
	})
}

// readContent reads and checks a file, or stdin.
func (a *app) readContent(path string) (*contentFile, error) {
	if path == "-" {
		return readContentFile("stdin", a.stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readContentFile(path, file)
}
