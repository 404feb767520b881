package serving

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// gatherTime is how long a line may wait for others.
	gatherTime = 10 * time.Millisecond
	// gatherSize is how many bytes are enough to be written, about.
	gatherSize = 32 << 10
)

// gathered is a writer that passes on what is written to it a little later, and
// together: a server that is busy makes few system calls for its log. While the
// writer behind it blocks, so does this one once enough lines wait.
type gathered struct {
	to io.Writer

	passing sync.Mutex // held while lines are written, in their order
	written []byte     // a buffer to gather in, next

	mu    sync.Mutex
	lines []byte
	later *time.Timer // nil until there is something to write
	err   error       // of the last write
}

// Write takes whole lines. Its errors are those of a write before.
func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	before := len(g.lines)
	g.lines = append(g.lines, p...)
	return len(p), g.added(before)
}

// added gives back mu and sees to it that what was added is written.
func (g *gathered) added(before int) error {
	err, full := g.err, len(g.lines) >= gatherSize
	switch {
	case full:
	case g.later == nil:
		g.later = time.AfterFunc(gatherTime, g.Flush)
	case before == 0:
		g.later.Reset(gatherTime)
	}
	g.mu.Unlock()
	if full {
		g.Flush()
	}
	return err
}

// Flush passes on what was written.
func (g *gathered) Flush() {
	g.passing.Lock()
	defer g.passing.Unlock()
	g.mu.Lock()
	lines := g.lines
	g.lines = g.written[:0]
	g.mu.Unlock()
	if len(lines) > 0 {
		_, err := g.to.Write(lines)
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
	}
	g.written = lines
}

// logTo returns a log of JSON lines.
func logTo(g *gathered) *slog.Logger {
	return slog.New(&lineHandler{slog.NewJSONHandler(g, nil), g, []byte{}})
}

// lineHandler writes the lines of slog.JSONHandler, byte for byte. Those of
// requests, which are the most and hold plain texts and numbers alone, it writes
// in a third of the time; all others it leaves to that one.
type lineHandler struct {
	slog.Handler
	to   *gathered
	with []byte // the attributes that every line has; nil if they are not plain
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

// appendPlain appends a member, if it can be told without escaping.
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
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(a.Value.Duration()), 10), true
	}
	return b, false
}

// isPlainText says that JSON shows a text as it is.
func isPlainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
