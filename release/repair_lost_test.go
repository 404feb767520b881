package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/channels/segment"
	"tsmon/release/approval"
	"tsmon/release/library"
	"tsmon/release/upkeep"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// plants writes entries, and overwrites existing ones.
func (d *desk) plants(t *testing.T, entries map[string]string) {
	t.Helper()
	for key, data := range entries {
		d.leave(t, key, data)
	}
}

// forged returns an entry that follows the newest one, with some signatures.
func (d *desk) forged(t *testing.T, who crew, change func(*channels.Entry), by ...approval.Sign) string {
	t.Helper()
	log := d.log(t, "stable")
	e := *log.Head()
	e.Signatures, e.Entered, e.Expires = nil, time.Time{}, time.Time{}
	change(&e)
	return encoded(t, who.sign(t, log.Next(e), by...))
}

func encoded(t *testing.T, e channels.Entry) string {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTakeOutForged: entries that somebody wrote after the log's end are taken out, whatever
// keys signed them, unless enough of the operators in force signed them.
func TestTakeOutForged(t *testing.T) {
	const behind = "log/stable/0000000005.json"
	critical := func(e *channels.Entry) { e.Release.Critical = true }
	for name, c := range map[string]struct {
		forge func(t *testing.T, d *desk, who crew, thief approval.Sign)
		out   int
	}{
		"nobody's": {func(t *testing.T, d *desk, who crew, _ approval.Sign) {
			d.leave(t, behind, d.forged(t, who, critical))
		}, 1},
		"a stranger's": {func(t *testing.T, d *desk, who crew, thief approval.Sign) {
			d.leave(t, behind, d.forged(t, who, critical, thief))
		}, 1},
		"of operators one of whom was removed": {func(t *testing.T, d *desk, who crew, _ approval.Sign) {
			d.leave(t, behind, d.forged(t, who, critical, who.ann, who.bob))
		}, 1},
		"one operator's, and a rollback behind": {func(t *testing.T, d *desk, who crew, _ approval.Sign) {
			first := d.forged(t, who, critical, who.ann)
			e, sum, _ := channels.Candidate([]byte(first))
			e.Signatures, e.Action, e.Sequence, e.Previous = nil, channels.Rollback, e.Sequence+1, sum
			d.leave(t, behind, first)
			d.leave(t, "log/stable/0000000006.json", encoded(t, who.sign(t, e, who.ann)))
		}, 2},
		"he appoints himself": {func(t *testing.T, d *desk, who crew, thief approval.Sign) {
			d.leave(t, behind, d.forged(t, who, func(e *channels.Entry) {
				e.Action, e.Operators = channels.Appoint, &channels.Operators{Keys: map[string]string{"me": who.keys[3]}, Approvals: 1, Rollbacks: 1}
			}, thief, who.ann))
		}, 1},
		"far away": {func(t *testing.T, d *desk, _ crew, _ approval.Sign) {
			d.leave(t, "log/stable/9999999999.json", "{}")
			d.leave(t, "log/stable/0000900000.json", "{}")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, who := rearranged(t)
			thiefKey, thief := signingtest.Sign(t, channels.Namespace)
			who.keys = append(who.keys, thiefKey)
			rightful := d.entries(t, "stable")
			c.forge(t, d, who, thief)
			if report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); !errors.Is(err, channels.ErrLog) || !strings.Contains(upkeep.MendLog(err, "stable"), "--take-out") {
				t.Errorf("without: %+v, %v", report, err)
			}
			report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", TakeOut: filepath.Join(t.TempDir(), "out")})
			if err != nil || report.Findings.Err() != nil || len(report.Mended) != c.out {
				t.Fatalf("%+v, %v", report, err)
			}
			d.wantEntries(t, rightful)
			d.sound(t, "stable")
		})
	}
}

