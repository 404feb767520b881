package updates_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/gate"
	"tsmon/signing"
	"tsmon/store/longtest"
	"tsmon/store/object"
	"tsmon/store/object/dir"
	"tsmon/store/object/s3"
	"tsmon/store/servertest"
)

// TestPlansComeTrue generates fleets and moves of their channels. Whatever a plan's
// table says of a kind of client, the updater of such a client then gets, from a
// server and from the bare directory, or the bare bucket: the version, the file, and the
// same end of the download, verified with the one key that its build has.
func TestPlansComeTrue(t *testing.T) {
	share, long := longtest.Chosen(t)
	fleets := 12
	switch {
	case long:
		fleets = 150
	case testing.Short():
		fleets = 4
	}
	total := map[string]int{}
	for seed := range fleets {
		if !share.Has(seed) {
			continue
		}
		t.Run(fmt.Sprint("fleet", seed), func(t *testing.T) {
			newGenerated(t, uint64(seed), bareFolder(t)).run(8, total)
		})
	}
	t.Logf("cells: %v", total)
	for _, outcome := range []string{"offered", "current", "ahead", "stranded", "unfit", "misfit", "nothing", "promised", "ring"} {
		if !long && !testing.Short() && total[outcome] == 0 {
			t.Errorf("no cell was %s", outcome)
		}
	}
}

// TestPlansComeTrueInBucket is TestPlansComeTrue for a few fleets, with and without rings,
// in a bucket that everybody may read.
func TestPlansComeTrueInBucket(t *testing.T) {
	server := servertest.StartMinIO(t)
	server.Setenv()
	policy := `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::` + server.Bucket + `/*"}]}`
	if err := server.Client().SetBucketPolicy(t.Context(), server.Bucket, policy); err != nil {
		t.Fatal(err)
	}
	total := map[string]int{}
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("fleet", seed), func(t *testing.T) {
			prefix := fmt.Sprint("fleet", seed)
			objects := apitest.Must[object.Store](t)(s3.Open(server.URL(prefix), s3.Limits{}))
			newGenerated(t, seed, bareStore{objects, server.Endpoint + "/" + server.Bucket + "/" + prefix}).run(5, total)
		})
	}
	t.Logf("cells: %v", total)
	for _, outcome := range []string{"offered", "current", "ring"} {
		if total[outcome] == 0 {
			t.Errorf("no cell was %s", outcome)
		}
	}
}

// bareStore is a store, and the address where clients find it without a server of ours.
type bareStore struct {
	objects object.Store
	address string
}

// bareFolder is a directory that a web server shows.
func bareFolder(t *testing.T) bareStore {
	t.Helper()
	root := filepath.Join(t.TempDir(), "objects")
	objects := apitest.Must[*dir.Store](t)(dir.Open(root))
	bare := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(bare.Close)
	return bareStore{objects, bare.URL}
}

// generated is a fleet whose channels move by chance.
type generated struct {
	*testing.T
	rand     *rand.Rand
	world    *apitest.World
	desk     apitest.Desk
	bare     string // address of the store without a server
	old, new signing.PrivateKey
	turn     string   // version from which on builds have the new key; empty: all have the old one
	unbound  bool     // the channels accept signatures without a version
	versions []string // that are to come
	last     int      // number of the last release
	// promised is the last plan of a rollout: what it says that latest.json will show.
	promised *release.Plan
	compared map[string]int
}

const everyone = "internal" // the cohort that every rollout includes

