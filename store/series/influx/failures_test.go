package influx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsmon/store/series"
	"tsmon/store/series/seriestest"
	"tsmon/store/servertest"
)

func serve(t testing.TB, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// wantEach checks the error of each method.
func wantEach(t *testing.T, s *Store, want error) {
	t.Helper()
	k := series.Key{Measurement: "m", Field: "f"}
	for name, call := range map[string]func() error{
		"Current": func() error {
			_, err := s.Current(t.Context(), "db", []series.Want{{Key: k}})
			return err
		},
		"Series": func() error {
			r := series.Range{Key: k, Start: seriestest.Clock.Add(-time.Hour), Stop: seriestest.Clock, Every: time.Minute}
			_, err := s.Series(t.Context(), "db", []series.Range{r})
			return err
		},
		"Fields": func() error { _, err := s.Fields(t.Context(), "db"); return err },
		"Write": func() error {
			return s.Write(t.Context(), "db", []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: seriestest.Clock}})
		},
	} {
		if err := call(); !errors.Is(err, want) || errors.Is(err, series.ErrSlow) != errors.Is(want, series.ErrSlow) {
			t.Errorf("%s: the error is %v, not %q", name, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
}

// TestForeign sends requests to servers that are not InfluxDB, or to one that fails.
func TestForeign(t *testing.T) {
	const kinds = `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["fieldKey","fieldType"],"values":[["f","float"]]}]}]}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"html":               {200, "<html>welcome</html>", series.ErrUnavailable},
		"empty":              {200, "", series.ErrUnavailable},
		"half":               {200, kinds[:40], series.ErrUnavailable},
		"other json":         {200, `[1]`, series.ErrUnavailable},
		"no results":         {200, `{"results":[]}`, series.ErrUnavailable},
		"statement error":    {200, `{"results":[{"statement_id":0,"error":"engine: out of order"}]}`, series.ErrUnavailable},
		"error":              {200, `{"error":"timeout"}`, series.ErrSlow},
		"not executed":       {200, `{"results":[{"statement_id":1,"error":"not executed"}]}`, series.ErrUnavailable},
		"partial":            {200, `{"results":[{"statement_id":0,"partial":true}]}`, series.ErrUnavailable},
		"partial series":     {200, `{"results":[{"statement_id":0,"series":[{"name":"m","values":[],"partial":true}]}]}`, series.ErrUnavailable},
		"misshapen":          {200, `{"results":[{"statement_id":0,"series":[{"name":"m","values":[[1]]}]}]}`, series.ErrUnavailable},
		"too many results":   {200, `{"results":[{"statement_id":0},{"statement_id":1}]}`, series.ErrUnavailable},
		"database not found": {200, `{"results":[{"statement_id":0,"error":"database not found: db"}]}`, series.ErrNoDatabase},
		"unauthorized":       {401, `{"error":"authorization failed"}`, fs.ErrPermission},
		"forbidden":          {403, `no`, fs.ErrPermission},
		"bad gateway":        {502, `<html>`, series.ErrUnavailable},
		"gateway timeout":    {504, `<html>`, series.ErrSlow},
		"too many":           {429, `{"code":"too many requests"}`, series.ErrUnavailable},
		"moved":              {302, ``, series.ErrUnavailable},
		"huge":               {200, strings.Repeat(" ", 1<<20), series.ErrTooLarge},
		"huge error":         {503, strings.Repeat("x", 1<<20), series.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(c.status)
				w.Write([]byte(c.body))
			})
			wantEach(t, open(t, Options{URL: url, Token: "secret", Answer: 1 << 16}), c.want)
		})
	}
}

// TestFewerResults has the server leave out all results after the first, as it does when a
// statement fails.
func TestFewerResults(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("q"), "SHOW") {
			fmt.Fprint(w, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":[],"values":[["f","float"],["g","float"]]}]}]}`)
			return
		}
		fmt.Fprint(w, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","last"],"values":[[1,2]]}]}]}`)
	})
	s := open(t, Options{URL: url})
	_, err := s.Current(t.Context(), "db", []series.Want{wantFor("m", "f"), wantFor("m", "g")})
	if !errors.Is(err, series.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

// TestSilent sends requests to a server that never answers.
func TestSilent(t *testing.T) {
	end := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-end:
		}
	})
	t.Cleanup(func() { close(end) })
	wantEach(t, open(t, Options{URL: url, Token: "secret", Timeout: 50 * time.Millisecond}), series.ErrSlow)
}

