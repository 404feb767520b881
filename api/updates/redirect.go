package updates

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsmon/api/web"
)

// elsewhereTime is the least time that a client needs to get a bundle from elsewhere. It also
// covers clock differences between servers that serve the same client.
const elsewhereTime = 10 * time.Second

// redirects reports whether bundles are elsewhere. Elsewhere may be the address of this server,
// which must not redirect clients to itself for ever.
func (s *Server) redirects(r *http.Request) bool {
	return s.Elsewhere != nil && !strings.EqualFold(bareHost(web.ForwardedHost(r, s.BehindProxy)), bareHost(s.Elsewhere.Host))
}

// bareHost removes the default ports.
func bareHost(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// sendElsewhere redirects to the public address of a bundle, which contains nothing else of the
// request.
func (s *Server) sendElsewhere(w http.ResponseWriter, key string) {
	address := strings.TrimRight(s.Elsewhere.String(), "/")
	for segment := range strings.SplitSeq(key, "/") {
		address += "/" + url.PathEscape(segment)
	}
	found(w, address)
}

// presignedLife is how long a presigned address is valid: long enough for a client to
// begin its download, and to resume it.
const presignedLife = 15 * time.Minute

// sendToStore redirects to a presigned address of a bundle that exists, and reports whether
// it did. Anybody with the address can download the bundle, so it must not appear in logs or
// caches.
func (s *Server) sendToStore(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) bool {
	var address *url.URL
	_, err := s.Objects.Stat(ctx, key)
	if err == nil {
		address, err = s.Presigner.Presign(ctx, key, presignedLife)
	}
	if err != nil {
		s.files.NoObject(w, r, err)
		return false
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	found(w, address.String())
	return true
}

// found sends a temporary redirect.
func found(w http.ResponseWriter, address string) {
	header := w.Header()
	header.Set("Location", address)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}
