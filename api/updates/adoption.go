package updates

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/go-chi/chi/v5"

	"tsmon/api/web"
	"tsmon/channels"
)

// adoption serves the adoption of a channel to requests with the metrics key.
func (s *Server) adoption(r *http.Request) (any, error) {
	if !web.SameSecret(web.Bearer(r), s.Key) {
		return nil, web.Refuse(http.StatusForbidden, "adoption is shown with the key of the metrics")
	}
	name := chi.URLParam(r, "channel")
	_, err := s.Heads.of(r.Context(), name)
	log := &channels.Log{Channel: name, Entries: s.Heads.Moves(name, 0)}
	switch {
	case log.Head() != nil: // clients are counted whether or not its manifest verifies
		return s.Fleet.Adoption(r.Context(), log)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil, web.Refuse(http.StatusNotFound, "there is no such channel")
	}
	return nil, unreadable(r, err)
}
