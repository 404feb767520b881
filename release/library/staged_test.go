package library

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestDecodeStaged: what somebody wrote into staged/ is refused or harmless.
func TestDecodeStaged(t *testing.T) {
	good := Staged{Version: "1.0.0", Target: "linux-x86_64", Bundles: []StagedBundle{{File: "a.deb", Stored: Stored{Name: "a.deb", Keys: []string{"linux-x86_64-deb"}}}}}
	edit := func(change func(*Staged)) string {
		s := good
		s.Bundles = slices.Clone(good.Bundles)
		change(&s)
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if _, err := decodeStaged("1.0.0", "linux-x86_64", []byte(edit(func(*Staged) {}))); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]string{
		"empty":                      "",
		"an array":                   "[]",
		"a page":                     "<!DOCTYPE html>",
		"another version":            edit(func(s *Staged) { s.Version = "1.0.1" }),
		"another target":             edit(func(s *Staged) { s.Target = "linux-aarch64" }),
		"out of its folder":          edit(func(s *Staged) { s.Bundles[0].Name = "../2.0.0/a.deb" }),
		"a folder":                   edit(func(s *Staged) { s.Bundles[0].Name = "b/a.deb" }),
		"hidden":                     edit(func(s *Staged) { s.Bundles[0].Name = ".a.deb" }),
		"no name":                    edit(func(s *Staged) { s.Bundles[0].Name = "" }),
		"no file":                    edit(func(s *Staged) { s.Bundles[0].File = "" }),
		"a strange download":         edit(func(s *Staged) { s.Bundles[0].Keys, s.Bundles[0].Downloads = nil, []string{"../x"} }),
		"a download strangely given": edit(func(s *Staged) { s.Bundles[0].Keys, s.Bundles[0].Given = nil, []string{"x"} }),
		"a strange key":              edit(func(s *Staged) { s.Bundles[0].Keys = []string{"x"} }),
		"strangely given":            edit(func(s *Staged) { s.Bundles[0].Given = []string{"../x"} }),
	} {
		if _, err := decodeStaged("1.0.0", "linux-x86_64", []byte(bad)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
