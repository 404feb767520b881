package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed says which rooms of the project a room may import, beside its own
// packages. cmd/tsmon alone may import everything.
var allowed = map[string][]string{
	"signing":            {},
	"store/object":       {},
	"store/record":       {},
	"store/series":       {},
	"manifest":           {"signing"},
	"channels":           {"manifest", "store/object"},
	"release":            {"channels", "manifest", "signing", "store/object"},
	"api":                {"release", "channels", "manifest", "signing", "store/object", "store/record", "store/series"},
	"cmd/tsmon/config":   {},
	"cmd/tsmon/demo":     {"store/record", "store/series"},
	"cmd/tsmon/tauri":    {},
	"cmd/tsmon/notes":    {},
	"cmd/tsmon/scaffold": {"cmd/tsmon/config", "cmd/tsmon/tauri", "signing"},
}

// TestImports holds every package to the rooms that its own may import, and
// adapters to their contract: none imports another, and nobody but the command
// imports one.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "tsmon/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		seen++
		from := strings.TrimPrefix(pkg.ImportPath, "tsmon/")
		for _, path := range pkg.Imports {
			if to, ours := strings.CutPrefix(path, "tsmon/"); ours && !mayImport(from, to) {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages were looked at", seen)
	}
}

func mayImport(from, to string) bool {
	if from == "cmd/tsmon" {
		return true
	}
	fromRoom, toRoom := room(from), room(to)
	switch {
	case fromRoom == "":
		return false
	case fromRoom == toRoom:
		return !isAdapter(to) // an adapter is for the command
	}
	return slices.Contains(allowed[fromRoom], toRoom) && !isAdapter(to)
}

// room is the room that a package belongs to, empty if it has none.
func room(pkg string) string {
	longest := ""
	for name := range allowed {
		if (pkg == name || strings.HasPrefix(pkg, name+"/")) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// isAdapter says that a package adapts a contract of store to a technology. The
// suites are no adapters.
func isAdapter(pkg string) bool {
	parts := strings.Split(pkg, "/")
	return parts[0] == "store" && len(parts) > 2 && !strings.HasSuffix(parts[2], "test")
}

func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"cmd/tsmon", "store/object/s3", true},
		{"manifest/updater", "manifest", true},
		{"manifest", "signing", true},
		{"signing", "manifest", false},
		{"release", "store/object", true},
		{"release", "store/object/dir", false},
		{"store/object/s3", "store/object", true},
		{"store/object/s3", "store/object/dir", false},
		{"api", "store/object", true},
		{"api", "store/object/s3", false},
		{"newroom", "signing", false},
		{"cmd/tsmon/config", "signing", false},
	} {
		if got := mayImport(c.from, c.to); got != c.want {
			t.Errorf("%s may import %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
