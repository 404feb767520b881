package config

import "testing"

func TestServeCommand(t *testing.T) {
	for _, c := range []struct{ publicURL, listen, want string }{
		{"https://updates.example.com", "", "tsmon serve"},
		{"http://updates.example.com:9000/updates", "", "tsmon serve"},
		{"http://localhost:8080/updates", "", "tsmon serve"},
		{"http://localhost:19100/updates", "", "tsmon serve --listen localhost:19100"},
		{"http://127.0.0.1:19100", ":19100", "tsmon serve"},
		{"http://127.0.0.1", "", "tsmon serve --listen 127.0.0.1:80"},
		{"http://[::1]:9000", "", "tsmon serve --listen [::1]:9000"},
		{"http://%zz", "", "tsmon serve"},
		{"", "", "tsmon serve"},
	} {
		if got := ServeCommand(c.publicURL, c.listen); got != c.want {
			t.Errorf("%q with listen %q: %s, want %s", c.publicURL, c.listen, got, c.want)
		}
	}
}
