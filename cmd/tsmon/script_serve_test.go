package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tsmon/store/servertest"
)

func scriptServe(ts *testscript.TestScript, flags []string) {
	own := scriptOf(ts)
	own.stopServing()
	if own.listen == "" {
		var err error
		own.listen, err = servertest.FreeAddress()
		ts.Check(err)
		ts.Defer(own.stopServing)
	}
	own.serves = beside(ts, "tsmon", append([]string{"serve", "--listen", own.listen}, flags...)...)
	refresh := "TSMON_REFRESH=10ms"
	if own.server != nil {
		refresh = "TSMON_REFRESH=50ms" // MinIO would do little else than answer
	}
	// Its address is not known yet: it shows what the manifests say.
	own.serves.Env = append(own.serves.Env, refresh, "TSMON_DRAIN=0s", "TSMON_MQTT_LISTEN=127.0.0.1:0", "TSMON_PUBLIC_URL=", "LATER="+ts.Getenv("LATER"))
	stderr, err := own.serves.StderrPipe()
	ts.Check(err)
	ts.Check(own.serves.Start())
	lines := bufio.NewReader(stderr)
	silent := time.AfterFunc(time.Minute, func() { _ = own.serves.Process.Kill() })
	var address, line, said string
	for ok := false; !ok && err == nil; { // what channels show can be said before it
		line, err = lines.ReadString('\n')
		said += line
		address, ok = strings.CutPrefix(strings.TrimSpace(line), "serving ")
	}
	for ready := !slices.Contains(flags, "--demo"); !ready && err == nil; {
		line, err = lines.ReadString('\n')
		said += line
		ready = strings.HasPrefix(line, "the demo is ready")
	}
	silent.Stop()
	if err != nil {
		ts.Fatalf("tsmon serve says %q: %v", said, err)
	}
	go io.Copy(io.Discard, lines) // ends with the process
	own.listen = strings.Trim(strings.TrimPrefix(address, "http:"), "/")
	ts.Setenv("SERVER", strings.TrimSuffix(address, "/"))
	ts.Setenv("TSMON_PUBLIC_URL", address+"updates")
}

// stopServing ends the script's tsmon serve, which then writes what it knows.
func (s *script) stopServing() {
	if s.serves == nil {
		return
	}
	_ = s.serves.Process.Signal(syscall.SIGTERM)
	err := s.serves.Wait()
	s.serves = nil
	if err != nil {
		s.t.Fatal("tsmon serve: ", err)
	}
}

func scriptWeb(ts *testscript.TestScript, args []string) {
	files := http.FileServerFS(os.DirFS(ts.MkAbs(args[0])))
	requests, err := os.Create(ts.MkAbs("requests"))
	ts.Check(err)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fmt.Fprintln(requests, r.Method, r.RequestURI)
		mu.Unlock()
		status, hasStatus := strings.CutPrefix(r.URL.Path, "/status/")
		status, _, _ = strings.Cut(status, "/")
		switch {
		case hasStatus:
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
		case strings.HasPrefix(r.URL.Path, "/stall/"):
			w.Write(make([]byte, 1000))
			_ = http.NewResponseController(w).Flush() // a failure shows in the script
			<-r.Context().Done()
		default:
			files.ServeHTTP(w, r)
		}
	}))
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
		requests.Close()
	})
	ts.Setenv("WEB", server.URL)
}
