package monitor

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/gabriel-vasile/mimetype"

	"tsmon/api/web"
	"tsmon/store/object"
)

// uploadFolder is where the object store keeps what was uploaded.
const uploadFolder = "uploads/"

// uploadTime is how long an upload may take to arrive, DefaultStoreTime how long it
// may then take to reach the store.
const (
	uploadTime       = 10 * time.Minute
	DefaultStoreTime = 30 * time.Second
)

// uploadCache is for files whose names are never used again.
const uploadCache = "public, max-age=31536000, immutable"

var uploadCaches = []string{uploadCache}

// uploads stores and serves files of users.
type uploads struct {
	Options
	files *web.Files
}

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
func (u *uploads) upload(w http.ResponseWriter, r *http.Request) {
	file, err := u.take(w, r)
	if err != nil {
		u.files.Fail(w, r, err)
		return
	}
	file.URL = web.AddressOf(r, u.BehindProxy, file.Key)
	web.Send(w, r, http.StatusOK, web.Done{Success: true, Data: file})
}

// take receives a whole file before any of it is stored: the store needs its size,
// and its name depends on its content.
func (u *uploads) take(w http.ResponseWriter, r *http.Request) (received, error) {
	if !u.allowed(r) {
		return received{}, &web.Failure{Status: http.StatusUnauthorized, Messages: []string{"accesskey or secretkey is missing or wrong"}}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // unsupported by recorders alone
	spooled, err := os.CreateTemp("", "tsmon-upload-*")
	if err != nil {
		return received{}, err
	}
	defer os.Remove(spooled.Name())
	defer spooled.Close()
	_ = os.Remove(spooled.Name()) // so that no crash leaves it behind; not every system lets open files go
	r.Body = http.MaxBytesReader(w, r.Body, u.MaxUpload+maxForm)
	file, err := receive(r, spooled, u.MaxUpload)
	if err != nil {
		return received{}, err
	}
	if _, err := spooled.Seek(0, io.SeekStart); err != nil {
		return received{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), u.StoreTime)
	defer cancel()
	_, err = u.Objects.Create(ctx, file.Key, spooled, file.Size, object.Attributes{ContentType: file.ContentType, CacheControl: uploadCache})
	return file, err
}

// allowed compares both keys, also if the first is wrong.
func (u *uploads) allowed(r *http.Request) bool {
	access := web.SameSecret(r.Header.Get("accesskey"), u.Uploads.Access)
	secret := web.SameSecret(r.Header.Get("secretkey"), u.Uploads.Secret)
	return access && secret
}

// maxForm is what a form may add to its file, in bytes.
const maxForm = 64 << 10

// receive copies the one part of a form, named file, to w.
func receive(r *http.Request, w io.Writer, limit int64) (received, error) {
	form, err := formOf(r)
	if err != nil {
		return received{}, web.Refuse(http.StatusUnsupportedMediaType, "the body has to be multipart/form-data with one part named file")
	}
	part, err := form.NextPart()
	if err != nil {
		return received{}, brokenForm(err)
	}
	if part.FormName() != "file" {
		return received{}, web.Invalid("the form has to have one part named file, and no other")
	}
	file, err := copyPart(part, w, limit)
	if err != nil {
		return received{}, err
	}
	if _, err := form.NextPart(); err == nil {
		return received{}, web.Invalid("the form has to have one part named file, and no other")
	} else if err != io.EOF {
		return received{}, brokenForm(err)
	}
	return file, nil
}

// maxBoundary is how long a boundary may be, in bytes.
const maxBoundary = 70

// formOf returns the form of a request. Where its Content-Type lacks the boundary, as
// some clients send it, the first line of the body has it.
func formOf(r *http.Request) (*multipart.Reader, error) {
	form, err := r.MultipartReader()
	if !errors.Is(err, http.ErrMissingBoundary) {
		return form, err
	}
	body := bufio.NewReader(r.Body)
	head, _ := body.Peek(len("--") + maxBoundary + len("\r\n")) // no form is shorter; an error returns with the next read
	line, _, ended := strings.Cut(string(head), "\r\n")
	boundary, begins := strings.CutPrefix(line, "--")
	if !ended || !begins || boundary == "" || strings.TrimRight(boundary, " \t") != boundary {
		return nil, err
	}
	return multipart.NewReader(body, boundary), nil
}

// brokenForm distinguishes a form that is too large or malformed from one that did
// not arrive.
func brokenForm(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case errors.As(err, new(textproto.ProtocolError)): // which repeats what was sent
		err = nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return web.ReadProblem(err)
	}
	return &web.Failure{Status: http.StatusInternalServerError, Messages: []string{"the form is not whole, or not a form"}, Cause: err}
}

// sniffed is how many bytes of a file determine its type.
const sniffed = 3072

func copyPart(part *multipart.Part, w io.Writer, limit int64) (received, error) {
	digest := sha256.New()
	content := bufio.NewReaderSize(part, sniffed)
	head, _ := content.Peek(sniffed) // an error returns with the next read
	ext := extension(head)
	size, err := io.Copy(io.MultiWriter(w, digest), io.LimitReader(content, limit+1))
	switch {
	case errors.As(err, new(*fs.PathError)): // of the temporary file
		return received{}, fmt.Errorf("spool the upload: %w", err)
	case err != nil:
		return received{}, brokenForm(err)
	case size > limit:
		return received{}, web.Refuse(http.StatusRequestEntityTooLarge, "the file is larger than %d bytes", limit)
	case size == 0:
		return received{}, web.Invalid("the file is empty")
	}
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return received{
		Key: uploadFolder + hex.EncodeToString(random) + ext, Name: fileName(part.FileName()), Size: size,
		ContentType: fileTypes[ext], SHA256: hex.EncodeToString(digest.Sum(nil)),
	}, nil
}

// fileTypes are the content types of files by the extension of their key, which
// depends on their content.
var fileTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".bmp": "image/bmp",
	".svg": "image/svg+xml", ".html": "text/html; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".csv": "text/csv; charset=utf-8", ".json": "application/json", ".pdf": "application/pdf", ".zip": "application/zip",
	".bin": "application/octet-stream",
}

// shown are the types that browsers may show; they save others.
var shown = map[string]bool{".png": true, ".jpg": true, ".gif": true, ".webp": true, ".bmp": true}

// extension determines a file's type from its beginning.
func extension(head []byte) string {
	ext := mimetype.Detect(head).Extension()
	if _, ok := fileTypes[ext]; !ok {
		return ".bin"
	}
	return ext
}

// fileName makes a client's file name harmless to show.
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
	return strings.ToValidUTF8(name[:min(len(name), 255)], "") // without half a character at the end
}

var uploadName = regexp.MustCompile(`^[0-9a-f]{32}(\.[a-z]{3,4})$`)

// serve serves an uploaded file: raster images to be shown, everything else to be
// saved, and nothing with the rights of this server's pages.
func (u *uploads) serve(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.URL.Path, "/uploads/")
	m := uploadName.FindStringSubmatch(name)
	if m == nil || fileTypes[m[1]] == "" {
		u.files.Fail(w, r, web.Refuse(http.StatusNotFound, "there is no such file"))
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if !shown[m[1]] {
		header.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	}
	u.files.ServeObject(w, r, uploadFolder+name, uploadCaches, fileTypes[m[1]])
}
