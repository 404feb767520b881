package doctor_test

import (
	"os"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/doctor"
)

// TestApplication: what a project lacks, and how bad that is.
func TestApplication(t *testing.T) {
	const sound = `"version": "1.0.0", "identifier": "com.example.app", "bundle": {"active": true, "createUpdaterArtifacts": true}, "plugins": {"updater": {"pubkey": "` + publicKey + `", "endpoints": ["https://127.0.0.1:9/stable/latest.json"]}}`
	for name, k := range map[string]struct {
		content    string
		level      doctor.Level
		text, mend string
	}{
		"sound":               {sound, doctor.OK, "builds update bundles, and asks the configured channels", ""},
		"no key":              {strings.Replace(sound, publicKey, "", 1), doctor.Error, "plugins.updater.pubkey is missing", `write "pubkey": "`},
		"no artifacts":        {strings.Replace(sound, `, "createUpdaterArtifacts": true`, "", 1), doctor.Error, "bundle.createUpdaterArtifacts", `write "createUpdaterArtifacts": true into bundle`},
		"no version":          {strings.Replace(sound, `"version": "1.0.0", `, "", 1), doctor.Warning, "no version", `write "version"`},
		"elsewhere":           {strings.Replace(sound, "127.0.0.1:9/stable", "example.org/stable", 1), doctor.Error, "is not below https://127.0.0.1:9", `write "endpoints": ["https://127.0.0.1:9/stable/latest.json"] into plugins.updater`},
		"also elsewhere":      {strings.Replace(sound, `["https`, `["https://example.org/latest.json", "https`, 1), doctor.Warning, "https://example.org/latest.json is not below", `write "endpoints"`},
		"server elsewhere":    {strings.Replace(sound, "127.0.0.1:9/stable/latest.json", "example.org/beta/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}", 1), doctor.Error, "is not below https://127.0.0.1:9", `write "endpoints": ["https://127.0.0.1:9/beta/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"] into plugins.updater`},
		"channel with a typo": {strings.Replace(sound, "stable/latest.json", "stabel/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}", 1), doctor.Error, "names a channel that is none of stable, beta", `write "endpoints": ["https://127.0.0.1:9/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"] into plugins.updater`},
		"no channel":          {strings.Replace(sound, ":9/stable", ":9/nightly", 1), doctor.Error, "names a channel that is none of stable, beta", `write "endpoints"`},
		"debian only":         {strings.Replace(sound, `"active": true`, `"active": true, "targets": ["deb"]`, 1), doctor.Warning, "none of the bundles for windows", "bundle.targets"},
		"identifier":          {strings.Replace(sound, "com.example.app", "com.tauri.dev", 1), doctor.Error, "refuses the identifier", `write "identifier": "com.example.app" at the top level`},
		"version 1":           {`"tauri": {}, "package": {}`, doctor.Error, "a Tauri 1 project", "tauri migrate"},
		"broken":              {`"version"`, doctor.Error, "tauri.conf.json:1", "correct the file"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClinic(t)
			c.environ["TSMON_PUBLIC_URL"] = "https://127.0.0.1:9"
			if err := os.Mkdir("src-tauri", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("src-tauri/tauri.conf.json", []byte("{"+k.content+"}"), 0o644); err != nil {
				t.Fatal(err)
			}
			if mend := c.want(k.level, "application", k.text); !strings.Contains(mend, k.mend) {
				t.Errorf("the mend is %q", mend)
			}
			// follows: write "pubkey": "…" into plugins.updater
			// follows: write … at the top level
			// follows: write "version": "1.0.0" into it, or give --version to every command
			// follows: write … into
			// follows: add one of them to bundle.targets, or ignore it if that platform is not built
			// follows: `tauri migrate` turns it into a Tauri 2 project
			// follows: correct the file; `tauri build` reads it, too
			if err := os.WriteFile("src-tauri/tauri.conf.json", []byte("{"+sound+"}"), 0o644); err != nil {
				t.Fatal(err)
			}
			c.want(doctor.OK, "application", "builds update bundles, and asks the configured channels")
		})
	}
}
