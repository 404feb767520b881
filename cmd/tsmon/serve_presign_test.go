package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsmon/store/servertest"
)

// TestServePresigned: an application with the token gets bundles of a private bucket, even if clients
// reach the bucket by another name than the server.
func TestServePresigned(t *testing.T) {
	t.Parallel()
	minio := servertest.SharedMinIO(t)
	k := newKit(t, minio.URL("desktop"), minio.Env())
	for i, endpoint := range []string{"", strings.Replace(minio.Endpoint, "127.0.0.1", "localhost", 1)} {
		testServePresigned(t, k, fmt.Sprintf("1.0.%d", i), endpoint, cmp.Or(endpoint, minio.Endpoint))
	}
}

func testServePresigned(t *testing.T, k *kit, version, endpoint, want string) {
	const token = "token-of-the-updates"
	s := serve(t, t.TempDir(), append(slices.Clip(k.env), "TSMON_UPDATES_TOKEN="+token, "TSMON_UPDATES_REDIRECT=presigned", "TSMON_UPDATES_PRESIGN_ENDPOINT="+endpoint, "TSMON_REFRESH=10ms", "TSMON_PUBLIC_URL="))
	at := *k
	at.env = append(slices.Clip(k.env), "TSMON_PUBLIC_URL="+s.base+"/updates")
	folder := bundles(t, version, 100_000)
	at.must(t, "release", "publish", "--no-probe", "--version", version, folder)
	until(t, "the manifest", func() bool {
		_, text := s.ask("GET", "/updates/stable/latest.json", token, nil)
		return strings.Contains(string(text), s.base)
	})
	output := filepath.Join(t.TempDir(), "App.tar.gz")
	at.must(t, "update", "download", "--endpoint", s.base+"/updates/stable/latest.json", "--current", "0.9.0", "--target", "darwin-aarch64",
		"--header", "Authorization: Bearer "+token, "--output", output)
	sent, err := os.ReadFile(filepath.Join(folder, "App_universal.app.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(output); err != nil || string(got) != string(sent) {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(sent), err)
	}
	location := ""
	s.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		location = r.URL.String()
		return http.ErrUseLastResponse
	}
	bundle := "/updates/releases/" + version + "/App_universal.app.tar.gz"
	if status, _ := s.ask("GET", bundle, "", nil); status != 401 || location != "" {
		t.Errorf("without the token: %d to %s", status, location)
	}
	if status, text := s.ask("GET", bundle, token, nil); status != 302 || !strings.HasPrefix(location, want+"/") {
		t.Errorf("%d %.300s to %s, want %s", status, text, location, want)
	}
	s.stop()
}
