package updates_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing"
)

// TestVerdictsAgree: of a release that somebody wrote into the log of beta, manifest validate,
// channel verify, the gate of a promotion, and the server say the same.
func TestVerdictsAgree(t *testing.T) {
	stranger := apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	sign := func(key signing.PrivateKey, comment signing.Comment) string {
		return apitest.Must[signing.Signature](t)(key.Sign(signing.Digest{1}, comment)).String()
	}
	all := func(r *channels.Release, signature string) {
		for key, b := range r.Platforms {
			b.Signature = signature
			r.Platforms[key] = b
		}
	}
	for name, c := range map[string]struct {
		change func(key signing.PrivateKey, r *channels.Release)
		good   bool
	}{
		"as published": {func(signing.PrivateKey, *channels.Release) {}, true},
		"another key": {func(_ signing.PrivateKey, r *channels.Release) {
			all(r, sign(stranger, signing.Comment{Version: "1.1.0"}))
		}, false},
		"another version": {func(key signing.PrivateKey, r *channels.Release) {
			all(r, sign(key, signing.Comment{Version: "1.0.9"}))
		}, false},
		"no version": {func(key signing.PrivateKey, r *channels.Release) { all(r, sign(key, signing.Comment{})) }, false},
		"another target": {func(key signing.PrivateKey, r *channels.Release) {
			all(r, sign(key, signing.Comment{Version: "1.1.0", Target: "windows-i686"}))
		}, false},
		"a forged version": {func(_ signing.PrivateKey, r *channels.Release) {
			for key, b := range r.Platforms {
				b.Signature = forged(t, b.Signature, "1.1.0", "1.1.1")
				r.Platforms[key] = b
			}
			r.Version = "1.1.1"
		}, false},
		"zeros with the key's id": {func(key signing.PrivateKey, r *channels.Release) {
			all(r, zeros(t, key, "6.6.6"))
			r.Version = "6.6.6"
		}, false},
		"an old bundle": {func(key signing.PrivateKey, r *channels.Release) {
			all(r, sign(key, signing.Comment{}))
			r.Version = "9.9.9"
		}, false},
		"no signature":     {func(_ signing.PrivateKey, r *channels.Release) { all(r, "") }, false},
		"half a signature": {func(_ signing.PrivateKey, r *channels.Release) { all(r, r.Platforms["linux-x86_64"].Signature[:40]) }, false},
		"an unknown platform": {func(_ signing.PrivateKey, r *channels.Release) {
			r.Platforms["amiga"] = r.Platforms["linux-x86_64"]
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := apitest.Embedded(t)
			w.Options.PublicURL = "https://releases.example.com/app"
			d := w.Desk(t)
			d.Policies["beta"] = release.Policy{Prerelease: true}
			d.PublishVersion(t, "stable", "1.0.0")
			d.PublishVersion(t, "beta", "1.0.0")
			u := still(t, w)
			u.Heads.Round(t.Context())
			d.PublishVersion(t, "beta", "1.1.0")
			r := channels.Repository{Store: w.Objects}
			log := apitest.Must[*channels.Log](t)(r.Load(t.Context(), "beta"))
			e := *log.At(2)
			e.Release.Platforms = maps.Clone(e.Release.Platforms)
			c.change(d.Key, &e.Release)
			if !c.good {
				rerecord(t, w, &e.Release)
			}
			first := apitest.Must[*channels.Log](t)(r.Follow(t.Context(), &channels.Log{Channel: "beta"}, [][]byte{firstEntry(t, w)}))
			if err := w.Objects.Delete(t.Context(), "log/beta/0000000002.json"); err != nil {
				t.Fatal(err)
			}
			_, _ = r.Append(t.Context(), first, e) // which of its own account may not read it again
			m := e.Release.Render(w.Options.PublicURL, 2)
			data, err := m.Encode()
			if err == nil {
				plant(t, w, "beta/latest.json", data)
			}

			verdicts := map[string]bool{}
			_, problems := manifest.Check(data, manifest.Rules{Keys: d.Keys})
			verdicts["manifest validate"] = err == nil && len(problems) == 0
			report, err := d.Keeper().Verify(t.Context(), "beta")
			verdicts["channel verify"] = err == nil && !slices.ContainsFunc(report.Findings, func(f upkeep.Finding) bool {
				return f.Object == "beta/latest.json" || f.Object == "log/beta"
			})
			u.Heads.Round(t.Context())
			verdicts["the server"] = bytes.Equal(u.Get("/updates/beta/latest.json").Body, data)
			_, err = d.Promote(t.Context(), release.PromoteOptions{Options: release.Options{Channel: "stable", DryRun: true}, From: "beta"})
			verdicts["the gate"] = err == nil
			for who, good := range verdicts {
				if good != c.good {
					t.Errorf("%s: good %v, want %v (%v; %v; %+v)", who, good, c.good, err, problems, report)
				}
			}
			if len(verdicts) != 4 {
				t.Errorf("%d verdicts", len(verdicts))
			}
		})
	}
}

// zeros returns a signature of zeros that names a key, and a version.
func zeros(tb testing.TB, key signing.PrivateKey, version string) string {
	tb.Helper()
	s := apitest.Must[signing.Signature](tb)(key.Sign(signing.Digest{1}, signing.Comment{Version: version}))
	lines := strings.Split(s.File(), "\n")
	for i, head := range map[int]int{1: 2 + 8, 3: 0} { // algorithm and the key's id stay
		data := apitest.Must[[]byte](tb)(base64.StdEncoding.DecodeString(lines[i]))
		clear(data[head:])
		lines[i] = base64.StdEncoding.EncodeToString(data)
	}
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(lines, "\n")))
}

// rerecord writes a record of a release, which it then names.
func rerecord(t *testing.T, w *apitest.World, r *channels.Release) {
	t.Helper()
	good, _ := w.Stored(t, "releases/1.1.0/release.json")
	data := edited(t, good, func(record *library.Record) {
		record.Version = r.Version
		for i := range record.Bundles {
			b := &record.Bundles[i]
			if _, ok := r.Platforms["amiga"]; ok && slices.Contains(b.Keys, "linux-x86_64") {
				b.Keys = append(b.Keys, "amiga")
			}
			b.Signature = r.Platforms[b.Keys[0]].Signature
		}
	})
	r.Record = library.SumOf(data)
	overwrite(t, w.Objects, "releases/"+r.Version+"/release.json", data)
}

// firstEntry is the first entry of beta.
func firstEntry(t *testing.T, w *apitest.World) []byte {
	t.Helper()
	data, _ := w.Stored(t, "log/beta/0000000001.json")
	return data
}
