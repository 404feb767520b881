package console_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const (
	picture = "releases-rehearsal.png"
	// pictured says what the picture shows: a digest of the styles, and the page's words.
	pictured = "releases-rehearsal.txt"
	anew     = "make the picture of README anew, and look at it: TSMON_WRITE_PICTURE=1 go test ./api/console -run TestBadRelease"
)

// wording is the page's own words, in their order; what has digits may be another each time.
const wording = `[...document.querySelectorAll("nav a, h1, h2, h3, label, button, th, summary, legend")]
	.filter(e => e.checkVisibility()).map(e => [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.data).join("").trim())
	.filter(text => /^[^\d]*[a-z][^\d]*$/i.test(text)).join("\n")`

// styles is a digest of what pages about releases look like.
func styles(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	for _, name := range []string{"base.css", "releases.css"} {
		sum.Write(read(t, filepath.Join("src", "css", name)))
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// readmePicture compares the page with what README's picture shows of it. With
// TSMON_WRITE_PICTURE=1 it makes the picture.
func (b *browser) readmePicture() {
	b.t.Helper()
	shows := styles(b.t) + "\n" + value[string](b, wording) + "\n"
	if os.Getenv("TSMON_WRITE_PICTURE") == "1" {
		data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(picture, data, 0o644)
		}
		if err == nil {
			err = os.WriteFile(pictured, []byte(shows), 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if want := string(read(b.t, pictured)); shows != want {
		b.t.Errorf("%s\nthe page has\n%s\nthe picture\n%s", anew, shows, want)
	}
}

// TestReadmePicture: README shows the picture, which is small and has the styles of today;
// TestBadRelease compares its words.
func TestReadmePicture(t *testing.T) {
	if !strings.Contains(string(read(t, filepath.Join("..", "..", "README.md"))), "](api/console/"+picture+")") {
		t.Error("README does not show " + picture)
	}
	if size := len(read(t, picture)); size < 10_000 || size > 200_000 {
		t.Errorf("%s has %d bytes", picture, size)
	}
	if had, _, _ := strings.Cut(string(read(t, pictured)), "\n"); had != styles(t) {
		t.Error(anew)
	}
}
