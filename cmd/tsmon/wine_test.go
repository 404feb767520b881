package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wine is the folder of the programs of Debian's wine64.
const wine = "/usr/lib/wine/"

// TestWindows runs the Windows program: keys, signing, staging, publishing to a directory
// and to MinIO, the updater's side, a rollback and refusals, with paths and files of Windows (back
// slashes, a drive, CRLF). Linux reads the store that it wrote. `make test-windows` builds the
// program and installs wine; without them the test is skipped.
func TestWindows(t *testing.T) {
	program := os.Getenv("TSMON_TEST_WINDOWS")
	if program == "" {
		t.Skip("needs TSMON_TEST_WINDOWS; run make test-windows")
	}
	prefix := winePrefix(t, program)
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		k := fresh(t)
		w := &windows{t: t, kit: k, program: filepath.Join(program, "tsmon.exe"), prefix: prefix, folder: t.TempDir()}
		w.releases()
	})
}

// winePrefix creates a separate Windows installation, which is stopped after the test.
func winePrefix(t *testing.T, program string) string {
	t.Helper()
	prefix := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(wine+name, args...)
		cmd.Env = wineEnv(prefix)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
	}
	t.Cleanup(func() { run("wineserver", "-w") }) // ends some seconds after its last program
	run("wine64", "wineboot", "-i")
	library, err := os.ReadFile(filepath.Join(program, "bcryptprimitives.dll"))
	if err == nil {
		err = os.WriteFile(filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll"), library, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return prefix
}

func wineEnv(prefix string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + prefix, "WINEPREFIX=" + prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml="}
}

// windows is a Windows machine with a project's folder.
type windows struct {
	t                       *testing.T
	kit                     *kit
	program, prefix, folder string
}

// drive returns the path of a file on Windows.
func drive(file string) string { return "Z:" + strings.ReplaceAll(file, "/", `\`) }

// tsmon runs the program in the project's folder.
func (w *windows) tsmon(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), wine+"wine64", append([]string{w.program}, args...)...)
	cmd.Dir, cmd.Env = w.folder, wineEnv(w.prefix)
	for _, setting := range w.kit.env {
		name, value, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(value, "/") {
			value = drive(value)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (w *windows) must(args ...string) string {
	w.t.Helper()
	stdout, stderr, code := w.tsmon(args...)
	if code != 0 {
		w.t.Fatalf("tsmon %v: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

func (w *windows) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *windows) read(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *windows) releases() {
	t, k := w.t, w.kit
	w.write("tsmon.yaml", "channels:\r\n  stable: {targets: [windows-x86_64]}\r\n  beta: {follows: stable, prerelease: true}\r\n")
	w.write("notes.md", "Faster\r\nSmaller\r\n")
	for _, version := range []string{"1.0.0", "1.1.0"} {
		w.write("dist/"+version+"/App_"+version+"_x64-setup.exe", strings.Repeat(version, 1000))
	}

	// Keys, of which Linux knows the public one.
	w.must("keys", "generate", "--no-password", "--output", `keys\own.key`)
	var there, here []struct {
		PublicKey string `json:"public_key"`
	}
	parse(t, w.must("keys", "show", `keys\own.key.pub`, "--json"), &there)
	parse(t, k.must(t, "keys", "show", filepath.Join(w.folder, "keys/own.key.pub"), "--json"), &here)
	if len(there) != 1 || !slices.Equal(there, here) || there[0].PublicKey == "" {
		t.Errorf("the public key is %v on Windows, %v on Linux", there, here)
	}

	// A signature.
	w.must("release", "sign", "--version", "1.0.0", `dist\1.0.0\App_1.0.0_x64-setup.exe`)
	if sig := w.read("dist/1.0.0/App_1.0.0_x64-setup.exe.sig"); len(sig) < 300 || strings.ContainsAny(sig, "\r\n") {
		t.Errorf("the signature is %q", sig)
	}

	// Stage, and publish what is staged; then publish from a folder.
	w.must("release", "stage", "--version", "1.0.0", "--notes-file", "notes.md", `dist\1.0.0`)
	w.must("release", "publish", "--version", "1.0.0", "--channel", "stable")
	w.must("release", "publish", "--version", "1.1.0", drive(filepath.Join(w.folder, "dist/1.1.0")))
	if said := w.must("release", "publish", "--version", "1.1.0", `dist\1.1.0`); !strings.Contains(said, "nothing to do") {
		t.Error(said)
	}
	if got := k.verified(t, "stable"); got != "1.1.0" {
		t.Errorf("stable shows %s on Linux", got)
	}
	k.follow(t, "stable", "1.0.0", "1.1.0")
	w.must("channel", "verify", "stable")
	if said := w.must("release", "list", "--json"); !strings.Contains(said, `"1.0.0"`) {
		t.Error(said)
	}

	// As a client.
	endpoint := k.url + "/stable/latest.json"
	if said := w.must("update", "check", "--endpoint", endpoint, "--target", "windows-x86_64", "--current", "1.0.0"); !strings.Contains(said, "1.0.0 → 1.1.0") {
		t.Error(said)
	}
	w.must("update", "download", "--endpoint", endpoint, "--target", "windows-x86_64", "--current", "1.0.0", "--output", `dist\setup.exe`)
	if w.read("dist/setup.exe") != strings.Repeat("1.1.0", 1000) {
		t.Error("another file is downloaded")
	}

	// What is refused, without colours.
	w.write("other/App_1.1.0_x64-setup.exe", "other bytes")
	_, stderr, code := w.tsmon("release", "publish", "--version", "1.1.0", "other")
	if code != 3 || !strings.Contains(stderr, "\nhint: ") || strings.Contains(stderr, "\x1b") {
		t.Errorf("other bytes of 1.1.0: exit code %d: %q", code, stderr)
	}
	w.must("release", "rollback", "--reason", "crashes")
	if got := k.verified(t, "stable"); got != "1.0.0" {
		t.Errorf("after the rollback stable shows %s", got)
	}
}
