package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/api/fleet"
	"tsmon/store/record/sqlite"
)

// TestServeSetBack: somebody puts an older manifest back. A server that starts then raises an alarm,
// which the webhook gets too, before it writes the right manifest again. After an interrupted move it
// raises no alarm.
func TestServeSetBack(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.open = true
	storage, data := filepath.Join(t.TempDir(), "store"), t.TempDir()
	k := newKit(t, storage, nil)
	env := append(k.env, "TSMON_REFRESH=50ms", "TSMON_WEBHOOK="+h.URL+"/secret", "TSMON_WEBHOOK_SECRET="+h.secret)
	place := filepath.Join(storage, "stable", "latest.json")
	publish := func(version string) []byte {
		t.Helper()
		k.must(t, "release", "publish", "--version", version, bundles(t, version, 100))
		text, err := os.ReadFile(place)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	lies := func(text []byte) bool {
		there, err := os.ReadFile(place)
		return err == nil && bytes.Equal(there, text)
	}
	put := func(text []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "older")
		err := os.WriteFile(file, text, 0o600)
		if err == nil {
			err = os.Rename(file, place)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func(entry uint64) func() bool {
		return func() bool {
			records, err := sqlite.Open(t.Context(), filepath.Join(data, "records.db"), sqlite.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer records.Close()
			found, err := fleet.Histories{Records: records, Store: storage}.SeenManifest(t.Context(), "stable")
			return err == nil && found == entry
		}
	}
	older := publish("1.0.0")
	newer := publish("1.1.0")
	s := serve(t, data, env)
	until(t, "the manifest is known", seen(2))
	s.stop()

	put(older)
	s = serve(t, data, env)
	until(t, "it is written anew", func() bool { return lies(newer) })
	until(t, "the alarm", func() bool { return slices.Contains(h.told(""), "alarm ") })
	s.stop()
	if said := s.log.String(); !strings.Contains(said, "it is of entry 1 of the log of stable, and that of entry 2 lay there before") {
		t.Errorf("the log: %s", said)
	}

	newest := publish("1.2.0")
	put(newer)
	s = serve(t, data, env)
	until(t, "it is written anew", func() bool { return lies(newest) })
	until(t, "the manifest is known", seen(3))
	s.stop()
	if said := s.log.String(); strings.Contains(said, "does not verify") || len(h.told("")) != 1 || len(h.wrong) > 0 {
		t.Errorf("the webhook was told %q, wrong: %q; the log: %s", h.told(""), h.wrong, said)
	}
}
