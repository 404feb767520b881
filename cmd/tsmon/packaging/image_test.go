package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// images returns the images of the distribution by architecture.
func images(t *testing.T) map[string]v1.Image {
	t.Helper()
	folder := t.TempDir()
	command(t, "tar", "-xf", filepath.Join(dist.folder, "tsmon_0.1.0_image.tar"), "-C", folder)
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the layout names %v, %v", top, err)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		all[m.Platform.OS+"/"+m.Platform.Architecture] = image
	}
	return all
}

// filesOf returns a folder with the files of an image.
func filesOf(t *testing.T, image v1.Image) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("tar", "-x", "-p", "--same-owner", "-C", root)
	content := mutate.Extract(image)
	defer content.Close()
	unpack.Stdin = content
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return root
}

// TestImage runs the image as its user, who can write to the data folder and /tmp
// alone.
func TestImage(t *testing.T) {
	all := images(t)
	image := all["linux/amd64"]
	if len(all) != 2 || image == nil || all["linux/arm64"] == nil {
		t.Fatalf("the index holds %v", all)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("it runs as %q", config.Config.User)
	}
	root := filesOf(t, image)
	// The programs of the image are its only ones: chroot itself becomes the user.
	args := append([]string{"--userspec=" + config.Config.User, root}, config.Config.Entrypoint...)
	start := exec.CommandContext(t.Context(), "chroot", append(args, config.Config.Cmd...)...)
	start.Env = append(slices.Clone(config.Config.Env), "TSMON_LISTEN=127.0.0.1:0", "TSMON_MQTT_LISTEN=127.0.0.1:0")
	answers(t, start)
	written := command(t, "find", root, "-uid", "65532", "-type", "f")
	for path := range strings.Lines(written) {
		if !strings.HasPrefix(path, filepath.Join(root, dataFolder)+"/") {
			t.Errorf("%s was written outside the data folder", path)
		}
	}
	if out := command(t, "find", root, "-writable", "-not", "-user", "root", "-not", "-path", filepath.Join(root, dataFolder)+"*"); out != "" {
		t.Errorf("others own %s", out)
	}
	authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || bytes.Count(authorities, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("too few certificate authorities: %v", err)
	}
}
