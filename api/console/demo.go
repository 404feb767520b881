package console

import (
	"encoding/json"
	"net/http"

	"tsmon/api/web"
)

// hasDemo reports whether the login page offers the demo.
func (s *server) hasDemo(r *http.Request) bool { return s.Demo != nil && web.FromThisMachine(r) }

// demoLogin answers the credentials of the demo's user. They stay on this machine:
// the connection and the Host header are local, which also stops DNS rebinding, no
// proxy is in between, and the request comes from a page of this server.
func (s *server) demoLogin(w http.ResponseWriter, r *http.Request) {
	if s.Demo == nil {
		http.Error(w, "there is no demo", http.StatusNotFound)
		return
	}
	if !s.hasDemo(r) || !sameOrigin(r) {
		http.Error(w, "the demo is open to this machine only", http.StatusForbidden)
		return
	}
	login, known := s.Demo()
	if !known {
		w.Header().Set("Retry-After", "2")
		http.Error(w, "the demo is being prepared", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(login) // the client may be gone
}

// sameOrigin reports whether a browser says that its page came from this server.
// Requests of other programs, which say nothing, are refused.
func sameOrigin(r *http.Request) bool {
	return !web.OtherSite(r) && r.Header.Get("Sec-Fetch-Site") != "none" && r.Header.Get("Origin") != ""
}