func newGenerated(t *testing.T, seed uint64, in bareStore) *generated {
	g := &generated{T: t, rand: rand.New(rand.NewPCG(seed, 9)), world: apitest.Embedded(t), compared: map[string]int{},
		versions: []string{"1.0.0", "1.1.0-beta.1", "1.1.0-beta.2", "1.1.0", "1.2.0", "1.2.1", "2.0.0-rc.1", "2.0.0", "2.1.0", "10.0.0"}}
	g.world.Objects, g.bare = in.objects, in.address
	g.desk = g.world.Desk(t)
	g.old, g.new = g.desk.Key, apitest.Must[signing.PrivateKey](t)(signing.GenerateKey())
	if g.chance(60) {
		g.turn = g.versions[2+g.rand.IntN(4)]
		g.world.Keys = signing.Keyring{{PublicKey: g.old.Public(), Span: signing.Span{Until: g.turn}}, {PublicKey: g.new.Public(), Span: signing.Span{From: g.turn}}}
	}
	downgrades := g.chance(50)
	g.unbound = g.chance(20)
	rings := seed%2 == 1
	policy := release.Policy{Prerelease: true, AllowDowngrades: downgrades, AllowUnbound: g.unbound, Rings: rings}
	g.world.Rings = map[string]bool{"stable": rings, "beta": rings}
	g.world.Downgrades = map[string]bool{"stable": downgrades, "beta": downgrades}
	g.world.Unbound = map[string]bool{"stable": g.unbound, "beta": g.unbound}
	g.desk.Keys, g.desk.PublicURL = g.world.Keys, g.bare
	g.desk.Policies = map[string]release.Policy{"stable": policy, "beta": policy}
	if g.chance(40) {
		policy.Follows = "stable"
		g.desk.Policies["beta"] = policy
	}
	g.desk.Clients = func(context.Context, string) (map[string]int, error) {
		return map[string]int{"0.9.0": 3, "1.1.5+build.7": 1, "v1.0.1": 2}, nil
	}
	return g
}

// run makes some moves, and adds the cells that were compared to total, by outcome.
func (g *generated) run(moves int, total map[string]int) {
	g.Helper()
	for range moves {
		g.move()
	}
	for outcome, n := range g.compared {
		total[outcome] += n
	}
}

func (g *generated) chance(percent int) bool { return g.rand.IntN(100) < percent }

// some returns a part of a list that is not empty.
func (g *generated) some(all ...string) []string {
	part := slices.DeleteFunc(slices.Clone(all), func(string) bool { return g.chance(40) })
	if len(part) == 0 {
		return all[:1]
	}
	return part
}

var desktops = []string{"linux-x86_64", "windows-x86_64", "darwin-x86_64", "darwin-aarch64"}

// files returns the bundles of a release for some platforms, or all.
func (g *generated) files(version string) []string {
	var files []string
	for _, os := range g.some("linux", "windows", "darwin") {
		switch os {
		case "linux":
			files = append(files, g.some("App_V_amd64.AppImage", "App_V_amd64.deb", "App-V-1.x86_64.rpm")...)
			if g.chance(20) {
				files = append(files, "App_V_amd64.AppImage.tar.gz")
			}
		case "windows":
			files = append(files, g.some("App_V_x64-setup.exe", "App_V_x64_en-US.msi")...)
			if g.chance(20) {
				files = append(files, g.some("App_V_x64-setup.nsis.zip", "App_V_x64_en-US.msi.zip")...)
			}
		case "darwin":
			files = append(files, g.some("App_universal.app.tar.gz", "App_aarch64.app.tar.gz")...)
		}
	}
	for i := range files {
		files[i] = strings.Replace(files[i], "V", version, 1)
	}
	return files
}

// bundles returns the bundles of a release, signed; their first word is what they are.
func (g *generated) bundles(version string) []bundle.Bundle {
	folder, key := g.TempDir(), g.old
	if g.turn != "" && g.chance(50) {
		key = g.new
	}
	for _, name := range g.files(version) {
		content := kindOf(name) + " " + name + " " + version
		file := filepath.Join(folder, name)
		digest, _, err := signing.HashReader(g.Context(), strings.NewReader(content))
		if err != nil {
			g.Fatal(err)
		}
		comment := signing.Comment{Version: version, File: name}
		if g.unbound && g.chance(50) {
			comment.Version = ""
		}
		sig, err := key.Sign(digest, comment)
		if err != nil {
			g.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(file, []byte(content), 0o600), os.WriteFile(file+".sig", []byte(sig.String()), 0o600)); err != nil {
			g.Fatal(err)
		}
	}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil, nil)
	if err != nil {
		g.Fatal(err)
	}
	return bundles
}

// kindOf returns what a file's content is.
func kindOf(name string) string {
	for _, k := range []struct{ ending, kind string }{{".app.tar.gz", "app"}, {".AppImage.tar.gz", "appimage"}, {".AppImage", "appimage"}, {".deb", "deb"}, {".rpm", "rpm"},
		{".msi", "msi"}, {".msi.zip", "msi"}, {"-setup.exe", "nsis"}, {".nsis.zip", "nsis"}} {
		if strings.HasSuffix(name, k.ending) {
			return k.kind
		}
	}
	panic(name)
}

