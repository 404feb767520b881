package updates_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
)

// keptAlive sends one request again and again over a connection. Every answer
// is as long as the first.
type keptAlive struct {
	conn    net.Conn
	request []byte
	answer  []byte
}

func newKeptAlive(b *testing.B, address, header string, want int) *keptAlive {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	k := &keptAlive{conn: conn, request: []byte("GET /updates/stable/latest.json HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n" + header + "\r\n")}
	if _, err := conn.Write(k.request); err != nil {
		b.Fatal(err)
	}
	seen := &strings.Builder{}
	got, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, seen)), nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, got.Body); err != nil || got.StatusCode != want {
		b.Fatalf("%d, want %d, %v", got.StatusCode, want, err)
	}
	k.answer = make([]byte, seen.Len())
	return k
}

func (k *keptAlive) ask() error {
	if _, err := k.conn.Write(k.request); err != nil {
		return err
	}
	_, err := io.ReadFull(k.conn, k.answer)
	return err
}

// bare answers as net/http does with the least that a handler can do.
func bare(body []byte, etag string) http.Handler {
	length := strconv.Itoa(len(body))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", length)
		_, _ = w.Write(body)
	})
}

// BenchmarkManifest measures the manifest through all of the server, beside the
// same bytes from a bare handler, over connections that are kept alive: one
// client at a time, and four for each processor.
func BenchmarkManifest(b *testing.B) {
	w := apitest.Embedded(b)
	w.Desk(b).PublishVersion(b, "stable", "1.0.0")
	body, info := w.Stored(b, "stable/latest.json")
	handler := api.New(w.Options)
	b.Cleanup(handler.Close)
	etag := strconv.Quote(info.ETag)
	for _, side := range []struct {
		name    string
		handler http.Handler
	}{{"bare", bare(body, etag)}, {"server", handler.Handler()}} {
		server := httptest.NewUnstartedServer(side.handler)
		server.Config.ReadHeaderTimeout, server.Config.ReadTimeout, server.Config.IdleTimeout = 10*time.Second, 30*time.Second, 2*time.Minute
		server.Start()
		b.Cleanup(server.Close)
		for _, c := range []struct {
			status int
			header string
		}{{200, ""}, {304, "If-None-Match: " + etag + "\r\n"}} {
			b.Run(fmt.Sprintf("%d/%s", c.status, side.name), func(b *testing.B) {
				b.SetBytes(int64(len(newKeptAlive(b, server.Listener.Addr().String(), c.header, c.status).answer)))
				b.ReportAllocs()
				b.SetParallelism(4)
				b.RunParallel(func(pb *testing.PB) {
					k := newKeptAlive(b, server.Listener.Addr().String(), c.header, c.status)
					for pb.Next() {
						if err := k.ask(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
