package notes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const keepAChangelog = `# Changelog

All notable changes. The format is that of [Keep a Changelog](https://keepachangelog.com/en/1.1.0/).

## [Unreleased]

## [1.4.0] - 2026-05-01

### Added

- Charts over 30 days (since 1.3.0 there were 7).

` + "```sh\n## 1.3.0\n```" + `

### Fixed

- A crash at start.

## [1.4.0-beta.1] - 2026-04-01

- Try charts.

## [1.3.0] - 2026-01-01 [YANKED]

- First.

[Unreleased]: https://example.com/compare/v1.4.0...HEAD
[1.4.0]: https://example.com/compare/v1.3.0...v1.4.0
`

func TestFind(t *testing.T) {
	for name, c := range map[string]struct{ changelog, version, want string }{
		"keep a changelog": {keepAChangelog, "1.4.0", "### Added\n\n- Charts over 30 days (since 1.3.0 there were 7).\n\n```sh\n## 1.3.0\n```\n\n### Fixed\n\n- A crash at start."},
		"pre-release":      {keepAChangelog, "1.4.0-beta.1", "- Try charts."},
		"the last section": {keepAChangelog, "1.3.0", "- First."},
		"leading v":        {keepAChangelog, "v1.3.0", "- First."},
		"no section":       {keepAChangelog, "1.5.0", ""},
		"part of a number": {"## 11.4.0\nx\n## 1.4.01\ny", "1.4.0", ""},
		"empty section":    {keepAChangelog, "Unreleased", ""},
		"heading alone":    {"## 1.4.0\n\n## 1.3.0\n- x", "1.4.0", ""},
		"plain":            {"## 1.4.0\n- a\n## 1.3.0\n- b", "1.4.0", "- a"},
		"v and date":       {"## v1.4.0 (2026-05-01)\n- a", "1.4.0", "- a"},
		"level 1 and name": {"# App 1.4.0: charts\n- a\n## Details\n- b\n# App 1.3.0\n- c", "1.4.0", "- a\n## Details\n- b"},
		"underlined":       {"1.4.0 / May\n-----------\n- a\n\n1.3.0\n-----\n- b", "1.4.0", "- a"},
		"release-please":   {"## [1.4.0](https://example.com/v1.3.0...v1.4.0) (2026-05-01)\n\n* a", "1.4.0", "* a"},
		"CRLF and BOM":     {"\ufeff## 1.4.0\r\n- a\r\n- b\r\n", "1.4.0", "- a\n- b"},
		"build metadata":   {"## 1.4.0+b7\n- a", "1.4.0+b7", "- a"},
		"a rule":           {"## 1.4.0\n- a\n\n---\n\n- b\n## 1.3.0", "1.4.0", "- a\n\n---\n\n- b"},
		"first of two":     {"## 1.4.0\n- a\n## 1.4.0\n- b", "1.4.0", "- a"},
		"link in the text": {"## 1.4.0\n- see [x]\n\n[x]: https://example.com\n\n- b", "1.4.0", "- see [x]\n\n[x]: https://example.com\n\n- b"},
		"indented links":   {"## 1.4.0\n- a\n\n  [1.4.0]: https://example.com/a\n   [1.3.0]: https://example.com/b\n", "1.4.0", "- a"},
		"an open fence":    {"## 1.4.0\n~~~\n## 1.3.0\n", "1.4.0", "~~~\n## 1.3.0"},
		"empty":            {"", "1.4.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(c.changelog, c.version)
			if got != c.want || errors.Is(err, ErrNoSection) != (c.want == "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	if _, err := Section(file, "1.0.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for content, want := range map[string]string{
		"## 1.0.0\n- a\n":                        "",
		"## 2.0.0\n- a\n":                        "CHANGELOG.md: no section for 1.0.0",
		"## 1.0.0\n\xff":                         "not UTF-8",
		strings.Repeat("- a\n", maxFile/4) + "+": "larger than",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		text, err := Section(file, "1.0.0")
		if want == "" && (err != nil || text != "- a") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %q, %v", content, text, err)
		}
	}
}

// A section is a part of the changelog, whatever that holds.
func FuzzFind(f *testing.F) {
	f.Add(keepAChangelog, "1.4.0")
	f.Add("1.4.0\n===", "1.4.0")
	f.Fuzz(func(t *testing.T, changelog, version string) {
		text, err := find(changelog, version)
		if (text == "") == (err == nil) {
			t.Fatalf("%q, %v", text, err)
		}
		if !strings.Contains(strings.ReplaceAll(changelog, "\r\n", "\n"), text) {
			t.Errorf("%q is not in the changelog", text)
		}
	})
}
