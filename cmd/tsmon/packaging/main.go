// Command packager adds to a folder of released files what goreleaser leaves out: an
// OCI image and a software bill of materials for each program. Its output depends on
// the programs, the version and SOURCE_DATE_EPOCH alone.
//
// It is a module of its own, so that the program's module doesn't depend on what only
// packaging needs.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packager:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: packager image|sbom VERSION FOLDER")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r := release{version: args[1], folder: args[2], time: time.Unix(seconds, 0).UTC()}
	programs, err := r.programs()
	switch {
	case err != nil:
		return err
	case args[0] == "image":
		return r.writeImage(programs)
	case args[0] == "sbom":
		return r.writeSBOMs(programs)
	}
	return fmt.Errorf("%s is neither image nor sbom", args[0])
}

// release is a version and the folder of its files.
type release struct {
	version, folder string
	time            time.Time // of the commit
}

// program is a file that goreleaser built.
type program struct {
	Path string `json:"path"`
	OS   string `json:"goos"`
	Arch string `json:"goarch"`
	Type string `json:"type"`
}

// programs returns what goreleaser built, ordered by platform.
func (r release) programs() ([]program, error) {
	data, err := os.ReadFile(filepath.Join(r.folder, "artifacts.json"))
	if err != nil {
		return nil, err
	}
	var all []program
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("artifacts.json: %w", err)
	}
	all = slices.DeleteFunc(all, func(p program) bool { return p.Type != "Binary" })
	slices.SortFunc(all, func(a, b program) int { return cmp.Or(cmp.Compare(a.OS, b.OS), cmp.Compare(a.Arch, b.Arch)) })
	if len(all) == 0 {
		return nil, fmt.Errorf("artifacts.json names no program")
	}
	return all, nil
}

// file returns the path of a released file for a platform.
func (r release) file(suffix string) string {
	return filepath.Join(r.folder, "tsmon_"+r.version+"_"+suffix)
}
