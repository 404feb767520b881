package tauri

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// referenceCase holds files of a project and what tauri-utils 2.10.2, the crate
// that the Tauri CLI reads configurations with, makes of them on each platform.
type referenceCase struct {
	Name  string
	Files map[string]string
	Want  map[string]struct {
		Error       string
		ProductName string
		Version     string
		Identifier  string
		Active      bool
		Targets     any
		Artifacts   any
		Updater     *struct {
			Pubkey          string
			Endpoints       []string
			AllowDowngrades bool
		}
	}
}

// differs names the cases in which this package takes less or more than the crate,
// and why.
var differs = map[string]string{
	"json5 whitespace":         "the JSON5 library takes white space of ASCII only",
	"json5 hex escape":         `the JSON5 library does not know \x41`,
	"json5 names beyond ASCII": "the JSON5 library wants them in quotes",
}

// TestReference compares this package with the Tauri CLI's own code: what that
// reads, this reads alike, and what that refuses, this refuses.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []referenceCase
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 40 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.compare(t) })
	}
}

func (c referenceCase) compare(t *testing.T) {
	p, err := read(t, c.Files)
	for _, platform := range Platforms() {
		want := c.Want[platform]
		version := ""
		if err == nil && p.On(platform).Version != "" {
			version, err = p.resolveVersion(p.On(platform))
		}
		if why := differs[c.Name]; why != "" {
			if (err == nil) == (want.Error == "") {
				t.Errorf("%s: no longer different: %s", platform, why)
			}
			continue
		}
		if (err != nil) != (want.Error != "") {
			t.Errorf("%s: %v, the crate: %q", platform, err, want.Error)
		}
		if err != nil || want.Error != "" {
			continue
		}
		got := p.On(platform)
		if got.ProductName != want.ProductName || got.Identifier != want.Identifier || version != want.Version || got.Bundle.Active != want.Active {
			t.Errorf("%s: %+v, version %s; the crate: %+v", platform, got, version, want)
		}
		if targets := targetsOf(want.Targets); !slices.Equal(got.Bundle.Targets, targets) || (got.Bundle.Targets == nil) != (targets == nil) {
			t.Errorf("%s: targets %v, the crate: %v", platform, got.Bundle.Targets, want.Targets)
		}
		artifacts := map[any]Artifacts{false: NoArtifacts, true: Installers, "v1Compatible": V1Compatible}[want.Artifacts]
		if got.Bundle.Artifacts != artifacts {
			t.Errorf("%s: artifacts %q, the crate: %v", platform, got.Bundle.Artifacts, want.Artifacts)
		}
		if u := want.Updater; u != nil {
			if got.Updater.Pubkey != strings.TrimSpace(u.Pubkey) || !slices.Equal(got.Updater.Endpoints, u.Endpoints) || got.Updater.Downgrades != u.AllowDowngrades {
				t.Errorf("%s: updater %+v, the crate: %+v", platform, got.Updater, *u)
			}
		} else if got.Updater.Pubkey != "" || got.Updater.Endpoints != nil {
			t.Errorf("%s: updater %+v, the crate: none", platform, got.Updater)
		}
	}
}

// targetsOf reads bundle.targets as the crate writes it.
func targetsOf(targets any) []string {
	switch v := targets.(type) {
	case string:
		if v == "all" {
			return nil
		}
		return []string{v}
	case []any:
		list := []string{}
		for _, t := range v {
			text, _ := t.(string)
			list = append(list, text)
		}
		return list
	}
	return nil
}
