package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"tsmon/api/monitor/times"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

// openValues opens the store of time series, which must exist.
func openValues(ctx context.Context, c *config.Config) (cli.SeriesStore, error) { //nolint:ireturn // of two adapters
	if err := cli.CheckFile(cli.SeriesFile(c), cli.ErrNoSeries); err != nil {
		return nil, err
	}
	store, err := cli.OpenSeries(ctx, c)
	return store, cli.ExplainSeries(err)
}

// keepValues has the time-series database of a tenant keep values as its settings say. A
// database that an operator gave a retention keeps it, unless one was asked for.
func keepValues(ctx context.Context, store series.Store, t record.Tenant, asked bool) error {
	zone, err := times.ZoneOf(t.Settings.TimeZone)
	if err != nil {
		return err
	}
	k := series.Keeping{Retention: time.Duration(t.Settings.Retention), Zone: zone}
	if k.Retention == 0 && !asked {
		k.Retention = series.AsItIs
	}
	return store.Keep(ctx, t.TsName, k)
}

// printDeleted says how many values went, if any.
func printDeleted(w io.Writer, n *int64) {
	if n != nil && *n > 0 {
		fmt.Fprintf(w, "deleted %s\n", cli.Count(*n, "value", "values"))
	}
}

// countDeleted returns how many values the retention of a tenant deletes. Without yes it
// refuses if there are any, or they can't be counted.
func countDeleted(ctx context.Context, store series.Store, t record.Tenant, now time.Time, yes bool) (*int64, error) {
	since := now.Add(-time.Duration(t.Settings.Retention))
	n, err := store.CountBefore(ctx, t.TsName, since)
	switch {
	case err != nil && yes:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case n > 0 && !yes:
		err := fmt.Errorf("a retention of %s deletes %s from before %s", t.Settings.Retention, cli.Count(n, "value", "values"), since.UTC().Format(time.DateOnly))
		return nil, cli.WithHint(cli.Refuse(err), "add --yes to delete them")
	}
	return &n, nil
}
