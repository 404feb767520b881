package apitest

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

	"tsmon/api"
)

// Route is a request; an empty body is none.
type Route struct{ Method, Path, Body string }

// NewRoute returns a Route.
func NewRoute(method, path, body string) Route { return Route{method, path, body} }

// PrivateRoutes returns a valid request for each route that needs a token, which Ana
// may send after ImportGrants.
func PrivateRoutes(w *World) []Route {
	return []Route{
		{"POST", "/seriesDataTs", `[{"measurement":"tanque","field":"nivel","samplingPeriod":"5m"}]`},
		{"POST", "/dataTs", `{"measurement":"tanque","calc_field":"nivel"}`},
		{"POST", "/multipleDataTs", "[" + Item(1, "", FormNivel) + "]"},
		{"GET", "/getObjectCanva?id=1", ""},
		{"POST", "/saveDiagram", `{"diagram":{"title":"Red"}}`},
		{"GET", "/getVarsTs", ""},
		{"GET", "/getConfigNotify", ""},
		{"POST", "/sendConfigMQTT", `{"topic":"` + w.Ana.Schema + `/bomba/1","data":{"source_0":[1]}}`},
		{"GET", "/getAllMenu", ""},
		{"GET", "/getPermission?id=1&type=id_user&profile=7", ""},
		{"GET", "/indicatorCharts", ""},
	}
}

// Request sends a Route.
func (c Client) Request(r Route, header http.Header) Answer {
	c.TB.Helper()
	var body any
	if r.Body != "" {
		body = Raw(r.Body)
	}
	return c.Send(r.Method, r.Path, body, header)
}

// Concurrently calls f with each number below n, all at once, and waits.
func Concurrently(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

// Attempt is Request for goroutines, which must not end the test: without an answer
// the test fails and the status is 0.
func (c Client) Attempt(r Route, header http.Header) Answer {
	sent, err := c.request(r.Method, r.Path, strings.NewReader(r.Body), header)
	var answer Answer
	if err == nil {
		answer, err = do(sent)
	}
	if err != nil {
		c.TB.Error(err)
	}
	return answer
}

// Dial opens a connection that ends with the test and has a deadline of 20 s. Like
// SendText it may be called by goroutines.
func Dial(tb testing.TB, server *httptest.Server) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(20 * time.Second))
}

// SendText sends text over a new connection, which stays open, and returns the first
// answer.
func SendText(tb testing.TB, server *httptest.Server, text string) Answer {
	conn, err := Dial(tb, server)
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		tb.Error(err)
		return Answer{}
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Errorf("after %.200q: %v", text, err)
		return Answer{}
	}
	answer, err := readAnswer(got)
	if err != nil {
		tb.Errorf("after %.200q: %v", text, err)
	}
	return answer
}

// ServeWith is Serve after a change to the server or to how it listens.
func ServeWith(tb testing.TB, w *World, change func(*api.Server, *http.Server)) *httptest.Server {
	tb.Helper()
	handler := api.New(w.Options)
	server := httptest.NewUnstartedServer(handler.Handler())
	change(handler, server.Config)
	server.Start()
	tb.Cleanup(func() {
		server.Close()
		handler.Close()
	})
	return server
}

// ReadJSON decodes JSON, or ends the test.
func ReadJSON(tb testing.TB, data []byte, v any) {
	tb.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		tb.Fatalf("%.300s: %v", data, err)
	}
}
