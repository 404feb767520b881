package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Adoption describes how the releases of a channel spread, as tsmon channel adoption prints it.
type Adoption struct {
	Channel string         `json:"channel"`
	Version string         `json:"version"` // that everybody gets
	Rollout *release.Share `json:"rollout,omitempty"`
	// Clients were seen in the last 30 days. All numbers of clients are estimates if
	// Sample is not nil.
	Clients  int            `json:"clients"`
	Sample   *Sampled       `json:"sample,omitempty"`
	Versions []VersionCount `json:"versions"` // most clients first
	Groups   []GroupCount   `json:"groups"`   // the same by version, target, type and cohort
	Newest   NewestCounts   `json:"newest"`
	Guard    *Opinion       `json:"guard,omitempty"` // of the newest release; nil if not asked for
	// Day counts the events of the last 24 hours, Curve the clients that had the newest
	// version since it came to the channel; nil without time series.
	Day   map[string]int64 `json:"last_24_hours"`
	Curve []CurvePoint     `json:"curve"`

	since time.Time    // when the newest version came to the channel
	level record.Level // of the sample of clients
}

// Sampled says that numbers are estimated from a sample of the clients.
type Sampled struct {
	Share  float64 `json:"share"`  // share of the clients that is recorded, below 1
	Margin int     `json:"margin"` // maximum error of the number of all clients in 19 of 20 cases
	// OfNetwork is how many clients of one network are recorded at most; 0 for any number. If
	// it is set, the clients of large networks are underestimated.
	OfNetwork int `json:"of_network,omitempty"`
}

// VersionCount counts the clients with one version.
type VersionCount struct {
	Version string  `json:"version"`
	Clients int     `json:"clients"`
	Percent float64 `json:"percent"`
	// Margin is the maximum error of Percent in 19 of 20 cases, in points.
	Margin float64 `json:"percent_margin,omitempty"`
}

// GroupCount counts the clients of one version, target, type and cohort.
type GroupCount struct {
	Version string `json:"version"`
	Target  string `json:"target"`         // OS-ARCH, or Other
	Type    string `json:"type,omitempty"` // bundle type that they were installed from; empty if unknown
	Cohort  string `json:"cohort,omitempty"`
	Clients int    `json:"clients"`
}

// NewestCounts counts clients by the outcome of the newest release. Each client is in one of
// the counts.
type NewestCounts struct {
	Version string `json:"version"`
	Offered int    `json:"offered"` // and not downloaded
	Waiting int    `json:"waiting"` // downloaded, nothing more is known
	Running int    `json:"running"`
	Kept    int    `json:"kept"` // downloaded, and came back with the old version
	Failed  int    `json:"failed"`
	Crashed int    `json:"crashed"`
	// Sample is the sample of the clients that were offered the release.
	Sample *Sampled `json:"sample,omitempty"`
}

// CurvePoint is the mean over the time to the next point; the last one is now.
type CurvePoint struct {
	Time    time.Time `json:"time"`
	Clients float64   `json:"clients"`
	// Margin is the maximum error of Clients in 19 of 20 cases, computed from the present
	// sample; earlier samples were at least as large.
	Margin int `json:"margin,omitempty"`
}

// NewAdoption returns the adoption of a channel with a log that is not empty. The
// counts are read by ReadRecords and then ReadSeries.
func NewAdoption(log *channels.Log) *Adoption {
	head := log.Head()
	a := &Adoption{Channel: log.Channel, Version: head.Version, Rollout: release.ShareOf(head.Rollout, false), Versions: []VersionCount{}, Groups: []GroupCount{}, since: head.When}
	a.Newest.Version = head.Newest()
	if i := slices.IndexFunc(log.Entries, func(e channels.Entry) bool { return e.Newest() == head.Newest() }); i >= 0 {
		a.since = log.Entries[i].When
	}
	return a
}

// Adoption returns the adoption of a channel with a log that is not empty, without Guard, and
// without time series if those can't be read.
func (s *Sightings) Adoption(ctx context.Context, log *channels.Log) (*Adoption, error) {
	a, now := NewAdoption(log), s.Now()
	if err := a.ReadRecords(ctx, s.Records, now); err != nil {
		return nil, err
	}
	if err := a.ReadSeries(ctx, s.Series, now); err != nil {
		s.Log.Warn("the time series of updates can't be read", "channel", log.Channel, "error", err)
		a.Day, a.Curve = nil, nil
	}
	return a, nil
}

