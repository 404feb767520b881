package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/tauri"
)

const (
	applicationGuide = "../../api/updates/APPLICATION.md"
	exampleServer    = "https://updates.example.com"
)

// listings returns the files of a guide: the first block of code below each paragraph that
// begins with a name in backquotes.
func listings(guide string) map[string]string {
	files := map[string]string{}
	name, fenced := "", false
	for line := range strings.Lines(guide) {
		switch fence := strings.HasPrefix(line, "```"); {
		case fence && fenced:
			name, fenced = "", false
		case fence:
			fenced = true
			if files[name] != "" {
				name = "" // another part of the same file
			}
		case fenced && name != "":
			files[name] += line
		case !fenced && strings.HasPrefix(line, "`"):
			name, _, _ = strings.Cut(line[1:], "`")
		}
	}
	return files
}

// TestApplication checks the guide's application. tsmon finds nothing wrong with its
// configuration, its Rust files are those that TestPlugin builds and runs, and the server accepts
// its reports. Its JavaScript runs in TestApplication of api/console.
func TestApplication(t *testing.T) {
	files := listings(read(t, applicationGuide))
	folder := t.TempDir()
	for _, name := range []string{"src-tauri/tauri.conf.json", "src-tauri/Cargo.toml", "src-tauri/src/lib.rs", "src-tauri/src/updates.rs", "src-tauri/capabilities/default.json", "package.json", "src/updates.js"} {
		if files[name] == "" {
			t.Fatalf("the guide lacks %s", name)
		}
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	project, err := tauri.Read(filepath.Join(folder, "src-tauri", "tauri.conf.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range project.Check(exampleServer+"/updates", []string{"stable"}) {
		t.Errorf("%+v", finding)
	}
	if c := project.Base; !c.Updater.RequireSigned || c.Bundle.Artifacts != tauri.Installers || project.ReadsManifest(exampleServer+"/updates") {
		t.Errorf("%+v", c)
	}
	var conf struct {
		App struct{ Security struct{ CSP string } }
	}
	if err := json.Unmarshal([]byte(files["src-tauri/tauri.conf.json"]), &conf); err != nil || !strings.Contains(conf.App.Security.CSP, exampleServer) {
		t.Errorf("the policy %q keeps the page from reporting (%v)", conf.App.Security.CSP, err)
	}
	var capability struct{ Permissions []string }
	if err := json.Unmarshal([]byte(files["src-tauri/capabilities/default.json"]), &capability); err != nil || !slices.Contains(capability.Permissions, "updater:default") {
		t.Errorf("%v %v", capability, err)
	}

	var packages struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(files["package.json"]), &packages); err != nil {
		t.Fatal(err)
	}
	imports := regexp.MustCompile(`from '(@[a-z-]+/[a-z-]+)`).FindAllStringSubmatch(files["src/updates.js"], -1)
	for _, match := range imports {
		if packages.Dependencies[match[1]] != "^2" { // as the plugins in Rust
			t.Errorf("package.json lacks %s", match[1])
		}
	}
	if len(imports) != len(packages.Dependencies) {
		t.Errorf("updates.js has %d imports, package.json %d dependencies", len(imports), len(packages.Dependencies))
	}

	built := read(t, "testdata/plugin/src/updates.rs")
	if files["src-tauri/src/updates.rs"] != built {
		t.Error("updates.rs of the guide is not testdata/plugin/src/updates.rs, which make test-plugin builds")
	}
	manifest, main := read(t, "testdata/plugin/Cargo.toml"), read(t, "testdata/plugin/src/main.rs")
	for line := range strings.Lines(files["src-tauri/Cargo.toml"]) {
		if name, _, dependency := strings.Cut(line, " = "); dependency && !strings.HasPrefix(name, "tauri") && !strings.Contains(manifest, line) {
			t.Errorf("the application of make test-plugin lacks %s", line)
		}
	}
	for _, line := range []string{"mod updates;", "rustls::crypto::ring::default_provider().install_default();", ".plugin(tauri_plugin_updater::Builder::new().build())"} {
		if !strings.Contains(files["src-tauri/src/lib.rs"], line) || !strings.Contains(main, line) {
			t.Errorf("lib.rs, or the application of make test-plugin, lacks %s", line)
		}
	}

	// What the Rust code sends, with values of this test.
	_, sent, _ := strings.Cut(built, "json!({")
	sent, _, _ = strings.Cut(sent, "})")
	body := map[string]string{}
	for _, match := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(sent, -1) {
		body[match[1]] = map[string]string{"channel": "stable", "version": "1.0.0", "target": "linux-x86_64", "event": "started"}[match[1]]
	}
	data, err := json.Marshal(body)
	if err != nil || len(body) != 4 {
		t.Fatalf("%v %v", body, err)
	}
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	bundle := filepath.Join(folder, "Example_1.0.0_amd64.AppImage")
	if err := os.WriteFile(bundle, []byte("a bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.must(t, "release", "publish", "--version", "1.0.0", bundle)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.url+"/report", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Tsmon-Client": {"a1b2"}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Errorf("the server answers %s to %s", answer.Status, data)
	}
}
