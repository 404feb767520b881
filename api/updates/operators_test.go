package updates_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tsmon/api/apitest"
	"tsmon/api/updates"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/signing"
)

// operator is somebody whose key signs moves.
type operator struct{ signing.SSHSigner }

func newOperator(tb testing.TB) operator {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	plain := apitest.Must[ssh.Signer](tb)(ssh.NewSignerFromKey(private))
	return operator{apitest.Must[signing.SSHSigner](tb)(signing.NewSSHSigner(plain))}
}

func (o operator) key() string { return o.Public().String() }

func (o operator) sign(_ context.Context, keys []string, data []byte) (string, error) {
	if !slices.Contains(keys, o.key()) {
		return "", nil
	}
	return o.Sign(channels.Namespace, data)
}

// guarded is a world whose stable needs the signatures of ann and bob.
type guarded struct {
	*apitest.World
	desk          apitest.Desk
	ann, bob, cem operator
}

func guard(tb testing.TB, w *apitest.World) *guarded {
	tb.Helper()
	w.Options.PublicURL = "https://releases.example.com/app"
	g := &guarded{World: w, desk: w.Desk(tb), ann: newOperator(tb), bob: newOperator(tb), cem: newOperator(tb)}
	g.appoint(map[string]operator{"ann": g.ann, "bob": g.bob})
	return g
}

// appoint configures operators for the desk and for servers that begin later.
func (g *guarded) appoint(who map[string]operator) {
	o := &channels.Operators{Keys: map[string]string{}, Approvals: 2, Rollbacks: 2}
	for name, operator := range who {
		o.Keys[name] = operator.key()
	}
	g.desk.Policies["stable"] = release.Policy{Operators: o}
	g.Trust = map[string]updates.Trust{"stable": {Operators: o}}
}

// publish publishes a version with both signatures.
func (g *guarded) publish(tb testing.TB, version string, by ...operator) {
	tb.Helper()
	g.desk.Sign = by[0].sign
	g.desk.PublishVersion(tb, "stable", version)
	g.approve(tb, by[1])
}

func (g *guarded) approve(tb testing.TB, by operator) {
	tb.Helper()
	g.desk.Sign = by.sign
	if plan, err := g.desk.Approve(tb.Context(), "stable", "", false); err != nil || !plan.Changed {
		tb.Fatalf("it does not move: %+v, %v", plan, err)
	}
}

func (g *guarded) log(tb testing.TB) *channels.Log {
	tb.Helper()
	return apitest.Must[*channels.Log](tb)(channels.Repository{Store: g.Objects, Trust: g.Trust}.Load(tb.Context(), "stable"))
}

// approved adds signatures to an entry.
func approved(tb testing.TB, e channels.Entry, by ...operator) channels.Entry {
	tb.Helper()
	payload := apitest.Must[[]byte](tb)(e.Payload())
	for _, o := range by {
		e.Signatures = append(e.Signatures, apitest.Must[string](tb)(o.Sign(channels.Namespace, payload)))
	}
	return e
}

// steal writes an entry into the store as a thief does, and the manifest that it shows. It
// returns what takes both back.
func (g *guarded) steal(tb testing.TB, e channels.Entry) (restore func()) {
	tb.Helper()
	before := g.objects(tb)
	plant(tb, g.World, fmt.Sprintf("log/stable/%010d.json", e.Sequence), apitest.Must[[]byte](tb)(json.Marshal(e)))
	m := e.Render(g.Options.PublicURL)
	plant(tb, g.World, "stable/latest.json", apitest.Must[[]byte](tb)(m.Encode()))
	return func() { g.restore(tb, before) }
}

// objects are the log and the manifest of stable.
func (g *guarded) objects(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	for _, prefix := range []string{"log/stable/", "stable/"} {
		for info, err := range g.Objects.List(tb.Context(), prefix, "") {
			if err != nil {
				tb.Fatal(err)
			}
			all[info.Key], _ = g.Stored(tb, info.Key)
		}
	}
	return all
}

