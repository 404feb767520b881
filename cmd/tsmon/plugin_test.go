package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/signing"
)

// TestPlugin lets an application with the real updater plugin (testdata/plugin) update
// itself from the server: from the manifest, from the dynamic address, after a rollback,
// and not with what was tampered with or what another key signed. `make test-plugin`
// builds the application; without it the test is skipped.
func TestPlugin(t *testing.T) {
	program := os.Getenv("TSMON_TEST_PLUGIN")
	if program == "" {
		t.Skip("needs TSMON_TEST_PLUGIN; run make test-plugin")
	}
	k := newKit(t, filepath.Join(t.TempDir(), "store"), nil)
	publish := func(version string) []byte {
		t.Helper()
		file := filepath.Join(t.TempDir(), "App_"+version+"_amd64.AppImage")
		content := append([]byte("\x7fELF"), bytes.Repeat([]byte(version+"\n"), 5000)...) // the plugin looks at that
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		k.must(t, "release", "publish", "--version", version, file)
		return content
	}
	key := k.keys
	// update returns what the application says, and what lies on its disk then.
	update := func(endpoint, current string, env ...string) (said string, installed []byte) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "App.AppImage")
		if err := os.WriteFile(file, []byte("installed"), 0o755); err != nil {
			t.Fatal(err)
		}
		pubkey := base64.StdEncoding.EncodeToString([]byte("untrusted comment: public key\n" + key + "\n"))
		cmd := exec.CommandContext(t.Context(), program, k.url+endpoint, pubkey, current, file)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if installed, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out)), installed
	}
	const static, dynamic = "/stable/latest.json", "/stable/{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}"
	gets := func(endpoint, current, want string, content []byte, env ...string) {
		t.Helper()
		if content == nil {
			content = []byte("installed") // as before
		}
		if said, installed := update(endpoint, current, env...); !strings.HasPrefix(said, want) || !bytes.Equal(installed, content) {
			t.Errorf("%s on %s: %s, with %.20q on the disk; want %s", endpoint, current, said, installed, want)
		}
	}

	first := publish("1.0.0")
	second := publish("1.1.0")
	for _, endpoint := range []string{static, dynamic} {
		gets(endpoint, "1.0.0", "installed 1.1.0", second)
		gets(endpoint, "1.1.0", "no update", nil)
	}
	other, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key = other.Public().String()
	gets(static, "1.0.0", "download failed: ", nil)
	gets(dynamic, "1.0.0", "download failed: ", nil)
	key = k.keys

	k.must(t, "release", "rollback", "--channel", "stable", "--reason", "crashes at start")
	gets(static, "1.1.0", "no update", nil)
	gets(dynamic, "1.1.0", "no update", nil)
	gets(static, "1.1.0", "installed 1.0.0", first, "ALLOW_DOWNGRADES=1")

	bundle := filepath.Join(k.storage, "releases/1.0.0/App_1.0.0_amd64.AppImage")
	if err := os.Chmod(bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle, bytes.Repeat([]byte("9.0.0\n"), 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	gets(static, "0.9.0", "download failed: ", nil)
}
