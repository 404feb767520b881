// Package tauri reads the configuration of a Tauri 2 project as the Tauri CLI
// does, as far as releases need it.
//
// The configuration is tauri.conf.json, which may hold JSON5, else
// tauri.conf.json5, else Tauri.toml. For each desktop platform the overlay
// beside it (tauri.linux.conf.json, Tauri.windows.toml and so on) is merged into
// it as a JSON merge patch (RFC 7396). What `tauri build --config` adds is not
// known here.
//
// testdata/reference.json compares the package with the Tauri CLI's own code. It differs on
// purpose in that it ignores unknown members. Because of its JSON5 library, it accepts only ASCII
// white space and ASCII unquoted names, and refuses \x escapes.
//
// A Tauri 1 project is refused with ErrV1. Reads are bounded. Errors name the file and, if known,
// the line.
package tauri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrNoProject means that there is no Tauri configuration in a folder.
	ErrNoProject = errors.New("no Tauri project")
	// ErrV1 means that a configuration is that of Tauri 1.
	ErrV1 = errors.New("a Tauri 1 project")
)

// Desktop platforms, as in the file names of overlays.
const (
	Linux   = "linux"
	Windows = "windows"
	MacOS   = "macos"
)

// Platforms are the desktop platforms.
func Platforms() []string { return []string{Linux, Windows, MacOS} }

// Project is a Tauri project.
type Project struct {
	// File is the main configuration file.
	File string
	// Base is the configuration without any overlay.
	Base Config

	format     format
	onPlatform map[string]Config
	overlays   map[string]string // the file of each platform's overlay
}

// Config is the part of a configuration that releases need. Absent members are empty, except
// those for which the Tauri CLI has a default.
type Config struct {
	ProductName string
	Identifier  string
	// Version is a semantic version or the path of a package.json, or empty.
	Version string
	Bundle  Bundle
	Updater Updater
}

// Bundle is the member bundle.
type Bundle struct {
	Active bool
	// Targets are bundle types such as nsis or appimage, in lower case; nil means all types
	// of the platform.
	Targets []string
	// Artifacts is what createUpdaterArtifacts asks for.
	Artifacts Artifacts
}

// Artifacts are the update files that the Tauri bundler makes and signs.
type Artifacts string

// What bundle.createUpdaterArtifacts may be.
const (
	NoArtifacts  Artifacts = ""
	Installers   Artifacts = "installers"   // true: installers and .app.tar.gz
	V1Compatible Artifacts = "v1Compatible" // archives that hold the installers
)

// Updater is the member plugins.updater.
type Updater struct {
	Pubkey        string
	Endpoints     []string
	AllowHTTP     bool // dangerousInsecureTransportProtocol
	RequireSigned bool // requireSignedVersion
	Downgrades    bool // allowDowngrades
}

// Dir is the folder of the configuration, src-tauri in most projects.
func (p *Project) Dir() string { return filepath.Dir(p.File) }

// On returns the configuration that a platform is built with.
func (p *Project) On(platform string) Config { return p.onPlatform[platform] }

// Pubkeys returns the distinct updater keys of the desktop platforms.
func (p *Project) Pubkeys() []string {
	var keys []string
	for _, platform := range Platforms() {
		key := p.On(platform).Updater.Pubkey
		if key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Find returns the main configuration file of the project in a folder. It looks in the folder, in
// src-tauri below it, then up to three levels down, except in node_modules, target and hidden
// folders. The error wraps ErrNoProject if there is none.
func Find(dir string) (string, error) {
	for _, d := range []string{dir, filepath.Join(dir, "src-tauri")} {
		if file := mainFile(d); file != "" {
			return file, nil
		}
	}
	folders := []string{dir}
	for range 3 {
		var below []string
		for _, folder := range folders {
			entries, err := os.ReadDir(folder)
			if err != nil && folder == dir {
				return "", err
			}
			for _, e := range entries {
				if e.IsDir() && !skipped(e.Name()) {
					below = append(below, filepath.Join(folder, e.Name()))
				}
			}
		}
		for _, folder := range below {
			if file := mainFile(folder); file != "" {
				return file, nil
			}
		}
		folders = below
	}
	return "", fmt.Errorf("%w in %s: neither tauri.conf.json, tauri.conf.json5 nor Tauri.toml", ErrNoProject, dir)
}

func skipped(folder string) bool {
	return folder == "node_modules" || folder == "target" || strings.HasPrefix(folder, ".")
}

func mainFile(dir string) string {
	for _, f := range formats {
		if path := filepath.Join(dir, f.name); isFile(path) {
			return path
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Read reads a project by its main configuration file, or by its folder. Errors wrap ErrNoProject,
// ErrV1 or fs.ErrNotExist, or say what is wrong in which file.
func Read(path string) (*Project, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file := mainFile(path)
		if file == "" {
			return nil, fmt.Errorf("%w in %s: neither tauri.conf.json, tauri.conf.json5 nor Tauri.toml", ErrNoProject, path)
		}
		path = file
	}
	main, err := readDocument(path)
	if err != nil {
		return nil, err
	}
	if isV1(main.tree) {
		return nil, fmt.Errorf("%s: %w", path, ErrV1)
	}
	p := &Project{File: path, format: main.format, onPlatform: map[string]Config{}, overlays: map[string]string{}}
	if p.Base, err = main.config(); err != nil {
		return nil, err
	}
	for _, platform := range Platforms() {
		p.onPlatform[platform] = p.Base
		if err := p.readOverlay(main, platform); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readOverlay reads a platform's overlay, if there is one, in any format.
func (p *Project) readOverlay(main *document, platform string) error {
	for _, f := range formats {
		path := filepath.Join(p.Dir(), fmt.Sprintf(f.overlay, platform))
		overlay, err := readDocument(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := overlay.config(); err != nil {
			return err
		}
		merged := &document{path: path, tree: mergePatch(main.tree, overlay.tree)}
		p.overlays[platform] = path
		p.onPlatform[platform], err = merged.config()
		return err
	}
	return nil
}

// isV1 recognises the layout of Tauri 1, which had the members tauri and package.
func isV1(tree map[string]any) bool {
	_, tauri := tree["tauri"].(map[string]any)
	_, pkg := tree["package"].(map[string]any)
	_, identifier := tree["identifier"].(string)
	return !identifier && (tauri || pkg)
}
