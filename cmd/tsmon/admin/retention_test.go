package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/store/record"
	"tsmon/store/series"
)

// said keeps what a command says, and tells when it says something.
type said struct {
	strings.Builder
	once  sync.Once
	heard chan struct{}
}

func (s *said) Write(text []byte) (int, error) {
	defer s.once.Do(func() { close(s.heard) })
	return s.Builder.Write(text)
}

// counting returns a store whose server answers like InfluxDB with handler, and an app that
// says things to word.
func counting(t *testing.T, word *said, handler http.HandlerFunc) (series.Store, *cli.App) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var c config.Config
	c.Server.Series.URL = config.Secret(server.URL)
	store, err := cli.OpenSeries(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, &cli.App{Stderr: word, Now: time.Now}
}

// TestCountsWithAWord: a count that takes long says what it does.
func TestCountsWithAWord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	word := &said{heard: make(chan struct{})}
	store, app := counting(t, word, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-word.heard:
		case <-ctx.Done():
		}
		_, _ = w.Write([]byte(`{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","count_f"],"values":[[0,7]]}]}]}`))
	})
	since := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	if n, err := countBefore(ctx, app, store, "db", since); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	if !strings.HasPrefix(word.String(), "counting values from before 2026-03-05;") {
		t.Errorf("it says %q", word.String())
	}
}

// TestUncountedIsSaid: values that can't be counted are deleted with --yes alone, and then
// the command says that it could not count them.
func TestUncountedIsSaid(t *testing.T) {
	tenant := record.Tenant{TsName: "db"}
	for _, yes := range []bool{false, true} {
		word := &said{heard: make(chan struct{})}
		store, app := counting(t, word, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		n, err := countDeleted(t.Context(), app, store, tenant, yes)
		if n != nil || errors.Is(err, series.ErrUnavailable) == yes {
			t.Errorf("with yes %t: %v, %v", yes, n, err)
		}
		if strings.HasPrefix(word.String(), "warning: how many values are deleted is not known: ") != yes {
			t.Errorf("with yes %t it says %q", yes, word.String())
		}
	}
}
