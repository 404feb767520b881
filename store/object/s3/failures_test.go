package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/crc64nvme"

	"tsmon/store/object"
)

var short = Limits{Dial: 500 * time.Millisecond, Stall: 200 * time.Millisecond, Tries: 2}

// TestMain gives the tests that need no server of their own some credentials.
func TestMain(m *testing.M) {
	os.Setenv("NO_PROXY", "*")
	os.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
	os.Exit(m.Run())
}

// at opens a store whose server is at an endpoint.
func at(t *testing.T, endpoint string) *Store {
	t.Helper()
	return open(t, "s3://bucket/prefix?endpoint="+url.QueryEscape(endpoint), short)
}

// serving opens a store whose server answers so.
func serving(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return at(t, server.URL)
}

// failing answers every request with an error, in the way that S3 does.
func failing(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		if r.Method != http.MethodHead && code != "" {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>Something about not-the-secret.</Message></Error>", code)
		}
	}
}

// skewed has an answer say that it is an hour later than it is.
func skewed(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		answer(w, r)
	}
}

// silent reads a request and waits until the client hangs up.
func silent(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestEachFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"403":        {failing(403, "AccessDenied"), fs.ErrPermission},
		"403 empty":  {failing(403, ""), fs.ErrPermission},
		"403 skewed": {skewed(failing(403, "RequestTimeTooSkewed")), object.ErrClock},
		"404 bucket": {failing(404, "NoSuchBucket"), object.ErrNoStore},
		"404 web":    {http.NotFound, object.ErrNoStore},
		"500":        {failing(500, "InternalError"), object.ErrUnavailable},
		"502 web":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, object.ErrUnavailable},
		"503":        {failing(503, "SlowDown"), object.ErrUnavailable},
		"507":        {failing(507, "XMinioStorageFull"), object.ErrFull},
		"400":        {failing(400, "MalformedNonsense"), errRejected},
		"200 empty":  {func(http.ResponseWriter, *http.Request) {}, errUnlike},
		"200 web":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html></html>") }, errUnlike},
		"hanging up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, object.ErrUnavailable},
		"silent":     {silent, object.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantEach(t, serving(t, c.answer), c.want)
		})
	}
}

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	wantEach(t, at(t, "http://"+l.Addr().String()), object.ErrUnavailable)
}

// TestDeaf connects to a server that accepts connections and never reads.
func TestDeaf(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wantEach(t, at(t, "http://"+l.Addr().String()), object.ErrUnavailable)
}

func TestUnknownHost(t *testing.T) {
	wantEach(t, at(t, "http://no-such-host.invalid"), object.ErrUnavailable)
}

func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	_, err := at(t, server.URL).Stat(t.Context(), "a")
	if err == nil || errors.Is(err, object.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

// TestDialOnce: after a timeout the store does not dial the server again at once.
func TestDialOnce(t *testing.T) {
	dials := 0
	d := &dialer{Dialer: net.Dialer{Timeout: time.Hour, Control: func(string, string, syscall.RawConn) error {
		dials++
		return os.ErrDeadlineExceeded
	}}}
	for range 3 {
		if _, err := d.dial(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	}
	if dials != 1 {
		t.Errorf("it was dialled %d times", dials)
	}
}

// TestSlow reads an upload so slowly that it takes longer than Stall, but never stops.
func TestSlow(t *testing.T) {
	const stall = 1200 * time.Millisecond // twice what lies in buffers takes in the end
	slow := &brokenS3{slow: true}
	server := httptest.NewUnstartedServer(slow)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetReadBuffer(64 << 10)
		return ctx
	}
	server.Start()
	defer server.Close()
	s := open(t, "s3://bucket?endpoint="+url.QueryEscape(server.URL), Limits{Stall: stall, Tries: 1})
	start := time.Now()
	mustCreate(t, s, "slow", zeros(partSize), partSize)
	if d := time.Since(start); d < stall {
		t.Errorf("the server was not slow enough for this test: %v", d)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	s := serving(t, silent)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for name, err := range each(ctx, s) {
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, object.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY",
		"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s := serving(t, failing(403, "AccessDenied"))
	_, err := s.Stat(t.Context(), "a")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("the error is %v", err)
	}
}

func TestOtherRegion(t *testing.T) {
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
		failing(400, "AuthorizationHeaderMalformed")(w, r)
	})
	_, err := s.Stat(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), `region="eu-central-1"`) {
		t.Errorf("the error is %v", err)
	}
}

