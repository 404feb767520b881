package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func FuzzCut(f *testing.F) {
	for _, header := range []string{"bytes=0-99", "bytes=100-", "bytes=-100", "bytes=5-2", "bytes=0-0,5-6", "bytes=99999-", "bytes=-0", "bytes= 1-2", "items=0-1", "bytes=9223372036854775808-"} {
		f.Add(header, int64(1000))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		status, offset, length := cut(header, size)
		switch status {
		case 200:
			if offset != 0 || length != size {
				t.Errorf("%d bytes from %d of %d", length, offset, size)
			}
		case 206: // as the standard library has it
			if offset < 0 || length <= 0 || offset > size-length {
				t.Fatalf("%d bytes from %d of %d", length, offset, size)
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequest("HEAD", "/", nil)
			r.Header.Set("Range", header)
			http.ServeContent(w, r, "x.bin", time.Time{}, sized(size))
			if w.Code != 206 && strings.Trim(header, "bytes=0123456789-") == "" && len(header) > 25 {
				return // past what it can count to
			}
			if want := fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, size); w.Header().Get("Content-Range") != want {
				t.Errorf("%q: %s, want %s", header, want, w.Header().Get("Content-Range"))
			}
		case 416:
			if size > 0 && strings.HasPrefix(header, "bytes=0-") {
				t.Errorf("%q lies beyond %d bytes", header, size)
			}
		default:
			t.Errorf("status %d", status)
		}
	})
}

// sized is as long as it says and has no content.
func sized(size int64) io.ReadSeeker { return io.NewSectionReader(strings.NewReader(""), 0, size) }
