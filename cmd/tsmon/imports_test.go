package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed lists the rooms of the project that a room may import, besides its own
// packages. Only cmd/tsmon and api/apitest, the kit of tests, may import everything.
// The server joins its rooms and names the contracts in its options.
var allowed = map[string][]string{
	"signing":              {},
	"store/longtest":       {},
	"store/object":         {},
	"store/record":         {"store/longtest", "store/sqlitefile"},
	"store/series":         {"store/sqlitefile"},
	"store/durable":        {},
	"store/backup":         {"store/durable", "store/sqlitefile"},
	"store/servertest":     {},
	"store/sqlitefile":     {},
	"manifest":             {"signing"},
	"channels":             {"manifest", "signing", "store/object"},
	"release/bundle":       {"manifest", "signing"},
	"release/library":      {"release/bundle", "channels", "manifest", "signing", "store/object"},
	"release/upkeep":       {"release/approval", "release/library", "release/bundle", "channels", "manifest", "signing", "store/object"},
	"release/gate":         {"release/library", "release/bundle", "channels", "manifest", "signing"},
	"release/approval":     {"release/gate", "release/library", "release/bundle", "channels", "signing", "store/object"},
	"release":              {"release/approval", "release/gate", "release/upkeep", "release/library", "release/bundle", "channels", "manifest", "signing", "store/object"},
	"api/web":              {"store/object"},
	"api/fleet":            {"release", "release/library", "channels", "manifest", "store/record", "store/series"},
	"api/updates/seal":     {"api/web"},
	"api/updates/alarm":    {"channels", "release/library"},
	"api/updates/recorded": {"release/library", "signing"},
	"api/updates":          {"api/updates/alarm", "api/updates/recorded", "api/updates/seal", "api/web", "api/fleet", "release", "release/gate", "release/library", "channels", "manifest", "signing", "store/object"},
	"api/monitor":          {"api/web", "store/durable", "store/object", "store/record", "store/series"},
	"api/console":          {"api/web"},
	"api":                  {"api/web", "api/fleet", "api/updates", "api/monitor", "api/console", "signing", "store/object", "store/record", "store/series"},
	"api/apitest":          {},
	"cmd/tsmon":            {}, // everything
	"cmd/tsmon/config":     {},
	"cmd/tsmon/demo":       {"store/record", "store/series"},
	"cmd/tsmon/tauri":      {},
	"cmd/tsmon/notes":      {},
}

// TestImports checks every import against allowed. An adapter imports no other
// adapter, and only the command and the kit of the interface's tests import adapters.
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
		t.Errorf("only %d packages were checked", seen)
	}
}

func mayImport(from, to string) bool {
	fromRoom, toRoom := room(from), room(to)
	switch fromRoom {
	case "cmd/tsmon", "api/apitest":
		return true
	case "":
		return false
	case toRoom:
		return !isAdapter(to) // only the command imports adapters
	}
	return slices.Contains(allowed[fromRoom], toRoom) && !isAdapter(to)
}

// room returns the room that a package belongs to, empty if it has none.
func room(pkg string) string {
	longest := ""
	for name := range allowed {
		if (pkg == name || strings.HasPrefix(pkg, name+"/")) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// isAdapter reports whether a package adapts a contract of store to a technology. The suites are no
// adapters, and neither is the code that the SQL adapters share.
func isAdapter(pkg string) bool {
	parts := strings.Split(pkg, "/")
	return parts[0] == "store" && len(parts) > 2 && !strings.HasSuffix(parts[2], "test") && pkg != "store/record/sqlstore"
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
		{"store/record/sqlite", "store/record/sqlstore", true},
		{"api/monitor", "store/record/postgres", false},
		{"api", "store/object", true},
		{"api", "store/object/s3", false},
		{"api", "api/updates", true},
		{"api", "api/apitest", false},
		{"api/apitest", "store/object/s3", true},
		{"api/updates", "api/fleet", true},
		{"api/updates", "api/monitor", false},
		{"api/monitor", "api/updates", false},
		{"api/monitor", "api/fleet", false},
		{"api/monitor/mqtt", "api/updates", false},
		{"api/fleet", "api/web", false},
		{"api/web", "store/record", false},
		{"release/bundle", "channels", false},
		{"release/library", "release", false},
		{"release/upkeep", "release", false},
		{"release/library", "release/upkeep", false},
		{"release/gate", "release", false},
		{"release/approval", "release", false},
		{"release/approval", "release/upkeep", false},
		{"release/gate", "store/object", false},
		{"newroom", "signing", false},
		{"cmd/tsmon/config", "signing", false},
	} {
		if got := mayImport(c.from, c.to); got != c.want {
			t.Errorf("%s may import %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
