package api

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/signing"
	"tsmon/store/object"
	"tsmon/store/object/dir"
)

// desk publishes to the store of a world.
type desk struct {
	*release.Publisher
	key signing.PrivateKey
}

// publisher makes a desk whose key a server of the world trusts.
func (w *world) publisher(tb testing.TB) desk {
	tb.Helper()
	key := must[signing.PrivateKey](tb)(signing.GenerateKey())
	w.Keys = append(w.Keys, key.Public())
	return desk{&release.Publisher{
		Store: w.Objects, PublicURL: "https://releases.example.com/app", Keys: w.Keys, Who: "test", Now: w.now.now,
		Policies:    map[string]release.Policy{"stable": {}, "beta": {Prerelease: true}},
		Transferred: func(string, int, int64) {}, Step: func(string) {},
	}, key}
}

// publish moves a channel to a release of four bundles.
func (d desk) unlock() (signing.PrivateKey, error) { return d.key, nil }

func (d desk) publish(tb testing.TB, channel, version string) {
	tb.Helper()
	folder := tb.TempDir()
	for _, name := range []string{"App_" + version + "_x64_en-US.msi.zip", "App_universal.app.tar.gz", "App_" + version + "_amd64.AppImage.tar.gz"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name+version), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	bundles, _, err := bundle.Gather(version, []string{folder}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = d.Publish(tb.Context(), release.PublishOptions{
		Options: release.Options{Channel: channel}, Version: version, Bundles: bundles, Unlock: d.unlock,
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// stored reads an object of the world's store.
func (w *world) stored(tb testing.TB, key string) ([]byte, object.Info) {
	tb.Helper()
	body, info, err := w.Objects.Get(tb.Context(), key)
	if err != nil {
		tb.Fatal(err)
	}
	defer body.Close()
	return must[[]byte](tb)(io.ReadAll(body)), info
}

// plainBodies is a store whose bodies are streams, as those of a network are.
type plainBodies struct{ object.Store }

func (p plainBodies) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	body, info, err := p.Store.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	return struct {
		io.Reader
		io.Closer
	}{body, body}, info, nil
}

func openDir(folder string) (object.Store, error) { return dir.Open(folder) }
