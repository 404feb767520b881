package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/cors"
)

// desktopOrigins are the origins of Tauri web views: macOS and Linux, Windows
// without and with HTTPS.
var desktopOrigins = []string{"tauri://localhost", "http://tauri.localhost", "https://tauri.localhost"}

// CORS lets pages of the desktop application and of the given origins send requests
// with credentials. headers are those that they may send besides the usual ones,
// exposed those that they may read.
func CORS(origins, headers, exposed []string) func(http.Handler) http.Handler {
	known := append(slices.Clone(desktopOrigins), origins...)
	return cors.New(cors.Options{
		AllowOriginFunc:  func(origin string) bool { return slices.Contains(known, origin) },
		AllowCredentials: true,
		AllowedMethods:   []string{http.MethodGet, http.MethodHead, http.MethodPost},
		AllowedHeaders:   append([]string{"Authorization", "Content-Type", "Accept"}, headers...),
		ExposedHeaders:   append([]string{"X-Request-Id", "Retry-After"}, exposed...),
		MaxAge:           600,
	}).Handler
}

// CheckOrigin returns an error unless origin is a scheme, a host and perhaps a
// port, as browsers send it: without the scheme's default port. There are no
// wildcards.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || origin != u.Scheme+"://"+u.Host || !plainHost(u.Hostname()) || !plainPort(u) {
		return fmt.Errorf("%.200q is not an origin like https://scada.example.com", origin)
	}
	return nil
}

func plainHost(host string) bool {
	return host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") == "" && !strings.Contains("."+host, "..")
}

func plainPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	own := map[string]uint64{"http": 80, "https": 443}[u.Scheme]
	return err == nil && n > 0 && n != own && u.Port()[0] != '0'
}
