package serving

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsmon/api/web"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/servertest"
)

// TestDownloadsAreCut: a download that takes too long is cut off, and the log says so.
func TestDownloadsAreCut(t *testing.T) {
	for name, c := range map[string]struct {
		cause     error
		drain     time.Duration
		downloads time.Duration
		cut       bool
	}{
		"no time":         {cli.ErrTerminated, 0, 0, true},
		"time":            {cli.ErrTerminated, 0, time.Minute, false},
		"by a person":     {nil, time.Minute, 0, true},
		"in time to come": {cli.ErrTerminated, time.Millisecond, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			var lines servertest.Log
			log := slog.New(slog.NewJSONHandler(&lines, nil))
			goOn := make(chan struct{})
			download := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-goOn:
					_, _ = io.WriteString(w, "later")
				}
			})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			unready := make(chan struct{})
			e := &ending{
				server: &http.Server{Handler: web.NewObserver(log, prometheus.NewRegistry(), false).Observe(download)}, tcp: listener,
				begin: func() { close(unready) }, drain: c.drain, downloads: c.downloads, log: log,
			}
			ended := make(chan error, 1)
			go func() { ended <- e.serve(ctx, listener) }()
			got, err := http.Get("http://" + listener.Addr().String() + "/updates/releases/1.0.0/App.msi")
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			cancel(c.cause)
			<-unready
			if !c.cut {
				close(goOn)
			}
			body, err := io.ReadAll(got.Body)
			if cut := err != nil; cut != c.cut || !cut && string(body) != "firstlater" {
				t.Errorf("%q, %v", body, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if text := lines.String(); strings.Contains(text, `"cut":true`) != c.cut || !strings.Contains(text, "shutting down") {
				t.Errorf("the log says %s", text)
			}
		})
	}
}

// lazy is a listener that accepts later than clients connect.
type lazy struct{ net.Listener }

func (l lazy) Accept() (net.Conn, error) {
	time.Sleep(time.Millisecond)
	return l.Listener.Accept()
}

// TestNoConnectionIsLost: clients that are connected when the server ends get an answer. Later ones
// are refused, so they know that nothing was done.
func TestNoConnectionIsLost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("connections can't be ignored on this system")
	}
	listener, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	e := &ending{
		server: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") })},
		tcp:    listener, begin: func() {}, drain: 2 * quietTime, downloads: time.Minute, log: slog.New(slog.DiscardHandler),
	}
	ended := make(chan error, 1)
	go func() { ended <- e.serve(ctx, lazy{listener}) }()
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", listener.Addr().String())
				if err != nil {
					if !errors.Is(err, syscall.ECONNREFUSED) {
						t.Error(err)
					}
					return
				}
				_, err = io.WriteString(c, "POST /saveDiagram HTTP/1.0\r\n\r\n")
				answer, unread := io.ReadAll(c)
				if err := errors.Join(err, unread); err != nil || !strings.HasSuffix(string(answer), "done") {
					t.Errorf("an answer %q, %v", answer, err)
				}
				c.Close()
				if answered.Add(1) == 200 {
					cancel(cli.ErrTerminated)
				}
			}
		})
	}
	clients.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
