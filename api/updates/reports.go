package updates

import (
	"net/http"

	"tsmon/api/fleet"
	"tsmon/api/web"
)

// report answers 204 to an application's report, whether or not it counts: a
// client's event counts once a day, and against the release only if the client was
// offered it and signed the report, where the server has secrets for that.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	if err := s.takeReport(r); err != nil {
		s.Fail(w, r, web.BadRequest(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) takeReport(r *http.Request) error {
	if !s.allowed(r) {
		return web.Unauthorized(nil)
	}
	var sent struct {
		Channel string `json:"channel"`
		Version string `json:"version"` // of the release, not the one before it
		Target  string `json:"target"`  // OS-ARCH; counted separately if the channel has bundles for it
		Event   string `json:"event"`   // started, installed, failed or crashed
	}
	body, err := web.ReadBody(r)
	if err != nil {
		return err
	}
	if err := web.DecodeJSON(body, &sent); err != nil {
		return err
	}
	from := client(r)
	switch {
	case from.ID == "":
		return web.Invalid("the header %s has to hold the client's id, of at most %d bytes", clientHeader, maxClient)
	case !fleet.Reportable(sent.Event):
		return web.Invalid("event %.40q is none of started, installed, failed and crashed", sent.Event)
	}
	at, err := s.seals.Check(r.Header, from.ID, body, s.Now())
	if err != nil {
		return err
	}
	in, err := s.Heads.offersOf(r.Context(), sent.Channel)
	if err != nil {
		return noChannel(r, err)
	}
	if in.Version(sent.Version) == fleet.Other {
		return web.Refuse(http.StatusNotFound, "%s never had a release %.100s", sent.Channel, sent.Version)
	}
	s.Fleet.Reported(r.Context(), in, fleet.Report{
		Channel: sent.Channel, Version: sent.Version, Target: sent.Target, Cohort: r.Header.Get(cohortHeader), Event: sent.Event, At: at,
	}, from)
	return nil
}
