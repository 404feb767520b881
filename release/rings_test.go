package release

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsmon/channels"
	"tsmon/manifest"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/store/object/objecttest"
)

// ringed is a desk whose stable channel keeps rings.
func ringed(t *testing.T) *desk {
	d := newDesk(t)
	d.Policies["stable"] = Policy{Rings: true}
	return d
}

// rings returns how many rings in the store show each version.
func (d *desk) rings(t *testing.T, channel string) map[string]int {
	t.Helper()
	seen, err := d.Repository().Peek(t.Context(), channel)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, p := range seen[1 : 1+channels.Rings] {
		m, err := manifest.Decode(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		counts[m.Version]++
	}
	return counts
}

func (d *desk) wantRings(t *testing.T, counts map[string]int) {
	t.Helper()
	got := d.rings(t, "stable")
	for version, n := range counts {
		if got[version] != n {
			t.Errorf("rings show %v, want %v", got, counts)
			break
		}
	}
	d.sound(t, "stable")
}

func TestRingsStory(t *testing.T) {
	d := ringed(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.wantRings(t, map[string]int{"1.0.0": 100})
	before := objecttest.Tree(t, d.Store)
	d.part(t, "1.1.0", steps(5, 25, 100))
	d.wantRings(t, map[string]int{"1.0.0": 95, "1.1.0": 5})
	if n := changed(before, objecttest.Tree(t, d.Store)); n != 5 {
		t.Errorf("the first step wrote %d rings, want 5", n)
	}
	o := Options{Channel: "stable"}
	move := func(what string, do func() (*Plan, error), shown, part string, counts map[string]int) *Plan {
		t.Helper()
		plan, err := do()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s, r, _ := d.state(t, "stable"); s != shown || r != part {
			t.Errorf("%s: stable shows %s and rolls %q out, want %s and %q", what, s, r, shown, part)
		}
		d.wantRings(t, counts)
		return plan
	}
	advance := func() (*Plan, error) { d.later(7 * time.Hour); return d.Advance(t.Context(), o) }
	before = objecttest.Tree(t, d.Store)
	plan := move("a step", advance, "1.0.0", "1.1.0", map[string]int{"1.0.0": 75, "1.1.0": 25})
	if n := changed(before, objecttest.Tree(t, d.Store)); n != 20 {
		t.Errorf("from 5 to 25 %% %d rings were written, want 20", n)
	}
	if len(plan.Rollout.Rings) != 25 || !slices.IsSorted(plan.Rollout.Rings) {
		t.Errorf("the plan names the rings %v", plan.Rollout.Rings)
	}
	in := plan.Rollout.Rings
	o.Why = "support is flooded"
	move("a pause", func() (*Plan, error) { return d.Pause(t.Context(), o) }, "1.0.0", "1.1.0", map[string]int{"1.0.0": 100})
	plan = move("to resume", func() (*Plan, error) { return d.Resume(t.Context(), o) }, "1.0.0", "1.1.0", map[string]int{"1.0.0": 75, "1.1.0": 25})
	if !slices.Equal(plan.Rollout.Rings, in) {
		t.Errorf("other rings after the pause: %v, before %v", plan.Rollout.Rings, in)
	}
	move("a rollback", func() (*Plan, error) { return d.rollback(t, "stable", "", "crashes") }, "1.0.0", "", map[string]int{"1.0.0": 100})
	d.part(t, "1.2.0", steps(25, 100))
	plan = move("the next rollout", func() (*Plan, error) { return d.Finish(t.Context(), "stable") }, "1.0.0", "1.2.0", map[string]int{"1.2.0": 25})
	if slices.Equal(plan.Rollout.Rings, in) {
		t.Error("the next rollout begins with the same rings")
	}
	move("the last step", advance, "1.2.0", "", map[string]int{"1.2.0": 100})
	other := d.options(t, "1.3.0")
	other.Channel = "beta"
	d.publish(t, other)
	move("a promotion", func() (*Plan, error) {
		return d.Promote(t.Context(), PromoteOptions{Options: Options{Channel: "stable", Rollout: steps(10, 100)}, From: "beta"})
	}, "1.2.0", "1.3.0", map[string]int{"1.2.0": 90, "1.3.0": 10})
}

// changed returns how many manifests of rings differ.
func changed(before, after map[string]string) (n int) {
	for key, data := range after {
		if strings.HasPrefix(key, "stable/rings/") && before[key] != data {
			n++
		}
	}
	return n
}

// TestRingsOfAFollower: a channel with rings that follows another keeps them too.
func TestRingsOfAFollower(t *testing.T) {
	d := newDesk(t)
	d.Policies["beta"] = Policy{Follows: "stable", Rings: true}
	d.publish(t, d.options(t, "1.0.0"))
	if got := d.rings(t, "beta"); got["1.0.0"] != 100 {
		t.Errorf("rings show %v", got)
	}
	d.sound(t, "beta")
}

// TestRingsLater: Finish and the next move bring rings up to date that were turned on later,
// were lost or are behind.
func TestRingsLater(t *testing.T) {
	d := newDesk(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(5, 100))
	d.Policies["stable"] = Policy{Rings: true}
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 100 || report.Findings[7].Object != "stable/rings/07/latest.json" || !strings.Contains(report.Findings[7].Mend, "channel repair stable") {
		t.Fatalf("%d findings: %+v", len(report.Findings), report.Findings[:min(len(report.Findings), 8)])
	}
	for what, move := range map[string]func() (*Plan, error){
		"finish":  func() (*Plan, error) { return d.Finish(t.Context(), "stable") },
		"advance": func() (*Plan, error) { return d.Advance(t.Context(), Options{Channel: "stable"}) },
	} {
		dry, err := d.Advance(t.Context(), Options{Channel: "stable", DryRun: true})
		if err != nil || !dry.Changed || dry.Entry != nil || len(dry.Rendered) < 30 {
			t.Fatalf("a dry run before %s: %+v, %v", what, dry, err)
		}
		if plan, err := move(); err != nil || plan.Entry != nil {
			t.Fatalf("%s: %+v, %v", what, plan, err)
		}
		d.wantRings(t, map[string]int{"1.0.0": 95, "1.1.0": 5})
		stale, err := d.Repository().Peek(t.Context(), "stable")
		if err != nil {
			t.Fatal(err)
		}
		for ring, p := range stale[1:31] { // an old state comes back in some
			old := (&channels.Log{Channel: "stable", Entries: d.log(t, "stable").Entries[:1]}).Views(true)[1+ring].Render("https://old.example.com")
			data, err := old.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Store.Swap(t.Context(), channels.RingKey("stable", ring), p.ETag, data, library.RecordAttributes); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.later(7 * time.Hour)
	d.part(t, "1.2.0", steps(50, 100))
	d.wantRings(t, map[string]int{"1.0.0": 50, "1.2.0": 50})
	d.Policies["stable"] = Policy{}
	report, err = d.Keeper().Verify(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Mend, "rings: true") {
		t.Errorf("rings that nobody keeps: %+v", report.Findings)
	}
}

// putRing writes the manifest of a ring of stable.
func (d *desk) putRing(t *testing.T, ring int, m manifest.Manifest) {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	info, err := d.Store.Stat(t.Context(), channels.RingKey("stable", ring))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Store.Swap(t.Context(), info.Key, info.ETag, data, library.RecordAttributes); err != nil {
		t.Fatal(err)
	}
}

// wantRingFound checks that Verify reports one ring, and that Repair fixes it.
func (d *desk) wantRingFound(t *testing.T, ring int) {
	t.Helper()
	report, err := d.Keeper().Verify(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 || report.Findings[0].Object != channels.RingKey("stable", ring) || !strings.Contains(report.Findings[0].Mend, "channel repair stable") {
		t.Fatalf("findings: %+v", report.Findings)
	}
}

// TestRingBehind: a ring with an older, otherwise correct manifest is found and brought up to
// date.
func TestRingBehind(t *testing.T) {
	d := ringed(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(5, 100))
	log := d.log(t, "stable")
	in := log.Head().Rollout.Rings()
	ring := slices.Index(in[:], true)
	older := (&channels.Log{Channel: "stable", Entries: log.Entries[:1]}).Views(true)[1+ring].Render(d.PublicURL)
	d.putRing(t, ring, older)
	d.wantRingFound(t, ring)
	if repaired, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil || len(repaired.Findings) > 0 || repaired.Sequence != 0 {
		t.Fatalf("%+v, %v", repaired, err)
	}
	d.wantRings(t, map[string]int{"1.0.0": 95, "1.1.0": 5})
}

// TestRingAhead: a ring that shows an entry which the log lacks is found. Repair declares the
// entry lost in the log. Its effect on the rollout is unknown, so every ring gets the release
// that the channel shows.
func TestRingAhead(t *testing.T) {
	d := ringed(t)
	d.publish(t, d.options(t, "1.0.0"))
	d.part(t, "1.1.0", steps(5, 100))
	log := d.log(t, "stable")
	ahead := log.Views(true)[1+42].Render(d.PublicURL)
	ahead.Sequence = log.End().Sequence + 1
	d.putRing(t, 42, ahead)
	d.wantRingFound(t, 42)
	lost := log.End().Sequence + 1
	if repaired, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil || len(repaired.Findings) > 0 || repaired.Sequence != lost+1 {
		t.Fatalf("%+v, %v", repaired, err)
	}
	if end := d.log(t, "stable").Head(); !slices.Equal(end.Lost, []channels.Lost{{From: lost, To: lost}}) {
		t.Errorf("the log says that %+v are lost", end.Lost)
	}
	d.wantRings(t, map[string]int{"1.0.0": 100})
}

// TestRoundsOfRings: rings add less than half a second to a move, if requests take 30 ms.
func TestRoundsOfRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain, d := newDesk(t), ringed(t)
		moves := []struct {
			name string
			move func(d *desk) (*Plan, error)
			most int // rounds; 0: those without rings and half a second
		}{
			{"first publish", func(d *desk) (*Plan, error) { return d.Publish(t.Context(), d.options(t, "1.0.0")) }, 0},
			{"publish", func(d *desk) (*Plan, error) { return d.Publish(t.Context(), d.options(t, "1.1.0")) }, 0},
			{"rollout", func(d *desk) (*Plan, error) {
				o := d.options(t, "1.2.0")
				o.Rollout = steps(5, 25, 100)
				return d.Publish(t.Context(), o)
			}, 0},
			{"step to 25 %", func(d *desk) (*Plan, error) {
				d.later(7 * time.Hour)
				return d.Advance(t.Context(), Options{Channel: "stable"})
			}, int(time.Second / 2 / delay)},
			{"step to 100 %", func(d *desk) (*Plan, error) {
				d.later(7 * time.Hour)
				return d.Advance(t.Context(), Options{Channel: "stable"})
			}, int(time.Second / 2 / delay)},
			{"nothing to do", func(d *desk) (*Plan, error) { return d.Advance(t.Context(), Options{Channel: "stable"}) }, 0},
		}
		for _, m := range moves {
			run := func(d *desk) (rounds, requests int) {
				return d.rounds(func() {
					if _, err := m.move(d); err != nil {
						t.Fatalf("%s: %v", m.name, err)
					}
				})
			}
			without, _ := run(plain)
			rounds, requests := run(d)
			if m.most == 0 {
				m.most = without + int(time.Second/2/delay)
			}
			t.Logf("%s: %d requests, %d in a row, %d without rings: %s more at %s each", m.name, requests, rounds, without, time.Duration(rounds-without)*delay, delay)
			if rounds > m.most {
				t.Errorf("%s: %d requests in a row, want %d at most", m.name, rounds, m.most)
			}
		}
	})
}
