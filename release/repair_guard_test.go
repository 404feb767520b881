package release

import (
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

// rearranged is a desk whose stable three operators have brought to some versions, of whom the
// third took the place of the second on the way.
func rearranged(t *testing.T) (d *desk, ann, eve approval.Sign) {
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
	return d, ann, eve
}

// entries are the objects of a channel's log.
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

// keep writes entries to files, as a copy of the log has them.
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

// wantEntries wants the log of stable to be what it was.
func (d *desk) wantEntries(t *testing.T, want map[string]string) {
	t.Helper()
	if got := d.entries(t, "stable"); !maps.Equal(got, want) {
		t.Errorf("the log has %d entries, or others than the %d that it had", len(got), len(want))
	}
}

const guarded = "log/stable/0000000002.json"

// TestRepairKeepsSigned: what was changed in the middle of a log is put back from a copy, and
// nothing that operators signed behind it is taken out, whoever they were.
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
				d, _, _ := rearranged(t)
				rightful := d.entries(t, "stable")
				damage(t, d, key)
				damaged := d.entries(t, "stable")
				for _, dry := range []bool{true, false} {
					o := upkeep.RepairOptions{Channel: "stable", TakeOut: filepath.Join(t.TempDir(), "out"), DryRun: dry}
					report, err := d.Repair(t.Context(), o)
					if !errors.Is(err, channels.ErrLog) {
						t.Errorf("taken out: %+v, %v", report, err)
					}
					if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(refusal.Mend, "--bundle") || strings.Contains(refusal.Mend, "--take-out") {
						t.Errorf("the hint: %+v", refusal)
					}
					d.wantEntries(t, damaged)
				}
				if key == "log/stable/0000000003.json" {
					return // it put other operators in force, without whom nothing behind it is signed
				}
				report, err := d.Repair(t.Context(), upkeep.RepairOptions{Channel: "stable", Files: keep(t, rightful)})
				if err != nil || report.Err() != nil || !report.Changed {
					t.Fatalf("put back: %+v, %v", report, err)
				}
				d.wantEntries(t, rightful)
				d.sound(t, "stable")
			})
		}
	}
}
