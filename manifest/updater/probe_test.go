package updater_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/signing"
)

// channel is a manifest with two bundles, the universal one under two keys, and
// the server that shows it.
type channel struct {
	*server
	signer
	shows atomic.Pointer[string] // body of /latest.json
}

const universal, windows = "universal bundle", "windows bundle"

func newChannel(t *testing.T) *channel {
	c := &channel{signer: newSigner(t)}
	c.server = newServer(t, map[string]http.HandlerFunc{
		"/latest.json": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *c.shows.Load()) },
		"/universal":   text(200, universal),
		"/windows":     text(200, windows),
		"/changed":     text(200, "changed bundle"),
	})
	return c
}

// at returns a state of the channel.
func (c *channel) at(version string, sequence uint64) manifest.Manifest {
	c.t.Helper()
	mac := manifest.Platform{Signature: c.sign(universal, version), URL: c.URL + "/universal"}
	return manifest.Manifest{Version: version, Notes: "Fixes.", PubDate: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), Sequence: sequence,
		Platforms: map[string]manifest.Platform{
			"darwin-aarch64": mac, "darwin-x86_64": mac,
			"windows-x86_64": {Signature: c.sign(windows, version), URL: c.URL + "/windows"},
		}}
}

func (c *channel) show(m manifest.Manifest) {
	c.t.Helper()
	body, err := m.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(body)
	c.shows.Store(&text)
}

// count returns the number of requests for a path.
func (c *channel) count(path string) int {
	n := 0
	for _, uri := range c.asked() {
		if uri == path {
			n++
		}
	}
	return n
}

func TestProbe(t *testing.T) {
	type state = func(*channel) manifest.Manifest
	at := func(version string, sequence uint64) state {
		return func(c *channel) manifest.Manifest { return c.at(version, sequence) }
	}
	// with gives Windows a bundle of its own
	with := func(path, version string) state {
		return func(c *channel) manifest.Manifest {
			m := c.at("1.1.0", 5)
			m.Platforms["windows-x86_64"] = manifest.Platform{Signature: c.sign(windows, version), URL: c.URL + path}
			return m
		}
	}
	noted := func(c *channel) manifest.Manifest {
		m := c.at("1.1.0", 5)
		m.Notes = "Other fixes."
		return m
	}
	current := at("1.1.0", 5)
	const yes, no, either = "yes", "no", "either" // two are under way at a time
	for _, s := range []struct {
		name         string
		shown, want  state
		allowUnbound bool
		stranger     bool // another key is trusted
		err          error
		says         string
		bundles      string // were asked for
	}{
		{"as published", current, current, false, false, nil, "", yes},
		{"later state", at("1.2.0", 6), current, false, false, nil, "", yes},
		{"older state", at("1.0.0", 4), current, false, false, updater.ErrStale, "version 1.0.0, entry 4", no},
		{"other content", noted, current, false, false, nil, `shows entry 5 with other content than was published: notes is "Other fixes.", not "Fixes."`, no},
		{"changed bundle", with("/changed", "1.1.0"), with("/changed", "1.1.0"), false, false, signing.ErrSignature, "/changed: ", yes},
		{"missing bundle", with("/missing", "1.1.0"), with("/missing", "1.1.0"), false, false, updater.ErrStatus, "/missing: unexpected status 404", yes},
		{"unbound", with("/windows", ""), with("/windows", ""), false, false, signing.ErrUnbound, "/windows: ", either},
		{"unbound allowed", with("/windows", ""), with("/windows", ""), true, false, nil, "", yes},
		{"other key", current, current, false, true, signing.ErrUntrustedKey, "", no},
	} {
		t.Run(s.name, func(t *testing.T) {
			c := newChannel(t)
			c.show(s.shown(c))
			p := &updater.Prober{Updater: updater.Updater{HTTP: c.Client(), Keys: c.keys(), RequireVersion: !s.allowUnbound}, Patience: time.Millisecond}
			if s.stranger {
				p.Keys = newSigner(t).keys()
			}
			err := p.Probe(t.Context(), c.URL+"/latest.json", s.want(c))
			if failed := s.err != nil || s.says != ""; (err != nil) != failed || failed && (s.err != nil && !errors.Is(err, s.err) || !strings.Contains(err.Error(), s.says)) {
				t.Errorf("ended with %v, want %v and %q", err, s.err, s.says)
			}
			if s.err == nil && errors.Is(err, updater.ErrStale) {
				t.Errorf("%v says that it is older", err)
			}
			asked := c.asked()
			if asked[0] != "/latest.json" || s.bundles != either && (len(asked) > 1) != (s.bundles == yes) {
				t.Errorf("%v was asked for", asked)
			}
		})
	}
}

