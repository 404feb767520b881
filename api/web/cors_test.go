package web

import "testing"

func TestHostileCheckOrigin(t *testing.T) {
	for _, origin := range append(desktopOrigins, "https://scada.example.com", "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:8080", "https://xn--ao-zja.example", "https://a_b.example", "https://h:1", "capacitor://localhost") {
		if err := CheckOrigin(origin); err != nil {
			t.Error(err)
		}
	}
	for _, origin := range []string{
		"", "*", "null", "https://*.example.com", "https://*", "https://", "https:", "https", "scada.example.com", "//scada.example.com", "https:scada.example.com", "https:/scada.example.com", "https://scada.example.com/", "https://scada.example.com/x", "https://scada.example.com?x", "https://scada.example.com#x",
		"https://user@scada.example.com", "https://user:secret@scada.example.com", "https://Scada.example.com", "HTTPS://scada.example.com", " https://scada.example.com", "https://scada.example.com ", "https://scada example.com", "https://scada.example.com\n", "https://scada.example.com\x00", "https://año.example",
		"https://scada.example.com:", "https://:443", "https://:", "https://scada.example.com:0", "https://scada.example.com:65536", "https://scada.example.com:x", "https://scada.example.com:443:443", "https://scada.example.com:0443", "https://a,b", "https://a;b", `https://a"b`, "https://a'b", "https://a\\b", "https://%41", "https://[::1", "https://::1", "https://..", "https://scada.example.com, https://b",
		"https://scada.example.com:443", "http://scada.example.com:80", // which browsers leave out
	} {
		if CheckOrigin(origin) == nil {
			t.Errorf("%q passes for an origin", origin)
		}
	}
}
