package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

// SeriesCommand returns `tsmon series`.
func SeriesCommand(app *cli.App) *cobra.Command {
	return cli.Group("series", "Write measured values", seriesWriteCommand(app), seriesImportCommand(app))
}

const seriesHelp = `

The first argument is a tenant's schema, or the name of a time-series database.
FILE - is stdin. Samples are written in batches of 20,000. A value replaces one of
the same series and time, so the same command can be repeated. Running servers
show what was written within two seconds.

Values that are older than the tenant's retention are left out, with a warning.

A mistake is reported with its line and the number of samples written before it:
none (exit code 3), or whole batches (exit code 1).`

func seriesWriteCommand(app *cli.App) *cobra.Command {
	lines := func(r io.Reader, unit time.Duration) iter.Seq2[series.Sample, error] {
		return series.Lines(r, unit, app.Now())
	}
	return seriesCommandOf(app, lines, &cobra.Command{
		Use:   "write SCHEMA|DATABASE FILE|-",
		Short: "Write values from InfluxDB's line protocol",
		Long:  `Write values from InfluxDB's line protocol. A line without a time gets the current one.` + seriesHelp,
		Example: `  tsmon series write acueducto values.txt
  echo 'tank,site=north level=3.2' | tsmon series write acueducto -`,
	})
}

func seriesImportCommand(app *cli.App) *cobra.Command {
	return seriesCommandOf(app, series.CSV, &cobra.Command{
		Use:   "import SCHEMA|DATABASE FILE|-",
		Short: "Write values from a CSV file",
		Long: `Write values from a CSV file. The first line names the columns: time, measurement,
field and value, in any order; further columns are tags. A time is RFC 3339 or a
number. A value is a number, 12i for an integer, true, false, or a quoted text:
"""open""" in a CSV file.` + seriesHelp,
		Example: "  tsmon series import acueducto values.csv --precision s",
	})
}

// seriesCommandOf completes cmd, which writes the samples that read yields.
func seriesCommandOf(app *cli.App, read samplesOf, cmd *cobra.Command) *cobra.Command {
	var precision string
	cmd.Args = cli.Args(2, 2, "a SCHEMA or DATABASE and a FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runSeries(cmd.Context(), app, args[0], args[1], precision, read)
	}
	cmd.Flags().StringVar(&precision, "precision", "ns", "`UNIT` of numeric times: ns, us, ms or s")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("precision", cobra.FixedCompletions([]string{"ns", "us", "ms", "s"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var precisions = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// WrittenSeries is what the series commands print.
type WrittenSeries struct {
	Database string `json:"database"`
	Source   string `json:"source"`
	Samples  int    `json:"samples"`
	Expired  bool   `json:"expired,omitempty"` // some are older than the database keeps values, and were left out
}

type samplesOf func(r io.Reader, unit time.Duration) iter.Seq2[series.Sample, error]

func runSeries(ctx context.Context, app *cli.App, name, path, precision string, read samplesOf) error {
	unit, ok := precisions[precision]
	if !ok {
		return cli.Usagef("--precision is ns, us, ms or s, not %.20q", precision)
	}
	c, err := app.Load()
	if err != nil {
		return err
	}
	database, err := databaseOf(ctx, c, name)
	if err != nil {
		return err
	}
	if err := cli.CheckFile(cli.SeriesFile(c), cli.ErrNoSeries); err != nil {
		return err
	}
	progress := app.NewProgress("read")
	text, err := app.OpenInput(path, progress)
	if err != nil {
		return err
	}
	defer text.Close()
	store, err := cli.OpenSeries(ctx, c)
	if err != nil {
		return cli.ExplainSeries(err)
	}
	w := &batchWriter{store: store, database: database}
	err = errors.Join(w.writeAll(ctx, read(text, unit)), store.Close())
	if w.written > 0 {
		tellServers(ctx, app, c, database)
	}
	if err != nil {
		return w.explain(path, err)
	}
	r := WrittenSeries{database, path, w.written, w.expired != nil}
	if r.Expired {
		app.Warn([]string{"some samples were left out: " + w.expired.Error()})
	}
	if unit == time.Nanosecond && w.written > 0 && !w.later {
		app.Warn([]string{"all times are in 1970: if they are not in ns, write the values again with --precision s, ms or us"})
	}
	return app.Print(r, func(w io.Writer) {
		fmt.Fprintf(w, "wrote %s to %s\n", cli.Count(r.Samples, "sample", "samples"), r.Database)
	})
}

// tellServers makes running servers drop their caches of a database.
func tellServers(ctx context.Context, app *cli.App, c *config.Config, database string) {
	err := cli.WithRecords(ctx, c, func(s record.Store) error { return s.Wrote(ctx, database) })
	if err != nil && !errors.Is(err, cli.ErrNoRecords) {
		app.Warn([]string{fmt.Sprintf("a running server may show old means and sums for another 30 s: %v", err)})
	}
}

// databaseOf returns the database of the tenant of that name, or the name itself if
// there is no such tenant.
func databaseOf(ctx context.Context, c *config.Config, name string) (string, error) {
	if err := series.ValidDatabase(name); err != nil {
		return "", cli.Usage(fmt.Errorf("tenant or database: %w", err))
	}
	database := name
	if isSchema := record.ValidSchema(name) == nil; !isSchema {
		return database, nil
	}
	err := cli.WithRecords(ctx, c, func(s record.Store) error {
		t, err := s.Tenant(ctx, name)
		if err == nil {
			database = t.TsName
		}
		return err
	})
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, cli.ErrNoRecords) {
		err = nil
	}
	return database, err
}

const perBatch = 20_000

// batchWriter writes samples in batches and counts them.
type batchWriter struct {
	store    series.Store
	database string
	written  int
	expired  error // set if some were left out
	later    bool  // a time is not in 1970
}

func (w *batchWriter) writeAll(ctx context.Context, samples iter.Seq2[series.Sample, error]) error {
	err := series.WriteAll(samples, perBatch, func(batch []series.Sample) error {
		err := w.store.Write(ctx, w.database, batch)
		if errors.Is(err, series.ErrExpired) {
			w.expired, err = err, nil
		}
		if err != nil {
			return fmt.Errorf("samples %d to %d: %w", w.written+1, w.written+len(batch), err)
		}
		w.written += len(batch)
		for _, s := range batch {
			w.later = w.later || s.Time.Before(time.Unix(0, 0)) || s.Time.Sub(time.Unix(0, 0)) >= 366*24*time.Hour
		}
		return nil
	})
	return cmp.Or(err, ctx.Err())
}

// explain adds the number of samples written so far to an error. A mistake in the text is a
// refusal if nothing was written.
func (w *batchWriter) explain(path string, err error) error {
	if path == "-" {
		path = "stdin"
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("samples written before: %d: %w", w.written, err)
	}
	err = cli.ExplainSeries(fmt.Errorf("%s: %w; samples written before: %d", path, err, w.written))
	mistakes := []error{series.ErrInvalid, series.ErrName, series.ErrTooLarge, series.ErrKind}
	if !slices.ContainsFunc(mistakes, func(mistake error) bool { return errors.Is(err, mistake) }) {
		return err
	}
	err = cli.WithHint(err, "correct the text and run the same command again; writing the same values twice does no harm")
	if w.written == 0 {
		err = cli.Refuse(err)
	}
	return err
}
