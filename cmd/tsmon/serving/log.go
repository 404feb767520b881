package serving

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
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
	return len(p), g.added(before)
}

// added unlocks mu, and flushes a full batch or schedules the flush. before is the length of the
// batch before the last line.
func (g *batchWriter) added(before int) error {
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
	return err
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
	return slog.New(&lineHandler{slog.NewJSONHandler(g, &options), g, []byte{}})
}

// lineHandler writes the same bytes as slog.JSONHandler. It encodes lines of plain texts and
// numbers, such as those of requests, in a third of the time, and passes all others on.
type lineHandler struct {
	slog.Handler
	to   *batchWriter
	with []byte // the encoded attributes of every line; nil if they are not plain
}

func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.with == nil || r.Time.IsZero() || !isPlainText(r.Message) {
		return h.Handler.Handle(ctx, r)
	}
	h.to.mu.Lock()
	before := len(h.to.lines)
	b := append(h.to.lines, `{"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, r.Level.String()...)
	b = append(b, `","msg":"`...)
	b = append(b, r.Message...)
	b = append(b, '"')
	b = append(b, h.with...)
	plain := true
	r.Attrs(func(a slog.Attr) bool {
		b, plain = appendPlain(b, a)
		return plain
	})
	if !plain {
		h.to.mu.Unlock()
		return h.Handler.Handle(ctx, r)
	}
	h.to.lines = append(b, '}', '\n')
	return h.to.added(before)
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with, plain := append([]byte{}, h.with...), h.with != nil
	for _, a := range attrs {
		if plain {
			with, plain = appendPlain(with, a)
		}
	}
	if !plain {
		with = nil
	}
	return &lineHandler{h.Handler.WithAttrs(attrs), h.to, with}
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler { return h.Handler.WithGroup(name) }

// appendPlain appends an attribute if JSON needs no escapes for it.
func appendPlain(b []byte, a slog.Attr) ([]byte, bool) {
	if a.Key == "" || !isPlainText(a.Key) {
		return b, false
	}
	b = append(b, ',', '"')
	b = append(b, a.Key...)
	b = append(b, '"', ':')
	switch a.Value.Kind() {
	case slog.KindString:
		if text := a.Value.String(); isPlainText(text) {
			b = append(b, '"')
			b = append(b, text...)
			return append(b, '"'), true
		}
	case slog.KindInt64:
		return strconv.AppendInt(b, a.Value.Int64(), 10), true
	case slog.KindFloat64:
		if f := a.Value.Float64(); f == 0 && !math.Signbit(f) || f >= 1e-6 && f < 1e21 { // others have an exponent
			return strconv.AppendFloat(b, f, 'f', -1, 64), true
		}
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(a.Value.Duration()), 10), true
	}
	return b, false
}

// isPlainText reports whether a text needs no escapes in JSON.
func isPlainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
