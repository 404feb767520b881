package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tsmon/api/monitor/times"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
	"tsmon/store/series"
)

// keepValues sets the retention of a tenant's time-series database. A retention that an
// operator set in InfluxDB is kept, unless one was asked for.
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

func printDeleted(w io.Writer, n *int64) {
	if n != nil && *n > 0 {
		fmt.Fprintf(w, "deleted %s\n", cli.Count(*n, "value", "values"))
	}
}

// countDeleted returns how many values the retention of a tenant deletes. Without yes it
// refuses if there are any, or they can't be counted; with yes that is a warning.
func countDeleted(ctx context.Context, app *cli.App, store series.Store, t record.Tenant, yes bool) (*int64, error) {
	since := app.Now().Add(-time.Duration(t.Settings.Retention))
	n, err := countBefore(ctx, app, store, t.TsName, since)
	switch {
	case err != nil && yes && ctx.Err() == nil && !errors.Is(err, series.ErrNoDatabase):
		app.Warn([]string{fmt.Sprintf("how many values are deleted is not known: %v", err)})
		return nil, nil //nolint:nilnil // the number is optional
	case err != nil:
		return nil, err
	case n > 0 && !yes:
		err := fmt.Errorf("a retention of %s deletes %s from before %s", t.Settings.Retention, cli.Count(n, "value", "values"), since.UTC().Format(time.DateOnly))
		return nil, cli.WithHint(cli.Refuse(err), "add --yes to delete them")
	}
	return &n, nil
}

// quietTime is how long values are counted before a message says so.
const quietTime = 3 * time.Second

// countBefore calls store.CountBefore, with a message if that takes long.
func countBefore(ctx context.Context, app *cli.App, store series.Store, database string, since time.Time) (int64, error) {
	message := time.AfterFunc(quietTime, func() {
		app.Say("counting values from before %s; in a large database that may take minutes", since.UTC().Format(time.DateOnly))
	})
	defer message.Stop()
	return store.CountBefore(ctx, database, since)
}
