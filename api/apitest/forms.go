package apitest

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"testing"
)

// FormPart returns one part of a form with boundary b.
func FormPart(header, content string) string {
	return "--b\r\n" + header + "\r\n\r\n" + content + "\r\n"
}

// FilePart returns the part that an upload consists of.
func FilePart(content string) string {
	return FormPart(`Content-Disposition: form-data; name="file"; filename="a.png"`, content)
}

// UploadHeader returns the headers of an upload whose boundary is b, overridden by
// header.
func UploadHeader(w *World, header map[string]string) http.Header {
	all := http.Header{"Content-Type": {"multipart/form-data; boundary=b"}, "Accesskey": {w.Uploads.Access}, "Secretkey": {w.Uploads.Secret}}
	for name, value := range header {
		all[name] = []string{value}
	}
	return all
}

// PNG is a picture of one pixel.
var PNG = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")

// Form returns a form with one file, and its headers.
func Form(tb testing.TB, w *World, part, name string, content []byte) (*bytes.Buffer, http.Header) {
	tb.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	to, err := m.CreateFormFile(part, name)
	if err == nil {
		_, err = to.Write(content)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	// The clients send these names in lower case.
	return &body, http.Header{"Content-Type": {m.FormDataContentType()}, "accesskey": {w.Uploads.Access}, "secretkey": {w.Uploads.Secret}}
}
