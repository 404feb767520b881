package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"tsmon/channels"
	"tsmon/store/record"
)

// reported are the events that applications report of a release.
var reported = map[string]event{"started": eventStarted, "installed": eventInstalled, "failed": eventFailed, "crashed": eventCrashed}

// report is what an application says became of a release.
type report struct {
	Channel string `json:"channel"`
	Version string `json:"version"` // of the release, not the one that was there before
	Target  string `json:"target"`  // OS-ARCH; it is counted apart if the channel has bundles for it
	Event   string `json:"event"`   // started, installed, failed or crashed
}

// report takes an application's word: 204, whether or not it counts. A client's
// events of a release count once a day, and against the release only if the client
// was offered it.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	if err := s.takeReport(r); err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) takeReport(r *http.Request) error {
	if !s.mayUpdate(r) {
		return unauthorized(nil)
	}
	var said report
	if err := decode(r, &said); err != nil {
		return err
	}
	id := clientID(r)
	happened, ok := reported[said.Event]
	switch {
	case id == "":
		return invalid("the header %s has to hold the client's id, of at most %d bytes", clientHeader, maxClient)
	case !ok:
		return invalid("event %.40q is none of started, installed, failed and crashed", said.Event)
	}
	offers, err := s.heads.offers(r.Context(), said.Channel)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(http.StatusNotFound, "there is no such channel")
	}
	if err != nil {
		return unreadable(r, err)
	}
	version := offers.Version(said.Version)
	if version == channels.Other {
		return refuse(http.StatusNotFound, "%s never had a release %.100s", said.Channel, said.Version)
	}
	cohort := offers.Cohort(r.Header.Get(cohortHeader))
	s.installs.told(r.Context(), countKey{said.Channel, version, offers.Target(said.Target), cohort}, happened, s.installs.whoAsks(id, noteOf(r).address))
	return nil
}

// reportKey is what counts once.
type reportKey struct {
	tryKey
	event
	day int64 // since 1970, in UTC
}

// told notes a report.
func (i *installs) told(ctx context.Context, k countKey, happened event, who asker) {
	i.start(ctx)
	now := i.now()
	i.mu.Lock()
	defer i.mu.Unlock()
	again := reportKey{tryKey{clientKey{k.channel, who.id}, k.version}, happened, now.Unix() / (24 * 60 * 60)}
	if !who.known || i.seen.full() {
		return
	}
	if !i.reported[again] {
		i.seen.count(k, happened)
	}
	if len(i.reported) >= maxSeen {
		clear(i.reported)
	}
	i.reported[again] = true
	t := record.Try{Channel: k.channel, Client: who.id, Version: k.version}
	switch happened {
	case eventStarted:
		i.seen.has(k, who, now)
		return
	case eventInstalled:
		t.Installed = now
	case eventFailed:
		t.Failed = now
	case eventCrashed:
		t.Crashed = now
	}
	i.seen.try(t)
}
