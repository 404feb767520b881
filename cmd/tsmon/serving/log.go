package serving

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"tsmon/cmd/tsmon/config"
)

const (
	batchTime = 10 * time.Millisecond // longest delay of a line
	batchSize = 32 << 10              // approximate number of bytes per write
)

// batchWriter batches log writes for batchTime or batchSize, so that a busy server
// makes few system calls for its log. While the writer behind it blocks, Write blocks
// once a batch is full.
type batchWriter struct {
	to io.Writer

	flushing sync.Mutex // held while a batch is written
	spare    []byte     // buffer of the next batch

	mu    sync.Mutex
	lines []byte
	timer *time.Timer // of the next flush, nil before the first line
	err   error       // of the last write
}

// Write adds whole lines. It returns the error of an earlier batch.
func (g *batchWriter) Write(p []byte) (int, error) {
	g.mu.Lock()
	before := len(g.lines)
	g.lines = append(g.lines, p...)
	err, full := g.err, len(g.lines) >= batchSize
	switch {
	case full:
	case g.timer == nil:
		g.timer = time.AfterFunc(batchTime, g.Flush)
	case before == 0:
		g.timer.Reset(batchTime)
	}
	g.mu.Unlock()
	if full {
		g.Flush()
	}
	return len(p), err
}

// Flush writes the batch.
func (g *batchWriter) Flush() {
	g.flushing.Lock()
	defer g.flushing.Unlock()
	g.mu.Lock()
	lines := g.lines
	g.lines = g.spare[:0]
	g.mu.Unlock()
	if len(lines) > 0 {
		_, err := g.to.Write(lines)
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
	}
	g.spare = lines
}

// newLog returns the server's log and sets its level.
func newLog(g *batchWriter, c config.Log, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.Level)) // checked by Load
	options := slog.HandlerOptions{Level: level}
	if c.Format == config.LogText {
		return slog.New(slog.NewTextHandler(g, &options))
	}
	return slog.New(slog.NewJSONHandler(g, &options))
}
