package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"tsmon/api/monitor"
	"tsmon/store/object"
)

// small is the largest upload of these tests, in bytes.
const small = 4000

// part is one part of a form, with its headers as they are written.
func part(header, content string) string {
	return "--b\r\n" + header + "\r\n\r\n" + content + "\r\n"
}

// filePart is the part that an upload consists of.
func filePart(content string) string {
	return part(`Content-Disposition: form-data; name="file"; filename="a.png"`, content)
}

// uploader sends forms with the right keys, and what else a header says.
func uploader(w *world, header map[string]string) http.Header {
	all := http.Header{"Content-Type": {"multipart/form-data; boundary=b"}, "Accesskey": {w.Uploads.Access}, "Secretkey": {w.Uploads.Secret}}
	for name, value := range header {
		all[name] = []string{value}
	}
	return all
}

// stored counts the objects of a world's store, which others may share.
func stored(t *testing.T, w *world) (n int) {
	t.Helper()
	for _, err := range w.Objects.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// nothingLeft demands that the folder of temporary files is empty and that the
// store holds as many objects as it should.
func nothingLeft(t *testing.T, w *world, folder string, objects int) {
	t.Helper()
	if left := must[[]os.DirEntry](t)(os.ReadDir(folder)); len(left) != 0 {
		t.Errorf("left in the folder of temporary files: %v", left)
	}
	if found := stored(t, w); found != objects {
		t.Errorf("the store holds %d objects, want %d", found, objects)
	}
}

// goodForm is an upload of one byte.
var goodForm = filePart("x") + "--b--\r\n"

// hostileForm is an upload with other headers than uploader's, and the status
// that it gets.
type hostileForm struct {
	header map[string]string
	body   string
	want   int
}

func hostileForms(w *world) map[string]hostileForm {
	good, a, s := goodForm, w.Uploads.Access, w.Uploads.Secret
	keys := func(access, secret string) map[string]string {
		return map[string]string{"Accesskey": access, "Secretkey": secret, "Authorization": "Bearer x"}
	}
	kind := func(value string) map[string]string { return map[string]string{"Content-Type": value} }
	return map[string]hostileForm{
		"no keys": {keys("", ""), good, 401}, "no secret": {keys(a, ""), good, 401}, "no access": {keys("", s), good, 401}, "swapped": {keys(s, a), good, 401},
		"one for both": {keys(a, a), good, 401}, "half a key": {keys(a, s[:len(s)-1]), good, 401}, "more than a key": {keys(a, s+"x"), good, 401}, "capitals": {keys(strings.ToUpper(a), s), good, 401}, "a wrong one": {keys(a, "x"), "", 401},
		"another name":           {nil, strings.Replace(good, `"file"`, `"files"`, 1), 500},
		"another case":           {nil, strings.Replace(good, `"file"`, `"File"`, 1), 500},
		"no name":                {nil, part("Content-Disposition: form-data", "x") + "--b--\r\n", 500},
		"no disposition":         {nil, part("Content-Type: image/png", "x") + "--b--\r\n", 500},
		"an attachment":          {nil, part(`Content-Disposition: attachment; name="file"`, "x") + "--b--\r\n", 500},
		"two files":              {nil, filePart("x") + good, 500},
		"a file and a field":     {nil, filePart("x") + part(`Content-Disposition: form-data; name="key"`, "uploads/mine.png") + "--b--\r\n", 500},
		"a field before it":      {nil, part(`Content-Disposition: form-data; name="key"`, "uploads/mine.png") + good, 500},
		"no part":                {nil, "--b--\r\n", 500},
		"nothing":                {nil, "", 500},
		"an empty file":          {nil, filePart("") + "--b--\r\n", 500},
		"a byte too many":        {nil, filePart(strings.Repeat("x", small+1)) + "--b--\r\n", 413},
		"far too many":           {nil, filePart(strings.Repeat("x", small+2*maxForm)) + "--b--\r\n", 413},
		"a long line before it":  {nil, strings.Repeat("x", small+2*maxForm) + "\r\n" + good, 500},
		"many lines before it":   {nil, strings.Repeat("x\r\n", small+maxForm) + good, 413},
		"many headers":           {nil, part(strings.Repeat("X: y\r\n", 20_000)+`Content-Disposition: form-data; name="file"`, "x") + "--b--\r\n", 500},
		"a long header":          {nil, part("X: "+strings.Repeat("y", small+2*maxForm)+"\r\n"+`Content-Disposition: form-data; name="file"`, "x") + "--b--\r\n", 413},
		"no end":                 {nil, filePart("x"), 500},
		"half an end":            {nil, filePart("x") + "--b-", 500},
		"cut in the file":        {nil, strings.TrimSuffix(filePart("xxxxxxxxx"), "xxx\r\n"), 500},
		"cut in the header":      {nil, "--b\r\nContent-Disposition: form-da", 500},
		"a header that is none":  {nil, part("nonsense", "x") + "--b--\r\n", 500},
		"a name of another kind": {nil, part(`Content-Disposition: form-data; name*=UTF-8''%66ile%00; filename="a"`, "x") + "--b--\r\n", 500},
		"another boundary":       {kind("multipart/form-data; boundary=c"), good, 500},
		"no boundary":            {kind("multipart/form-data"), good, 415},
		"an empty boundary":      {kind(`multipart/form-data; boundary=""`), good, 500},
		"JSON":                   {kind("application/json"), good, 415},
		"a form of another kind": {kind("application/x-www-form-urlencoded"), "file=x", 415},
		"no type":                {kind(""), good, 415},
		"a boundary of 10,000":   {kind("multipart/form-data; boundary=" + strings.Repeat("b", 10_000)), good, 500},
	}
}

func testHostileUploads(t *testing.T, w *world) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	w.MaxUpload = small
	before := stored(t, w)
	server := w.serve(t)
	nobody := client{tb: t, base: server.URL}
	for name, c := range hostileForms(w) {
		got := nobody.attempt(route{"POST", "/upload", c.body}, uploader(w, c.header))
		if got.wantFailure(t, c.want); t.Failed() {
			t.Fatal(name)
		}
	}
	checkLyingLength(t, w, server, goodForm)
	server.Close() // waits for those that went away
	nothingLeft(t, w, folder, before)
	again := client{tb: t, base: w.serve(t).URL}
	for _, content := range []string{strings.Repeat("x", small), "x"} {
		if got := again.attempt(route{"POST", "/upload", filePart(content) + "--b--\r\n"}, uploader(w, nil)); got.status != 200 {
			t.Errorf("%d bytes: %d %s", len(content), got.status, got.body)
		}
	}
	nothingLeft(t, w, folder, before+2)
	// Without keys of its own a server takes nothing.
	for _, pair := range []monitor.KeyPair{{}, {Access: w.Uploads.Access}, {Secret: w.Uploads.Secret}} {
		w.Uploads = pair
		closed := client{tb: t, base: w.serve(t).URL}
		closed.attempt(route{"POST", "/upload", goodForm}, uploader(w, nil)).wantFailure(t, 401)
	}
}