// TestRepairFromSegments: the entries in segments are restored, a whole log and its end alike.
// Segments are not removed while they are the only copy.
func TestRepairFromSegments(t *testing.T) {
	d, who := rearranged(t)
	for n := 5; n <= segment.Entries+1; n++ {
		log := d.log(t, "stable")
		e := *log.Head()
		e.Action, e.Signatures, e.Entered, e.Expires, e.When = channels.Publish, nil, time.Time{}, time.Time{}, d.Now()
		d.leave(t, channels.EntryKey("stable", uint64(n)), encoded(t, who.sign(t, log.Next(e), who.ann, who.eve)))
	}
	if _, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Repository().PackAll(t.Context(), d.log(t, "stable")); err != nil {
		t.Fatal(err)
	}
	d.sound(t, "stable")
	rightful := d.entries(t, "stable")
	packed := maps.Clone(rightful)
	newest := channels.EntryKey("stable", segment.Entries+1)
	delete(packed, newest)
	for name, lost := range map[string]func(key string) bool{
		"all of it":                          func(string) bool { return true },
		"its end":                            func(key string) bool { return key >= channels.EntryKey("stable", 100) },
		"the entry that changed the signers": func(key string) bool { return key == "log/stable/0000000003.json" || key == newest },
	} {
		t.Run(name, func(t *testing.T) {
			d.plants(t, rightful)
			for key := range rightful {
				if lost(key) {
					d.loses(t, key)
				}
			}
			report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
			if err != nil || !report.Changed {
				t.Fatalf("%+v, %v", report, err)
			}
			d.wantEntries(t, packed)
			if report, err = d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, map[string]string{newest: rightful[newest]})}); err != nil || report.Findings.Err() != nil {
				t.Fatalf("the newest: %+v, %v", report, err)
			}
			d.wantEntries(t, rightful)
			d.sound(t, "stable")
		})
	}
}

// TestRepairUnsigned: a log without signatures is restored whole if nothing is left of it. No
// entry is added after those that other objects mention.
func TestRepairUnsigned(t *testing.T) {
	d := newDesk(t)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		d.publish(t, d.options(t, version))
	}
	rightful := d.entries(t, "stable")
	shown, _, err := object.ReadAll(t.Context(), d.Store, "stable/latest.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, views := range []bool{true, false} {
		for key := range rightful {
			d.loses(t, key)
		}
		if !views {
			d.loses(t, "stable/latest.json")
		}
		report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)})
		if err != nil || report.Findings.Err() != nil || len(report.Unused) > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		d.wantEntries(t, rightful)
		d.sound(t, "stable")
	}
	next := d.log(t, "stable").Next(*d.log(t, "stable").Head())
	forged := keep(t, map[string]string{"log/stable/0000000004.json": encoded(t, next)})
	report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: forged})
	if err != nil || report.Changed || len(report.Unused) != 1 {
		t.Errorf("behind the end: %+v, %v", report, err)
	}
	d.wantEntries(t, rightful)
	d.loses(t, "log/stable/0000000003.json")
	d.leave(t, "stable/latest.json", string(shown))
	if report, err = d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)}); err != nil || report.Findings.Err() != nil {
		t.Fatalf("the newest: %+v, %v", report, err)
	}
	d.wantEntries(t, rightful)
}

// TestRepairNotBySigned: an entry that operators signed is neither replaced nor left out, even
// if another one fits. A person has to decide.
func TestRepairNotBySigned(t *testing.T) {
	d, who := rearranged(t)
	rightful := d.entries(t, "stable")
	d.leave(t, "log/stable/0000000005.json", d.forged(t, who, func(e *channels.Entry) { e.Why = "once more" }, who.ann, who.eve))
	d.loses(t, "log/stable/0000000004.json")
	damaged := d.entries(t, "stable")
	o := upkeep.RepairOptions{Channel: "stable", TakeOut: filepath.Join(t.TempDir(), "out")}
	if report, err := d.Keeper().Repair(t.Context(), o); !errors.Is(err, channels.ErrLog) {
		t.Errorf("taken out: %+v, %v", report, err)
	}
	d.wantEntries(t, damaged)
	// What an earlier run moved away counts, too.
	d.loses(t, "log/stable/0000000005.json")
	d.leave(t, "log/stable/0000000004.json", "{}")
	damaged = d.entries(t, "stable")
	o.TakeOut = filepath.Dir(keep(t, map[string]string{"log-stable-0000000004.json": rightful["log/stable/0000000004.json"]})[0])
	if report, err := d.Keeper().Repair(t.Context(), o); !errors.Is(err, channels.ErrLog) {
		t.Errorf("with what is in the folder: %+v, %v", report, err)
	}
	d.wantEntries(t, damaged)
}

// dying is a store whose writes fail from a given one on.
type dying struct {
	object.Store
	left int
}

var errDied = errors.New("died")

