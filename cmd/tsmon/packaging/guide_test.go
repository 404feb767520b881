package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const host = "registry.example.com" // of the guide

// guideLine returns the words of the guide's line that begins with a program.
func guideLine(t *testing.T, program string) []string {
	t.Helper()
	guide, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(guide), "\n    "+program+" ")
	line, _, _ = strings.Cut(line, "\n")
	if !found {
		t.Fatalf("the guide has no line for %s", program)
	}
	return strings.Fields(line)
}

// TestGuideCopies runs the guide's skopeo, and wants the whole image in the registry.
func TestGuideCopies(t *testing.T) {
	hub := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer hub.Close()
	at := strings.TrimPrefix(hub.URL, "http://")
	settings := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(settings, []byte("[[registry]]\nlocation = \""+at+"\"\ninsecure = true\n"), 0o600); err != nil { // it has no certificate
		t.Fatal(err)
	}
	args := guideLine(t, "skopeo")
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], host, at)
	}
	policy := filepath.Join(t.TempDir(), "policy.json") // Debian's is another package
	if err := os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	copies := exec.CommandContext(t.Context(), "skopeo", append([]string{"--policy", policy, "--registries-conf", settings}, args...)...)
	copies.Dir = dist.folder
	if out, err := copies.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	response, err := http.Get(hub.URL + "/v2/tsmon/manifests/0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var index v1.IndexManifest
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&index); err != nil {
		t.Fatal(err)
	}
	all := images(t)
	for _, m := range index.Manifests {
		image := all[m.Platform.OS+"/"+m.Platform.Architecture]
		if image == nil {
			t.Fatalf("the registry has an image for %v", m.Platform)
		}
		if want, err := image.Digest(); err != nil || want != m.Digest {
			t.Errorf("the registry has %s, want %s (%v)", m.Digest, want, err)
		}
	}
	if len(index.Manifests) != len(all) {
		t.Errorf("the registry has %d images of %d", len(index.Manifests), len(all))
	}
}

// TestGuideRuns does by hand what the guide's docker is told to do: it runs the image's own
// command as its user, on a read-only file system with that volume, /tmp and variables.
// There is no docker in it.
func TestGuideRuns(t *testing.T) {
	args := guideLine(t, "docker")
	if args[0] != "run" || args[len(args)-1] != host+"/tsmon:0.1.0" {
		t.Fatalf("docker %s", args)
	}
	options := map[string]string{}
	for i := 1; i < len(args)-1; i++ {
		name := args[i]
		if name != "--read-only" {
			i++
			options[name] = args[i]
		} else {
			options[name] = ""
		}
	}
	_, volume, _ := strings.Cut(options["-v"], ":")
	_, port, _ := strings.Cut(options["-p"], ":")
	image := images(t)["linux/amd64"]
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	_, readOnly := options["--read-only"]
	if _, exposed := config.Config.ExposedPorts[port+"/tcp"]; !exposed || !readOnly || len(options) != 5 {
		t.Fatalf("options %v, exposed %v", options, config.Config.ExposedPorts)
	}
	if _, known := config.Config.Volumes[volume]; !known {
		t.Fatalf("the image has the volumes %v, not %s", config.Config.Volumes, volume)
	}
	root, data := filesOf(t, image), t.TempDir()
	// A new volume gets what the image has there, with its owner.
	command(t, "cp", "-a", filepath.Join(root, volume)+"/.", data)
	const script = `set -eu
mount --bind "$ROOT" "$ROOT"
mount --bind "$DATA" "$ROOT$VOLUME"
mkdir -p "$ROOT$TEMPORARY"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT$TEMPORARY"
mount -o remount,bind,ro "$ROOT"
! touch "$ROOT/written" 2>/dev/null
exec chroot --userspec="$WHO" "$ROOT" "$@"`
	command := append([]string{"--mount", "sh", "-c", script, "sh"}, config.Config.Entrypoint...)
	start := exec.CommandContext(t.Context(), "unshare", append(command, config.Config.Cmd...)...)
	start.Env = append(slices.Clone(config.Config.Env), options["-e"], "TSMON_LISTEN=127.0.0.1:0", "TSMON_MQTT_LISTEN=127.0.0.1:0",
		"ROOT="+root, "DATA="+data, "VOLUME="+volume, "TEMPORARY="+options["--tmpfs"], "WHO="+config.Config.User)
	start.Env = append(start.Env, "PATH="+os.Getenv("PATH"))
	answers(t, start)
	if _, err := os.Stat(filepath.Join(data, "records.db")); err != nil {
		t.Errorf("the volume holds no records: %v", err)
	}
}

// TestGuideEnables: the unit of the package can be enabled as the guide says, in the folder of
// another system. That it starts is TestDeb.
func TestGuideEnables(t *testing.T) {
	root := t.TempDir()
	command(t, "dpkg-deb", "-x", filepath.Join(dist.folder, "tsmon_0.1.0_amd64.deb"), root)
	args := slices.DeleteFunc(guideLine(t, "systemctl"), func(word string) bool { return word == "--now" })
	command(t, "systemctl", append([]string{"--root=" + root}, args...)...)
	if target, err := os.Readlink(filepath.Join(root, "etc/systemd/system/multi-user.target.wants/tsmon.service")); err != nil || filepath.Base(target) != "tsmon.service" {
		t.Errorf("%s: %v", target, err)
	}
}