// maxCurve bounds the points of a curve, and maxShown those of what Check accepts.
const (
	maxCurve = 10 * curveColumns
	maxShown = 100_000
)

// ErrAdoption means that the data read is not an adoption.
var ErrAdoption = errors.New("not the adoption of a channel")

// Check validates an adoption that another machine sent: it must be of the channel and its
// numbers must be plausible. Errors wrap ErrAdoption.
func (a *Adoption) Check(channel string) error {
	switch {
	case a.Channel != channel:
		return fmt.Errorf("%w: it is of %.70q, not of %s", ErrAdoption, a.Channel, channel)
	case a.Version == "" || a.Newest.Version == "":
		return fmt.Errorf("%w: it names no version", ErrAdoption)
	case len(a.Versions) > maxShown || len(a.Groups) > maxShown || len(a.Curve) > maxCurve:
		return fmt.Errorf("%w: it is too long", ErrAdoption)
	}
	for _, v := range a.Versions {
		if !(v.Percent >= 0 && v.Percent <= 100) {
			return fmt.Errorf("%w: %v %% of the clients", ErrAdoption, v.Percent)
		}
	}
	for _, p := range a.Curve {
		if p.Clients < 0 {
			return fmt.Errorf("%w: %v clients", ErrAdoption, p.Clients)
		}
	}
	for _, s := range []*Sampled{a.Sample, a.Newest.Sample} {
		if s != nil && !(s.Share > 0 && s.Share <= 1) {
			return fmt.Errorf("%w: a sample of %v of the clients", ErrAdoption, s.Share)
		}
	}
	return nil
}

// ReadRecords reads which versions the clients have.
func (a *Adoption) ReadRecords(ctx context.Context, records Records, now time.Time) error {
	groups, err := records.Clients(ctx, a.Channel, now.Add(-AdoptionTime))
	if err != nil {
		return err
	}
	counts, all := map[string]int{}, 0
	for _, g := range groups {
		a.Groups = append(a.Groups, groupOf(g))
		counts[g.Version] += g.Clients
		all += g.Clients
		a.level = g.Level
	}
	a.Clients, a.Sample = a.level.Estimate(all), sampled(record.Sample{Level: a.level, Rows: all})
	for version, n := range counts {
		a.Versions = append(a.Versions, VersionCount{version, a.level.Estimate(n), math.Round(1000*float64(n)/float64(all)) / 10,
			math.Ceil(1000*a.level.ShareMargin(n, all)) / 10})
	}
	slices.SortFunc(a.Versions, func(x, y VersionCount) int {
		return cmp.Or(cmp.Compare(y.Clients, x.Clients), strings.Compare(x.Version, y.Version))
	})
	a.Newest, err = readNewest(ctx, records, a.Channel, a.Newest.Version)
	return err
}

// groupOf splits the recorded platform key into target and type.
func groupOf(c record.ClientCount) GroupCount {
	group := GroupCount{c.Version, c.Target, "", c.Cohort, c.Estimate()}
	if key, err := manifest.ParseKey(c.Target); err == nil {
		group.Target, group.Type = key.Target(), key.Type
	}
	return group
}

func readNewest(ctx context.Context, records Records, channel, version string) (NewestCounts, error) {
	p, err := records.Progress(ctx, channel, version)
	s, err2 := records.Sample(ctx, channel, version)
	of := s.Level.Estimate
	return NewestCounts{version, of(p.Offered), of(p.Waiting), of(p.Running), of(p.Kept), of(p.Failed), of(p.Crashed), sampled(s)}, errors.Join(err, err2)
}

// sampled returns nil if a sample contains all clients.
func sampled(s record.Sample) *Sampled {
	if s.Level == 0 && s.OfNetwork == 0 {
		return nil
	}
	return &Sampled{s.Rate(), s.Margin(s.Rows), s.OfNetwork}
}

// curveColumns is the approximate number of points of a curve.
const curveColumns = 60

