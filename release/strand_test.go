package release

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object/objecttest"
)

// rotating is a desk whose applications have one key before 1.6.0 and another from 1.6.0 on.
type rotating struct {
	*desk
	old, next signing.PrivateKey
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	r := &rotating{desk: newDesk(t)}
	r.old = r.key
	var err error
	if r.next, err = signing.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	r.Keys = signing.Keyring{{PublicKey: r.old.Public(), Span: signing.Span{Until: "1.6.0"}}, {PublicKey: r.next.Public(), Span: signing.Span{From: "1.6.0"}}}
	return r
}

// move publishes a version that key signs. with changes the options.
func (r *rotating) move(t *testing.T, version string, key signing.PrivateKey, with func(*PublishOptions)) (*Plan, error) {
	t.Helper()
	r.key = key
	o := r.options(t, version)
	if with != nil {
		with(&o)
	}
	return r.Publish(t.Context(), o)
}

func (r *rotating) must(t *testing.T, version string, key signing.PrivateKey, with func(*PublishOptions)) *Plan {
	t.Helper()
	plan, err := r.move(t, version, key, with)
	if err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	return plan
}

func watershed(o *PublishOptions) { o.Extra.Watershed = true }

func stranding(first, last string) func(*PublishOptions) {
	return func(o *PublishOptions) { o.Strand = gate.VersionRange{First: first, Last: last} }
}

// refusedFor checks that err refuses to strand clients, and that its text and hint contain some
// texts.
func refusedFor(t *testing.T, err error, texts ...string) {
	t.Helper()
	var refusal *Refusal
	if !errors.Is(err, gate.ErrStrands) || !errors.As(err, &refusal) {
		t.Fatalf("%v, want gate.ErrStrands", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error()+"\n"+refusal.Mend, text) {
			t.Errorf("%v\n%s\nlacks %s", err, refusal.Mend, text)
		}
	}
}

// outcomes returns the outcome of each version in a plan's table.
func outcomes(p *Plan) map[string]string {
	found := map[string]string{}
	for _, r := range p.Reach {
		if r.Outcome == "stranded" || found[r.Version] == "" {
			found[r.Version] = r.Outcome
		}
	}
	return found
}

// warned returns the warnings about stranded clients.
func warned(p *Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.Warnings), func(w string) bool {
		return !strings.Contains(w, "can't be installed by") && !strings.Contains(w, "does not follow")
	})
}

func TestStrandsNobodyWithoutAWord(t *testing.T) {
	r := newRotating(t)
	r.must(t, "1.0.0", r.old, nil)
	r.must(t, "1.5.0", r.old, nil)
	before := objecttest.Tree(t, r.Store)
	_, err := r.move(t, "2.0.0", r.next, nil)
	refusedFor(t, err, "2.0.0 is signed by "+r.next.Public().ID()+", and 1.0.0 – 1.5.0, which have "+r.old.Public().ID(), "known versions: 2;",
		"sign it with the private key of "+r.old.Public().ID()+",", "`tsmon keys rotate --to FILE`", "--strand 1.0.0-1.5.0 ")
	_, err = r.move(t, "2.0.0", r.next, stranding("1.0.0", "1.4.99"))
	refusedFor(t, err, "and 1.5.0, which have", "known versions: 1;", "--strand 1.5.0 ")
	_, err = r.move(t, "2.0.0", r.next, func(o *PublishOptions) { o.Rollout = &channels.Rollout{Steps: []int{1}} })
	refusedFor(t, err, "1.0.0 – 1.5.0")
	if !maps.Equal(objecttest.Tree(t, r.Store), before) {
		t.Error("a refusal has changed the store")
	}
	// Each way out leads out.
	if plan := r.must(t, "1.5.1", r.old, nil); len(warned(plan)) > 0 || outcomes(plan)["1.0.0"] != "offered" {
		t.Errorf("%q, %v", plan.Warnings, plan.Reach)
	}
	plan := r.must(t, "2.0.0", r.next, stranding("1.0.0", "1.5.1"))
	if len(warned(plan)) != 1 || !strings.Contains(warned(plan)[0], "can't be installed by 1.0.0 – 1.5.1 (known versions: 3") || outcomes(plan)["1.5.1"] != "stranded" {
		t.Errorf("%q, %v", plan.Warnings, outcomes(plan))
	}
	// Nobody else is stranded by what comes next.
	if plan := r.must(t, "2.1.0", r.next, nil); len(warned(plan)) > 0 || outcomes(plan)["1.0.0"] != "stranded" || outcomes(plan)["2.0.0"] != "offered" {
		t.Errorf("%q, %v", plan.Warnings, outcomes(plan))
	}
}

