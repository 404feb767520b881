package scaffold

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Frontend is how a project installs its dependencies and calls the Tauri CLI.
type Frontend struct {
	Node    bool
	Prepare string // makes the package manager available, or empty
	Install string // installs dependencies, or empty
	Tauri   string // calls the Tauri CLI
}

// corepack provides pnpm and yarn. Node.js no longer has it from version 25 on.
const corepack = "command -v corepack >/dev/null || npm install --global corepack\ncorepack enable"

// managers are package managers by their lock files, most specific first.
var managers = []struct {
	lock string
	Frontend
}{
	{"pnpm-lock.yaml", Frontend{true, corepack, "pnpm install --frozen-lockfile", "pnpm exec tauri"}},
	{"yarn.lock", Frontend{true, corepack, "yarn install --immutable", "yarn tauri"}},
	{"bun.lock", Frontend{true, "npm install --global bun@1", "bun install --frozen-lockfile", "bunx tauri"}},
	{"bun.lockb", Frontend{true, "npm install --global bun@1", "bun install --frozen-lockfile", "bunx tauri"}},
	{"package-lock.json", Frontend{true, "", "npm ci", "npm exec -- tauri"}},
}

// cargoCLI is for projects without the Tauri CLI among their npm packages. Signatures made by older
// versions of it are not bound to a version.
const cargoCLI = "cargo install tauri-cli --locked --version '^2.11.5'"

// maxPackage bounds a package.json, in bytes.
const maxPackage = 1 << 20

// detectFrontend examines the project in dir. Its lock file may be in any folder up to root.
func detectFrontend(dir, root string) (Frontend, error) {
	file, err := os.Open(filepath.Join(dir, "package.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Frontend{Install: cargoCLI, Tauri: "cargo tauri"}, nil
	}
	if err != nil {
		return Frontend{}, err
	}
	defer file.Close()
	var pkg struct{ Dependencies, DevDependencies map[string]any }
	if err := json.NewDecoder(io.LimitReader(file, maxPackage)).Decode(&pkg); err != nil {
		return Frontend{}, &fs.PathError{Op: "read", Path: file.Name(), Err: err}
	}
	f := manager(dir, root)
	const cli = "@tauri-apps/cli"
	if pkg.Dependencies[cli] == nil && pkg.DevDependencies[cli] == nil {
		f.Install += "\n" + cargoCLI
		f.Tauri = "cargo tauri"
	}
	return f, nil
}

func manager(dir, root string) Frontend {
	for {
		for _, m := range managers {
			lock := filepath.Join(dir, m.lock)
			if _, err := os.Stat(lock); err != nil {
				continue
			}
			if m.lock == "yarn.lock" && isYarn1(lock) {
				m.Install = "yarn install --frozen-lockfile"
			}
			return m.Frontend
		}
		if dir == root || dir == filepath.Dir(dir) {
			return Frontend{true, "", "npm install", "npm exec -- tauri"}
		}
		dir = filepath.Dir(dir)
	}
}

// isYarn1 reports whether a lock file begins with the comment of yarn 1.
func isYarn1(lock string) bool {
	file, err := os.Open(lock)
	if err != nil {
		return false
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, 1024))
	return err == nil && bytes.Contains(head, []byte("# yarn lockfile v1"))
}
