package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/fleet"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
)

func (a *app) channelAdoptionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "adoption CHANNEL",
		Short: "Show which versions the clients of a channel have",
		Long: `Show which versions the clients of a channel have, how far they came with the
newest release, and how many of them have it since when. It reads the records and
the time series that tsmon serve writes: the configuration has to be the server's.

Clients are counted that were seen in the last 30 days and send an id, the header
X-Tsmon-Client; what the others asked is counted under anonymous.`,
		Example: `  tsmon channel adoption stable
  tsmon channel adoption stable --json`,
		Args:              exactly(1, "one CHANNEL"),
		ValidArgsFunction: a.channelNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runAdoption(cmd.Context(), args[0]) },
	}
}

func (a *app) runAdoption(ctx context.Context, channel string) error {
	log, _, err := a.loadLog(ctx, channel)
	if err != nil {
		return err
	}
	c, err := a.load()
	if err != nil {
		return err
	}
	now := a.now()
	result := fleet.NewAdoption(log, now)
	err = cli.WithRecords(ctx, c, func(records record.Store) error { return result.ReadRecords(ctx, records, now) })
	if errors.Is(err, cli.ErrNoRecords) {
		return &hinted{err, "say where tsmon serve keeps them: TSMON_DATA, or TSMON_RECORDS and TSMON_SERIES_URL, as for the server"}
	}
	if err != nil {
		return err
	}
	if err := readAdoptionSeries(ctx, c, result, now); err != nil {
		a.warn([]string{fmt.Sprintf("the time series can't be read: %v", err)})
	}
	return a.print(result, func() { drawAdoption(a.stdout, result) })
}

// readAdoptionSeries reads the time series, if there are any yet.
func readAdoptionSeries(ctx context.Context, c *config.Config, result *fleet.Adoption, now time.Time) error {
	err := cli.CheckFile(cli.SeriesFile(c), cli.ErrNoSeries)
	if errors.Is(err, cli.ErrNoSeries) {
		return nil
	}
	if err != nil {
		return err
	}
	store, err := cli.OpenSeries(ctx, c)
	if err != nil {
		return err
	}
	return cli.ExplainSeries(errors.Join(result.ReadSeries(ctx, store, now), store.Close()))
}