// move makes one move and compares its plan, and those of the channels that follow,
// with what clients get. A move that is refused changes nothing for them.
func (g *generated) move() {
	g.Helper()
	o := release.Options{Channel: "stable", Why: "by chance", AllowMissing: slices.Clone(desktops), Strand: gate.VersionRange{First: "0.0.1", Last: "99.0.0"}}
	for _, target := range desktops {
		os, _, _ := strings.Cut(target, "-")
		for _, kind := range manifest.TypesOf(os) {
			o.AllowMissing = append(o.AllowMissing, target+"-"+kind)
		}
	}
	if g.chance(30) {
		o.Channel = "beta"
	}
	if g.chance(40) {
		o.Rollout = &channels.Rollout{Steps: []int{g.rand.IntN(99)}, Cohorts: []string{everyone}}
	}
	plan, err := g.choose(o)
	var refusal *release.Refusal
	if errors.As(err, &refusal) || errors.Is(err, bundle.ErrBundles) {
		g.Logf("refused: %v", err)
		return
	}
	if err != nil {
		g.Fatal(err)
	}
	g.Logf("%s %s %s, entry %d", plan.Action, plan.Channel, plan.Version, plan.Sequence)
	server := g.world.Serve(g)
	for _, each := range append([]*release.Plan{plan}, plan.Followers...) {
		for _, r := range each.Reach {
			if r.Address != gate.Static || r.Rollout != gate.In || g.ring(each, r) >= 0 {
				g.compare(server.URL, each, r)
			}
		}
	}
	g.keepsPromise(server.URL, plan)
}

// keepsPromise compares what a rollout's table says that latest.json will show, once
// everybody gets the release.
func (g *generated) keepsPromise(server string, plan *release.Plan) {
	if before := g.promised; before != nil && plan.Action == channels.Advance && plan.Channel == before.Channel && plan.Rollout == nil && plan.Sequence == before.Sequence+1 {
		for _, r := range before.Reach {
			if r.Address == gate.Static && r.Rollout == gate.In {
				g.compare(server, plan, r)
				g.compared["promised"]++
			}
		}
	}
	g.promised = plan
}

// choose makes a move by chance.
func (g *generated) choose(o release.Options) (*release.Plan, error) {
	ctx := g.Context()
	switch n := g.rand.IntN(100); {
	case g.promised != nil && g.promised.Rollout != nil && n < 30:
		o.Channel, o.Rollout = g.promised.Channel, &channels.Rollout{Steps: []int{100}}
		return g.desk.Rollout(ctx, o)
	case n < 60 && g.last < len(g.versions) || g.last == 0:
		if g.last += 1 + g.rand.IntN(2); g.last > len(g.versions) {
			g.last = len(g.versions)
		}
		version := g.versions[g.last-1]
		return g.desk.Publish(ctx, release.PublishOptions{Options: o, Version: version, Bundles: g.bundles(version), Extra: manifest.Extra{Watershed: g.chance(30)}})
	case n < 70:
		return g.desk.Rollback(ctx, release.RollbackOptions{Options: o, To: cmp.Or(g.versions[g.rand.IntN(g.last)], "1.0.0")})
	case n < 77:
		return g.desk.Pause(ctx, o)
	case n < 82:
		return g.desk.Resume(ctx, o)
	case n < 92:
		o.Rollout = &channels.Rollout{Steps: []int{100}}
		return g.desk.Rollout(ctx, o)
	default:
		o.Channel = "stable"
		return g.desk.Promote(ctx, release.PromoteOptions{Options: o, From: "beta"})
	}
}