// TestHalfAnswer sends requests to a server that stops in the middle of an answer.
func TestHalfAnswer(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, `{"results":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := open(t, Options{URL: url, Timeout: time.Second})
	if _, err := s.Fields(t.Context(), "db"); !errors.Is(err, series.ErrSlow) {
		t.Errorf("the error is %v", err)
	}
}

// TestNoConnection: a server that accepts no connection is unavailable, not slow.
func TestNoConnection(t *testing.T) {
	s := open(t, Options{URL: "http://127.0.0.1:1"})
	wantEach(t, s, series.ErrUnavailable)
	lost := &url.Error{Op: "Post", URL: "http://x/", Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}
	if err := s.server.translate(t.Context(), lost); !lost.Timeout() || !errors.Is(err, series.ErrUnavailable) || errors.Is(err, series.ErrSlow) {
		t.Errorf("the error is %v", err)
	}
}

// TestCountIsPatient: a large database may be counted for longer than a question may take.
func TestCountIsPatient(t *testing.T) {
	const short = 100 * time.Millisecond
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("q"), "count(") {
			<-time.After(5 * short)
		}
		_, _ = io.WriteString(w, `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","count"],"values":[[0,7]]}]}]}`)
	})
	s := open(t, Options{URL: url, Timeout: short})
	if n, err := s.CountBefore(t.Context(), "db", seriestest.Clock); err != nil || n != 7 {
		t.Errorf("%d values, %v", n, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "localhost:8086", "ftp://x", "http://", "http://a/?x=1", "http://user:secret@host", ":"} {
		if _, err := Open(Options{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q gives %v", url, err)
		}
	}
}

// TestDown takes a server away and gives it back, under load. It has one of its own: many
// databases take long to load.
func TestDown(t *testing.T) {
	server := servertest.StartInfluxDB(t)
	s, _, c := watched(t, server, "down")
	direct := open(t, Options{URL: server.URL, Now: c.now})
	put(t, s, "down", "m", "f", 1.5, c.Add(-time.Minute))
	get(t, direct, "down", wantFor("m", "f"))
	server.Stop()
	wantEach(t, open(t, Options{URL: server.URL, Token: "secret"}), series.ErrUnavailable)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := direct.Current(t.Context(), "down", []series.Want{wantFor("m", "f")}); !errors.Is(err, series.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	all.Wait()
	for _, err := range []error{direct.Ping(t.Context()), direct.TryWrite(t.Context(), "down")} {
		if !errors.Is(err, series.ErrUnavailable) {
			t.Errorf("the error is %v", err)
		}
	}
	server.Start()
	if err := direct.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if v := get(t, direct, "down", wantFor("m", "f"))[0]; v.Number != 1.5 {
		t.Errorf("the value is %+v", v)
	}
}

// testConflict lets another writer create a field first.
func testConflict(t *testing.T, server *servertest.InfluxDB) {
	s, _, c := watched(t, server, "conflict")
	put(t, s, "conflict", "m", "g", 1.5, c.Time)
	if err := s.server.client.WriteAPIBlocking("", "conflict").WriteRecord(t.Context(), fmt.Sprintf("m f=true %d", c.UnixNano())); err != nil {
		t.Fatal(err)
	}
	err := s.Write(t.Context(), "conflict", []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.5}, Time: c.Time}})
	if !errors.Is(err, series.ErrKind) {
		t.Errorf("the error is %v", err)
	}
}

// TestHalfOfABatchFails: a large batch is sent in two requests, and the error of either is
// its error.
func TestHalfOfABatchFails(t *testing.T) {
	var batch []series.Sample
	for i := range divided {
		batch = append(batch, series.Sample{Measurement: fmt.Sprint("m", i%100), Fields: map[string]any{"f": 1.0}, Time: seriestest.Clock})
	}
	for _, failing := range []int32{0, 1, 2} {
		var writes atomic.Int32
		s := open(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/write":
				_, _ = w.Write([]byte(`{"results":[{"statement_id":0}]}`))
			case writes.Add(1) == failing:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		})})
		if err := s.Write(t.Context(), "db", batch); errors.Is(err, series.ErrUnavailable) != (failing > 0) {
			t.Errorf("request %d fails: %v", failing, err)
		}
		if n := writes.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	}
}
