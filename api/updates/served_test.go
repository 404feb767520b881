package updates_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/signing"
)

// zeroed returns a signature of zeros that carries the id of another's key, and a version.
func zeroed(tb testing.TB, signature, version string) string {
	tb.Helper()
	lines := strings.Split(string(apitest.Must[[]byte](tb)(base64.StdEncoding.DecodeString(signature))), "\n")
	blob := apitest.Must[[]byte](tb)(base64.StdEncoding.DecodeString(lines[1]))
	clear(blob[10:]) // behind the algorithm and the id
	lines[1] = base64.StdEncoding.EncodeToString(blob)
	lines[2] = regexp.MustCompile(`version:\S+`).ReplaceAllString(lines[2], "version:"+version)
	lines[3] = base64.StdEncoding.EncodeToString(make([]byte, 64))
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(lines, "\n")))
}

// TestNothingForgedIsServed: what somebody with the store and no key leaves as the manifest,
// with or without an entry of the log, is on neither address and on no page of the console;
// there is an alarm, and what was good is served, also by a server that begins then. Once it
// is gone, it is forgotten.
func TestNothingForgedIsServed(t *testing.T) { testNothingForged(t, apitest.Embedded(t)) }

func testNothingForged(t *testing.T, w *apitest.World) {
	w.Options.PublicURL = "https://releases.example.com/app"
	w.Refresh = 20 * time.Millisecond
	d := w.Desk(t)
	d.PublishVersion(t, "stable", "1.0.0")
	older, _ := w.Stored(t, "stable/latest.json")
	d.PublishVersion(t, "stable", "1.1.0")
	good, _ := w.Stored(t, "stable/latest.json")
	rightful := everything(t, w.Objects)

	shows := func(change func(*manifest.Manifest)) func() {
		return func() { plant(t, w, "stable/latest.json", changed(t, good, change)) }
	}
	enters := func(change func(*channels.Entry)) func() {
		return func() {
			log := apitest.Must[*channels.Log](t)(channels.Repository{Store: w.Objects}.Load(t.Context(), "stable"))
			e := *log.Head()
			e.Action = channels.Publish
			e.Release.Platforms = maps.Clone(e.Release.Platforms)
			change(&e)
			e = log.Next(e)
			plant(t, w, "log/stable/0000000003.json", apitest.Must[[]byte](t)(json.Marshal(e)))
			m := e.Render(w.Options.PublicURL)
			plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
		}
	}
	unbound := apitest.Must[signing.Signature](t)(d.Key.Sign(signing.Digest{1}, signing.Comment{})).String()
	for name, attack := range map[string]func(){
		"zeros": shows(func(m *manifest.Manifest) {
			m.Version = "6.6.6"
			for key, p := range m.Platforms {
				m.Platforms[key] = manifest.Platform{URL: "https://evil.example.com/x", Signature: zeroed(t, p.Signature, "6.6.6")}
			}
		}),
		"zeros, with an entry": enters(func(e *channels.Entry) {
			e.Release.Version = "6.6.6"
			for key, b := range e.Release.Platforms {
				b.Signature = zeroed(t, b.Signature, "6.6.6")
				e.Release.Platforms[key] = b
			}
		}),
		"an old bundle as a new one": shows(func(m *manifest.Manifest) {
			m.Version = "9.9.9"
			for key, p := range m.Platforms {
				p.Signature = unbound
				m.Platforms[key] = p
			}
		}),
		"an old bundle as a new one, with an entry": enters(func(e *channels.Entry) {
			e.Release.Version = "9.9.9"
			for key, b := range e.Release.Platforms {
				b.Signature = unbound
				e.Release.Platforms[key] = b
			}
		}),
		"changed notes": shows(func(m *manifest.Manifest) { m.Notes = "evil" }),
		"a record with changed notes": func() {
			data, _ := w.Stored(t, "releases/1.1.0/release.json")
			plant(t, w, "releases/1.1.0/release.json", edited(t, data, func(r *library.Record) { r.Notes = "evil" }))
		},
		"critical":          shows(func(m *manifest.Manifest) { m.Critical = true }),
		"a minimum version": shows(func(m *manifest.Manifest) { m.MinimumVersion = "1.0.0" }),
		"the older manifest under the present number": func() {
			plant(t, w, "stable/latest.json", changed(t, older, func(m *manifest.Manifest) { m.Sequence = 2 }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, w.Objects, rightful)
			known := apitest.Client{TB: t, Base: w.Serve(t).URL}
			apitest.Eventually(t, "it is served", func() bool { return bytes.Equal(known.Get("/updates/stable/latest.json").Body, good) })
			attack()
			fresh := apitest.Client{TB: t, Base: w.Serve(t).URL}
			for who, c := range map[string]apitest.Client{"known": known, "fresh": fresh} {
				if got := c.Get("/updates/releases/1.1.0/release.json"); got.Status != 503 && !bytes.Equal(got.Body, rightful["releases/1.1.0/release.json"]) {
					t.Errorf("%s: the record: %d %.300s", who, got.Status, got.Body)
				}
				apitest.Eventually(t, "there is an alarm", func() bool { return c.Alarms() > 0 })
				if got := c.Get("/readyz?for=updates"); got.Status != 200 {
					t.Errorf("%s: not ready: %s", who, got.Body)
				}
				static := c.Get("/updates/stable/latest.json")
				offered := c.Get("/updates/stable/linux/x86_64/0.9.0")
				nothing := who == "fresh" && strings.HasSuffix(name, "with an entry") // rather than something old
				switch {
				case nothing && (static.Status != 503 || offered.Status != 503):
					t.Errorf("%s: %d %.300s, %d %.300s", who, static.Status, static.Body, offered.Status, offered.Body)
				case !nothing && (!bytes.Equal(static.Body, good) || offered.Version(t) != "1.1.0" || bytes.Contains(offered.Body, []byte("evil")) || bytes.Contains(offered.Body, []byte("critical"))):
					t.Errorf("%s: %d %.300s, %d %.300s", who, static.Status, static.Body, offered.Status, offered.Body)
				}
				if got := c.Get("/updates/stable/linux/x86_64/1.1.0"); !nothing && got.Status != 204 {
					t.Errorf("%s: who has it is offered %d %.300s", who, got.Status, got.Body)
				}
				for _, page := range []string{"/releases/overview", "/releases/channels/stable/log", "/releases/channels/stable/log/2", "/releases/versions"} {
					got := c.Get(page)
					text := got.Body
					if page == "/releases/overview" {
						var o struct{ Channels, Alarms json.RawMessage }
						apitest.ReadJSON(t, text, &o)
						if text = o.Channels; !regexp.MustCompile(`stable|releases/1\.1\.0`).Match(o.Alarms) {
							t.Errorf("%s: the page has no alarm: %s", who, got.Body)
						}
					}
					if regexp.MustCompile(`6\.6\.6|9\.9\.9|evil|"critical":|minimum_version`).Match(text) {
						t.Errorf("%s: %s has it: %d %.2000s", who, page, got.Status, text)
					}
				}
			}

			reset(t, w.Objects, rightful)
			for _, c := range []apitest.Client{known, fresh} {
				apitest.Eventually(t, "it is forgotten", func() bool {
					w.Clock.Move(time.Second) // a log without news is looked at every minute
					// A channel whose manifest a round missed, since reset replaces it, is read
					// again when somebody asks for it: so what is served is asked for first.
					static, offered := c.Get("/updates/stable/latest.json"), linux(c, "0.9.0", "")
					return bytes.Equal(static.Body, good) && offered.Status == 200 && offered.Version(t) == "1.1.0" && c.Alarms() == 0
				})
			}
		})
	}
}
