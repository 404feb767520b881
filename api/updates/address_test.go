package updates_test

import (
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
)

// TestOwnAddress: a server gives clients the addresses of its own public URL, in
// manifests and in offers; without one, those that the release was published with.
func TestOwnAddress(t *testing.T) {
	for _, c := range []struct{ own, want string }{
		{"", "https://releases.example.com/app"}, {"https://own.example.com", "https://own.example.com"},
		{"https://releases.example.com/app", "https://releases.example.com/app"},
	} {
		w := apitest.Embedded(t)
		w.Options.PublicURL = c.own
		d := w.Desk(t)
		d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
		d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{99}} })
		nobody := still(t, w)
		nobody.Heads.Round(t.Context())
		shown := nobody.Get("/updates/stable/latest.json")
		m := apitest.Must[*manifest.Manifest](t)(manifest.Decode(shown.Body))
		if got := m.Platforms["linux-x86_64"].URL; got != c.want+"/releases/1.0.0/App_1.0.0_amd64.AppImage.tar.gz" || m.Sequence != 2 {
			t.Errorf("own address %q: entry %d, %s", c.own, m.Sequence, got)
		}
		for _, id := range []string{"", "a", "b", "c"} {
			if got := linux(nobody.Client, "0.9.0", id); !strings.Contains(string(got.Body), `"url":"`+c.want+"/releases/1.") {
				t.Errorf("own address %q: %q is offered %s", c.own, id, got.Body)
			}
		}
		again := nobody.Send("GET", "/updates/stable/latest.json", nil, map[string][]string{"If-None-Match": {shown.Header.Get("ETag")}})
		if stored, _ := w.Stored(t, "stable/latest.json"); again.Status != 304 || (string(stored) == string(shown.Body)) != (c.own != "https://own.example.com") {
			t.Errorf("own address %q: status %d, %s", c.own, again.Status, shown.Body)
		}
		d.PublishWith(t, "1.2.0", func(*release.PublishOptions) {})
		nobody.Heads.Round(t.Context())
		if next := nobody.Get("/updates/stable/latest.json"); next.Header.Get("ETag") == shown.Header.Get("ETag") || !strings.Contains(string(next.Body), c.want+"/releases/1.2.0/") {
			t.Errorf("own address %q, the next release: %s", c.own, next.Body)
		}
	}
}
