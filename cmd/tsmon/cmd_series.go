package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

func (a *app) seriesCommand() *cobra.Command {
	return group("series", "Write measured values", a.seriesWriteCommand(), a.seriesImportCommand())
}

const seriesHelp = `

The first argument is a tenant's schema, or the name of a time-series database.
FILE - is stdin. Samples are written in batches of 5,000; a value of the same
series and time is replaced, so that the same command may be repeated.

A mistake is named with its line, and with how many samples were written before:
none (exit code 3), or whole batches (1).`

func (a *app) seriesWriteCommand() *cobra.Command {
	var precision string
	cmd := &cobra.Command{
		Use:   "write SCHEMA|DATABASE FILE|-",
		Short: "Write values from InfluxDB's line protocol",
		Long:  `Write values from InfluxDB's line protocol. A line without a time gets the current one.` + seriesHelp,
		Example: `  tsmon series write acueducto values.txt
  echo 'tank,site=north level=3.2' | tsmon series write acueducto -`,
		Args:              exactly(2, "a SCHEMA or DATABASE and a FILE"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runSeries(cmd.Context(), args[0], args[1], precision, func(r io.Reader, unit time.Duration) iter.Seq2[series.Sample, error] {
				return series.Lines(r, unit, a.now())
			})
		},
	}
	precisionFlag(cmd, &precision)
	return cmd
}

func (a *app) seriesImportCommand() *cobra.Command {
	var precision string
	cmd := &cobra.Command{
		Use:   "import SCHEMA|DATABASE FILE|-",
		Short: "Write values from comma-separated values",
		Long: `Write values from comma-separated values. The first line names the columns: time,
measurement, field and value, in any order, and further ones that are tags. A
time is RFC 3339 or a number; a value is a number, 12i for an integer, true,
false, or a text between quotes of its own.` + seriesHelp,
		Example:           "  tsmon series import acueducto values.csv --precision s",
		Args:              exactly(2, "a SCHEMA or DATABASE and a FILE"),
		ValidArgsFunction: a.tenantNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runSeries(cmd.Context(), args[0], args[1], precision, series.CSV)
		},
	}
	precisionFlag(cmd, &precision)
	return cmd
}

var precisions = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

func precisionFlag(cmd *cobra.Command, precision *string) {
	cmd.Flags().StringVar(precision, "precision", "ns", "`UNIT` of times that are numbers: ns, us, ms or s")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("precision", cobra.FixedCompletions([]string{"ns", "us", "ms", "s"}, cobra.ShellCompDirectiveNoFileComp))
}

// writtenSeries is what the series commands print.
type writtenSeries struct {
	Database string `json:"database"`
	Source   string `json:"source"`
	Samples  int    `json:"samples"`
}

// samplesOf reads samples from a text.
type samplesOf func(r io.Reader, unit time.Duration) iter.Seq2[series.Sample, error]

func (a *app) runSeries(ctx context.Context, name, path, precision string, read samplesOf) error {
	unit, ok := precisions[precision]
	if !ok {
		return usagef("--precision is ns, us, ms or s, not %.20q", precision)
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	database, err := databaseOf(ctx, c, name)
	if err != nil {
		return err
	}
	if err := mustBeThere(seriesFile(c), errNoSeries); err != nil {
		return err
	}
	progress := a.newProgress("read")
	defer progress.done()
	text, err := a.openInput(path, progress)
	if err != nil {
		return err
	}
	defer text.Close()
	store, err := openSeries(ctx, c)
	if err != nil {
		return explainSeries(err)
	}
	w := &batchWriter{store: store, database: database}
	err = errors.Join(w.writeAll(ctx, read(text, unit)), store.Close())
	if err != nil {
		return w.explain(path, err)
	}
	r := writtenSeries{database, path, w.written}
	return a.print(r, func() { fmt.Fprintf(a.stdout, "wrote %d samples to %s\n", r.Samples, r.Database) })
}

// databaseOf returns the database of the tenant of that name, or the name itself
// where there is no such tenant.
func databaseOf(ctx context.Context, c *config.Config, name string) (string, error) {
	if err := series.ValidDatabase(name); err != nil {
		return "", &usageError{err}
	}
	database := name
	if record.ValidSchema(name) != nil {
		return database, nil
	}
	err := withRecordsOf(ctx, c, func(s record.Store) error {
		t, err := s.Tenant(ctx, name)
		if err == nil {
			database = t.TsName
		}
		return err
	})
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, errNoRecords) {
		err = nil
	}
	return database, err
}

// openInput opens a file, whose reading is shown as progress, or stdin.
func (a *app) openInput(path string, p *progress) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = usagef("%s is a folder", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &shownFile{file, path, info.Size(), p}, nil
}

// shownFile reports what is read of it.
type shownFile struct {
	*os.File
	path     string
	size     int64
	progress *progress
}

func (f *shownFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.progress.transferred(f.path, n, f.size)
	return n, err
}

// perBatch is the number of samples that are written at once.
const perBatch = 5000

// batchWriter writes samples in batches and knows how many are written.
type batchWriter struct {
	store    series.Store
	database string
	written  int
	batch    []series.Sample
}

// writeAll writes whole batches, and the last one only where no mistake follows.
func (w *batchWriter) writeAll(ctx context.Context, samples iter.Seq2[series.Sample, error]) error {
	for s, err := range samples {
		if err != nil {
			return err
		}
		if w.batch = append(w.batch, s); len(w.batch) == perBatch {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

func (w *batchWriter) flush(ctx context.Context) error {
	if len(w.batch) == 0 {
		return ctx.Err()
	}
	if err := w.store.Write(ctx, w.database, w.batch); err != nil {
		return fmt.Errorf("samples %d to %d: %w", w.written+1, w.written+len(w.batch), err)
	}
	w.written += len(w.batch)
	w.batch = w.batch[:0]
	return nil
}

// explain says what was written before an error. What is wrong with the text is
// refused where that is nothing.
func (w *batchWriter) explain(path string, err error) error {
	if path == "-" {
		path = "stdin"
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%d samples were written before: %w", w.written, err)
	}
	err = explainSeries(fmt.Errorf("%s: %w; %d samples were written before", path, err, w.written))
	for _, mistake := range []error{series.ErrInvalid, series.ErrName, series.ErrTooLarge, series.ErrKind} {
		if !errors.Is(err, mistake) {
			continue
		}
		err = &hinted{err, "mend the text and run the same command again; what was written already is only replaced by itself"}
		if w.written == 0 {
			err = &refused{err}
		}
		return err
	}
	return err
}