func (s *dying) dies() bool { s.left--; return s.left < 0 }

func (s *dying) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	if s.dies() {
		return object.Info{}, errDied
	}
	return s.Store.Create(ctx, key, r, size, attrs)
}

func (s *dying) Swap(ctx context.Context, key, etag string, data []byte, attrs object.Attributes) (object.Info, error) {
	if s.dies() {
		return object.Info{}, errDied
	}
	return s.Store.Swap(ctx, key, etag, data, attrs)
}

func (s *dying) Delete(ctx context.Context, keys ...string) error {
	if s.dies() {
		return errDied
	}
	return s.Store.Delete(ctx, keys...)
}

// TestRepairKilled: a repair that is killed at any write leaves a log that counts as broken, or
// the whole log. The same command completes it.
func TestRepairKilled(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, d *desk, rightful map[string]string){
		"all is gone": func(t *testing.T, d *desk, rightful map[string]string) {
			for key := range rightful {
				d.loses(t, key)
			}
			d.loses(t, "stable/latest.json")
		},
		"others stand there": func(t *testing.T, d *desk, rightful map[string]string) {
			for _, key := range slices.Sorted(maps.Keys(rightful))[1:] {
				d.leave(t, key, strings.Replace(rightful[key], `"who": "`, `"who": "not `, 1))
			}
			d.leave(t, "log/stable/0000000005.json", "{}")
			d.leave(t, "log/stable/README", "x")
		},
		"the end": func(t *testing.T, d *desk, _ map[string]string) {
			d.loses(t, "log/stable/0000000003.json")
			d.loses(t, "log/stable/0000000004.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := rearranged(t)
			rightful, whole := d.entries(t, "stable"), d.log(t, "stable").End()
			files := keep(t, rightful)
			whichever := d.Store
			for at := 0; ; at++ {
				damage(t, d, rightful)
				o := upkeep.RepairOptions{Channel: "stable", Files: files, TakeOut: filepath.Join(t.TempDir(), "out")}
				before, _ := d.Repository().Load(t.Context(), "stable")
				d.Store = &dying{whichever, at}
				_, killed := d.Keeper().Repair(t.Context(), o)
				d.Store = whichever
				if killed != nil && !errors.Is(killed, errDied) {
					t.Fatalf("killed at %d: %v", at, killed)
				}
				if log, err := d.Repository().Load(t.Context(), "stable"); err == nil && log.End() != whole && (before == nil || log.End() != before.End()) {
					t.Fatalf("killed at %d: the log ends at %s", at, log.End())
				}
				report, err := d.Keeper().Repair(t.Context(), o)
				if err != nil || report.Findings.Err() != nil {
					t.Fatalf("killed at %d, again: %+v, %v", at, report, err)
				}
				d.wantEntries(t, rightful)
				d.sound(t, "stable")
				if killed == nil {
					if at < 3 {
						t.Errorf("only %d moments were tried", at)
					}
					return
				}
			}
		})
	}
}

// TestRepairHalfACopy: a copy that lacks an entry never restores a log that would seem whole.
func TestRepairHalfACopy(t *testing.T) {
	d, _ := rearranged(t)
	rightful := d.entries(t, "stable")
	for key := range rightful {
		d.loses(t, key)
	}
	for _, missing := range slices.Sorted(maps.Keys(rightful))[:3] {
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			half := maps.Clone(rightful)
			delete(half, missing)
			report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, half)})
			if !errors.Is(err, channels.ErrLog) || !strings.Contains(upkeep.MendLog(err, "stable"), "--bundle FOLDER") {
				t.Errorf("%+v, %v", report, err)
			}
			d.wantEntries(t, map[string]string{})
		})
	}
}