// ReadSeries reads the events of the last day and the curve. A database that does not exist yet
// is no error.
func (a *Adoption) ReadSeries(ctx context.Context, store series.Store, now time.Time) error {
	err := errors.Join(a.readDay(ctx, store), a.readCurve(ctx, store, now))
	if errors.Is(err, series.ErrNoDatabase) {
		return nil
	}
	return err
}

func (a *Adoption) readDay(ctx context.Context, store series.Store) error {
	var wants []series.Want
	for _, event := range Events {
		wants = append(wants, series.Want{Key: series.Key{Measurement: a.Channel, Field: event}, Aggregate: series.Sum, Window: 24 * time.Hour})
	}
	values, err := store.Current(ctx, Database, wants)
	if err != nil {
		return err
	}
	a.Day = map[string]int64{}
	for i, event := range Events {
		a.Day[event] = int64(values[i].Number)
	}
	return nil
}

func (a *Adoption) readCurve(ctx context.Context, store series.Store, now time.Time) error {
	results, err := store.Series(ctx, Database, []series.Range{a.rangeOf(a.Newest.Version, a.since, now)})
	if err == nil {
		a.Curve = a.curve(a.Newest.Version, results[0].Points, now)
	}
	return err
}

// rangeOf selects the clients with a version from the time series, in about curveColumns points.
func (a *Adoption) rangeOf(version string, since, now time.Time) series.Range {
	return series.Range{
		Key:   series.Key{Measurement: ClientsMeasurement(a.Channel), Field: version},
		Start: since.Truncate(time.Minute), Stop: now.Add(time.Second), Every: max(time.Minute, (now.Sub(since) / curveColumns).Round(time.Minute)),
	}
}

// curve returns the numbers of clients with a version over time, with the present one at the end;
// nil if the version never had any.
func (a *Adoption) curve(version string, points []series.Point, now time.Time) []CurvePoint {
	var curve []CurvePoint
	add := func(at time.Time, clients float64) {
		curve = append(curve, CurvePoint{at.UTC(), clients, a.level.Margin(int(clients) >> a.level)})
	}
	for _, p := range points {
		add(p.Time, p.Number)
	}
	has := slices.IndexFunc(a.Versions, func(v VersionCount) bool { return v.Version == version })
	switch {
	case has >= 0:
		add(now, float64(a.Versions[has].Clients))
	case len(curve) > 0:
		add(now, 0)
	}
	return curve
}

// VersionCurve is the number of clients with a version over time.
type VersionCurve struct {
	Version string       `json:"version"`
	Points  []CurvePoint `json:"points"`
}

// maxHistory bounds the versions of a History.
const maxHistory = 8

// History returns how the clients of a channel moved between versions in the last 30 days, or
// since the beginning of its log. It includes the newest version, those that most clients have
// now, and those that the log showed last, even if no client has them any more. Without time
// series it returns only the present numbers.
func (s *Sightings) History(ctx context.Context, a *Adoption, log *channels.Log) ([]VersionCurve, error) {
	now := s.Now()
	since := now.Add(-AdoptionTime)
	if first := log.Entries[0].When; first.After(since) {
		since = first
	}
	var ranges []series.Range
	history := []VersionCurve{}
	add := func(version string) {
		if len(history) == maxHistory || slices.ContainsFunc(history, func(c VersionCurve) bool { return c.Version == version }) {
			return
		}
		history = append(history, VersionCurve{Version: version, Points: []CurvePoint{}})
		ranges = append(ranges, a.rangeOf(version, since, now))
	}
	add(a.Newest.Version)
	for _, v := range a.Versions {
		add(v.Version)
	}
	for _, e := range slices.Backward(log.Entries) {
		add(e.Newest())
	}
	results, err := s.Series.Series(ctx, Database, ranges)
	switch {
	case errors.Is(err, series.ErrNoDatabase):
		results = make([]series.Result, len(ranges))
	case err != nil:
		return nil, err
	}
	for i := range history {
		c := &history[i]
		c.Points = append(c.Points, a.curve(c.Version, results[i].Points, now)...)
	}
	return slices.DeleteFunc(history, func(c VersionCurve) bool { return len(c.Points) == 0 && c.Version != a.Newest.Version }), nil
}
