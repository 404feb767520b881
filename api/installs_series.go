package api

import (
	"context"
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

// writeCounts writes the events since it last did. What the database does not
// take is added to the next.
func (i *installs) writeCounts(ctx context.Context) {
	var samples []series.Sample
	now := i.now()
	for key, c := range i.counted {
		samples = append(samples, key.sample(c, now))
	}
	if len(samples) == 0 {
		return
	}
	if err := i.write(ctx, samples); err != nil {
		i.log.Warn("events of updates are not in the time series yet", "error", err)
		return
	}
	clear(i.counted)
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

func (i *installs) write(ctx context.Context, samples []series.Sample) error {
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	if err := i.series.Create(ctx, UpdatesDatabase); err != nil { // once it is there this costs little
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
		if err != nil {
			i.log.Warn("the clients of updates can't be counted", "channel", name, "error", err)
			return
		}
		p, err := i.records.Progress(ctx, name, o.Newest(), time.Time{}, time.Time{})
		if err != nil {
			i.log.Warn("the clients of updates can't be counted", "channel", name, "error", err)
			return
		}
		versions := map[string]any{}
		for _, c := range found {
			n, _ := versions[c.Version].(int64)
			versions[c.Version] = n + int64(c.Clients)
		}
		i.metrics.clientsOf(name, o.Newest(), versions, p)
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
	n, err := i.records.ForgetClients(ctx, now.Add(-AdoptionTime))
	if err != nil {
		i.log.Warn("clients that were not seen for long are still recorded", "error", err)
		return
	}
	i.forgot = now
	if n > 0 {
		i.log.Info("clients forgotten that were not seen for long", "rows", n)
	}
}