// TestRepairAnyDamage damages a log at random and repairs it with parts of a copy. Undamaged
// entries must stay, only entries of the copy may be written, and the whole copy must restore
// the whole log.
func TestRepairAnyDamage(t *testing.T) {
	d, who := rearranged(t)
	rightful := d.entries(t, "stable")
	keys := slices.Sorted(maps.Keys(rightful))
	forged := d.forged(t, who, func(e *channels.Entry) { e.Release.Critical = true }, who.ann)
	shown, _, err := object.ReadAll(t.Context(), d.Store, "stable/latest.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for seed := range rounds {
		chance := rand.New(rand.NewPCG(uint64(seed), 11))
		for key := range d.entries(t, "stable") {
			d.loses(t, key)
		}
		d.plants(t, rightful)
		d.leave(t, "stable/latest.json", string(shown))
		for _, key := range keys {
			switch chance.IntN(6) {
			case 0:
				d.loses(t, key)
			case 1:
				d.leave(t, key, strings.Replace(rightful[key], `"who": "`, `"who": "not `, 1))
			case 2:
				d.leave(t, key, "junk")
			}
		}
		if chance.IntN(2) == 0 {
			d.leave(t, "log/stable/0000000005.json", forged)
		}
		if chance.IntN(2) == 0 {
			d.loses(t, "stable/latest.json")
		}
		copied := map[string]string{}
		whole := chance.IntN(2) == 0
		for _, key := range keys {
			if whole || chance.IntN(2) == 0 {
				copied[key] = rightful[key]
			}
		}
		before := d.entries(t, "stable")
		o := upkeep.RepairOptions{Channel: "stable", Files: keep(t, copied)}
		if whole || chance.IntN(2) == 0 {
			o.TakeOut = filepath.Join(t.TempDir(), "out")
		}
		d.Sign = nil
		o.DryRun = true
		dry, dryErr := d.Keeper().Repair(t.Context(), o)
		if after := d.entries(t, "stable"); !maps.Equal(before, after) {
			t.Fatalf("seed %d: the dry run writes", seed)
		}
		o.DryRun = false
		report, err := d.Keeper().Repair(t.Context(), o)
		after := d.entries(t, "stable")
		for _, key := range keys {
			if before[key] == rightful[key] && after[key] != rightful[key] {
				t.Fatalf("seed %d: %s is not as it was: %+v, %v", seed, key, report, err)
			}
		}
		for key, data := range after {
			if data != before[key] && data != copied[key] {
				t.Fatalf("seed %d: %s is new: %+v, %v", seed, key, report, err)
			}
		}
		if err == nil && dryErr != nil || dryErr == nil && err != nil {
			t.Errorf("seed %d: would: %+v, %v; did: %+v, %v", seed, dry, dryErr, report, err)
		}
		if whole {
			if err != nil || report.Findings.Err() != nil {
				t.Fatalf("seed %d: with all of the copy: %+v, %v", seed, report, err)
			}
			d.wantEntries(t, rightful)
			d.sound(t, "stable")
		} else if err != nil && !errors.Is(err, channels.ErrLog) && !errors.Is(err, library.ErrNoRelease) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if changed := !maps.Equal(before, after); err != nil && changed && report == nil {
			t.Fatalf("seed %d: refused, and something was changed: %v", seed, err)
		}
	}
}

// flaky is a store whose reads of an object fail after the first one.
type flaky struct {
	object.Store
	key   string
	reads int
}

var errFlaky = errors.New("the store is away")

func (f *flaky) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if key == f.key {
		if f.reads++; f.reads > 1 {
			return nil, object.Info{}, errFlaky
		}
	}
	return f.Store.Get(ctx, key)
}

// TestRepairFailsToRead: a record that can't be read does not count as missing.
func TestRepairFailsToRead(t *testing.T) {
	d, ann, bob := released(t, "1.0.0")
	d.Sign = ann
	waits := d.publish(t, d.options(t, "1.1.0")).Waiting
	if _, err := d.Plans().Withdraw(t.Context(), "stable", waits.Hash, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Discard(t.Context(), "1.1.0"); err != nil {
		t.Fatal(err)
	}
	again := d.options(t, "1.1.0")
	again.Notes = "once more"
	d.publish(t, again)
	d.Sign = bob
	if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	named := "releases/1.1.0/release-3.json"
	data, err := os.ReadFile(filepath.Join(d.root, named))
	if err != nil {
		t.Fatal(err)
	}
	d.loses(t, named)
	spare := filepath.Join(t.TempDir(), "spare")
	if err := os.WriteFile(spare, data, 0o600); err != nil {
		t.Fatal(err)
	}
	store := d.Store
	before := objecttest.Tree(t, store)
	d.Store = &flaky{Store: store, key: "releases/1.1.0/release-2.json"}
	if _, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: []string{spare}}); !errors.Is(err, errFlaky) {
		t.Errorf("%v", err)
	}
	if !maps.Equal(objecttest.Tree(t, store), before) {
		t.Error("the store is another")
	}
}
