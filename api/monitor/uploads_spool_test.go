package monitor

import (
	"errors"
	"os"
	"testing"

	"tsmon/api/web"
)

// TestReceiveReportsItsOwnDisk writes an upload to a file that can't be written: that is
// the server's fault and not the form's.
func TestReceiveReportsItsOwnDisk(t *testing.T) {
	spooled, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer spooled.Close()
	r := posted([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ncontent\r\n--b--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	if _, err := receive(r, spooled, 100); err == nil || errors.As(err, new(*web.Failure)) {
		t.Errorf("an upload that can't be spooled: %v", err)
	}
}
