package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const version = "0.1.0"

// dist is a distribution that all tests look at, built and signed once.
var dist struct {
	folder string // dist/ of a copy of the checkout
}

func TestMain(m *testing.M) {
	code, err := withDist(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withDist(run func() int) (int, error) {
	folder, err := os.MkdirTemp("", "dist-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	tree := filepath.Join(folder, "one")
	if err := build(tree, "TZ=UTC", "0022"); err != nil {
		return 0, err
	}
	dist.folder = filepath.Join(tree, "dist")
	return run(), nil
}

// build copies the checkout to a folder and makes a distribution there, signed with
// the key beside the folder.
func build(tree, zone, umask string) error {
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	key := filepath.Join(filepath.Dir(tree), "release.key")
	script := `set -eu
umask "$MASK"
mkdir "$TREE"
(cd "$CHECKOUT" && git ls-files -coz --exclude-standard | tar --null --ignore-failed-read -T - -c) | tar -x --no-same-permissions -C "$TREE"
cd "$TREE"
export COMMIT=0123456789abcdef0123456789abcdef01234567 SOURCE_DATE_EPOCH=1795305600
[ -e "$KEY" ] || (go build -o bin/tsmon ./cmd/tsmon && bin/tsmon keys generate --no-password --output "$KEY")
export TAURI_SIGNING_PRIVATE_KEY_PATH="$KEY" TAURI_SIGNING_PRIVATE_KEY_PASSWORD= TOOLS="$CHECKOUT/.tools"
sh cmd/tsmon/packaging/dist.sh ` + version
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "TREE="+tree, "CHECKOUT="+checkout, "KEY="+key, "MASK="+umask, zone)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make dist: %w\n%s", err, out)
	}
	return nil
}

// released returns the digests of the files of a distribution.
func released(t *testing.T, folder string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, path := range names {
		name := filepath.Base(path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().IsRegular() && (strings.HasPrefix(name, "tsmon") || strings.HasPrefix(name, "checksums.txt")) {
			digests[name] = digest(t, path)
		}
	}
	return digests
}

func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// command runs a program and returns what it wrote.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestReproducible builds again elsewhere, in another time zone and with another
// umask, and wants the same bytes.
func TestReproducible(t *testing.T) {
	first := released(t, dist.folder)
	tree := filepath.Join(filepath.Dir(filepath.Dir(dist.folder)), "a longer name")
	if err := build(tree, "TZ=Pacific/Auckland", "0077"); err != nil {
		t.Fatal(err)
	}
	second := released(t, filepath.Join(tree, "dist"))
	for name := range second {
		if first[name] != second[name] {
			t.Errorf("%s differs", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%d files, then %d", len(first), len(second))
	}
}

func TestContents(t *testing.T) {
	files := released(t, dist.folder)
	want := []string{"checksums.txt", "tsmon_0.1.0_amd64.deb", "tsmon_0.1.0_arm64.deb", "tsmon-0.1.0-1.x86_64.rpm",
		"tsmon-0.1.0-1.aarch64.rpm", "tsmon_0.1.0_x86_64.apk", "tsmon_0.1.0_aarch64.apk", "tsmon_0.1.0_image.tar"}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			want = append(want, fmt.Sprintf("tsmon_0.1.0_%s_%s.tar.gz", system, arch), fmt.Sprintf("tsmon_0.1.0_%s_%s.cdx.json", system, arch))
		}
	}
	for _, name := range want {
		if files[name] == "" || files[name+".minisig"] == "" {
			t.Errorf("%s or its signature is missing", name)
		}
	}
	if len(files) != 2*len(want) {
		t.Errorf("%d files: %v", len(files), files)
	}
	list := command(t, "tar", "-tzf", filepath.Join(dist.folder, "tsmon_0.1.0_windows_amd64.tar.gz"))
	for _, name := range []string{"tsmon.exe\n", "LICENSE\n", "CHANGELOG.md\n", "man/tsmon-serve.1\n", "completion/tsmon.ps1\n"} {
		if !strings.Contains("\n"+list, "\n"+name) {
			t.Errorf("the archive lacks %q:\n%s", name, list)
		}
	}
}

// TestSignatures verifies every file with minisign, and one that was changed.
func TestSignatures(t *testing.T) {
	public := minisignKey(t)
	for name := range released(t, dist.folder) {
		if strings.HasSuffix(name, ".minisig") {
			continue
		}
		out := command(t, "minisign", "-V", "-P", public, "-m", filepath.Join(dist.folder, name))
		if !strings.Contains(out, "version:"+version) {
			t.Errorf("%s: the signature does not name the version: %s", name, out)
		}
	}
	changed := filepath.Join(t.TempDir(), "checksums.txt")
	data, err := os.ReadFile(filepath.Join(dist.folder, "checksums.txt"))
	if err == nil {
		err = os.WriteFile(changed, append(data, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("minisign", "-V", "-P", public, "-m", changed, "-x", filepath.Join(dist.folder, "checksums.txt.minisig")).CombinedOutput(); err == nil {
		t.Errorf("a changed file verifies: %s", out)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "checksums.txt")
	check.Dir = dist.folder
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// minisignKey returns the public key of the distribution as minisign takes it.
func minisignKey(t *testing.T) string {
	t.Helper()
	program := filepath.Join(dist.folder, "..", "bin", "tsmon")
	out := command(t, program, "keys", "show", filepath.Join(dist.folder, "..", "..", "release.key.pub"), "--json")
	_, rest, found := strings.Cut(out, `"public_key": "`)
	key, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		t.Fatalf("no public key in %s", out)
	}
	return key
}

// TestVersion: the packaged program names version, commit and date.
func TestVersion(t *testing.T) {
	out := command(t, unpacked(t, "linux_amd64"), "version", "--json")
	for _, want := range []string{`"version": "0.1.0"`, `"commit": "0123456789abcdef0123456789abcdef01234567"`, `"date": "2026-11-22T00:00:00Z"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
}

// unpacked returns the path of the program in an archive.
func unpacked(t *testing.T, platform string) string {
	t.Helper()
	folder := t.TempDir()
	command(t, "tar", "-xzf", filepath.Join(dist.folder, "tsmon_0.1.0_"+platform+".tar.gz"), "-C", folder)
	return filepath.Join(folder, "tsmon")
}

func TestSBOM(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(dist.folder, "tsmon_0.1.0_linux_arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"bomFormat": "CycloneDX"`, `"timestamp": "2026-11-22T00:00:00Z"`, `pkg:golang/github.com/spf13/cobra@v`, `pkg:golang/std@1.`, `"value": "h1:`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the document lacks %s", want)
		}
	}
}