// TestDeleteRefused refuses one key of several, in an answer of status 200.
func TestDeleteRefused(t *testing.T) {
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			io.WriteString(w, `<DeleteResult><Deleted><Key>prefix/a</Key></Deleted><Error><Key>prefix/b</Key><Code>AccessDenied</Code></Error></DeleteResult>`)
		}
	})
	if err := s.Delete(t.Context(), "a", "b"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the error is %v", err)
	}
}

func TestEndlessList(t *testing.T) {
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<ListBucketResult>")
		for {
			if _, err := io.WriteString(w, strings.Repeat("<Contents><Key>a</Key></Contents>", 1000)); err != nil {
				return
			}
		}
	})
	for _, err := range s.List(t.Context(), "", "") {
		if !errors.Is(err, errUnlike) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestGetBroken(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*http.Request)
		want error
	}{
		"short":   {func(*http.Request) { panic(http.ErrAbortHandler) }, io.ErrUnexpectedEOF},
		"stalled": {func(r *http.Request) { silent(nil, r) }, object.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, func(w http.ResponseWriter, r *http.Request) {
				describeAs(w, "etag", 10, "")
				io.WriteString(w, "12345")
				w.(http.Flusher).Flush()
				if r.Method == http.MethodGet {
					c.end(r)
				}
			})
			r, _, err := s.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if data, err := io.ReadAll(r); !errors.Is(err, c.want) || string(data) != "12345" {
				t.Errorf("read %q, %v", data, err)
			}
			if _, err := s.Checksum(t.Context(), "a"); !errors.Is(err, object.ErrUnavailable) {
				t.Errorf("the checksum: %v", err)
			}
		})
	}
}

// TestGetRangeBroken asks servers that ignore ranges or send wrong ones.
func TestGetRangeBroken(t *testing.T) {
	for name, c := range map[string]struct {
		etag, part, body string
		want             error
	}{
		"as it should":    {"etag", "bytes 5-9/20", "56789", nil},
		"everything":      {"etag", "", "01234567890123456789", errUnlike},
		"another part":    {"etag", "bytes 0-4/20", "01234", object.ErrRange},
		"less of it":      {"etag", "bytes 5-7/8", "567", object.ErrRange},
		"another object":  {"other", "bytes 5-9/20", "56789", object.ErrChanged},
		"fewer bytes":     {"etag", "bytes 5-9/20", "567", io.ErrUnexpectedEOF},
		"no part of ours": {"etag", "lines 5-9/20", "56789", object.ErrRange},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, func(w http.ResponseWriter, r *http.Request) {
				describeAs(w, c.etag, len(c.body), "")
				if c.part != "" {
					w.Header().Set("Content-Range", c.part)
					w.WriteHeader(http.StatusPartialContent)
				}
				io.WriteString(w, c.body)
			})
			r, err := s.GetRange(t.Context(), "a", "etag", 5, 5)
			if err == nil {
				defer r.Close()
				_, err = io.ReadAll(r)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("the error is %v, not %v", err, c.want)
			}
		})
	}
}

func describeAs(w http.ResponseWriter, etag string, size int, sum string) {
	w.Header().Set("ETag", strconv.Quote(etag))
	w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.Itoa(size))
	if sum != "" {
		w.Header().Set(checksumHeader, sum)
	}
}

// brokenS3 keeps one object, and breaks a promise of S3 while doing so.
type brokenS3 struct {
	ignoreNone  bool // If-None-Match
	ignoreMatch bool // If-Match
	forget      bool // the object
	flip        bool // a bit of it
	cut         bool // its last byte
	noSum       bool // tell no checksum
	keepSum     bool // tell the checksum that was sent
	dropAnswer  bool // to the first write
	overtake    bool // a write with another one
	slow        bool // in reading it

	mu   sync.Mutex
	data []byte
	sum  string
}

func (b *brokenS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		b.put(w, r)
	case b.data == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		describeAs(w, b.etag(), len(b.data), b.sum)
		w.Write(b.data)
	}
}

func (b *brokenS3) etag() string { return fmt.Sprintf("%x", md5.Sum(b.data)) }

