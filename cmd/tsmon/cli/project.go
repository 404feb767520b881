package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/notes"
	"tsmon/cmd/tsmon/tauri"
)

// Project reads the Tauri project of a file or folder. If file is empty, it reads the project that
// the Tauri CLI finds from the current folder. Errors are those of package tauri.
func (a *App) Project(file string) (*tauri.Project, error) {
	if file == "" {
		var err error
		if file, err = tauri.Find(cmp.Or(a.Variable("TAURI_APP_PATH"), ".")); err != nil {
			return nil, err
		}
	}
	return tauri.Read(file)
}

// ProjectVersion returns the given version, or else that of the Tauri project below the current
// folder, with a message.
func (a *App) ProjectVersion(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	version := ""
	project, err := a.Project("")
	if err == nil {
		version, err = project.Version()
	}
	if errors.Is(err, tauri.ErrNoProject) {
		err = errors.New("there is no Tauri project here that names one")
	}
	if err != nil {
		return "", WithHint(Usage(fmt.Errorf("--version is missing: %w", err)), "write --version 1.4.0, or run this in the folder of the project")
	}
	a.Say("version %s of %s", version, project.File)
	return version, nil
}

// ChangelogNotes returns the section of a version in the CHANGELOG.md of the current folder or of
// the Tauri project's folder, empty if there is none. A message says which file was used or lacks
// the section, a warning why a file can't be read.
func (a *App) ChangelogNotes(version string) string {
	folders := []string{"."}
	if project, err := a.Project(""); err == nil {
		folders = append(folders, filepath.Dir(project.Dir()), project.Dir())
	}
	missing := ""
	for _, folder := range folders {
		file := filepath.Join(folder, "CHANGELOG.md")
		text, err := notes.Section(file, version)
		switch {
		case err == nil:
			a.Say("notes of %s from %s", version, file)
			return text
		case errors.Is(err, notes.ErrNoSection):
			missing = file
		case errors.Is(err, fs.ErrNotExist):
		default:
			a.Warn([]string{fmt.Sprintf("no release notes were read: %v", err)})
		}
	}
	if missing != "" {
		a.Say("%s has no section of %s", missing, version)
	}
	return ""
}

// ReadsManifest reports whether the Tauri project below the current folder reads latest.json;
// false if there is no project.
func (a *App) ReadsManifest(c *config.Config) bool {
	project, err := a.Project("")
	return err == nil && project.ReadsManifest(c.PublicURL)
}