// checkLyingLength sends bodies that are longer or shorter than they say, and
// one whose sender goes away.
func checkLyingLength(t *testing.T, w *world, server *httptest.Server, good string) {
	t.Helper()
	head := fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nAccesskey: %s\r\nSecretkey: %s\r\nContent-Length: ", w.Uploads.Access, w.Uploads.Secret)
	for _, length := range []int{1, len(good) / 2, len(good) - 4} {
		speak(t, server, fmt.Sprintf("%s%d\r\n\r\n%s", head, length, good)).wantFailure(t, 500)
	}
	for _, hangUp := range []func(*net.TCPConn) error{(*net.TCPConn).CloseWrite, (*net.TCPConn).Close} {
		conn, err := dial(t, server)
		if err == nil {
			_, err = fmt.Fprintf(conn, "%s%d\r\n\r\n%s", head, 1<<40, filePart("xxxx")[:70])
		}
		if err == nil {
			err = hangUp(conn.(*net.TCPConn))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err == nil && bytes.Contains(got, []byte(" 200 ")) {
			t.Errorf("half a file: %s", got)
		}
	}
}

// sendFile sends a file and returns the answer and the file as it is served.
func sendFile(t *testing.T, w *world, c client, body string) (received, answer) {
	t.Helper()
	got := c.attempt(route{"POST", "/upload", body + "--b--\r\n"}, uploader(w, nil))
	var sent struct{ Data received }
	if readJSON(t, got.body, &sent); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	return sent.Data, c.get("/" + sent.Data.Key)
}

// testHostileFiles uploads files that browsers would run, and looks at how they
// are served.
func testHostileFiles(t *testing.T, w *world) {
	nobody := client{tb: t, base: w.serve(t).URL}
	const script = `<script>alert(document.domain)</script>`
	raster := map[string]bool{}
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "bmp"} {
		raster["image/"+kind] = true
	}
	for name, content := range map[string]string{
		"a page": "<!DOCTYPE html><html>" + script, "a page in capitals": "  \n<HTML><BODY onload=alert(1)>", "a bare script": script, "a page after a BOM": "\ufeff<html>" + script, "a page after a comment": "<!-- " + strings.Repeat("x", 4000) + " --><html>" + script,
		"a drawing": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "a drawing of XML": `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg">` + script + "</svg>", "a drawing after a comment": "<!--" + strings.Repeat("x", 4000) + "--><svg onload=alert(1)>",
		"XHTML": `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">` + script + "</html>", "a style of XML": `<?xml version="1.0"?><?xml-stylesheet href="x.xsl" type="text/xsl"?><a/>`, "XML": `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`,
		"a picture and a page": string(png) + script, "a page in a picture": string(png[:33]) + script + string(png[33:]), "GIF and script": "GIF89a/*" + script + "*/=1;alert(1)", "BMP and page": "BM" + script, "JPEG and page": "\xff\xd8\xff\xe0\x00\x10JFIF\x00" + script,
		"script": "alert(1);//", "a worker": "self.addEventListener('fetch',()=>{})", "PDF": "%PDF-1.7\n" + script, "ZIP": "PK\x03\x04" + script, "Flash": "FWS\x09" + script, "UTF-7": "+ADw-script+AD4-alert(1)+ADw-/script+AD4-", "UTF-16": "\xff\xfe<\x00s\x00c\x00r\x00i\x00p\x00t\x00>\x00", "a manifest": `{"version":"9.9.9"}`, "a signature": "untrusted comment: x", "zeros": strings.Repeat("\x00", 5000),
		"MHTML": "From: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related\r\n\r\n" + script, "a shortcut": "[InternetShortcut]\r\nURL=file:///c:/", "an executable": "MZ\x90\x00", "ELF": "\x7fELF\x02\x01\x01", "a shell script": "#!/bin/sh\nrm -rf /",
	} {
		file, got := sendFile(t, w, nobody, filePart(content))
		kind := got.header.Get("Content-Type")
		if got.status != 200 || string(got.body) != content || kind != file.ContentType || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
		if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox;") || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "allow-") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		if attached := got.header.Get("Content-Disposition") == `attachment; filename="`+strings.TrimPrefix(file.Key, uploadFolder)+`"`; attached == raster[kind] {
			t.Errorf("%s is %s, attached: %v", name, kind, attached)
		}
		if strings.HasPrefix(content, "<") && raster[kind] || strings.HasPrefix(kind, "image/svg") != strings.HasSuffix(file.Key, ".svg") {
			t.Errorf("%s is %s at %s", name, kind, file.Key)
		}
	}
}

