package guarding

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/showing"
	"tsmon/store/record"
)

// AdoptionCommand returns `tsmon channel adoption`.
func AdoptionCommand(app *cli.App) *cobra.Command {
	server := ""
	cmd := &cobra.Command{
		Use:   "adoption CHANNEL",
		Short: "Show which versions the clients of a channel have",
		Long: `Show which versions the clients of a channel have, and how far and how fast the newest
release has spread. The command reads the records and the time series that tsmon serve
writes, so it needs the server's configuration. With --server it asks a running server
instead; then it needs only the server's metrics key (server.metrics_key), from
TSMON_METRICS_KEY or tsmon.yaml.

A client is counted if it sent an ID in the header X-Tsmon-Client within the last 30
days. Requests without an ID are counted as anonymous.`,
		Example: `  tsmon channel adoption stable
  tsmon channel adoption stable --server https://releases.example.com
  tsmon channel adoption stable --json`,
		Args: cli.Args(1, 1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("server") {
				return runAdoptionOf(cmd.Context(), app, server, args[0])
			}
			return runAdoption(cmd.Context(), app, args[0])
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "ask the tsmon serve at this `URL` instead of reading the records")
	return cmd
}

func runAdoption(ctx context.Context, app *cli.App, channel string) error {
	c, _, log, err := showing.LoadLog(ctx, app, channel)
	if err != nil {
		return err
	}
	now := app.Now()
	result := fleet.NewAdoption(log)
	err = cli.WithRecords(ctx, c, func(records record.Store) error { return result.ReadRecords(ctx, records, now) })
	if errors.Is(err, cli.ErrNoRecords) {
		return cli.WithHint(err, "set TSMON_DATA, or TSMON_RECORDS and TSMON_SERIES_URL, as for tsmon serve")
	}
	if err == nil {
		result.Guard, err = app.Judge(ctx, c, log)
	}
	if err != nil {
		return err
	}
	err = cli.WithSeries(ctx, c, func(store cli.SeriesStore) error { return result.ReadSeries(ctx, store, now) })
	if err != nil && !errors.Is(err, cli.ErrNoSeries) { // there may be none yet
		app.Warn([]string{fmt.Sprintf("the time series can't be read: %v", err)})
	}
	return app.Print(result, func(w io.Writer) { drawAdoption(w, result) })
}