func TestProbeReportsBadManifests(t *testing.T) {
	c := newChannel(t)
	want := c.at("1.1.0", 5)
	p := &updater.Prober{Updater: strict(c.keys(), nil), Patience: time.Millisecond}
	body := `{"version":"v1.1.0"}`
	c.shows.Store(&body)
	var problems manifest.Problems
	if err := p.Probe(t.Context(), c.URL+"/latest.json", want); !errors.As(err, &problems) || !strings.HasPrefix(err.Error(), c.URL+"/latest.json: ") || !strings.Contains(err.Error(), "begins with a v") {
		t.Errorf("ended with %v", err)
	}
	if err := p.Probe(t.Context(), c.URL+"/gone.json", want); !errors.Is(err, updater.ErrStatus) {
		t.Errorf("ended with %v", err)
	}
}

// TestProbeDeniedDoesNotWait: an answer of 401 is final, also for the first manifest.
func TestProbeDeniedDoesNotWait(t *testing.T) {
	asked := 0
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		asked++
		answer := respond(r, strings.NewReader(""), 0)
		answer.StatusCode = http.StatusUnauthorized
		return answer, nil
	})}
	p := &updater.Prober{Updater: strict(nil, client)}
	err := p.Probe(t.Context(), "https://h/latest.json", manifest.Manifest{Version: "1.1.0", Sequence: 1})
	if !errors.Is(err, updater.ErrDenied) || !errors.Is(err, updater.ErrStatus) || asked != 1 {
		t.Errorf("ended with %v after %d requests", err, asked)
	}
}

// Probe waits until a cache drops an older state, and until a server has seen that the
// store has another address.
func TestProbeWaitsForCaches(t *testing.T) {
	for name, before := range map[string]func(*channel, *manifest.Manifest){
		"older state": func(c *channel, m *manifest.Manifest) { *m = c.at("1.0.0", 4) },
		"old address": func(c *channel, m *manifest.Manifest) {
			p := m.Platforms["windows-x86_64"]
			p.URL = "https://old.example.com/windows"
			m.Platforms["windows-x86_64"] = p
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChannel(t)
			shown, want := c.at("1.1.0", 5), c.at("1.1.0", 5)
			before(c, &shown)
			c.show(shown)
			asked := 0
			client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/latest.json") {
					if asked++; asked == 2 {
						c.show(want)
					}
				}
				return http.DefaultTransport.RoundTrip(r)
			})}
			p := &updater.Prober{Updater: strict(c.keys(), client)}
			if err := p.Probe(t.Context(), c.URL+"/latest.json", want); err != nil || asked != 2 {
				t.Errorf("ended with %v after %d questions", err, asked)
			}
			if c.count("/universal") != 1 || c.count("/windows") != 1 {
				t.Errorf("%v was asked for", c.asked())
			}
		})
	}
}

// TestProbeWaitsForAServer: a server may believe for a moment that there is no manifest,
// as after one was lost and written again.
func TestProbeWaitsForAServer(t *testing.T) {
	c := newChannel(t)
	want := c.at("1.1.0", 5)
	c.show(want)
	asked := 0
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if asked++; asked == 1 {
			answer := respond(r, strings.NewReader(""), 0)
			answer.StatusCode = http.StatusNotFound
			return answer, nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	p := &updater.Prober{Updater: strict(c.keys(), client)}
	if _, err := p.Await(t.Context(), c.URL+"/latest.json", want); err != nil || asked != 2 {
		t.Errorf("ended with %v after %d requests", err, asked)
	}
}

// Patience applies to what may change by itself: requests become less frequent, and a slow
// answer is not cut off.
func TestProbePatience(t *testing.T) {
	key := newSigner(t)
	state := func(sequence uint64) manifest.Manifest {
		return manifest.Manifest{Version: "1.1.0", Sequence: sequence, Platforms: map[string]manifest.Platform{
			"linux-x86_64": {Signature: key.sign("bundle", "1.1.0"), URL: "https://h/bundle"}}}
	}
	stale, want := encode(t, state(4)), state(5)
	current := encode(t, want)
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		begin := time.Now()
		p := &updater.Prober{Updater: strict(key.keys(), &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, time.Since(begin))
			return respond(r, strings.NewReader(stale), -1), nil
		})})}
		err := p.Probe(t.Context(), "https://h/latest.json", want)
		const ms = time.Millisecond
		times := []time.Duration{0, 250 * ms, 750 * ms, 1750 * ms, 3750 * ms, 5750 * ms, 7750 * ms, 9750 * ms, 11750 * ms, 13750 * ms}
		if took := time.Since(begin); !errors.Is(err, updater.ErrStale) || took != 15*time.Second || !slices.Equal(asked, times) {
			t.Errorf("after %s: %v; asked at %v", took, err, asked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := &updater.Prober{Patience: time.Second, Updater: strict(key.keys(), &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/bundle" {
				return respond(r, strings.NewReader("bundle"), 6), nil
			}
			time.Sleep(20 * time.Second)
			return respond(r, strings.NewReader(current), -1), nil
		})})}
		if err := p.Probe(t.Context(), "https://h/latest.json", want); err != nil {
			t.Errorf("a slow answer: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		p := &updater.Prober{Updater: strict(key.keys(), &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			return respond(r, strings.NewReader(stale), -1), nil
		})})}
		err := p.Probe(ctx, "https://h/latest.json", want)
		if took := time.Since(begin); !errors.Is(err, updater.ErrStale) || !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("cancelled after %s: %v", took, err)
		}
	})
}