// uploadName is the name of a file, which nobody can guess.
var uploadName = regexp.MustCompile(`^[0-9a-f]{32}(\.[a-z]{3,4})$`)

func testHostileFileNames(t *testing.T, w *world) {
	nobody := client{tb: t, base: w.serve(t).URL}
	for _, parameter := range []string{
		``, `; filename=""`, `; filename="."`, `; filename=".."`, `; filename="/"`, `; filename="\\"`, `; filename="..\\"`, `; filename="../"`, `; filename="../../../etc/passwd"`, `; filename="/etc/passwd"`, `; filename="C:\\Windows\\x.exe"`, `; filename="..\\..\\x"`,
		`; filename="a/b/c.png"`, `; filename=".\u200e."`, "; filename=\"..\u200e\"", "; filename=\"a\u202egnp.exe\"", `; filename="a%0d%0aSet-Cookie: x=1"`, `; filename="<script>.png"`, `; filename="a\"b.png"`, `; filename="uploads/x.png"`, `; filename="log/stable/0000000001.json"`,
		`; filename*=UTF-8''a%00b.png`, `; filename*=UTF-8''a%0d%0aSet-Cookie%3a%20x.png`, `; filename*=UTF-8''..%2f..%2fetc%2fpasswd`, `; filename*=UTF-8''%2e%2e`, `; filename*=UTF-8''%ff%fe.png`, `; filename*=ISO-8859-1''a%f1o.png`, "; filename=\"\xff\xfe.png\"",
		`; filename="` + strings.Repeat("a", 10_000) + `.png"`, `; filename="` + strings.Repeat("ñ", 5_000) + `"`, `; filename="CON"`, `; filename="a.png` + strings.Repeat(" ", 300) + `.exe"`,
	} {
		body := part(`Content-Disposition: form-data; name="file"`+parameter+"\r\nContent-Type: text/html", string(png))
		file, got := sendFile(t, w, nobody, body)
		if strings.ContainsAny(file.Name, "/\\") || strings.ContainsFunc(file.Name, unicode.IsControl) || len(file.Name) > 255 || strings.Trim(file.Name, ".") == "" && file.Name != "" {
			t.Errorf("%.80s: the name is %q", parameter, file.Name)
		}
		if !uploadName.MatchString(strings.TrimPrefix(file.Key, uploadFolder)) || file.ContentType != "image/png" || got.status != 200 || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%.80s: %+v, %d %v", parameter, file, got.status, got.header)
		}
	}
}