func (b *brokenS3) put(w http.ResponseWriter, r *http.Request) {
	taken := r.Header.Get("If-None-Match") != "" && b.data != nil
	changed := r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != strconv.Quote(b.etag())
	if taken && !b.ignoreNone || changed && !b.ignoreMatch {
		failing(http.StatusPreconditionFailed, "PreconditionFailed")(w, r)
		return
	}
	data, err := b.read(r.Body)
	if err != nil {
		return
	}
	sent := crc64nvme.New()
	sent.Write(data)
	b.data = b.harm(data)
	w.Header().Set("ETag", strconv.Quote(b.etag()))
	if b.overtake {
		b.data = []byte("of another writer")
	}
	stored := crc64nvme.New()
	stored.Write(b.data)
	switch {
	case b.noSum:
	case b.keepSum:
		b.sum = encode(sent.Sum64())
	default:
		b.sum = encode(stored.Sum64())
	}
	if b.dropAnswer {
		b.dropAnswer = false
		panic(http.ErrAbortHandler)
	}
}

func (b *brokenS3) read(r io.Reader) ([]byte, error) {
	if !b.slow {
		return io.ReadAll(r)
	}
	var data []byte
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	buf := make([]byte, 128<<10)
	for {
		<-pace.C
		n, err := io.ReadFull(r, buf)
		data = append(data, buf[:n]...)
		if err != nil {
			return data, nil
		}
	}
}

func (b *brokenS3) harm(data []byte) []byte {
	switch {
	case b.forget:
		return nil
	case b.flip:
		data[len(data)/2] ^= 1
	case b.cut:
		data = data[:len(data)-1]
	}
	return data
}

func TestCorrupting(t *testing.T) {
	for name, broken := range map[string]*brokenS3{
		"flip":             {flip: true},
		"flip, no sum":     {flip: true, noSum: true},
		"cut":              {cut: true},
		"cut, keeping sum": {cut: true, keepSum: true},
		"cut, no sum":      {cut: true, noSum: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, broken.ServeHTTP)
			_, err := s.Create(t.Context(), "a", strings.NewReader("0123456789"), 10, object.Attributes{})
			if !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("create: %v", err)
			}
			_, err = s.Swap(t.Context(), "a", broken.etag(), []byte("9876543210"), object.Attributes{})
			if !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("swap: %v", err)
			}
		})
	}
	t.Run("forget", func(t *testing.T) {
		broken := &brokenS3{forget: true}
		s := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bucket/" { // which is there
				return
			}
			broken.ServeHTTP(w, r)
		})
		_, err := s.Create(t.Context(), "a", strings.NewReader("0123456789"), 10, object.Attributes{})
		if !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("create: %v", err)
		}
	})
}

func TestUnconditional(t *testing.T) {
	for name, c := range map[string]struct {
		broken *brokenS3
		want   error
	}{
		"If-None-Match": {&brokenS3{ignoreNone: true}, object.ErrUnconditional},
		"If-Match":      {&brokenS3{ignoreMatch: true}, object.ErrUnconditional},
		"neither":       {&brokenS3{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, c.broken.ServeHTTP)
			data := []byte("the log entry")
			mustCreate(t, s, "log/1", bytes.NewReader(data), int64(len(data)))
			err := object.CheckConditions(t.Context(), s, "log/1", data, object.Attributes{})
			if !errors.Is(err, c.want) {
				t.Errorf("the error is %v", err)
			}
			if !bytes.Equal(c.broken.data, data) {
				t.Errorf("the check wrote %q", c.broken.data)
			}
		})
	}
}

// TestLostAnswer shows why the winner of a race may be told that it lost.
func TestLostAnswer(t *testing.T) {
	broken := &brokenS3{dropAnswer: true}
	s := serving(t, broken.ServeHTTP)
	_, err := s.Create(t.Context(), "a", strings.NewReader("mine"), 4, object.Attributes{})
	if !errors.Is(err, fs.ErrExist) || string(broken.data) != "mine" {
		t.Errorf("create: %v, and there stands %q", err, broken.data)
	}
	broken.dropAnswer = true
	_, err = s.Swap(t.Context(), "a", broken.etag(), []byte("more"), object.Attributes{})
	if !errors.Is(err, object.ErrChanged) || string(broken.data) != "more" {
		t.Errorf("swap: %v, and there stands %q", err, broken.data)
	}
}

// TestOvertaken lets another writer replace what a Swap has just written: the Swap can't verify
// it any more, so it reports no success.
func TestOvertaken(t *testing.T) {
	s := serving(t, (&brokenS3{overtake: true}).ServeHTTP)
	_, err := s.Swap(t.Context(), "a", "", []byte("mine"), object.Attributes{})
	if !errors.Is(err, object.ErrChanged) || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("swap: %v", err)
	}
}
