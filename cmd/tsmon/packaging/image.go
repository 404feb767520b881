package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who runs in the image, and owns dataFolder.
const (
	user       = 65532
	dataFolder = "/var/lib/tsmon"
)

// writeImage writes the image for all Linux programs as an archive of an OCI layout.
func (r release) writeImage(programs []program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		if p.OS != "linux" {
			continue
		}
		image, err := r.image(p)
		if err != nil {
			return fmt.Errorf("image for %s: %w", p.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}},
		})
	}
	folder, err := os.MkdirTemp(r.folder, "image-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	return r.writeTar(r.file("image.tar"), os.DirFS(folder))
}

// image returns an image that holds the program, the certificate authorities that
// Mozilla trusts, and an empty data folder.
func (r release) image(p program) (v1.Image, error) {
	layer, err := r.layer(p.Path)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make dist"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/usr/bin/tsmon"},
		Cmd:          []string{"serve"},
		Env:          []string{"PATH=/usr/bin", "HOME=" + dataFolder, "TSMON_DATA=" + dataFolder, "TSMON_LISTEN=0.0.0.0:8080"},
		WorkingDir:   dataFolder,
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{dataFolder: {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "tsmon",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer returns the only layer of an image, compressed.
func (r release) layer(path string) (v1.Layer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var authorities, buf bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a PEM file can't say more than that it is trusted
			if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	tw := tar.NewWriter(&buf)
	for _, entry := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0::/:/\ntsmon:x:%d:%d::%s:/\n", user, user, dataFolder)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/tsmon", mode: 0o755, content: content},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/tsmon/", mode: 0o750, owner: user},
	} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Uid: entry.owner, Gid: entry.owner, Size: int64(len(entry.content)), ModTime: r.time}
		if err := tw.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := tw.Write(entry.content); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// writeTar writes the files of a folder, in the order of their names.
func (r release) writeTar(path string, folder fs.FS) error {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: r.time}); err != nil {
			return err
		}
		_, err = tw.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, buf.Bytes(), 0o644)
}
