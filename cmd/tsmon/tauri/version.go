package tauri

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/Masterminds/semver/v3"
	"github.com/pelletier/go-toml/v2"
)

// ErrNoVersion means that a project states no version.
var ErrNoVersion = errors.New("no version")

// Version returns the version that `tauri build` builds: the member version, the
// version of the package.json that it names, or that of the package in Cargo.toml,
// which may be inherited from its workspace. Platforms whose overlays state
// different versions are an error.
func (p *Project) Version() (string, error) {
	version, err := p.resolveVersion(p.Base)
	if err != nil {
		return "", err
	}
	for _, platform := range Platforms() {
		other, err := p.resolveVersion(p.On(platform))
		if err != nil {
			return "", err
		}
		if other != version {
			return "", fmt.Errorf("%s says version %s, %s says %s", p.File, version, p.overlays[platform], other)
		}
	}
	return version, nil
}

func (p *Project) resolveVersion(c Config) (string, error) {
	if c.Version == "" {
		return cargoVersion(filepath.Join(p.Dir(), "Cargo.toml"))
	}
	file := c.Version
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.Dir(), file)
	}
	if isFile(file) {
		return packageVersion(file)
	}
	return c.Version, checkVersion(p.File, c.Version)
}

func packageVersion(file string) (string, error) {
	data, err := readFile(file)
	if err != nil {
		return "", err
	}
	var pkg struct{ Version string }
	if err := json.Unmarshal(data, &pkg); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return pkg.Version, checkVersion(file, pkg.Version)
}

// cargo is the part of a Cargo.toml that states versions.
type cargo struct {
	Package struct {
		Version   any // a string, or {workspace = true}
		Workspace string
	}
	Workspace *struct {
		Package struct{ Version string }
	}
}

func readCargo(file string) (c cargo, err error) {
	data, err := readFile(file)
	if err != nil {
		return c, err
	}
	if err = toml.Unmarshal(data, &c); err != nil {
		return c, (&document{path: file, data: data}).errorAt(err)
	}
	return c, nil
}

func cargoVersion(file string) (string, error) {
	c, err := readCargo(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: the Tauri configuration states none, and there is no %s", ErrNoVersion, file)
	}
	if err != nil {
		return "", err
	}
	switch version := c.Package.Version.(type) {
	case string:
		return version, checkVersion(file, version)
	case map[string]any:
		if version["workspace"] == true {
			return workspaceVersion(file, c)
		}
	case nil:
		return "", fmt.Errorf("%w: neither the Tauri configuration nor %s states one", ErrNoVersion, file)
	}
	return "", fmt.Errorf("%s: package.version is neither a version nor workspace = true", file)
}

// workspaceVersion looks for the workspace of a package as cargo does: where
// package.workspace says, else in the folders above.
func workspaceVersion(file string, c cargo) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	if c.Package.Workspace != "" {
		dir = filepath.Join(dir, c.Package.Workspace)
	}
	for {
		root := filepath.Join(dir, "Cargo.toml")
		found, err := readCargo(root)
		switch {
		case err == nil && found.Workspace != nil:
			version := found.Workspace.Package.Version
			return version, checkVersion(root, version)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		case dir == filepath.Dir(dir):
			return "", fmt.Errorf("%s: no workspace states package.version", file)
		}
		dir = filepath.Dir(dir)
	}
}

func checkVersion(file, version string) error {
	if version == "" {
		return fmt.Errorf("%w in %s", ErrNoVersion, file)
	}
	if _, err := semver.StrictNewVersion(version); err != nil {
		return fmt.Errorf("%s: version %q is not MAJOR.MINOR.PATCH", file, version)
	}
	return nil
}
