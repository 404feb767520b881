package web

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzCheckOrigin(f *testing.F) {
	for _, seed := range append([]string{
		"https://scada.example.com", "http://[::1]:8080", "https://*", "https://a:80:80", "null", "*", "https://scada.example.com/", "https://scada.example.com:443", "https://user@scada.example.com",
		"https://a.com, https://b.com", "HTTPS://A.COM", "https://a.com.", "https://a.com%60.b.com", "//a.com", "a.com", "file://", "TAURI://localhost", "https://a.com\x80",
	}, desktopOrigins...) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		if CheckOrigin(origin) != nil {
			return
		}
		u, err := url.Parse(origin)
		if err != nil || u.Hostname() == "" || u.User != nil || u.Path+u.RawQuery+u.Fragment+u.Opaque != "" || origin != strings.ToLower(origin) {
			t.Errorf("%q passes: %+v, %v", origin, u, err)
		}
		if strings.ContainsAny(origin, "*,; \t\r\n\\%?#@\"'<>") || !utf8.ValidString(origin) {
			t.Errorf("%q passes", origin)
		}
	})
}
