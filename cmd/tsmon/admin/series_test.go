package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/store/series"
)

// TestBatchWriterCounts: an error reports the number of samples in the store.
func TestBatchWriterCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := &countingStore{stop: cancel}
	w := &batchWriter{store: store, database: "d"}
	text := strings.Repeat("m v=1 1\n", 3*perBatch)
	err := w.explain("-", w.writeAll(ctx, series.Lines(strings.NewReader(text), 1, time.Time{})))
	if err == nil || cli.ExitCode(err) != cli.ExitFailed || !strings.HasPrefix(err.Error(), fmt.Sprintf("samples written before: %d", perBatch)) || store.samples != perBatch {
		t.Errorf("%v, %d samples in the store", err, store.samples)
	}
}

// countingStore takes one batch; then the caller is interrupted.
type countingStore struct {
	series.Store
	samples int
	stop    func()
}

func (s *countingStore) Write(ctx context.Context, _ string, samples []series.Sample) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.samples += len(samples)
	s.stop()
	return nil
}