// restore makes them what they were.
func (g *guarded) restore(tb testing.TB, before map[string][]byte) {
	tb.Helper()
	for key := range g.objects(tb) {
		if _, ok := before[key]; !ok {
			if err := g.Objects.Delete(tb.Context(), key); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for key, data := range before {
		plant(tb, g.World, key, data)
	}
}

// shows wants a server to show and to offer a version, or nothing for "".
func shows(tb testing.TB, u *apitest.Updates, version string) {
	tb.Helper()
	static, offer := u.Get("/updates/stable/latest.json"), u.Get("/updates/stable/linux/x86_64/0.9.0")
	if version == "" {
		static.WantFailure(tb, http.StatusServiceUnavailable)
		offer.WantFailure(tb, http.StatusServiceUnavailable)
		return
	}
	var m struct{ Version string }
	apitest.ReadJSON(tb, static.Body, &m)
	if got := offer.Version(tb); static.Status != 200 || m.Version != version || got != version {
		tb.Errorf("shown %d %s, offered %s, want %s", static.Status, m.Version, got, version)
	}
}

// TestUnsignedSteps: a server believes a step that nobody signed, and shows it as what follows
// from the rollout that two signed. It believes none that says more.
func TestUnsignedSteps(t *testing.T) {
	w := apitest.Embedded(t)
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.desk.Sign = g.ann.sign
	g.desk.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Rollout = &channels.Rollout{Steps: []int{25, 100}, Every: channels.Duration(time.Hour)}
	})
	g.approve(t, g.bob)
	w.Clock.Move(time.Hour)
	u := serveStill(t, w)
	u.Heads.Round(t.Context())
	shows(t, u, "1.0.0")

	log := g.log(t)
	forged := log.Next(channels.Entry{Action: channels.Advance, Who: "ann", Why: "approved by ann and bob", When: w.Clock.Now(), Release: log.Head().Rollout.Release})
	restore := g.steal(t, forged)
	u.Heads.Round(t.Context())
	shows(t, u, "1.0.0")
	if u.Alarms() == 0 {
		t.Error("no alarm of a step with a reason that nobody signed")
	}
	restore()

	g.desk.Sign = nil
	if plan, err := g.desk.Advance(t.Context(), release.Options{Channel: "stable", Why: "a quiet week"}); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	u.Heads.Round(t.Context())
	shows(t, u, "1.1.0")
	page := apitest.Client{TB: t, Base: w.Serve(t).URL}
	rows := read[updates.EntryPage](t, page.Get("/releases/channels/stable/log")).Entries
	if e := rows[0]; e.Who != channels.Stepper || e.Why != "step 2 of 2" || e.Needs != 0 || len(e.SignedBy) != 0 {
		t.Errorf("the step is shown as %+v", e)
	}
	if e := rows[1]; e.Needs != 2 || len(e.SignedBy) != 2 {
		t.Errorf("the rollout is shown as %+v", e)
	}
}

// TestPauseNeedsOne: one operator's signature is enough for a pause, and the log says so.
func TestPauseNeedsOne(t *testing.T) {
	w := apitest.Embedded(t)
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.publish(t, "1.1.0", g.ann, g.bob)
	g.desk.Sign = g.ann.sign
	if plan, err := g.desk.Pause(t.Context(), release.Options{Channel: "stable", Why: "it crashes"}); err != nil || !plan.Changed {
		t.Fatalf("%+v, %v", plan, err)
	}
	page := apitest.Client{TB: t, Base: w.Serve(t).URL}
	rows := read[updates.EntryPage](t, page.Get("/releases/channels/stable/log")).Entries
	if e := rows[0]; e.Action != channels.Pause || e.Needs != 1 || len(e.SignedBy) != 1 {
		t.Errorf("the pause is shown as %+v", e)
	}
}

// TestForgedEntries: somebody with the store's credentials and one operator's key writes
// entries and their manifests, whose bundles are all rightly signed. No server shows them:
// one that knew the channel goes on, a fresh one shows nothing, and both go on with the
// rightful entry.
func TestForgedEntries(t *testing.T) { testForgedEntries(t, apitest.Embedded(t)) }

func testForgedEntries(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	version := "1.1.0"
	g.publish(t, version, g.ann, g.bob)
	thief := newOperator(t)
	n := 1
	for name, forge := range map[string]func(log *channels.Log) channels.Entry{
		"back, unsigned": func(log *channels.Log) channels.Entry {
			e := *log.At(1)
			e.Action, e.Signatures = channels.Rollback, nil
			return log.Next(e)
		},
		"back, by one": func(log *channels.Log) channels.Entry {
			e := *log.At(1)
			e.Action, e.Signatures, e.Operators = channels.Rollback, nil, nil
			return approved(t, log.Next(e), g.bob)
		},
		"critical, by one and a stranger": func(log *channels.Log) channels.Entry {
			e := *log.Head()
			e.Signatures, e.Release.Critical = nil, true
			return approved(t, log.Next(e), g.bob, thief)
		},
		"the signatures of another entry": func(log *channels.Log) channels.Entry { return log.Next(*log.Head()) },
		"other operators": func(log *channels.Log) channels.Entry {
			e := *log.Head()
			e.Action, e.Signatures = channels.Appoint, nil
			e.Operators = &channels.Operators{Keys: map[string]string{"me": thief.key()}, Approvals: 1, Rollbacks: 1}
			return approved(t, log.Next(e), thief)
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := serveStill(t, w)
			known.Heads.Round(t.Context())
			shows(t, known, version)
			restore := g.steal(t, forge(g.log(t)))
			fresh := still(t, w)
			for range 3 {
				known.Heads.Round(t.Context())
				fresh.Heads.Round(t.Context())
			}
			shows(t, known, version)
			shows(t, fresh, "")
			wantUnverified(t, w, known, 2) // the log and the manifest
			wantUnverified(t, w, fresh, 2)

			restore()
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, version)
				wantUnverified(t, w, u, 0)
			}
			n++
			version = fmt.Sprintf("1.%d.0", n)
			g.publish(t, version, g.bob, g.ann)
			for _, u := range []*apitest.Updates{known, fresh} {
				u.Heads.Round(t.Context())
				shows(t, u, version)
				wantUnverified(t, w, u, 0)
			}
		})
	}
}