func encode(t *testing.T, m manifest.Manifest) string {
	t.Helper()
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A bundle is downloaded once for all keys and channels that show it, but again for
// another version.
func TestProberDownloadsEachBundleOnce(t *testing.T) {
	c := newChannel(t)
	p := &updater.Prober{Updater: strict(c.keys(), nil)}
	for sequence := range uint64(3) {
		m := c.at("1.1.0", sequence+1)
		c.show(m)
		if err := p.Probe(t.Context(), c.URL+"/latest.json", m); err != nil {
			t.Fatal(err)
		}
	}
	if c.count("/universal") != 1 || c.count("/windows") != 1 {
		t.Errorf("%v was asked for", c.asked())
	}
	renamed := c.at("1.1.0", 9)
	renamed.Version = "1.2.0"
	if err := p.Bundles(t.Context(), &renamed, func(_ string, err error) error { return err }); !errors.Is(err, signing.ErrBound) {
		t.Errorf("version 1.1.0 announced as 1.2.0: %v", err)
	}
}

func TestProberRetriesFailedBundles(t *testing.T) {
	key, broken := newSigner(t), atomic.Bool{}
	broken.Store(true)
	s := newServer(t, map[string]http.HandlerFunc{"/x": func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			_, _ = io.WriteString(w, "broken")
			return
		}
		_, _ = io.WriteString(w, "bundle")
	}})
	m := &manifest.Manifest{Version: "1.1.0", Platforms: map[string]manifest.Platform{"linux-x86_64": key.offer(s.URL+"/x", "bundle", "1.1.0").Platform}}
	p := &updater.Prober{Updater: strict(key.keys(), nil)}
	pass := func(_ string, err error) error { return err }
	if err := p.Bundles(t.Context(), m, pass); !errors.Is(err, signing.ErrSignature) {
		t.Errorf("a broken bundle: %v", err)
	}
	broken.Store(false)
	if err := p.Bundles(t.Context(), m, pass); err != nil {
		t.Errorf("the whole bundle after the broken one: %v", err)
	}
}

func TestBundlesVerdicts(t *testing.T) {
	c := newChannel(t)
	m := c.at("1.1.0", 5)
	m.Platforms["linux-x86_64"] = manifest.Platform{Signature: c.sign("x", "1.1.0"), URL: c.URL + "/missing"}
	p := &updater.Prober{Updater: strict(c.keys(), nil)}
	verdicts := map[string]error{}
	err := p.Bundles(t.Context(), &m, func(key string, err error) error {
		if _, twice := verdicts[key]; twice {
			t.Errorf("a second verdict on %s", key)
		}
		verdicts[key] = err
		return nil
	})
	if err != nil || len(verdicts) != 4 || !errors.Is(verdicts["linux-x86_64"], updater.ErrStatus) {
		t.Errorf("ended with %v, %v", verdicts, err)
	}
	for _, key := range []string{"darwin-aarch64", "darwin-x86_64", "windows-x86_64"} {
		if verdicts[key] != nil {
			t.Errorf("%s: %v", key, verdicts[key])
		}
	}
	if c.count("/universal") != 1 {
		t.Errorf("%v was asked for", c.asked())
	}
}

// After the first error of verdict there are no more calls, and downloads are
// cancelled.
func TestBundlesStopAtTheFirstError(t *testing.T) {
	key, underway := newSigner(t), make(chan struct{})
	s := newServer(t, map[string]http.HandlerFunc{
		"/silent": func(_ http.ResponseWriter, r *http.Request) { close(underway); <-r.Context().Done() },
		"/x":      func(w http.ResponseWriter, _ *http.Request) { <-underway; _, _ = io.WriteString(w, "x") },
	})
	m := &manifest.Manifest{Version: "1.1.0", Platforms: map[string]manifest.Platform{
		"darwin-aarch64": key.offer(s.URL+"/silent", "x", "1.1.0").Platform,
		"darwin-x86_64":  key.offer(s.URL+"/x", "x", "1.1.0").Platform,
		"linux-x86_64":   key.offer(s.URL+"/x?2", "x", "1.1.0").Platform,
		"windows-x86_64": key.offer(s.URL+"/x?3", "x", "1.1.0").Platform,
	}}
	end, verdicts := errors.New("enough"), 0
	err := (&updater.Prober{Updater: strict(key.keys(), nil)}).Bundles(t.Context(), m, func(string, error) error {
		verdicts++
		return end
	})
	if err != end || verdicts != 1 {
		t.Errorf("ended with %v after %d verdicts", err, verdicts)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = (&updater.Prober{Updater: strict(key.keys(), nil)}).Bundles(ctx, m, func(string, error) error {
		t.Error("a verdict after the end")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
