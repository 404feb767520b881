package release

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/channels"
	"tsmon/release/approval"
	"tsmon/release/upkeep"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
)

// crew maps operators to their keys.
type crew struct {
	ann, bob, eve approval.Sign
	keys          []string
}

// sign adds signatures to an entry.
func (c crew) sign(t *testing.T, e channels.Entry, by ...approval.Sign) channels.Entry {
	t.Helper()
	payload, err := e.Payload()
	if err != nil {
		t.Fatal(err)
	}
	for _, sign := range by {
		armored, err := sign(t.Context(), c.keys, payload)
		if err != nil {
			t.Fatal(err)
		}
		e.Signatures = append(e.Signatures, armored)
	}
	return e
}

// rearranged is a desk whose operators have published some versions to stable. With entry 3,
// eve replaced bob.
func rearranged(t *testing.T) (*desk, crew) {
	t.Helper()
	d, ann, bob := released(t, "1.0.0", "1.1.0")
	before := d.Policies["stable"].Operators
	eveKey, eve := signingtest.Sign(t, channels.Namespace)
	d.Policies["stable"] = Policy{Operators: &channels.Operators{Keys: map[string]string{"ann": before.Keys["ann"], "eve": eveKey}, Approvals: 2, Rollbacks: 1}}
	d.Sign = ann
	if _, err := d.Appoint(t.Context(), Options{Channel: "stable"}); err != nil {
		t.Fatal(err)
	}
	for _, sign := range []approval.Sign{eve, bob} {
		d.Sign = sign
		if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
			t.Fatal(err)
		}
	}
	d.Sign = ann
	d.publish(t, d.options(t, "1.2.0"))
	d.Sign = eve
	if _, err := d.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	d.sound(t, "stable")
	return d, crew{ann, bob, eve, []string{before.Keys["ann"], before.Keys["bob"], eveKey}}
}

// entries returns the objects of a channel's log.
func (d *desk) entries(t *testing.T, channel string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for info, err := range d.Store.List(t.Context(), channels.LogPrefix(channel), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := object.ReadAll(t.Context(), d.Store, info.Key, channels.MaxEntry)
		if err != nil {
			t.Fatal(err)
		}
		all[info.Key] = string(data)
	}
	return all
}

// keep writes entries to files, as in a copy of the log.
func keep(t *testing.T, entries map[string]string) (files []string) {
	t.Helper()
	folder := t.TempDir()
	for key, data := range entries {
		file := filepath.Join(folder, filepath.Base(key))
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// wantEntries checks that the log of stable has the given entries.
func (d *desk) wantEntries(t *testing.T, want map[string]string) {
	t.Helper()
	if got := d.entries(t, "stable"); !maps.Equal(got, want) {
		t.Errorf("the log has %d entries, or others than the %d that it had", len(got), len(want))
	}
}

const guarded = "log/stable/0000000002.json"

// TestRepairKeepsSigned: an entry that was changed in the middle of a log is restored from a
// copy. Later entries that operators signed are never taken out, even those of former operators.
func TestRepairKeepsSigned(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, d *desk, key string){
		"a word": func(t *testing.T, d *desk, key string) {
			data := d.entries(t, "stable")[key]
			d.loses(t, key)
			d.leave(t, key, strings.Replace(data, `"who": "`, `"who": "not `, 1))
		},
		"junk": func(t *testing.T, d *desk, key string) { d.spoils(t, key) },
		"gone": func(t *testing.T, d *desk, key string) { d.loses(t, key) },
	} {
		for _, key := range []string{"log/stable/0000000001.json", guarded, "log/stable/0000000003.json"} {
			t.Run(name+" "+filepath.Base(key), func(t *testing.T) {
				d, _ := rearranged(t)
				rightful := d.entries(t, "stable")
				damage(t, d, key)
				damaged := d.entries(t, "stable")
				for _, dry := range []bool{true, false} {
					o := upkeep.RepairOptions{Channel: "stable", TakeOut: filepath.Join(t.TempDir(), "out"), DryRun: dry}
					report, err := d.Keeper().Repair(t.Context(), o)
					if !errors.Is(err, channels.ErrLog) {
						t.Errorf("taken out: %+v, %v", report, err)
					}
					hint := upkeep.MendLog(err, "stable")
					if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
						hint = refusal.Mend
					}
					if !strings.Contains(hint, "--bundle") || strings.Contains(hint, "--take-out") {
						t.Errorf("the hint: %s", hint)
					}
					d.wantEntries(t, damaged)
				}
				report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)})
				if err != nil || report.Findings.Err() != nil || !report.Changed {
					t.Fatalf("put back: %+v, %v", report, err)
				}
				d.wantEntries(t, rightful)
				d.sound(t, "stable")
			})
		}
	}
}

