package updates

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"tsmon/api/web"
)

// adoption serves the adoption of a channel to requests with the metrics key.
func (s *Server) adoption(r *http.Request) (any, error) {
	if !web.SameSecret(web.Bearer(r), s.Key) {
		return nil, web.Refuse(http.StatusForbidden, "adoption is shown with the key of the metrics")
	}
	log, err := s.Heads.logOf(r.Context(), chi.URLParam(r, "channel"))
	if err != nil {
		return nil, noChannel(r, err)
	}
	return s.Fleet.Adoption(r.Context(), log)
}
