package updates_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/channels/ring"
	"tsmon/release"
)

// ringed is a rollout on a channel that keeps rings.
func ringed(t *testing.T, percent int) *apitest.Rollout {
	w := apitest.Embedded(t)
	w.Rings = map[string]bool{}
	r := apitest.RollOut(t, w)
	w.Rings[r.Channel] = true // before the first request
	r.Policies[r.Channel] = release.Policy{Rings: true}
	if _, err := r.Desk.Rollout(t.Context(), release.Options{Channel: r.Channel, Rollout: &channels.Rollout{Steps: []int{percent}}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRingsAreServed: the server shows every ring as it lies in the store, and decides
// alike at the dynamic address.
func TestRingsAreServed(t *testing.T) {
	r := ringed(t, 30)
	same := func() bool {
		for ring := range channels.Rings {
			key := channels.RingKey(r.Channel, ring)
			stored, _ := r.Stored(t, key)
			if got := r.Get("/updates/" + key); got.Status != 200 || !bytes.Equal(got.Body, stored) {
				t.Logf("ring %d: %d %s, stored is %s", ring, got.Status, got.Body, stored)
				return false
			}
		}
		return true
	}
	if !same() {
		t.Fatal("not all rings are served as they are stored")
	}
	in := 0
	for i := range 300 {
		id := fmt.Sprint("installation ", i)
		var m struct{ Version string }
		apitest.Must[any](t)(nil, json.Unmarshal(r.Get("/updates/"+channels.RingKey(r.Channel, ring.Of(id))).Body, &m))
		offered := r.Send("GET", "/updates/"+r.Channel+"/linux/x86_64/1.0.0", nil, http.Header{apitest.ClientHeader: {id}}).Status == 200
		if offered != (m.Version == "1.1.0") {
			t.Errorf("%s is offered an update: %v, its ring shows %s", id, offered, m.Version)
		}
		if offered {
			in++
		}
	}
	if in < 30 || in > 180 {
		t.Errorf("%d of 300 clients are in a rollout of 30 %%", in)
	}
	one := "/updates/" + channels.RingKey(r.Channel, 7)
	first := r.Get(one)
	tag := first.Header.Get("ETag")
	if got := r.Send("GET", one, nil, http.Header{"If-None-Match": {tag}}); got.Status != 304 || first.Header.Get("Cache-Control") != channels.CacheControl {
		t.Errorf("unchanged: %d, Cache-Control %q", got.Status, first.Header.Get("Cache-Control"))
	}
	if got := r.Send("HEAD", one, nil, nil); got.Status != 200 || strings.TrimSuffix(got.Header.Get("ETag"), "\"") != strings.TrimSuffix(tag, "-gzip\"") {
		t.Errorf("HEAD: %d %q", got.Status, got.Header.Get("ETag"))
	}
	if got := r.Send("GET", one, nil, http.Header{"Range": {"bytes=0-9"}}); got.Status != 206 || len(got.Body) != 10 {
		t.Errorf("a part: %d, %d bytes", got.Status, len(got.Body))
	}
	if _, err := r.Desk.Rollback(t.Context(), release.RollbackOptions{Options: release.Options{Channel: r.Channel, Why: "crashes"}}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the rings go back too", same)
}

// TestNoRings: no other address leads to rings, and "rings" is no target.
func TestNoRings(t *testing.T) {
	r := ringed(t, 30)
	other := fmt.Sprint("c", apitest.Number.Add(1))
	r.Policies[other] = release.Policy{}
	if _, err := r.Promote(t.Context(), release.PromoteOptions{Options: release.Options{Channel: other}, From: r.Channel}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		r.Channel + "/rings/7/latest.json", r.Channel + "/rings/007/latest.json", r.Channel + "/rings/100/latest.json", r.Channel + "/rings/-1/latest.json",
		r.Channel + "/rings/%30%37x/latest.json", r.Channel + "/rings/07/release.json", r.Channel + "/rings/07/1.0.0", r.Channel + "/rings/x86_64/1.0.0",
		r.Channel + "/rings/latest.json", r.Channel + "/rings/07/latest.json/", r.Channel + "/rings/", "nightly/rings/07/latest.json", "Stable/rings/07/latest.json",
		other + "/rings/07/latest.json",
	} {
		if got := r.Get("/updates/" + path); got.Status != 404 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

// TestRingsStayGood: a ring whose release does not verify keeps showing what did.
func TestRingsStayGood(t *testing.T) {
	r := ringed(t, 30)
	paths := map[string][]byte{}
	for ring := range channels.Rings {
		path := "/updates/" + channels.RingKey(r.Channel, ring)
		paths[path] = r.Get(path).Body
	}
	stranger := r.World.Desk(t)
	r.World.Keys = r.World.Keys[:len(r.World.Keys)-1] // servers don't trust it
	stranger.PublicURL, stranger.Policies = r.Desk.PublicURL, map[string]release.Policy{r.Channel: {Rings: true}}
	stranger.Keys = append(stranger.Keys, r.Desk.Keys...)
	stranger.PublishWith(t, "6.6.6", func(o *release.PublishOptions) { o.Channel = r.Channel })
	apitest.Eventually(t, "the alarm is raised", func() bool {
		return strings.Contains(r.Logged.String(), "6.6.6") || strings.Contains(r.Logged.String(), "untrusted")
	})
	for path, before := range paths {
		if got := r.Get(path); got.Status != 200 || !bytes.Equal(got.Body, before) {
			t.Fatalf("%s shows %d %s", path, got.Status, got.Body)
		}
	}
}

// ringIDs are IDs whose rings the guide's lines must find.
var ringIDs = []string{"7b0f9c1e-5c3a-4a55-9b8e-2f5f6a1f0b11", "Büro 3", "0", "id ñ", "x"}

// demandRings compares what a program prints with the rings of ringIDs.
func demandRings(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stderr = os.Stderr
	out := apitest.Must[[]byte](t)(c.Output())
	var want []string
	for _, id := range ringIDs {
		want = append(want, fmt.Sprintf("%02d", ring.Of(id)))
	}
	if got := strings.Fields(string(out)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it prints %q, want %q", got, want)
	}
}

// TestRingGuideInJavaScript runs the guide's line.
func TestRingGuideInJavaScript(t *testing.T) {
	node := program(t, "node")
	ids := apitest.Must[[]byte](t)(json.Marshal(ringIDs))
	demandRings(t, exec.CommandContext(t.Context(), node, "--input-type=module", "-e", readmeLine(t, "../../release/README.md", "const ring")+"\nfor (const id of "+string(ids)+") console.log(await ring(id))"))
}

// TestRingGuideInRust compiles and runs the guide's line.
func TestRingGuideInRust(t *testing.T) {
	cargo := program(t, "cargo")
	folder := t.TempDir()
	apitest.Must[any](t)(nil, os.MkdirAll(filepath.Join(folder, "src"), 0o700))
	for name, text := range map[string]string{
		"Cargo.toml":  "[package]\nname = \"guide\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\nsha2 = \"0.10\"\n",
		"src/main.rs": readmeLine(t, "../../release/README.md", "fn ring") + fmt.Sprintf("\nfn main() { for id in %s { println!(\"{}\", ring(id)) } }\n", strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", ringIDs), ""), "\" \"", "\", \"")),
	} {
		apitest.Must[any](t)(nil, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, cargo, "run", "--quiet")
	c.Dir = folder
	demandRings(t, c)
}
