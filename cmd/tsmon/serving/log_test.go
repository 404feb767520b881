package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/cmd/tsmon/config"
)

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
