package web_test

import (
	"net/http/httptest"
	"testing"

	"tsmon/api/web"
)

// TestAddressOf: behind a proxy, addresses name the host that the client asked for.
func TestAddressOf(t *testing.T) {
	for name, c := range map[string]struct {
		path, forwarded string
		behindProxy     bool
		want            string
	}{
		"direct":                     {"/upload", "", false, "http://inner:8080/uploads/a.png"},
		"direct, with the header":    {"/upload", "evil.example.com", false, "http://inner:8080/uploads/a.png"},
		"a proxy that passes Host":   {"/upload", "", true, "https://inner:8080/uploads/a.png"},
		"a proxy that sets the host": {"/upload", "scada.example.com", true, "https://scada.example.com/uploads/a.png"},
		"below /api":                 {"/api/upload", "scada.example.com", true, "https://scada.example.com/api/uploads/a.png"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://inner:8080"+c.path, nil)
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		if got := web.AddressOf(r, c.behindProxy, "uploads/a.png"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
