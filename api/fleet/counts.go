package fleet

import (
	"context"
	"errors"
	"time"

	"tsmon/store/series"
)

// Database holds the time series of updates. A measurement named after the channel
// has the Events of each minute, as integers with the tags version, target and
// cohort. ClientsMeasurement has a field for each version: how many clients have it.
const Database = "tsmon_updates"

// ClientsMeasurement names the measurement that counts the clients of a channel.
func ClientsMeasurement(channel string) string { return channel + ".clients" }

// maxUnsent bounds the samples that wait for the database.
const maxUnsent = 20_000

// writeCounts writes the events of the last minute. Samples that the database does not accept
// are sent again with the same times, so that nothing is counted twice.
func (s *Sightings) writeCounts(ctx context.Context) {
	now := s.Now()
	for key, c := range s.counted {
		s.unsent = append(s.unsent, key.sample(c, now))
	}
	clear(s.counted)
	if len(s.unsent) == 0 {
		return
	}
	if err := s.write(ctx, s.unsent); err != nil {
		s.Log.Warn("events of updates are not in the time series yet", "samples", len(s.unsent), "error", err)
		s.unsent = s.unsent[max(0, len(s.unsent)-maxUnsent):]
		return
	}
	s.unsent = nil
}

func (k countKey) sample(c counts, now time.Time) series.Sample {
	s := series.Sample{Measurement: k.channel, Tags: map[string]string{"version": k.version, "target": k.target}, Fields: map[string]any{}, Time: now}
	if k.cohort != "" {
		s.Tags["cohort"] = k.cohort
	}
	for e, n := range c {
		if n > 0 {
			s.Fields[Events[e]] = n
		}
	}
	return s
}

// write writes samples, and creates the database if it does not exist.
func (s *Sightings) write(ctx context.Context, samples []series.Sample) error {
	ctx, cancel := context.WithTimeout(ctx, sightTime)
	defer cancel()
	err := s.Series.Write(ctx, Database, samples)
	if !errors.Is(err, series.ErrNoDatabase) {
		return err
	}
	if err := s.Series.Create(ctx, Database); err != nil {
		return err
	}
	return s.Series.Write(ctx, Database, samples)
}

// AdoptionTime is how long a client counts after it was last seen.
const AdoptionTime = maxClientDays * 24 * time.Hour

// countClients records which versions the clients have, and the outcomes of the newest one.
func (s *Sightings) countClients(ctx context.Context) {
	now := s.Now()
	var samples []series.Sample
	for name, c := range s.Channels() {
		found, err := s.Records.Clients(ctx, name, now.Add(-AdoptionTime))
		newest, err2 := readNewest(ctx, s.Records, name, c.Newest())
		if err := errors.Join(err, err2); err != nil {
			s.Log.Warn("the clients of updates can't be counted", "channel", name, "error", err)
			return
		}
		versions := map[string]any{}
		for _, c := range found {
			n, _ := versions[c.Version].(int64)
			versions[c.Version] = n + int64(c.Estimate())
		}
		s.metrics.setClients(name, found, newest)
		if len(versions) > 0 {
			samples = append(samples, series.Sample{Measurement: ClientsMeasurement(name), Fields: versions, Time: now})
		}
	}
	if len(samples) > 0 {
		if err := s.write(ctx, samples); err != nil {
			s.Log.Warn("the clients of updates are not in the time series", "error", err)
		}
	}
}

// forget deletes the clients that no longer count, at most once a day, and returns when it last
// did so.
func (s *Sightings) forget(ctx context.Context, forgot time.Time) time.Time {
	now := s.Now()
	if age := now.Sub(forgot); age >= 0 && age < 24*time.Hour {
		return forgot
	}
	n, err := s.Records.ForgetClients(ctx, now.Add(-AdoptionTime))
	if err != nil {
		s.Log.Warn("clients that were not seen for long are still recorded, until tomorrow", "error", err)
	} else if n > 0 {
		s.Log.Info("clients forgotten that were not seen for long", "rows", n)
	}
	return now
}
