package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// route is a request and its body, empty for none.
type route struct{ method, path, body string }

// privateRoutes are a request for each route that needs a token, which ana may
// send once there are grants.
func privateRoutes(w *world) []route {
	return []route{
		{"POST", "/seriesDataTs", `[{"measurement":"tanque","field":"nivel","samplingPeriod":"5m"}]`},
		{"POST", "/dataTs", `{"measurement":"tanque","calc_field":"nivel"}`},
		{"POST", "/multipleDataTs", "[" + item(1, "", formNivel) + "]"},
		{"GET", "/getObjectCanva?id=1", ""},
		{"POST", "/saveDiagram", `{"diagram":{"title":"Red"}}`},
		{"GET", "/getVarsTs", ""},
		{"GET", "/getConfigNotify", ""},
		{"POST", "/sendConfigMQTT", `{"topic":"` + w.ana.Schema + `/bomba/1","data":{"source_0":[1]}}`},
		{"GET", "/getAllMenu", ""},
		{"GET", "/getPermission?id=1&type=id_user&profile=7", ""},
		{"GET", "/indicatorCharts", ""},
	}
}

// request sends a route's request.
func (c client) request(r route, header http.Header) answer {
	c.tb.Helper()
	var body any
	if r.body != "" {
		body = raw(r.body)
	}
	return c.send(r.method, r.path, body, header)
}

// together runs f with each number below n, all at once, and waits for the end.
func together(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

// attempt is request for goroutines that must not end the test: without an
// answer the test fails and the status is 0.
func (c client) attempt(r route, header http.Header) answer {
	sent, err := http.NewRequestWithContext(c.tb.Context(), r.method, c.base+r.path, strings.NewReader(r.body))
	if err != nil {
		c.tb.Error(err)
		return answer{}
	}
	sent.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		sent.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, values := range header {
		sent.Header[name] = values
	}
	got, err := noRedirects.Do(sent)
	if err != nil {
		c.tb.Error(err)
		return answer{}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		c.tb.Error(err)
	}
	return answer{got.StatusCode, got.Header, body}
}

// dial opens a connection to a server that ends with the test, or after 20 s
// without an answer. Like speak it may be called by goroutines.
func dial(tb testing.TB, server *httptest.Server) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(20 * time.Second))
}

// speak sends text over a connection of its own, which stays open, and returns
// the first answer.
func speak(tb testing.TB, server *httptest.Server, text string) answer {
	conn, err := dial(tb, server)
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		tb.Error(err)
		return answer{}
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Errorf("after %.200q: %v", text, err)
		return answer{}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		tb.Errorf("after %.200q: %v", text, err)
	}
	return answer{got.StatusCode, got.Header, body}
}

// adjusted serves a world after a change to the server or to how it listens.
func adjusted(tb testing.TB, w *world, change func(*Server, *http.Server)) *httptest.Server {
	tb.Helper()
	handler := New(w.Options)
	server := httptest.NewUnstartedServer(handler.Handler())
	change(handler, server.Config)
	server.Start()
	tb.Cleanup(func() {
		server.Close()
		handler.Close()
	})
	return server
}

// readJSON reads JSON, or ends the test.
func readJSON(tb testing.TB, data []byte, v any) {
	tb.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		tb.Fatalf("%.300s: %v", data, err)
	}
}