// TestStolenBucket: the whole log is another's, rightly chained, with a manifest that goes
// with it and with bundles that were once released. A server that knew the channel goes on;
// a fresh one shows nothing until the rightful log is back.
func TestStolenBucket(t *testing.T) { testStolenBucket(t, apitest.Embedded(t)) }

func testStolenBucket(t *testing.T, w *apitest.World) {
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	g.publish(t, "1.1.0", g.ann, g.bob)
	thief := newOperator(t)
	rightful := g.objects(t)
	old := *g.log(t).At(1)
	old.Signatures, old.Expires, old.Entered = nil, time.Time{}, time.Time{}
	for name, operators := range map[string]*channels.Operators{
		"without operators":       nil,
		"with his own":            {Keys: map[string]string{"me": thief.key()}, Approvals: 1, Rollbacks: 1},
		"with himself among ours": {Keys: map[string]string{"me": thief.key(), "ann": g.ann.key(), "bob": g.bob.key()}, Approvals: 1, Rollbacks: 1},
	} {
		for _, length := range []int{0, 1, 2, 3} {
			t.Run(fmt.Sprintf("%s, %d entries", name, length), func(t *testing.T) {
				known := serveStill(t, w)
				known.Heads.Round(t.Context())
				if err := g.Objects.Delete(t.Context(), slices.Collect(maps.Keys(rightful))...); err != nil {
					t.Fatal(err)
				}
				log := &channels.Log{Channel: "stable"}
				for i := range max(length, 1) {
					e := old
					if e.Operators = nil; i == 0 {
						e.Operators = operators
					}
					e = log.Next(e)
					if operators != nil {
						e = approved(t, e, thief)
					}
					if length > 0 {
						log = apitest.Must[*channels.Log](t)(channels.Repository{Store: g.Objects}.Enter(t.Context(), log, e))
					}
					m := e.Render(g.Options.PublicURL)
					plant(t, w, "stable/latest.json", apitest.Must[[]byte](t)(m.Encode()))
				}
				fresh := still(t, w)
				known.Heads.Round(t.Context())
				fresh.Heads.Round(t.Context())
				shows(t, known, "1.1.0")
				shows(t, fresh, "")
				if known.Alarms() == 0 || fresh.Alarms() == 0 {
					t.Error("there is no alarm")
				}
				g.restore(t, rightful)
				for _, u := range []*apitest.Updates{known, fresh} {
					u.Heads.Round(t.Context())
					shows(t, u, "1.1.0")
					wantUnverified(t, w, u, 0)
				}
			})
		}
	}
}

// TestRemovedOperator: from the entry on that removes an operator, his signature counts no
// more, whatever a server is configured with.
func TestRemovedOperator(t *testing.T) {
	w := apitest.Embedded(t)
	g := guard(t, w)
	g.publish(t, "1.0.0", g.ann, g.bob)
	known := serveStill(t, w)
	known.Heads.Round(t.Context())

	g.appoint(map[string]operator{"ann": g.ann, "cem": g.cem})
	for _, by := range []operator{g.ann, g.bob, g.cem} {
		g.desk.Sign = by.sign
		apitest.Must[*release.Plan](t)(g.desk.Appoint(t.Context(), release.Options{Channel: "stable", Why: "bob left"}))
	}
	log := g.log(t)
	if _, bob := log.Operators().Keys["bob"]; bob || log.Head().Sequence != 2 {
		t.Fatalf("entry %d, operators %v", log.Head().Sequence, log.Operators())
	}
	known.Heads.Round(t.Context())
	shows(t, known, "1.0.0")
	wantUnverified(t, w, known, 0)

	e := *log.Head()
	e.Action, e.Signatures, e.Operators, e.Release.Critical = channels.Publish, nil, nil, true
	e.Expires, e.Entered = time.Time{}, time.Time{}
	restore := g.steal(t, approved(t, log.Next(e), g.ann, g.bob))
	fresh := still(t, w)
	known.Heads.Round(t.Context())
	fresh.Heads.Round(t.Context())
	if got := known.Get("/updates/stable/latest.json"); bytes.Contains(got.Body, []byte(`"critical"`)) {
		t.Errorf("it is shown: %s", got.Body)
	}
	shows(t, known, "1.0.0")
	shows(t, fresh, "")
	for _, u := range []*apitest.Updates{known, fresh} {
		wantUnverified(t, w, u, 2)
	}
	if !strings.Contains(w.Logged.String(), "entry 3 of stable: the operators have not signed it: 1 of 2") {
		t.Errorf("the alarm does not say why: %s", w.Logged.String())
	}
	restore()
	g.publish(t, "1.1.0", g.cem, g.ann)
	for _, u := range []*apitest.Updates{known, fresh} {
		u.Heads.Round(t.Context())
		shows(t, u, "1.1.0")
		wantUnverified(t, w, u, 0)
	}
}
