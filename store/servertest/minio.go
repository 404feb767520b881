package servertest

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// MinIO is a MinIO server with one empty bucket.
type MinIO struct {
	Process
	Endpoint  string // http://127.0.0.1:…
	Bucket    string
	AccessKey string
	SecretKey string
}

// StartMinIO starts a server. TSMON_TEST_MINIO may name the program.
func StartMinIO(tb testing.TB) *MinIO {
	tb.Helper()
	s := &MinIO{Bucket: "bucket-" + strings.ToLower(rand.Text()[:8]), AccessKey: rand.Text(), SecretKey: rand.Text()}
	binary := Find(tb, "TSMON_TEST_MINIO", "minio", "go install github.com/minio/minio@latest, or set TSMON_TEST_MINIO")
	dir := tb.TempDir()
	s.Process = Process{tb: tb, dir: dir, stop: os.Kill, ready: s.ready, command: func(address string) *exec.Cmd {
		s.Endpoint = "http://" + address
		cmd := exec.Command(binary, "server", "--certs-dir", dir, "--address", address, filepath.Join(dir, "data"))
		cmd.Env = []string{
			"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off",
		}
		return cmd
	}}
	s.launch()
	s.MakeBucket(s.Bucket)
	return s
}

func (s *MinIO) ready() bool {
	header, ok := get(s.Endpoint+"/minio/health/ready", http.StatusOK)
	return ok && header.Get("X-Minio-Server-Status") == ""
}

// MakeBucket makes another bucket.
func (s *MinIO) MakeBucket(name string) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), time.Minute)
	defer cancel()
	if err := s.Client().MakeBucket(ctx, name, minio.MakeBucketOptions{}); err != nil {
		s.fatal("make bucket", err)
	}
}

// Client returns a client that bypasses the adapter.
func (s *MinIO) Client() *minio.Core {
	s.tb.Helper()
	c, err := minio.NewCore(s.address, &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// URL returns the storage URL of a prefix of the bucket, which may be empty.
func (s *MinIO) URL(prefix string) string {
	u := url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: url.Values{"endpoint": {s.Endpoint}}.Encode()}
	return u.String()
}

// Env returns the environment variables, as NAME=value, that give a process access.
func (s *MinIO) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN="}
}

// Setenv gives the test's own process access.
func (s *MinIO) Setenv() {
	for _, pair := range s.Env() {
		name, value, _ := strings.Cut(pair, "=")
		s.tb.Setenv(name, value)
	}
}
