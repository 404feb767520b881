package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/rs/cors"
)

// desktopOrigins are those that the web views of Tauri applications have, on
// macOS and Linux, and on Windows without and with HTTPS.
var desktopOrigins = []string{"tauri://localhost", "http://tauri.localhost", "https://tauri.localhost"}

// cors answers browsers: pages of the known origins may ask, with credentials.
func (s *Server) cors() func(http.Handler) http.Handler {
	known := append(slices.Clone(desktopOrigins), s.Origins...)
	return cors.New(cors.Options{
		AllowOriginFunc:  func(origin string) bool { return slices.Contains(known, origin) },
		AllowCredentials: true,
		AllowedMethods:   []string{http.MethodGet, http.MethodHead, http.MethodPost},
		AllowedHeaders:   []string{"Authorization", "Content-Type", "Accept", "accesskey", "secretkey"},
		ExposedHeaders:   []string{"X-Request-Id", truncatedHeader, "Retry-After"},
		MaxAge:           600,
	}).Handler
}

// CheckOrigin reports why a text is not the origin of a web page: a scheme, a
// host and perhaps a port, as browsers send it. There are no wildcards.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host || !plainHost(u.Host) {
		return fmt.Errorf("%.200q is not an origin like https://scada.example.com", origin)
	}
	return nil
}

func plainHost(host string) bool {
	for _, c := range host {
		if c == '*' || c >= 'A' && c <= 'Z' || c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
