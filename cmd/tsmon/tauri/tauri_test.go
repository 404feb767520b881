package tauri

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree writes files and returns their folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads the project in a folder with the given files.
func read(t *testing.T, files map[string]string) (*Project, error) {
	t.Helper()
	return Read(tree(t, files))
}

func mustRead(t *testing.T, files map[string]string) *Project {
	t.Helper()
	p, err := read(t, files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// initJSON is what `tauri init` of the CLI 2.12 writes, with an updater added.
const initJSON = `{
  "$schema": "https://schema.tauri.app/config/2",
  "productName": "Water Desk",
  "version": "0.1.0",
  "identifier": "com.example.water",
  "build": {"frontendDist": "../dist", "devUrl": "http://localhost:1420"},
  "app": {"windows": [{"title": "Water Desk"}], "security": {"csp": null}},
  "bundle": {
    "active": true,
    "targets": "all",
    "createUpdaterArtifacts": true,
    "icon": ["icons/32x32.png"],
    "android": {"debugApplicationIdSuffix": ".debug"}
  },
  "plugins": {
    "updater": {
      "pubkey": "dW50cnVzdGVk",
      "endpoints": ["https://example.com/stable/latest.json"],
      "requireSignedVersion": true,
      "windows": {"installMode": "passive"}
    }
  }
}`

// initJSON5 and initTOML say the same.
const initJSON5 = `// the application
{
  productName: 'Water Desk', version: "0.1.0",
  identifier: 'com.example.\
water', /* on two lines */
  bundle: {active: true, targets: 'ALL', createUpdaterArtifacts: true,},
  plugins: {updater: {
    pubkey: 'dW50cnVzdGVk', requireSignedVersion: true,
    endpoints: ['https://example.com/stable/latest.json',],
  }},
  unknown: [+1, .5, 0x10, Infinity],
}`

const initTOML = `product-name = "Water Desk"
version = "0.1.0"
identifier = "com.example.water"

[bundle]
active = true
targets = "all"
createUpdaterArtifacts = true

[plugins.updater]
pubkey = "dW50cnVzdGVk"
endpoints = ["https://example.com/stable/latest.json"]
require-signed-version = true
`

func TestRead(t *testing.T) {
	want := Config{
		ProductName: "Water Desk", Identifier: "com.example.water", Version: "0.1.0",
		Bundle:  Bundle{Active: true, Artifacts: Installers},
		Updater: Updater{Pubkey: "dW50cnVzdGVk", Endpoints: []string{"https://example.com/stable/latest.json"}, RequireSigned: true},
	}
	for name, content := range map[string]string{
		"tauri.conf.json": initJSON, "tauri.conf.json5": initJSON5, "Tauri.toml": initTOML,
	} {
		p := mustRead(t, map[string]string{name: content})
		if !reflect.DeepEqual(p.Base, want) {
			t.Errorf("%s: %+v, want %+v", name, p.Base, want)
		}
		for _, platform := range Platforms() {
			if !reflect.DeepEqual(p.On(platform), want) {
				t.Errorf("%s on %s: %+v", name, platform, p.On(platform))
			}
		}
	}
	t.Run("JSON5 in a file named .json", func(t *testing.T) {
		p := mustRead(t, map[string]string{"tauri.conf.json": initJSON5})
		if !reflect.DeepEqual(p.Base, want) {
			t.Errorf("%+v", p.Base)
		}
	})
	t.Run("the CLI's order of preference", func(t *testing.T) {
		p := mustRead(t, map[string]string{
			"tauri.conf.json": `{"version": "1.0.0"}`, "tauri.conf.json5": `{version: '2.0.0'}`, "Tauri.toml": `version = "3.0.0"`,
		})
		if p.Base.Version != "1.0.0" {
			t.Errorf("read %s", p.Base.Version)
		}
	})
}

func TestOverlays(t *testing.T) {
	p := mustRead(t, map[string]string{
		"tauri.conf.json":         initJSON,
		"tauri.linux.conf.json":   `{"bundle": {"targets": ["deb", "AppImage"]}}`,
		"Tauri.windows.toml":      "[bundle]\ntargets = \"nsis\"\ncreateUpdaterArtifacts = \"v1Compatible\"\n[plugins.updater]\npubkey = \"other\"",
		"tauri.macos.conf.json5":  `{plugins: {updater: null}, bundle: {targets: ['dmg']}}`,
		"tauri.android.conf.json": `{"bundle": {"targets": 5}}`,
	})
	if got := p.Updatable(Linux); !reflect.DeepEqual(got, []string{"appimage", "deb"}) {
		t.Errorf("linux: %v", got)
	}
	windows := p.On(Windows)
	if windows.Bundle.Artifacts != V1Compatible || windows.Updater.Pubkey != "other" || len(windows.Updater.Endpoints) != 1 {
		t.Errorf("windows: %+v", windows)
	}
	if got := p.Updatable(Windows); !reflect.DeepEqual(got, []string{"nsis"}) {
		t.Errorf("windows: %v", got)
	}
	if macOS := p.On(MacOS); macOS.Updater.Pubkey != "" || len(p.Updatable(MacOS)) != 0 || macOS.ProductName != "Water Desk" {
		t.Errorf("macos: %+v", macOS)
	}
	if got := p.Pubkeys(); !reflect.DeepEqual(got, []string{"dW50cnVzdGVk", "other"}) {
		t.Errorf("keys: %v", got)
	}
	if p.Base.Bundle.Targets != nil || p.Base.Updater.Pubkey != "dW50cnVzdGVk" {
		t.Errorf("an overlay changed the base: %+v", p.Base)
	}
}

// The examples of RFC 7396, appendix A, whose documents are objects.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var docs [3]map[string]any
		for i, text := range c {
			if err := decodeJSON([]byte(text), &docs[i]); err != nil {
				t.Fatal(err)
			}
		}
		if got := mergePatch(docs[0], docs[1]); !reflect.DeepEqual(got, docs[2]) {
			t.Errorf("%s with %s: %v, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"tauri.conf.json", "{\n  \"version\": \"1.0.0\"\n  \"identifier\": 1\n}", "tauri.conf.json:3: invalid character '\"' after object key:value pair"},
		{"tauri.conf.json", "{", "tauri.conf.json:1: unexpected end of JSON input"},
		{"tauri.conf.json", "", "tauri.conf.json:1: unexpected end of JSON input"},
		{"tauri.conf.json", "[]", "tauri.conf.json: the configuration is not an object"},
		{"tauri.conf.json", "null", "tauri.conf.json: null is not a configuration"},
		{"tauri.conf.json", "{\"version\": \"\xff\"}", "tauri.conf.json: not UTF-8"},
		{"tauri.conf.json5", "{\n a: 1,\n b: ]}", "tauri.conf.json5:3: invalid character ']' looking for beginning of value"},
		{"Tauri.toml", "a = 1\nb = [\n", "Tauri.toml:"},
		{"Tauri.toml", "a = 1\na = 2", "Tauri.toml:2: "},
		{"tauri.conf.json", "{\n\"version\": 1}", "tauri.conf.json:2: version is not a string"},
		{"tauri.conf.json", `{"plugins": {"updater": {"pubkey": ["x"]}}}`, "tauri.conf.json:1: plugins.updater.pubkey is not a string"},
		{"tauri.conf.json", `{"plugins": {"updater": {"endpoints": "x"}}}`, "plugins.updater.endpoints is not a list"},
		{"tauri.conf.json", `{"plugins": {"updater": {"endpoints": [1]}}}`, "plugins.updater.endpoints is not a list of strings"},
		{"tauri.conf.json", `{"plugins": {"updater": true}}`, "plugins.updater.pubkey can't be read: a member on its path is not an object"},
		{"tauri.conf.json", `{"bundle": {"createUpdaterArtifacts": "v2"}}`, `bundle.createUpdaterArtifacts is neither true, false nor "v1Compatible"`},
		{"tauri.conf.json", `{"bundle": {"createUpdaterArtifacts": {"a": [1]}}}`, "bundle.createUpdaterArtifacts is neither"},
		{"tauri.conf.json", `{"bundle": {"targets": ["exe"]}}`, "bundle.targets names a bundle type that is none of deb, rpm"},
		{"tauri.conf.json", `{"bundle": {"targets": 3}}`, `bundle.targets is neither "all"`},
		{"Tauri.toml", "[bundle]\n\nactive = 2024-01-01\n", "Tauri.toml:3: bundle.active is not true or false"},
		{"tauri.conf.json", strings.Repeat(" ", maxFile) + "{}", "larger than"},
	} {
		_, err := read(t, map[string]string{c.name: c.content})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q in %s: %v, want %s", c.content, c.name, err, c.want)
		}
	}
	t.Run("in an overlay", func(t *testing.T) {
		_, err := read(t, map[string]string{"tauri.conf.json": initJSON, "tauri.macos.conf.json": "{\n\"version\": 2}"})
		if err == nil || !strings.Contains(err.Error(), "tauri.macos.conf.json:2: version is not a string") {
			t.Error(err)
		}
	})
	t.Run("Tauri 1", func(t *testing.T) {
		_, err := read(t, map[string]string{"tauri.conf.json": `{"package": {"version": "1.0.0"}, "tauri": {"bundle": {"identifier": "x"}}}`})
		if !errors.Is(err, ErrV1) {
			t.Error(err)
		}
	})
	t.Run("no file", func(t *testing.T) {
		if _, err := Read(filepath.Join(t.TempDir(), "tauri.conf.json")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := Read(t.TempDir()); !errors.Is(err, ErrNoProject) {
			t.Error(err)
		}
		if _, err := Read(filepath.Join(tree(t, map[string]string{"tauri.yaml": ""}), "tauri.yaml")); err == nil {
			t.Error("a YAML file was read")
		}
	})
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"tauri.conf.json src-tauri/tauri.conf.json", "tauri.conf.json"},
		{"src-tauri/Tauri.toml src-tauri/tauri.conf.json5", "src-tauri/tauri.conf.json5"},
		{"apps/desktop/src-tauri/tauri.conf.json", "apps/desktop/src-tauri/tauri.conf.json"},
		{"a/b/c/tauri.conf.json z/tauri.conf.json", "z/tauri.conf.json"},
		{"node_modules/x/tauri.conf.json target/tauri.conf.json .git/tauri.conf.json", ""},
		{"a/b/c/d/tauri.conf.json", ""},
		{"tauri.linux.conf.json", ""},
	} {
		files := map[string]string{}
		for _, name := range strings.Fields(c.files) {
			files[name] = "{}"
		}
		dir := tree(t, files)
		got, err := Find(dir)
		if c.want == "" {
			if !errors.Is(err, ErrNoProject) {
				t.Errorf("%s: found %s, %v", c.files, got, err)
			}
			continue
		}
		if rel, _ := filepath.Rel(dir, got); err != nil || filepath.ToSlash(rel) != c.want {
			t.Errorf("%s: found %s, %v; want %s", c.files, got, err, c.want)
		}
	}
	if _, err := Find(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"stated":                   {map[string]string{"tauri.conf.json": initJSON}, "0.1.0"},
		"pre-release":              {map[string]string{"tauri.conf.json": `{"version": "1.0.0-beta.1+b7"}`}, "1.0.0-beta.1+b7"},
		"package.json":             {map[string]string{"src-tauri/tauri.conf.json": `{"version": "../package.json"}`, "package.json": `{"version": "2.3.4"}`}, "2.3.4"},
		"Cargo.toml":               {map[string]string{"src-tauri/tauri.conf.json": `{}`, "src-tauri/Cargo.toml": "[package]\nversion = \"3.0.1\""}, "3.0.1"},
		"workspace":                {map[string]string{"src-tauri/tauri.conf.json": `{}`, "src-tauri/Cargo.toml": "[package]\nversion.workspace = true", "Cargo.toml": "[workspace.package]\nversion = \"4.0.0\""}, "4.0.0"},
		"workspace that is named":  {map[string]string{"a/src-tauri/tauri.conf.json": `{}`, "a/src-tauri/Cargo.toml": "[package]\nversion.workspace = true\nworkspace = \"../../w\"", "w/Cargo.toml": "[workspace.package]\nversion = \"5.0.0\""}, "5.0.0"},
		"overlay says the same":    {map[string]string{"tauri.conf.json": initJSON, "tauri.linux.conf.json": `{"version": "0.1.0"}`}, "0.1.0"},
		"overlay says another":     {map[string]string{"tauri.conf.json": initJSON, "tauri.linux.conf.json": `{"version": "0.2.0"}`}, ""},
		"not a version":            {map[string]string{"tauri.conf.json": `{"version": "v1.0.0"}`}, ""},
		"nowhere":                  {map[string]string{"tauri.conf.json": `{}`}, ""},
		"Cargo.toml without one":   {map[string]string{"tauri.conf.json": `{}`, "Cargo.toml": "[package]\nname = \"x\""}, ""},
		"Cargo.toml with a number": {map[string]string{"tauri.conf.json": `{}`, "Cargo.toml": "[package]\nversion = 1"}, ""},
		"Cargo.toml that is wrong": {map[string]string{"tauri.conf.json": `{}`, "Cargo.toml": "[package"}, ""},
		"no workspace":             {map[string]string{"tauri.conf.json": `{}`, "Cargo.toml": "[package]\nversion.workspace = true"}, ""},
		"package.json without one": {map[string]string{"tauri.conf.json": `{"version": "package.json"}`, "package.json": `{}`}, ""},
		"package.json, a number":   {map[string]string{"tauri.conf.json": `{"version": "package.json"}`, "package.json": `{"version": 1}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Find(tree(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Version()
			if got != c.want && c.want != "" || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	const public = "https://example.com"
	channels := []string{"stable", "beta"}
	t.Run("a project that fits", func(t *testing.T) {
		p := mustRead(t, map[string]string{"tauri.conf.json": initJSON, "Cargo.toml": "[dependencies]\ntauri-plugin-updater = \"2\""})
		if found := p.Check(public, channels); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
	t.Run("as tauri init leaves it", func(t *testing.T) {
		p := mustRead(t, map[string]string{"tauri.conf.json": `{"identifier": "com.tauri.dev", "bundle": {"targets": "all"}}`, "Cargo.toml": "[package]"})
		want := map[string]string{
			"identifier": `"identifier": "com.example.app"`, "bundle.active": `"active": true`,
			"bundle.createUpdaterArtifacts": `"createUpdaterArtifacts": true`,
			"plugins.updater.endpoints":     `"endpoints": ["https://example.com/stable/latest.json"]`, "dependencies": "",
		}
		found := p.Check(public, channels)
		if len(found) != len(want) {
			t.Errorf("%+v", found)
		}
		for _, f := range found {
			if want[f.Member] != f.Write || f.Problem == "" || f.File == "" {
				t.Errorf("%+v, want to write %s", f, want[f.Member])
			}
		}
	})
	t.Run("in TOML", func(t *testing.T) {
		p := mustRead(t, map[string]string{"Tauri.toml": "[bundle]\nactive = true"})
		found := p.Check(public, channels)
		if len(found) == 0 || found[0].Write != "createUpdaterArtifacts = true" {
			t.Errorf("%+v", found)
		}
	})
	t.Run("a server on trial", func(t *testing.T) {
		const trial = "http://127.0.0.1:8080/updates"
		check := func(member string) []Finding {
			conf := strings.Replace(initJSON, public, trial, 1)
			return mustRead(t, map[string]string{"Cargo.toml": "[dependencies]\ntauri-plugin-updater = \"2\"",
				"tauri.conf.json": strings.Replace(conf, `"updater": {`, `"updater": {`+member, 1)}).Check(trial, channels)
		}
		found := check("")
		if len(found) != 1 || found[0].Write != `"dangerousInsecureTransportProtocol": true` {
			t.Fatalf("%+v", found)
		}
		if found := check(found[0].Write + ","); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
	t.Run("a platform that nothing updates", func(t *testing.T) {
		p := mustRead(t, map[string]string{"tauri.conf.json": initJSON, "tauri.macos.conf.json": `{"bundle": {"targets": ["dmg"]}}`})
		found := p.Check(public, channels)
		if len(found) != 1 || found[0].Member != "bundle.targets" || filepath.Base(found[0].File) != "tauri.macos.conf.json" {
			t.Errorf("%+v", found)
		}
	})
}

func TestEndpoints(t *testing.T) {
	for endpoint, problem := range map[string]string{
		"https://example.com/app/stable/latest.json":                                                                               "",
		"https://example.com/app/beta/latest.json":                                                                                 "",
		"https://example.com/app/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}":                       "",
		"https://example.com/app/stable/%7B%7Btarget%7D%7D/{{ arch }}/{{current_version}}?x=1&bundle_type=%7b%7bbundle_type%7d%7d": "",
		"https://example.com/app/stable/rings/07/latest.json":                                                                      "",
		"https://example.com/app/stable/{{target}}/{{arch}}/{{current_version}}":                                                   "does not say the bundle type",
		"http://example.com/app/stable/latest.json":                                                                                "not https",
		"https://example.com/stable/latest.json":                                                                                   "not below",
		"https://example.com/app/latest.json":                                                                                      "none of stable, beta",
		"https://example.com/app/nightly/latest.json":                                                                              "none of stable, beta",
		"https://example.com/app/stable/update.json":                                                                               "is neither",
		"https://example.com/app/stable/{{current_version}}/{{target}}":                                                            "is neither",
		"latest.json": "not an address",
		"https://%zz": "not an address",
	} {
		got := CheckEndpoint(endpoint, "https://example.com/app", []string{"stable", "beta"}, false)
		if problem == "" && got != "" || !strings.Contains(got, problem) {
			t.Errorf("%s: %q, want %q", endpoint, got, problem)
		}
	}
	if got := CheckEndpoint("http://127.0.0.1:8080/updates/stable/latest.json", "http://127.0.0.1:8080/updates", []string{"stable"}, true); got != "" {
		t.Errorf("with dangerousInsecureTransportProtocol: %s", got)
	}
}

// Reading any file gives a project or an error.
func FuzzRead(f *testing.F) {
	for i, seed := range []string{initJSON, initJSON5, initTOML} {
		f.Add(i, seed, `{"bundle": {"targets": null}}`)
	}
	f.Add(0, strings.Repeat(`{"a":[`, 2000), "{}")
	f.Add(1, strings.Repeat(`{a:[`, 2000)+strings.Repeat(`]}`, 2000), "{}")
	f.Add(2, "a.b.c = 1\n[a.b]\nc = 2", "{}")
	f.Fuzz(func(t *testing.T, which int, content, overlay string) {
		name := formats[uint(which)%uint(len(formats))].name
		p, err := read(t, map[string]string{name: content, "tauri.linux.conf.json": overlay})
		if (p == nil) == (err == nil) {
			t.Fatal("neither a project nor an error, or both")
		}
		if err != nil {
			return
		}
		if version, err := p.Version(); (version == "") == (err == nil) {
			t.Errorf("version %q, %v", version, err)
		}
		for _, finding := range p.Check("https://example.com", []string{"stable"}) {
			if finding.Member == "" || finding.Problem == "" {
				t.Errorf("an empty finding: %+v", finding)
			}
		}
	})
}

func TestReadsManifest(t *testing.T) {
	const dynamic = "https://example.com/app/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"
	for name, c := range map[string]struct {
		base, linux string
		want        bool
	}{
		"latest.json":               {`["https://example.com/app/stable/latest.json"]`, "", true},
		"a ring":                    {`["https://example.com/app/stable/rings/07/latest.json"]`, "", true},
		"the server":                {`["` + dynamic + `"]`, "", false},
		"the server first":          {`["https://other.example.com/latest.json", "` + dynamic + `", "https://example.com/app/stable/latest.json"]`, "", false},
		"latest.json first":         {`["https://example.com/app/stable/latest.json", "` + dynamic + `"]`, "", true},
		"another address":           {`["https://example.com/stable/latest.json"]`, "", false},
		"nowhere":                   {`[]`, "", false},
		"latest.json, but on Linux": {`["` + dynamic + `"]`, `["https://example.com/app/beta/latest.json"]`, true},
	} {
		files := map[string]string{"tauri.conf.json": `{"identifier": "a.b", "plugins": {"updater": {"endpoints": ` + c.base + `}}}`}
		if c.linux != "" {
			files["tauri.linux.conf.json"] = `{"plugins": {"updater": {"endpoints": ` + c.linux + `}}}`
		}
		if got := mustRead(t, files).ReadsManifest("https://example.com/app/"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
