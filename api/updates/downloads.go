package updates

import (
	"context"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"tsmon/api/web"
	"tsmon/channels"
	listed "tsmon/channels/downloads"
)

// downloads are the files for new users of a channel, rendered from its log. The stored
// downloads.json is not used, since it is not signed.
type downloads struct {
	listed.List
	*web.Document
}

// newDownloads renders the downloads of an entry; changed is the time of their last change.
func newDownloads(e *channels.Entry, publicURL string, changed time.Time) *downloads {
	list := e.Downloads(publicURL)
	data, err := list.Encode()
	if err != nil {
		return nil
	}
	return &downloads{list, rendered(data, changed)}
}

var listEnd = strings.TrimPrefix(channels.DownloadsKey("c"), "c")

// listIn returns the channel in the key of a list of downloads.
func listIn(key string) (channel string, ok bool) {
	channel, ok = strings.CutSuffix(key, listEnd)
	return channel, ok && channels.CheckName(channel) == nil
}

func (s *Server) list(ctx context.Context, w http.ResponseWriter, r *http.Request, channel string) {
	found, err := s.Heads.downloads(ctx, channel)
	if err == nil && len(found.Files) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		s.noDocument(w, r, err)
		return
	}
	web.ServeDocument(w, r, found.Document, s.manifest)
}

// download redirects to the file with a key in the newest release that everybody gets.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r) {
		s.Fail(w, r, web.Unauthorized(nil))
		return
	}
	list, err := s.Heads.downloads(r.Context(), chi.URLParam(r, "channel"))
	if err != nil {
		s.Fail(w, r, noChannel(r, err))
		return
	}
	key := chi.URLParam(r, "key")
	file := list.Find(key)
	if file == nil {
		s.Fail(w, r, web.Refuse(http.StatusNotFound, "%s has no download %.100q", list.Version, key))
		return
	}
	found(w, file.URL) // temporary: the next release has another file
}

// downloads returns the downloads of a channel. fs.ErrNotExist if there is no such channel, or
// it has no log; errUnverified if its log could not be read.
func (h *Heads) downloads(ctx context.Context, name string) (*downloads, error) {
	c, err := h.of(ctx, name)
	if err != nil {
		return nil, err
	}
	switch offers := c.offers.Load(); {
	case offers == nil:
		return nil, errUnverified
	case offers.list == nil:
		return nil, fs.ErrNotExist
	default:
		return offers.list, nil
	}
}