func TestWatershedLeadsOver(t *testing.T) {
	for _, c := range []struct {
		name    string
		bridge  func(*PublishOptions)
		policy  Policy
		refused string
		warns   string
	}{
		{"no watershed", nil, Policy{}, "1.0.0 – 1.5.0, which have", ""},
		{"a watershed", watershed, Policy{}, "", "can't be installed by 1.0.0 – 1.5.0 from stable/latest.json"},
		{"a watershed that latest.json does not know", watershed, Policy{ReadsManifest: true}, "could not install it from latest.json, where watersheds don't hold", ""},
		{"a watershed that rings do not know", watershed, Policy{Rings: true}, "could not install it from latest.json or a ring, where watersheds don't hold", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRotating(t)
			r.Policies["stable"] = c.policy
			r.must(t, "1.0.0", r.old, nil)
			r.must(t, "1.5.0", r.old, nil)
			if plan := r.must(t, "1.6.0", r.old, c.bridge); len(warned(plan)) > 0 {
				t.Errorf("the bridge warns: %q", plan.Warnings)
			}
			// Who is on the bridge has the new key only.
			_, err := r.move(t, "1.6.1", r.old, nil)
			refusedFor(t, err, "and 1.6.0, which have "+r.next.Public().ID())
			plan, err := r.move(t, "1.7.0", r.next, nil)
			if c.refused != "" {
				refusedFor(t, err, c.refused)
				if refusal := (*Refusal)(nil); errors.As(err, &refusal) && strings.Contains(refusal.Mend, "sign it with") {
					t.Errorf("no key is one that all have: %s", refusal.Mend)
				}
				return
			}
			if err != nil || len(warned(plan)) != 1 || !strings.Contains(warned(plan)[0], c.warns) {
				t.Fatalf("%+v, %v", plan, err)
			}
		})
	}
}

func TestKnownClients(t *testing.T) {
	for name, c := range map[string]struct {
		known    map[string]int
		manifest bool
		refused  string
		warns    string
	}{
		"some would be":       {map[string]int{"1.0.0": 2, "1.5.0": 10, "1.6.0": 40}, false, "(known clients: 12)", ""},
		"one that no log has": {map[string]int{"0.9.0": 1}, false, "0.9.0 – 1.5.0", ""},
		"all are gone":        {map[string]int{"1.6.0": 40, "(other)": 3}, false, "", "(known clients: 0)"},
		"nobody was seen":     {map[string]int{}, false, "", "(known clients: 0)"},
		"some don't ask us":   {map[string]int{"1.6.0": 40}, true, "from latest.json", ""},
		"not known":           {nil, false, "how many clients have them is not known here", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRotating(t)
			r.Policies["stable"] = Policy{ReadsManifest: c.manifest}
			r.Clients = func(_ context.Context, channel string) (map[string]int, error) {
				if channel != "stable" {
					return nil, nil
				}
				return c.known, nil
			}
			r.must(t, "1.0.0", r.old, nil)
			r.must(t, "1.5.0", r.old, nil)
			plan, err := r.move(t, "2.0.0", r.next, nil)
			if c.refused != "" {
				refusedFor(t, err, c.refused)
			} else if err != nil || len(warned(plan)) == 0 || !strings.Contains(warned(plan)[0], c.warns) {
				t.Errorf("%+v, %v", plan, err)
			}
		})
	}
	r := newRotating(t)
	down := errors.New("the records are down")
	r.Clients = func(context.Context, string) (map[string]int, error) { return nil, down }
	if _, err := r.move(t, "1.0.0", r.old, nil); !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}

