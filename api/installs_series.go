package api

import (
	"context"
	"errors"
	"time"

	"tsmon/store/series"
)

// UpdatesDatabase is where the time series of updates are kept. A measurement of
// a channel's name has the events of a minute, as integers checks, anonymous,
// held, offers, downloads, started, installed, failed and crashed, with the tags
// version, target and cohort. A measurement of that name with .clients behind it
// has a field for each version: how many clients have it.
const UpdatesDatabase = "tsmon_updates"

// ClientsMeasurement is where the clients of a channel are counted over time.
func ClientsMeasurement(channel string) string { return channel + ".clients" }

// maxUnsaid bounds the samples that wait for the database.
const maxUnsaid = 20_000

// writeCounts writes the events of the last minute. What the database does not
// take it is given again, with the same times, so that nothing counts twice.
func (i *installs) writeCounts(ctx context.Context) {
	now := i.now()
	for key, c := range i.counted {
		i.unsaid = append(i.unsaid, key.sample(c, now))
	}
	clear(i.counted)
	if len(i.unsaid) == 0 {
		return
	}
	if err := i.write(ctx, i.unsaid); err != nil {
		i.log.Warn("events of updates are not in the time series yet", "samples", len(i.unsaid), "error", err)
		i.unsaid = i.unsaid[max(0, len(i.unsaid)-maxUnsaid):]
		return
	}
	i.unsaid = nil
}

func (k countKey) sample(c counts, now time.Time) series.Sample {
	s := series.Sample{Measurement: k.channel, Tags: map[string]string{"version": k.version, "target": k.target}, Fields: map[string]any{}, Time: now}
	if k.cohort != "" {
		s.Tags["cohort"] = k.cohort
	}
	for e, n := range c {
		if n > 0 {
			s.Fields[UpdateEvents[e]] = n
		}
	}
	return s
}

// write makes the database where there is none yet.
func (i *installs) write(ctx context.Context, samples []series.Sample) error {
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	err := i.series.Write(ctx, UpdatesDatabase, samples)
	if !errors.Is(err, series.ErrNoDatabase) {
		return err
	}
	if err := i.series.Create(ctx, UpdatesDatabase); err != nil {
		return err
	}
	return i.series.Write(ctx, UpdatesDatabase, samples)
}

// AdoptionTime is how long a client counts after it was last seen.
const AdoptionTime = maxClientDays * 24 * time.Hour

// countClients measures which versions the clients have, and how far they came
// with the newest one.
func (i *installs) countClients(ctx context.Context) {
	now := i.now()
	var samples []series.Sample
	for name, o := range i.offers() {
		found, err := i.records.Clients(ctx, name, now.Add(-AdoptionTime))
		p, err2 := i.records.Progress(ctx, name, o.Newest(), time.Time{}, time.Time{})
		if err := errors.Join(err, err2); err != nil {
			i.log.Warn("the clients of updates can't be counted", "channel", name, "error", err)
			return
		}
		versions := map[string]any{}
		for _, c := range found {
			n, _ := versions[c.Version].(int64)
			versions[c.Version] = n + int64(c.Clients)
		}
		i.metrics.clientsOf(name, o.Newest(), found, p)
		if len(versions) > 0 {
			samples = append(samples, series.Sample{Measurement: ClientsMeasurement(name), Fields: versions, Time: now})
		}
	}
	if len(samples) > 0 {
		if err := i.write(ctx, samples); err != nil {
			i.log.Warn("the clients of updates are not in the time series", "error", err)
		}
	}
	i.forget(ctx, now)
}

// forget drops, once a day, the clients that count no longer.
func (i *installs) forget(ctx context.Context, now time.Time) {
	if age := now.Sub(i.forgot); age >= 0 && age < 24*time.Hour {
		return
	}
	i.forgot = now
	n, err := i.records.ForgetClients(ctx, now.Add(-AdoptionTime))
	if err != nil {
		i.log.Warn("clients that were not seen for long are still recorded, until tomorrow", "error", err)
		return
	}
	if n > 0 {
		i.log.Info("clients forgotten that were not seen for long", "rows", n)
	}
}