// testHostileFileAddresses asks for what else is in the store.
func testHostileFileAddresses(t *testing.T, w *world) {
	for _, key := range []string{"log/stable/0000000001.json", "releases/1.0.0/release.json", "stable/latest.json", "uploads/secret.png", "uploads/deep/0123456789abcdef0123456789abcdef.png"} {
		if _, err := w.Objects.Create(t.Context(), key, strings.NewReader("secret"), 6, object.Attributes{}); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	server := w.serve(t)
	file, _ := sendFile(t, w, client{tb: t, base: server.URL}, filePart(string(png)))
	name := strings.TrimPrefix(file.Key, uploadFolder)
	for _, path := range []string{
		"", "secret.png", "deep/0123456789abcdef0123456789abcdef.png", "deep%2f0123456789abcdef0123456789abcdef.png", "../log/stable/0000000001.json", "%2e%2e/log/stable/0000000001.json", "..%2flog%2fstable%2f0000000001.json", "..%5clog",
		"../stable/latest.json", "../releases/1.0.0/release.json", "log/stable/0000000001.json", "releases/1.0.0/release.json", "stable/latest.json", "/" + name, "./" + name, "../uploads/" + name, "uploads/" + name, "%2f" + name,
		name + "/", name + "%00", name + ".", name + "%20", name + "%0a", name + ";x", strings.ToUpper(name), name[:31] + name[32:], strings.TrimSuffix(name, "png") + "html", strings.TrimSuffix(name, ".png"), name + ".png", "0" + name, "x", ".", "..", "*", "%", strings.Repeat("0", 32) + ".exe",
	} {
		for _, prefix := range []string{"/uploads/", "/api/uploads/"} {
			got := speak(t, server, "GET "+prefix+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if path == "%" || strings.HasSuffix(path, "%") {
				if got.status != 400 { // which is no path at all
					t.Errorf("%s%s: %d", prefix, path, got.status)
				}
				continue
			}
			if got.wantFailure(t, 404); bytes.Contains(got.body, []byte("secret")) || t.Failed() {
				t.Fatalf("%s%s: %d %s", prefix, path, got.status, got.body)
			}
		}
	}
	for _, path := range []string{"/updates/uploads/" + name, "/updates/log/stable/0000000001.json", "/updates/%6cog/stable/0000000001.json", "/updates/stable/../log/stable/0000000001.json"} {
		speak(t, server, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n").wantFailure(t, 404)
	}
}