// compare asks as the client of one cell does, and as one whose application sets
// target() does.
func (g *generated) compare(server string, plan *release.Plan, r gate.Reach) {
	g.Helper()
	want := strings.TrimSpace(r.Outcome + " " + r.Offered + " " + r.Bundle)
	if r.Outcome == "dropped" || r.Outcome == "broken" && r.Offered == "" {
		want = "nothing"
	}
	addresses := []string{server + "/updates/" + plan.Channel + "/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"}
	if r.Address == gate.Static {
		var keys []string
		ring := g.ring(plan, r)
		if ring < 0 || r.Rollout != gate.In || plan.Rollout == nil {
			keys = append(keys, channels.ManifestKey(plan.Channel))
		}
		if ring >= 0 {
			keys = append(keys, channels.RingKey(plan.Channel, ring))
			g.compared["ring"]++
		}
		addresses = nil
		for _, key := range keys {
			addresses = append(addresses, g.bare+"/"+key, server+"/updates/"+key)
		}
	}
	for _, address := range addresses {
		for _, named := range []string{"", r.Target} {
			if named != "" && (r.Address == gate.Static && r.BundleType != "") {
				continue // it looks for the plain key alone
			}
			if got := g.ask(address, r, named); got != want {
				g.Errorf("%s %s of %s, %+v\n%s, target %q: %s, want %s", plan.Action, plan.Version, plan.Channel, r, address, named, got, want)
			}
		}
		g.compared[strings.Fields(want)[0]]++
	}
}

// ring returns a ring that the rollout of a plan includes or not, as the clients of a cell
// are. -1 if the channel keeps none, or none is so.
func (g *generated) ring(plan *release.Plan, r gate.Reach) int {
	if !plan.Rings {
		return -1
	}
	from := g.rand.IntN(channels.Rings)
	for i := range channels.Rings {
		ring := (from + i) % channels.Rings
		if plan.Rollout == nil || plan.Rollout.Paused || slices.Contains(plan.Rollout.Rings, ring) == (r.Rollout == gate.In) {
			return ring
		}
	}
	return -1
}

// ask returns what an installed application gets from an address, and how its update
// ends.
func (g *generated) ask(address string, r gate.Reach, named string) string {
	key := g.old
	if g.turn != "" && order(g.Errorf, r.Version, g.turn) >= 0 {
		key = g.new
	}
	u := updater.Updater{
		Endpoints: []string{address}, Client: manifest.Client{Version: r.Version, Target: r.Target, BundleType: r.BundleType, Downgrades: r.Downgrades, Named: named},
		Keys: signing.Keyring{{PublicKey: key.Public()}}, RequireVersion: !g.unbound, Header: http.Header{},
	}
	if r.Rollout == gate.In {
		u.Header.Set(cohortHeader, everyone)
	}
	result, err := u.Check(g.Context())
	switch {
	case errors.Is(err, manifest.ErrTarget), errors.Is(err, updater.ErrNoRelease):
		return "nothing"
	case err != nil:
		return err.Error()
	case result.Offer == nil && r.Downgrades && order(g.Errorf, r.Version, result.Shows) > 0:
		return "unfit" // it would go back
	case result.Offer == nil:
		return [...]string{"unfit", "current", "ahead"}[order(g.Errorf, r.Version, result.Shows)+1]
	}
	var content strings.Builder
	what := result.Offer.Version + " " + path.Base(result.Offer.URL)
	switch err := u.Fetch(g.Context(), result.Offer, &content, func(updater.Event) {}); {
	case errors.Is(err, signing.ErrUntrustedKey):
		return "stranded " + what
	case err != nil:
		return "broken " + what
	case !installs(r, strings.Fields(content.String())[0]):
		return "misfit " + what
	}
	return "offered " + what
}

// installs reports whether an installation of a type becomes the new version by a
// bundle, judged by its content. One that does not know its type is an AppImage on
// Linux, and may be either on Windows.
func installs(r gate.Reach, kind string) bool {
	switch os, _, _ := strings.Cut(r.Target, "-"); os {
	case "linux":
		return kind == cmp.Or(r.BundleType, "appimage")
	case "windows":
		return (kind == "msi" || kind == "nsis") && (r.BundleType == "" || r.BundleType == kind)
	}
	return kind == "app"
}

// order compares two versions as clients do.
func order(fail func(string, ...any), a, b string) int {
	v, err := manifest.ParseClientVersion(a)
	w, err2 := manifest.ParseClientVersion(b)
	if err := errors.Join(err, err2); err != nil {
		fail("%v", err)
	}
	return v.Compare(w)
}
