package monitor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"tsmon/store/object"
)

// uploadFolder is where the object store keeps what was uploaded.
const uploadFolder = "uploads/"

// What an upload may take: until it is here, and until it is in the store.
const (
	uploadTime = 10 * time.Minute
	storeTime  = 30 * time.Second
)

// uploadCache is for files whose names are never used again.
const uploadCache = "public, max-age=31536000, immutable"

var uploadCaches = []string{uploadCache}

// received is the answer to an upload.
type received struct {
	URL         string `json:"url"` // absolute
	Key         string `json:"key"`
	Name        string `json:"name"` // as it was sent, without folders
	Size        int64  `json:"size"` // bytes
	ContentType string `json:"contentType"`
	SHA256      string `json:"sha256"` // hex
}

// upload stores the one file of a form under a name that nobody can guess.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	file, err := s.take(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	file.URL = addressOf(r, s.BehindProxy, file.Key)
	s.send(w, r, http.StatusOK, done{true, file})
}

// take receives a file whole before any of it is stored: the store wants to
// know its size, and its name shows its type.
func (s *Server) take(w http.ResponseWriter, r *http.Request) (received, error) {
	if !s.mayUpload(r) {
		return received{}, &failure{status: http.StatusUnauthorized, messages: []string{"accesskey or secretkey is missing or wrong"}}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // unsupported by recorders alone
	spooled, err := os.CreateTemp("", "tsmon-upload-*")
	if err != nil {
		return received{}, err
	}
	defer os.Remove(spooled.Name())
	defer spooled.Close()
	_ = os.Remove(spooled.Name()) // so that no crash leaves it behind; not every system lets open files go
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxUpload+maxForm)
	file, err := receive(r, spooled, s.MaxUpload)
	if err != nil {
		return received{}, err
	}
	if _, err := spooled.Seek(0, io.SeekStart); err != nil {
		return received{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.storeTime)
	defer cancel()
	_, err = s.Objects.Create(ctx, file.Key, spooled, file.Size, object.Attributes{ContentType: file.ContentType, CacheControl: uploadCache})
	return file, err
}

// mayUpload compares both keys, whichever is wrong.
func (s *Server) mayUpload(r *http.Request) bool {
	access := sameSecret(r.Header.Get("accesskey"), s.Uploads.Access)
	secret := sameSecret(r.Header.Get("secretkey"), s.Uploads.Secret)
	return access && secret
}

// maxForm is what a form may add to its file, in bytes.
const maxForm = 64 << 10

// receive copies the one part of a form, named file, to w.
func receive(r *http.Request, w io.Writer, limit int64) (received, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return received{}, refuse(http.StatusUnsupportedMediaType, "the body has to be multipart/form-data with one part named file")
	}
	part, err := form.NextPart()
	if err != nil {
		return received{}, brokenForm(err)
	}
	if part.FormName() != "file" {
		return received{}, invalid("the form has to have one part named file, and no other")
	}
	file, err := copyPart(part, w, limit)
	if err != nil {
		return received{}, err
	}
	if _, err := form.NextPart(); err == nil {
		return received{}, invalid("the form has to have one part named file, and no other")
	} else if err != io.EOF {
		return received{}, brokenForm(err)
	}
	return file, nil
}

// brokenForm tells a form that is too large or malformed from one that did not
// arrive.
func brokenForm(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case errors.As(err, new(textproto.ProtocolError)): // which repeats what was sent
		err = nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return unread(err)
	}
	return &failure{status: http.StatusInternalServerError, messages: []string{"the form is not whole, or not a form"}, cause: err}
}

// sniffed is how much of a file its type is found out from, in bytes.
const sniffed = 3072

// keeper tells a disk that is full from a form that is broken.
type keeper struct {
	io.Writer
	err error
}

func (k *keeper) Write(p []byte) (n int, err error) {
	n, k.err = k.Writer.Write(p)
	return n, k.err
}

func copyPart(part *multipart.Part, w io.Writer, limit int64) (received, error) {
	digest := sha256.New()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(part, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return received{}, brokenForm(err)
	}
	head = head[:n]
	kept := &keeper{Writer: io.MultiWriter(w, digest)}
	if _, err := kept.Write(head); err != nil {
		return received{}, err
	}
	more, err := io.Copy(kept, io.LimitReader(part, limit-int64(n)+1))
	size := int64(n) + more
	switch {
	case kept.err != nil:
		return received{}, fmt.Errorf("keep the upload: %w", kept.err)
	case err != nil:
		return received{}, brokenForm(err)
	case size > limit:
		return received{}, refuse(http.StatusRequestEntityTooLarge, "the file is larger than %d bytes", limit)
	case size == 0:
		return received{}, invalid("the file is empty")
	}
	ext := extension(head)
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return received{
		Key: uploadFolder + hex.EncodeToString(random) + ext, Name: fileName(part.FileName()), Size: size,
		ContentType: fileTypes[ext], SHA256: hex.EncodeToString(digest.Sum(nil)),
	}, nil
}

// fileTypes are the types that files are served with, by the extension of their
// key, which was found out from their content.
var fileTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".bmp": "image/bmp",
	".svg": "image/svg+xml", ".html": "text/html; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".csv": "text/csv; charset=utf-8", ".json": "application/json", ".pdf": "application/pdf", ".zip": "application/zip",
	".bin": "application/octet-stream",
}

// shown are the types that browsers may show; others they save.
var shown = map[string]bool{".png": true, ".jpg": true, ".gif": true, ".webp": true, ".bmp": true}

// extension finds out a file's type from its beginning.
func extension(head []byte) string {
	ext := mimetype.Detect(head).Extension()
	if _, ok := fileTypes[ext]; !ok {
		return ".bin"
	}
	return ext
}

// fileName makes the name that a client gives harmless to show.
func fileName(name string) string {
	name = path.Base(strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), `\`, "/"))
	name = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, name)
	if strings.Trim(name, "./") == "" {
		return "" // there was none, or that of a folder
	}
	for len(name) > 255 {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}

// addressOf is where the client that asks finds a path of this server.
func addressOf(r *http.Request, behindProxy bool, at string) string {
	scheme := "http"
	if r.TLS != nil || behindProxy && r.Header.Get("X-Forwarded-Proto") != "http" {
		scheme = "https"
	}
	prefix := "/"
	if strings.HasPrefix(r.URL.Path, "/api/") {
		prefix = "/api/"
	}
	return scheme + "://" + r.Host + prefix + at
}

var uploadName = regexp.MustCompile(`^[0-9a-f]{32}(\.[a-z]{3,4})$`)

// uploaded serves a file that was uploaded: raster images to be shown, all else
// to be saved, and nothing with the rights of this server's pages.
func (s *Server) uploaded(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.URL.Path, "/uploads/")
	m := uploadName.FindStringSubmatch(name)
	if m == nil || fileTypes[m[1]] == "" {
		s.fail(w, r, refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if !shown[m[1]] {
		header.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	}
	s.serveObject(w, r, uploadFolder+name, uploadCaches, fileTypes[m[1]])
}
