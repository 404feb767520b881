package objecttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
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

// Server is a MinIO that runs as a child process of a test, with an empty
// bucket. It listens on the loopback interface only and ends with the test.
type Server struct {
	Endpoint  string // http://127.0.0.1:…
	Bucket    string
	AccessKey string
	SecretKey string

	tb      testing.TB
	binary  string
	folder  string // of its data
	home    string // and of anything else it writes
	output  bytes.Buffer
	process *os.Process   // nil while it is stopped
	ended   chan struct{} // closed when the process has ended
}

// MinIO starts a server of its own for a test, which shares it with its
// subtests. The program is looked for in the variable TSMON_TEST_MINIO, in the
// PATH and at .tools/minio beside go.mod. Where there is none the test is
// skipped, or fails if TSMON_TEST_REAL is 1.
func MinIO(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		Bucket:    "bucket-" + strings.ToLower(rand.Text()[:8]),
		AccessKey: rand.Text(),
		SecretKey: rand.Text(),
		tb:        tb,
		binary:    findMinIO(tb),
		folder:    tb.TempDir(),
		home:      tb.TempDir(),
	}
	tb.Cleanup(s.Stop)
	s.startOnFreePort()
	s.MakeBucket(s.Bucket)
	return s
}

func findMinIO(tb testing.TB) string {
	tb.Helper()
	if name := os.Getenv("TSMON_TEST_MINIO"); name != "" {
		return name
	}
	if name, err := exec.LookPath("minio"); err == nil {
		return name
	}
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		if name := filepath.Join(dir, ".tools", "minio"); isFile(name) {
			return name
		}
	}
	const hint = "there is no minio: go install github.com/minio/minio@latest, or set TSMON_TEST_MINIO"
	if os.Getenv("TSMON_TEST_REAL") == "1" {
		tb.Fatal(hint)
	}
	tb.Skip(hint)
	return ""
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// startOnFreePort tries again where another process took the port in between.
func (s *Server) startOnFreePort() {
	s.tb.Helper()
	var err error
	for range 3 {
		s.Endpoint = "http://" + freePort(s.tb)
		if err = s.start(); err == nil {
			return
		}
		s.Stop()
	}
	s.tb.Fatalf("start minio: %v\n%s", err, s.output.String())
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Start starts the server again after Stop, at the same endpoint and with the
// same data.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start minio again: %v\n%s", err, s.output.String())
	}
}

func (s *Server) start() error {
	s.output.Reset()
	cmd := exec.Command(s.binary, "server", "--certs-dir", s.home, "--address", strings.TrimPrefix(s.Endpoint, "http://"), s.folder)
	cmd.Env = []string{
		"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off",
	}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.ended = cmd.Process, make(chan struct{})
	go func(ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(s.ended)
	return s.await()
}

// await polls until the server can serve objects.
func (s *Server) await() error {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return errors.New("it ended at once")
		case <-deadline:
			return errors.New("it does not get ready within a minute")
		case <-tick.C:
			if s.ready() {
				return nil
			}
		}
	}
}

func (s *Server) ready() bool {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(s.Endpoint + "/minio/health/ready")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK && answer.Header.Get("X-Minio-Server-Status") == ""
}

// Stop kills the server and waits for its end; its data stay. On a stopped
// server it does nothing.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	<-s.ended
	s.process = nil
}

// MakeBucket makes another bucket.
func (s *Server) MakeBucket(name string) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), time.Minute)
	defer cancel()
	if err := s.Client().MakeBucket(ctx, name, minio.MakeBucketOptions{}); err != nil {
		s.tb.Fatalf("make bucket: %v\n%s", err, s.output.String())
	}
}

// Client returns a client that looks at the server behind the adapter's back.
func (s *Server) Client() *minio.Core {
	s.tb.Helper()
	c, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"),
		&minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// URL returns the storage URL of a prefix of the bucket, which may be empty.
func (s *Server) URL(prefix string) string {
	u := url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + prefix, RawQuery: url.Values{"endpoint": {s.Endpoint}}.Encode()}
	return u.String()
}

// Env returns the variables, as NAME=value, that give a process access.
func (s *Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN="}
}

// Setenv gives the test's own process access to the server.
func (s *Server) Setenv() {
	for _, pair := range s.Env() {
		name, value, _ := strings.Cut(pair, "=")
		s.tb.Setenv(name, value)
	}
}
