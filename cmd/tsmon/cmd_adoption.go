package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api"
	"tsmon/channels"
	"tsmon/cmd/tsmon/config"
	"tsmon/release"
	"tsmon/store/record"
	"tsmon/store/series"
)

// adoption is what `tsmon channel adoption` prints.
type adoption struct {
	Channel string         `json:"channel"`
	Version string         `json:"version"` // that everybody gets
	Rollout *release.Share `json:"rollout,omitempty"`
	// Clients were seen in the last 30 days.
	Clients  int            `json:"clients"`
	Versions []versionCount `json:"versions"` // most clients first
	Groups   []groupCount   `json:"groups"`   // the same by version, target and cohort
	Newest   newestCounts   `json:"newest"`
	// Day is what clients did in the last 24 hours, Curve how many had the newest
	// version since it came to the channel; nil without time series.
	Day   map[string]int64 `json:"last_24_hours"`
	Curve []curvePoint     `json:"curve"`
}

type versionCount struct {
	Version string  `json:"version"`
	Clients int     `json:"clients"`
	Percent float64 `json:"percent"`
}

type groupCount struct {
	Version string `json:"version"`
	Target  string `json:"target"`
	Cohort  string `json:"cohort,omitempty"`
	Clients int    `json:"clients"`
}

// newestCounts are clients by what they came to with the newest release; each is
// in one of them.
type newestCounts struct {
	Version string `json:"version"`
	Offered int    `json:"offered"` // and not downloaded
	Waiting int    `json:"waiting"` // downloaded, and no more is known
	Running int    `json:"running"`
	Kept    int    `json:"kept"` // downloaded, and back with the old version
	Failed  int    `json:"failed"`
	Crashed int    `json:"crashed"`
}

type curvePoint struct {
	Time    time.Time `json:"time"`
	Clients float64   `json:"clients"` // mean over the time to the next point; the last is now
}

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
	result := &adoption{Channel: channel, Version: log.Head().Version, Versions: []versionCount{}, Groups: []groupCount{}}
	if r := log.Head().Rollout; r != nil {
		result.Rollout = release.ShareOf(r, now)
	}
	result.Newest.Version = log.Head().Newest()
	err = withRecordsOf(ctx, c, func(records record.Store) error { return result.readRecords(ctx, records, now) })
	if errors.Is(err, errNoRecords) {
		return &hinted{err, "say where tsmon serve keeps them: TSMON_DATA, or TSMON_RECORDS and TSMON_SERIES_URL, as for the server"}
	}
	if err != nil {
		return err
	}
	if err := result.readSeries(ctx, c, firstOf(log, result.Newest.Version), now); err != nil {
		a.warn([]string{fmt.Sprintf("the time series can't be read: %v", err)})
	}
	return a.print(result, func() { result.draw(a.stdout) })
}

// firstOf is when a version first came to a channel.
func firstOf(log *channels.Log, version string) time.Time {
	for _, e := range log.Entries {
		if e.Newest() == version {
			return e.When
		}
	}
	return log.Head().When
}

func (r *adoption) readRecords(ctx context.Context, records record.Store, now time.Time) error {
	groups, err := records.Clients(ctx, r.Channel, now.Add(-api.AdoptionTime))
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, g := range groups {
		r.Groups = append(r.Groups, groupCount(g))
		r.Clients += g.Clients
		counts[g.Version] += g.Clients
	}
	for version, n := range counts {
		r.Versions = append(r.Versions, versionCount{version, n, math.Round(1000*float64(n)/float64(r.Clients)) / 10})
	}
	sortVersions(r.Versions)
	p, err := records.Progress(ctx, r.Channel, r.Newest.Version, time.Time{}, time.Time{})
	r.Newest = newestCounts{r.Newest.Version, p.Offered, p.Waiting, p.Running, p.Kept, p.Failed, p.Crashed}
	return err
}

// curveColumns is about how many points a curve has.
const curveColumns = 60

// readSeries reads what lies in the time series. That there are none yet is no
// error.
func (r *adoption) readSeries(ctx context.Context, c *config.Config, since, now time.Time) error {
	err := mustBeThere(seriesFile(c), errNoSeries)
	if errors.Is(err, errNoSeries) {
		return nil
	}
	if err != nil {
		return err
	}
	store, err := openSeries(ctx, c)
	if err != nil {
		return err
	}
	err = errors.Join(r.readDay(ctx, store), r.readCurve(ctx, store, since, now), store.Close())
	if errors.Is(err, series.ErrNoDatabase) {
		return nil
	}
	return explainSeries(err)
}

func (r *adoption) readDay(ctx context.Context, store series.Store) error {
	var wants []series.Want
	for _, event := range api.UpdateEvents {
		wants = append(wants, series.Want{Key: series.Key{Measurement: r.Channel, Field: event}, Aggregate: series.Sum, Window: 24 * time.Hour})
	}
	values, err := store.Current(ctx, api.UpdatesDatabase, wants)
	if err != nil {
		return err
	}
	r.Day = map[string]int64{}
	for i, event := range api.UpdateEvents {
		r.Day[event] = int64(values[i].Number)
	}
	return nil
}

func (r *adoption) readCurve(ctx context.Context, store series.Store, since, now time.Time) error {
	every := max(time.Minute, (now.Sub(since) / curveColumns).Round(time.Minute))
	results, err := store.Series(ctx, api.UpdatesDatabase, []series.Range{{
		Key: series.Key{Measurement: api.ClientsMeasurement(r.Channel), Field: r.Newest.Version}, Start: since.Truncate(time.Minute), Stop: now.Add(time.Second), Every: every,
	}})
	if err != nil {
		return err
	}
	for _, p := range results[0].Points {
		r.Curve = append(r.Curve, curvePoint{p.Time.UTC(), p.Number})
	}
	if i := slices.IndexFunc(r.Versions, func(v versionCount) bool { return v.Version == r.Newest.Version }); i >= 0 {
		r.Curve = append(r.Curve, curvePoint{now.UTC(), float64(r.Versions[i].Clients)})
	}
	return nil
}
