package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
		AllowedHeaders:   []string{"Authorization", "Content-Type", "Accept", "accesskey", "secretkey", clientHeader, cohortHeader},
		ExposedHeaders:   []string{"X-Request-Id", truncatedHeader, "Retry-After"},
		MaxAge:           600,
	}).Handler
}

// CheckOrigin reports why a text is not the origin of a web page: a scheme, a
// host and perhaps a port, as browsers send it, who leave out the scheme's own
// port. There are no wildcards.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || origin != u.Scheme+"://"+u.Host || !plainHost(u.Hostname()) || !plainPort(u) {
		return fmt.Errorf("%.200q is not an origin like https://scada.example.com", origin)
	}
	return nil
}

func plainHost(host string) bool {
	for _, c := range host {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_:", c) {
			return false
		}
	}
	return host != "" && !strings.Contains("."+host, "..")
}

func plainPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	own := map[string]uint64{"http": 80, "https": 443}[u.Scheme]
	return err == nil && n > 0 && n != own && u.Port()[0] != '0'
}
