package servertest

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
)

// shared are the servers that the tests of a package share, nil until a test asks for one.
var shared struct {
	sync.Mutex
	minio    *MinIO
	postgres *Postgres
	ends     []func()
}

// SharedMinIO returns a MinIO with an empty bucket of the test's own. The tests of a package
// share the server: the first one starts it, and EndShared ends it. Tests must leave it
// running. SharedMinIO also sets the environment variables that give the process access.
func SharedMinIO(tb testing.TB) *MinIO {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.minio == nil {
		shared.minio = StartMinIO(lasting{tb})
		shared.minio.Setenv()
	}
	own := *shared.minio
	own.tb, own.Bucket = tb, "bucket-"+strings.ToLower(rand.Text()[:8])
	own.MakeBucket(own.Bucket)
	return &own
}

// SharedPostgres returns a PostgreSQL that is shared likewise. Each test calls Database for a
// database of its own.
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		shared.postgres = StartPostgres(lasting{tb})
	}
	own := *shared.postgres
	own.tb = tb
	return &own
}

// EndShared ends the shared servers that were started. TestMain calls it after the tests.
func EndShared() {
	shared.Lock()
	defer shared.Unlock()
	for i := len(shared.ends) - 1; i >= 0; i-- {
		shared.ends[i]()
	}
	shared.minio, shared.postgres, shared.ends = nil, nil, nil
}

// lasting is a test whose server outlives it. Whoever uses it holds the lock of shared.
type lasting struct{ testing.TB }

func (lasting) Cleanup(end func()) { shared.ends = append(shared.ends, end) }

func (l lasting) Setenv(name, value string) {
	l.Helper()
	if err := os.Setenv(name, value); err != nil {
		l.Fatal(err)
	}
}

func (l lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "tsmon-shared-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