// TestEveryMoveStrandsNobody: a promotion, a rollout's next share and a rollback to a release
// that some clients can't verify are refused. Moves that stop a bad release never are.
func TestEveryMoveStrandsNobody(t *testing.T) {
	r := newRotating(t)
	r.Policies["beta"] = Policy{Prerelease: true}
	r.must(t, "1.0.0", r.old, nil)
	r.must(t, "2.0.0", r.next, func(o *PublishOptions) { o.Channel = "beta" })
	promote := PromoteOptions{Options: Options{Channel: "stable"}, From: "beta"}
	_, err := r.Promote(t.Context(), promote)
	refusedFor(t, err, "and 1.0.0, which have")

	all := stranding("1.0.0", "1.0.0")
	r.must(t, "2.0.1", r.next, func(o *PublishOptions) { all(o); o.Rollout = &channels.Rollout{Steps: []int{10}} })
	more := Options{Channel: "stable", Rollout: &channels.Rollout{Steps: []int{100}}}
	_, err = r.Rollout(t.Context(), more)
	refusedFor(t, err, "and 1.0.0, which have")
	for _, step := range []func(context.Context, Options) (*Plan, error){r.Pause, r.Resume} {
		if _, err := step(t.Context(), Options{Channel: "stable", Why: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	more.Strand = gate.VersionRange{First: "1.0.0", Last: "1.0.0"}
	if _, err := r.Rollout(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	back := RollbackOptions{Options: Options{Channel: "stable", Why: "a test"}}
	if _, err := r.Rollback(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	back.To = "2.0.1"
	_, err = r.Rollback(t.Context(), back)
	refusedFor(t, err, "and 1.0.0, which have")
	back.Strand = more.Strand
	if _, err := r.Rollback(t.Context(), back); err != nil {
		t.Fatal(err)
	}
}

func TestFollowersStrandNobody(t *testing.T) {
	r := newRotating(t)
	r.must(t, "1.5.0-beta.1", r.old, func(o *PublishOptions) { o.Channel = "beta" })
	plan := r.must(t, "2.0.0", r.next, nil)
	if len(plan.Followers) > 0 || len(warned(plan)) != 1 || !strings.Contains(warned(plan)[0], "beta does not follow: installed applications could not verify the update") {
		t.Fatalf("%+v", plan.Warnings)
	}
	plan = r.must(t, "2.0.1", r.next, stranding("1.5.0-beta.1", "1.5.0-beta.1"))
	if len(plan.Followers) != 1 || len(warned(plan.Followers[0])) != 1 {
		t.Errorf("%+v, %q", plan.Followers, plan.Warnings)
	}
}

// TestEndedKeyTurnsNothingBad: releases of a key stay valid when no version of the application
// has the key any more.
func TestEndedKeyTurnsNothingBad(t *testing.T) {
	r := newRotating(t)
	for i, version := range []string{"1.0.0", "1.5.0", "1.6.0"} {
		r.must(t, version, r.old, func(o *PublishOptions) { o.Extra.Watershed = i == 2 })
	}
	r.must(t, "1.7.0", r.next, nil)
	r.Keys[0].Until = "0.0.1"
	report, err := r.Keeper().Verify(t.Context(), "stable")
	if err != nil || report.Findings.Err() != nil {
		t.Errorf("%v, %v", err, report.Findings.Err())
	}
	for _, back := range []string{"1.6.0", "1.0.0"} {
		if _, err := r.Rollback(t.Context(), RollbackOptions{Options: Options{Channel: "stable", Why: back}, To: back}); err != nil {
			t.Errorf("back to %s: %v", back, err)
		}
	}
}

// TestSpansFollowTheUpdatersOrder: a key's span orders versions as the updater does.
func TestSpansFollowTheUpdatersOrder(t *testing.T) {
	versions := strings.Fields("0.0.0 1.0.0-0 1.0.0-1 1.0.0-2 1.0.0-10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc-1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0-rc.1 2.0.0")
	if !slices.IsSortedFunc(versions, library.CompareVersions) {
		t.Fatal("the versions are not in order")
	}
	for i, bound := range versions {
		for j, version := range versions {
			from, until := signing.Span{From: bound}.Contains(version), signing.Span{Until: bound}.Contains(version)
			if from != (j >= i) || until != (j < i) {
				t.Errorf("%s beside %s: from %v, until %v", version, bound, from, until)
			}
		}
	}
}

// stages stages one bundle of a version, signed by key.
func (r *rotating) stages(t *testing.T, version, name string, key signing.PrivateKey, with func(*StageOptions)) (*StageReport, error) {
	t.Helper()
	r.key = key
	o := r.staging(version, r.options(t, version, name).Bundles)
	if with != nil {
		with(&o)
	}
	return r.Stage(t.Context(), o)
}

// TestStagedByWrongKey: a job that signs with a key which installed applications lack is refused
// before it uploads. The same job with the right key succeeds.
func TestStagedByWrongKey(t *testing.T) {
	r := newRotating(t)
	r.Policies["stable"] = Policy{Targets: []string{"windows-x86_64", "linux-x86_64"}}
	names := []string{"App_1.5.1_x64-setup.exe", "App_1.5.1_amd64.AppImage"}
	r.must(t, "1.5.0", r.old, func(o *PublishOptions) {
		o.Bundles = r.options(t, "1.5.0", "App_1.5.0_x64-setup.exe", "App_1.5.0_amd64.AppImage").Bundles
	})
	before := objecttest.Tree(t, r.Store)
	for _, publish := range []bool{false, true} {
		_, err := r.stages(t, "1.5.1", names[0], r.next, func(o *StageOptions) { o.Publish = publish })
		refusedFor(t, err, "1.5.1 is signed by "+r.next.Public().ID()+" ("+names[0]+"), and 1.5.0, which have "+r.old.Public().ID(),
			"give this job the private key of "+r.old.Public().ID()+", which they have, ", "and stage it again", "--strand 1.5.0 ")
	}
	if !maps.Equal(objecttest.Tree(t, r.Store), before) {
		t.Error("a refusal has changed the store")
	}
	for i, name := range names {
		if _, err := r.stages(t, "1.5.1", name, r.old, func(o *StageOptions) { o.Publish = i == 1 }); err != nil {
			t.Fatal(err)
		}
	}
	// Past the end of the old key, which the channel's clients no longer have.
	r.must(t, "1.6.0", r.old, func(o *PublishOptions) {
		watershed(o)
		o.Bundles = r.options(t, "1.6.0", "App_1.6.0_x64-setup.exe", "App_1.6.0_amd64.AppImage").Bundles
	})
	_, err := r.stages(t, "1.6.1", "App_1.6.1_amd64.AppImage", r.old, nil)
	refusedFor(t, err, "and 1.6.0, which have "+r.next.Public().ID(), "give this job the private key of "+r.next.Public().ID()+",")
	if _, err := r.stages(t, "1.6.1", "App_1.6.1_amd64.AppImage", r.next, nil); err != nil {
		t.Error(err)
	}
	// It is meant.
	if _, err := r.stages(t, "1.6.2", "App_1.6.2_amd64.AppImage", r.old, func(o *StageOptions) { o.Strand = gate.VersionRange{First: "1.6.0", Last: "1.6.0"} }); err != nil {
		t.Error(err)
	}
}

// TestStagedAnewByRightKey: bundles that were staged with another key are replaced by the same
// bytes with the right signature, at once, after a discard, and in a complete release. No
// object changes.
func TestStagedAnewByRightKey(t *testing.T) {
	names := []string{"App_1.5.1_x64-setup.exe", "App_1.5.1_amd64.AppImage"}
	for _, between := range []string{"nothing", "discard", "replace", "interrupted publish"} {
		t.Run(between, func(t *testing.T) {
			r := newRotating(t)
			r.must(t, "1.5.0", r.old, nil)
			spans := r.Keys
			r.Keys = signing.Keyring{{PublicKey: r.old.Public()}, {PublicKey: r.next.Public()}} // as if that machine did not know
			for i, name := range names {
				if _, err := r.stages(t, "1.5.1", name, []signing.PrivateKey{r.old, r.next}[i], nil); err != nil {
					t.Fatal(err)
				}
			}
			publish := PublishOptions{Options: Options{Channel: "stable", AllowMissing: []string{"windows-x86_64-msi"}}, Version: "1.5.1"}
			if between == "interrupted publish" {
				store := r.Store
				r.Store = &failing{store, "log/"}
				if _, err := r.Publish(t.Context(), publish); !errors.Is(err, errFailing) {
					t.Fatalf("%v, want errFailing", err)
				}
				r.Store = store
			}
			r.Keys = spans
			before := objecttest.Tree(t, r.Store)
			_, err := r.Publish(t.Context(), publish)
			refusedFor(t, err, r.old.Public().ID()+" ("+names[0]+")", r.next.Public().ID()+" ("+names[1]+")", " and ",
				"stage those bundles again, signed with the private key of "+r.old.Public().ID()+", which they have")
			again := names[1:]
			if between == "discard" {
				if _, err := r.Discard(t.Context(), "1.5.1"); err != nil {
					t.Fatal(err)
				}
				again = names
			}
			for _, name := range again {
				for _, changed := range []bool{true, false} {
					report, err := r.stages(t, "1.5.1", name, r.old, func(o *StageOptions) { o.Replace = between == "replace" })
					if err != nil || report.Changed != changed {
						t.Fatalf("%+v, %v, want changed: %t", report, err, changed)
					}
				}
			}
			plan := r.publish(t, publish)
			for key, b := range plan.Entry.Release.Platforms {
				if sig, err := signing.ParseSignature(b.Signature); err != nil || sig.KeyID() != r.old.Public().ID() {
					t.Errorf("%s is signed by %s, %v", key, sig.KeyID(), err)
				}
			}
			r.sound(t, "stable")
			after := objecttest.Tree(t, r.Store)
			for key, content := range before {
				if strings.HasPrefix(key, "releases/") && after[key] != content {
					t.Errorf("%s has changed", key)
				}
			}
		})
	}
}
