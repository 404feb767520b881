package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"tsmon/cmd/tsmon/config"
)

// TestLogLines wants the lines of the standard handler, byte for byte.
func TestLogLines(t *testing.T) {
	at := time.Date(2026, 3, 5, 15, 4, 5, 60, time.FixedZone("", -5*3600))
	for name, c := range map[string]struct {
		with, attrs []slog.Attr
		message     string
	}{
		"a request":         {[]slog.Attr{slog.String("route", "/updates/*"), slog.Int("status", 200)}, []slog.Attr{slog.String("request", "00ff"), slog.Int64("bytes", -1), slog.Duration("took", time.Second)}, "request"},
		"nothing":           {nil, nil, ""},
		"text to escape":    {nil, []slog.Attr{slog.String("a", "\"\\\n\x00\x7fñ\u2028<>&\xff")}, "request"},
		"a key to escape":   {nil, []slog.Attr{slog.Int("a\"b", 1)}, "request"},
		"a message":         {nil, []slog.Attr{slog.Int("a", 1)}, "re\"quest"},
		"text to keep":      {[]slog.Attr{slog.String("a", "ñ")}, []slog.Attr{slog.Int("b", 1)}, "request"},
		"fractions":         {nil, []slog.Attr{slog.Float64("a", 0.001), slog.Float64("b", 1234.567), slog.Float64("c", 0), slog.Float64("d", 1e-6)}, "request"},
		"extreme fractions": {nil, []slog.Attr{slog.Float64("a", 1e-7), slog.Float64("b", 1e21), slog.Float64("c", -0.5), slog.Float64("d", math.Copysign(0, -1))}, "request"},
		"other kinds":       {[]slog.Attr{slog.Any("error", errors.New("e"))}, []slog.Attr{slog.Bool("b", true), slog.Float64("f", 1.5), slog.Time("t", at), slog.Uint64("u", 1<<63)}, "request"},
		"half plain":        {nil, []slog.Attr{slog.Int("a", 1), slog.Any("b", []int{1})}, "request"},
		"a group":           {nil, []slog.Attr{slog.Group("g", slog.Int("a", 1)), slog.Group("", slog.Int("b", 1)), {}}, "request"},
		"an attribute away": {nil, []slog.Attr{slog.String("", "x"), slog.Int("", 0)}, "request"},
	} {
		for _, when := range []time.Time{at, at.UTC(), {}} {
			var want, got bytes.Buffer
			g := &batchWriter{to: &got}
			r := slog.NewRecord(when, slog.LevelWarn+1, c.message, 0)
			r.AddAttrs(c.attrs...)
			for _, h := range []slog.Handler{slog.NewJSONHandler(&want, nil), newLog(g, config.Log{}, new(slog.LevelVar)).Handler()} {
				for _, h := range []slog.Handler{h, h.WithAttrs(c.with), h.WithAttrs(c.with).WithAttrs(c.with), h.WithGroup("g").WithAttrs(c.with)} {
					if err := h.Handle(t.Context(), r); err != nil {
						t.Error(err)
					}
				}
			}
			if g.Flush(); got.String() != want.String() {
				t.Errorf("%s:\n%s, want\n%s", name, got.String(), want.String())
			}
		}
	}
}

// TestLogSettings: lines below the level are left out, in either format.
func TestLogSettings(t *testing.T) {
	for c, want := range map[config.Log]string{
		{Level: "info", Format: config.LogJSON}:  `"level":"INFO","msg":"b","n":1}` + "\n" + `"level":"ERROR","msg":"c"}` + "\n",
		{Level: "error"}:                         `"level":"ERROR","msg":"c"}` + "\n",
		{Level: "debug", Format: config.LogText}: "level=DEBUG msg=a\nlevel=INFO msg=b n=1\nlevel=ERROR msg=c\n",
		{Level: "warn", Format: config.LogText}:  "level=ERROR msg=c\n",
	} {
		var out bytes.Buffer
		g := &batchWriter{to: &out}
		log := newLog(g, c, new(slog.LevelVar))
		log.Debug("a")
		log.Info("b", "n", 1)
		log.Error("c")
		g.Flush()
		if got := regexp.MustCompile(`(?m)^({"time":"[^"]+",|time=\S+ )`).ReplaceAllString(out.String(), ""); got != want {
			t.Errorf("%+v:\n%swant\n%s", c, got, want)
		}
	}
}

func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	g := &batchWriter{to: &out}
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return newLog(g, config.Log{}, new(slog.LevelVar)).Handler()
	}, func(t *testing.T) (m map[string]any) {
		g.Flush()
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// slow is a writer that notes how it was called, and fails once it is told to.
type slow struct {
	mu     sync.Mutex
	calls  int
	text   strings.Builder
	fails  error
	called chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.text.Write(p)
	select {
	case s.called <- struct{}{}:
	default:
	}
	return len(p), s.fails
}

// TestBatchWriter wants each line once, in order and whole, in few writes, and the
// last one without anybody asking for it.
func TestBatchWriter(t *testing.T) {
	to := &slow{called: make(chan struct{}, 1)}
	g := &batchWriter{to: to}
	log := newLog(g, config.Log{}, new(slog.LevelVar))
	const writers, each = 8, 500
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for n := range each {
				if log.Info("line", "of", i, "n", n); n%100 == 0 {
					fmt.Fprintf(g, "raw of %d\n", i)
				}
			}
		})
	}
	wait.Wait()
	g.Flush()
	next := map[int]int{}
	raw := 0
	for line := range strings.Lines(to.text.String()) {
		var l struct{ Of, N int }
		if strings.HasPrefix(line, "raw of ") {
			raw++
		} else if err := json.Unmarshal([]byte(line), &l); err != nil || next[l.Of] != l.N {
			t.Fatalf("%q: %v, want line %d", line, err, next[l.Of])
		} else {
			next[l.Of]++
		}
	}
	if len(next) != writers || next[0] != each || raw != writers*each/100 || to.calls > writers*each/50 {
		t.Errorf("%v and %d in %d writes", next, raw, to.calls)
	}

	for len(to.called) > 0 {
		<-to.called
	}
	log.Info("the last")
	<-to.called
	to.mu.Lock()
	defer to.mu.Unlock()
	if !strings.HasSuffix(to.text.String(), `"msg":"the last"}`+"\n") {
		t.Error("the last line is not there")
	}
}

func TestBatchWriterErrors(t *testing.T) {
	full := errors.New("full")
	g := &batchWriter{to: &slow{fails: full}}
	if _, err := io.WriteString(g, "a\n"); err != nil {
		t.Error(err)
	}
	g.Flush()
	if _, err := io.WriteString(g, "b\n"); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
	if err := newLog(g, config.Log{}, new(slog.LevelVar)).Handler().Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, "m", 0)); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
}
