package updates

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/fleet"
	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/gate"
)

const (
	defaultEntries = 50
	maxEntries     = 200 // of one answer
)

// EntryRow is an entry of a channel's log.
type EntryRow struct {
	Sequence uint64           `json:"sequence"`
	Action   channels.Action  `json:"action"`
	Version  string           `json:"version"` // everybody gets it from then on
	Newest   string           `json:"newest"`  // the entry is about it
	From     string           `json:"from,omitempty"`
	Who      string           `json:"who"`
	When     time.Time        `json:"when"`
	Why      string           `json:"why,omitempty"`
	Halted   bool             `json:"halted,omitempty"` // a guard decided the pause
	Origin   *channels.Origin `json:"origin,omitempty"`
	Rollout  *release.Share   `json:"rollout,omitempty"`
	SignedBy []string         `json:"signed_by"` // names of operators; an unknown key is shown itself
	Needs    int              `json:"needs"`     // how many signatures of operators it needed
	Pruned   []string         `json:"pruned,omitempty"`
}

func rowOf(log *channels.Log, e *channels.Entry) EntryRow {
	force := log.InForce(e.Sequence)
	row := EntryRow{Sequence: e.Sequence, Action: e.Action, Version: e.Version, Newest: e.Newest(), From: e.From, Who: e.Who, When: e.When, Why: e.Why,
		Halted: e.Halted, Origin: e.Origin, Rollout: release.ShareOf(e.Rollout, false), SignedBy: append([]string{}, e.SignedBy(force)...), Pruned: e.Pruned}
	if step := e.Action == channels.Advance && len(row.SignedBy) == 0; force != nil && !step {
		_, row.Needs = force.CountFor(e.Action, nil)
	}
	return row
}

// EntryPage is a part of a log.
type EntryPage struct {
	Channel string     `json:"channel"`
	Entries []EntryRow `json:"entries"` // newest first
	More    bool       `json:"more"`    // there are older ones
}

// entries serves the newest entries of a log, or those before a number.
func (s *Releases) entries(r *http.Request) (any, error) {
	limit, before, err := pageOf(r)
	if err != nil {
		return nil, err
	}
	log, err := s.log(r)
	if err != nil {
		return nil, err
	}
	page := EntryPage{Channel: log.Channel, Entries: []EntryRow{}}
	for _, e := range slices.Backward(log.Entries) {
		if before > 0 && e.Sequence >= before {
			continue
		}
		if len(page.Entries) == limit {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, rowOf(log, &e))
	}
	return page, nil
}

func pageOf(r *http.Request) (limit int, before uint64, err error) {
	limit = defaultEntries
	query := r.URL.Query()
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > maxEntries {
			return 0, 0, web.Invalid("limit is a number from 1 to %d", maxEntries)
		}
	}
	if query.Has("before") {
		if before, err = strconv.ParseUint(query.Get("before"), 10, 63); err != nil {
			return 0, 0, web.Invalid("before is the number of an entry")
		}
	}
	return limit, before, nil
}

// EntryDetail is an entry with what it gives clients.
type EntryDetail struct {
	EntryRow
	Manifest manifest.Manifest `json:"manifest"` // that everybody gets
	// Rolling is the manifest of the newest release while only some clients get it.
	Rolling *manifest.Manifest `json:"rolling,omitempty"`
	Changes []manifest.Change  `json:"changes"` // of what everybody gets, to the entry before
	// Reach is what every kind of client got, as far as clients were known at the time.
	Reach    []gate.Reach `json:"reach"`
	ReachCut int          `json:"reach_cut,omitempty"` // kinds of clients of the oldest versions that are left out
}

func (s *Releases) entry(r *http.Request) (any, error) {
	sequence, err := strconv.ParseUint(chi.URLParam(r, "sequence"), 10, 63)
	if err != nil {
		return nil, web.Invalid("the number of an entry is a whole number")
	}
	log, err := s.log(r)
	if err != nil {
		return nil, err
	}
	e := log.At(sequence)
	if e == nil {
		return nil, web.Refuse(http.StatusNotFound, "%s has no entry %d", log.Channel, sequence)
	}
	base := s.baseOf(log.Channel)
	d := EntryDetail{EntryRow: rowOf(log, e), Manifest: e.Render(base), Changes: []manifest.Change{}, Reach: []gate.Reach{}}
	if e.Rollout != nil {
		rolling := e.Rollout.Release.Render(base, e.Sequence)
		d.Rolling = &rolling
	}
	if before := log.At(sequence - 1); before != nil {
		was := before.Render(base)
		d.Changes = append(d.Changes, manifest.Diff(&was, &d.Manifest)...)
	}
	if s.Publisher != nil {
		reach, err := s.Publisher.Inspector().Replay(log, sequence)
		if err != nil {
			return nil, err
		}
		kept, cut := bounded(reach)
		d.Reach, d.ReachCut = append(d.Reach, kept...), cut
	}
	return d, nil
}

// maxReach bounds the cells of a plan's table in an answer.
const maxReach = 20_000

// bounded returns the cells of the newest versions, and how many others there are.
func bounded(reach []gate.Reach) (kept []gate.Reach, cut int) {
	cut = max(0, len(reach)-maxReach)
	return reach[cut:], cut
}

// baseOf returns the public URL in a channel's manifests, empty while it is unknown.
func (s *Releases) baseOf(channel string) string {
	c := s.Heads.channel(channel)
	if c == nil {
		return s.Heads.PublicURL
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.publicURL
}

// Spread is the adoption of a channel with its history.
type Spread struct {
	*fleet.Adoption
	History []fleet.VersionCurve `json:"history"`
}

func (s *Releases) adoption(r *http.Request) (any, error) {
	log, err := s.log(r)
	if err != nil {
		return nil, err
	}
	if log.Head() == nil {
		return nil, web.Refuse(http.StatusNotFound, "%s shows nothing yet", log.Channel)
	}
	return s.answers.get(r.Context(), "adoption "+log.Channel, func(ctx context.Context) (any, error) {
		a, err := s.Fleet.Adoption(ctx, log)
		if err != nil {
			return nil, err
		}
		a.Guard = s.opinion(ctx, log)
		history, err := s.Fleet.History(ctx, a, log)
		if err != nil {
			s.Log.Warn("the time series of updates can't be read", "channel", log.Channel, "error", err)
			history = []fleet.VersionCurve{}
		}
		return Spread{a, history}, nil
	})
}