// TestRepairBringsAll: a removed log is restored from a copy, even if somebody has written
// entries in its place. Without a copy no unsigned entry is added.
func TestRepairBringsAll(t *testing.T) {
	for name, written := range map[string]string{"": "", "an entry nobody signed": "log/stable/0000000005.json", "the first": "log/stable/0000000001.json", "far away": "log/stable/9999999999.json"} {
		t.Run(name, func(t *testing.T) {
			d, _ := rearranged(t)
			rightful := d.entries(t, "stable")
			for key := range rightful {
				d.loses(t, key)
			}
			if written != "" {
				d.leave(t, written, "{}")
			}
			before := d.entries(t, "stable")
			d.Sign = nil
			report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"})
			if err == nil && report.Waiting == nil {
				t.Errorf("without a copy: %+v", report)
			}
			d.wantEntries(t, before)
			o := upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)}
			if written != "" {
				o.TakeOut = filepath.Join(t.TempDir(), "out")
			}
			if report, err = d.Keeper().Repair(t.Context(), o); err != nil || report.Findings.Err() != nil || len(report.Unused) > 0 {
				t.Fatalf("from a copy: %+v, %v", report, err)
			}
			d.wantEntries(t, rightful)
			d.sound(t, "stable")
		})
	}
}

// TestRepairEndLater: the newest entry is restored from a copy, even if the manifests were
// rendered without it before.
func TestRepairEndLater(t *testing.T) {
	d, _ := rearranged(t)
	rightful := d.entries(t, "stable")
	d.loses(t, "log/stable/0000000004.json")
	for range 2 {
		if report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable"}); err != nil || report.Findings.Err() != nil || report.Sequence != 0 {
			t.Fatalf("without a copy: %+v, %v", report, err)
		}
	}
	report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)})
	if err != nil || report.Findings.Err() != nil || !report.Changed || report.Version != "1.2.0" {
		t.Fatalf("from a copy: %+v, %v", report, err)
	}
	d.wantEntries(t, rightful)
	d.sound(t, "stable")
}

// TestRepairStrangersFile: an unsigned entry is not restored, even if it follows the log.
func TestRepairStrangersFile(t *testing.T) {
	d, _ := rearranged(t)
	rightful := d.entries(t, "stable")
	log := d.log(t, "stable")
	e := *log.Head()
	e.Signatures, e.Why = nil, "let me in"
	data, err := json.Marshal(log.Next(e))
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Keeper().Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, map[string]string{"forged.json": string(data)})})
	if err != nil || report.Changed || len(report.Unused) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	d.wantEntries(t, rightful)
}

// TestTakeOutOthers: objects among the entries that are no entries are moved to the folder too,
// whatever their size. A second run finds the files of the first in the folder.
func TestTakeOutOthers(t *testing.T) {
	d, _ := rearranged(t)
	others := map[string]string{
		"log/stable/0000000005.json": "{}", "log/stable/README": "x", "log/stable/huge": strings.Repeat("x", channels.MaxEntry+1),
	}
	for key, content := range others {
		d.leave(t, key, content)
	}
	folder := filepath.Join(t.TempDir(), "out")
	o := upkeep.RepairOptions{Channel: "stable", TakeOut: folder, DryRun: true}
	report, err := d.Keeper().Repair(t.Context(), o)
	if err != nil || len(report.Mended) != len(others) {
		t.Fatalf("would: %+v, %v", report, err)
	}
	o.DryRun = false
	for range 2 {
		if report, err = d.Keeper().Repair(t.Context(), o); err != nil || report.Findings.Err() != nil {
			t.Fatalf("%+v, %v", report, err)
		}
		for key, content := range others {
			data, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(key, "/", "-")))
			if err != nil || string(data) != content {
				t.Errorf("the file of %s has %d bytes, %v, not %d", key, len(data), err, len(content))
			}
			d.leave(t, key, content) // as if the first run had ended before it deleted the object
		}
	}
	for key := range others {
		d.loses(t, key)
	}
	d.sound(t, "stable")
}
