package monitor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/store/object"
)

// small is the largest upload of these tests, in bytes.
const small = 4000

// stored counts the objects of a world's store, which others may share.
func stored(t *testing.T, w *apitest.World) (n int) {
	t.Helper()
	for _, err := range w.Objects.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// nothingLeft checks that the folder of temporary files is empty and how many objects
// the store holds.
func nothingLeft(t *testing.T, w *apitest.World, folder string, objects int) {
	t.Helper()
	if left := apitest.Must[[]os.DirEntry](t)(os.ReadDir(folder)); len(left) != 0 {
		t.Errorf("left in the folder of temporary files: %v", left)
	}
	if found := stored(t, w); found != objects {
		t.Errorf("the store holds %d objects, want %d", found, objects)
	}
}

// goodForm is an upload of one byte.
var goodForm = apitest.FilePart("x") + "--b--\r\n"

// hostileForm is an upload with changed headers and its expected status.
type hostileForm struct {
	header map[string]string
	body   string
	want   int
}

func hostileForms(w *apitest.World) map[string]hostileForm {
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
		"no name":                {nil, apitest.FormPart("Content-Disposition: form-data", "x") + "--b--\r\n", 500},
		"no disposition":         {nil, apitest.FormPart("Content-Type: image/png", "x") + "--b--\r\n", 500},
		"an attachment":          {nil, apitest.FormPart(`Content-Disposition: attachment; name="file"`, "x") + "--b--\r\n", 500},
		"two files":              {nil, apitest.FilePart("x") + good, 500},
		"a file and a field":     {nil, apitest.FilePart("x") + apitest.FormPart(`Content-Disposition: form-data; name="key"`, "uploads/mine.png") + "--b--\r\n", 500},
		"a field before it":      {nil, apitest.FormPart(`Content-Disposition: form-data; name="key"`, "uploads/mine.png") + good, 500},
		"no part":                {nil, "--b--\r\n", 500},
		"nothing":                {nil, "", 500},
		"an empty file":          {nil, apitest.FilePart("") + "--b--\r\n", 500},
		"a byte too many":        {nil, apitest.FilePart(strings.Repeat("x", small+1)) + "--b--\r\n", 413},
		"far too many":           {nil, apitest.FilePart(strings.Repeat("x", small+2*maxForm)) + "--b--\r\n", 413},
		"a long line before it":  {nil, strings.Repeat("x", small+2*maxForm) + "\r\n" + good, 500},
		"many lines before it":   {nil, strings.Repeat("x\r\n", small+maxForm) + good, 413},
		"many headers":           {nil, apitest.FormPart(strings.Repeat("X: y\r\n", 20_000)+`Content-Disposition: form-data; name="file"`, "x") + "--b--\r\n", 500},
		"a long header":          {nil, apitest.FormPart("X: "+strings.Repeat("y", small+2*maxForm)+"\r\n"+`Content-Disposition: form-data; name="file"`, "x") + "--b--\r\n", 413},
		"no end":                 {nil, apitest.FilePart("x"), 500},
		"half an end":            {nil, apitest.FilePart("x") + "--b-", 500},
		"cut in the file":        {nil, strings.TrimSuffix(apitest.FilePart("xxxxxxxxx"), "xxx\r\n"), 500},
		"cut in the header":      {nil, "--b\r\nContent-Disposition: form-da", 500},
		"a header that is none":  {nil, apitest.FormPart("nonsense", "x") + "--b--\r\n", 500},
		"a name of another kind": {nil, apitest.FormPart(`Content-Disposition: form-data; name*=UTF-8''%66ile%00; filename="a"`, "x") + "--b--\r\n", 500},
		"another boundary":       {kind("multipart/form-data; boundary=c"), good, 500},
		"no boundary at all":     {kind("multipart/form-data"), strings.Replace(good, "--b", "b", 1), 415},
		"no boundary, no form":   {kind("multipart/form-data"), "--", 415},
		"no boundary, no line":   {kind("multipart/form-data"), "--" + strings.Repeat("b", 100_000), 415},
		"no boundary, no body":   {kind("multipart/form-data"), "", 415},
		"an empty one":           {kind("multipart/form-data"), strings.ReplaceAll(good, "--b", "--"), 415},
		"a long one":             {kind("multipart/form-data"), strings.ReplaceAll(good, "--b", "--"+strings.Repeat("b", 71)), 415},
		"one that ends in space": {kind("multipart/form-data"), strings.Replace(good, "--b", "--b ", 1), 415},
		"no boundary, no end":    {kind("multipart/form-data"), apitest.FilePart("x"), 500},
		"an empty boundary":      {kind(`multipart/form-data; boundary=""`), good, 500},
		"JSON":                   {kind("application/json"), good, 415},
		"a form of another kind": {kind("application/x-www-form-urlencoded"), "file=x", 415},
		"no type":                {kind(""), good, 415},
		"a boundary of 10,000":   {kind("multipart/form-data; boundary=" + strings.Repeat("b", 10_000)), good, 500},
	}
}

func TestHostileUploads(t *testing.T) { testHostileUploads(t, apitest.Embedded(t)) }

func testHostileUploads(t *testing.T, w *apitest.World) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	w.MaxUpload = small
	before := stored(t, w)
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for name, c := range hostileForms(w) {
		got := nobody.Attempt(apitest.NewRoute("POST", "/upload", c.body), apitest.UploadHeader(w, c.header))
		if got.WantFailure(t, c.want); t.Failed() {
			t.Fatal(name)
		}
	}
	checkLyingLength(t, w, server, goodForm)
	server.Close() // waits for those that went away
	nothingLeft(t, w, folder, before)
	again := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, content := range []string{strings.Repeat("x", small), "x"} {
		if got := again.Attempt(apitest.NewRoute("POST", "/upload", apitest.FilePart(content)+"--b--\r\n"), apitest.UploadHeader(w, nil)); got.Status != 200 {
			t.Errorf("%d bytes: %d %s", len(content), got.Status, got.Body)
		}
	}
	// A client may leave the boundary out of the header, as spec.md writes it.
	for _, boundary := range []string{"b", "----WebKitFormBoundary7MA4YWxkTrZu0gW", strings.Repeat("b", 70)} {
		form := strings.ReplaceAll(apitest.FilePart("-b-b--\n")+"--b--\r\n", "--b", "--"+boundary)
		got := again.Attempt(apitest.NewRoute("POST", "/upload", form), apitest.UploadHeader(w, map[string]string{"Content-Type": "multipart/form-data"}))
		if got.Status != 200 || !strings.Contains(string(got.Body), `"size":7`) {
			t.Errorf("without the boundary %s: %d %s", boundary, got.Status, got.Body)
		}
	}
	nothingLeft(t, w, folder, before+5)
	// Without keys of its own a server takes nothing.
	for _, pair := range []monitor.KeyPair{{}, {Access: w.Uploads.Access}, {Secret: w.Uploads.Secret}} {
		w.Uploads = pair
		closed := apitest.Client{TB: t, Base: w.Serve(t).URL}
		closed.Attempt(apitest.NewRoute("POST", "/upload", goodForm), apitest.UploadHeader(w, nil)).WantFailure(t, 401)
	}
}

// checkLyingLength sends bodies with a wrong Content-Length, and one whose sender
// disconnects.
func checkLyingLength(t *testing.T, w *apitest.World, server *httptest.Server, good string) {
	t.Helper()
	head := fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nAccesskey: %s\r\nSecretkey: %s\r\nContent-Length: ", w.Uploads.Access, w.Uploads.Secret)
	for _, length := range []int{1, len(good) / 2, len(good) - 4} {
		apitest.SendText(t, server, fmt.Sprintf("%s%d\r\n\r\n%s", head, length, good)).WantFailure(t, 500)
	}
	for _, hangUp := range []func(*net.TCPConn) error{(*net.TCPConn).CloseWrite, (*net.TCPConn).Close} {
		conn, err := apitest.Dial(t, server)
		if err == nil {
			_, err = fmt.Fprintf(conn, "%s%d\r\n\r\n%s", head, 1<<40, apitest.FilePart("xxxx")[:70])
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
func sendFile(t *testing.T, w *apitest.World, c apitest.Client, body string) (uploaded, apitest.Answer) {
	t.Helper()
	got := c.Attempt(apitest.NewRoute("POST", "/upload", body+"--b--\r\n"), apitest.UploadHeader(w, nil))
	var sent struct{ Data uploaded }
	if apitest.ReadJSON(t, got.Body, &sent); got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return sent.Data, c.Get("/" + sent.Data.Key)
}

// TestHostileFiles uploads files that browsers would run, and checks how they are
// served.
func TestHostileFiles(t *testing.T) { testHostileFiles(t, apitest.Embedded(t)) }

func testHostileFiles(t *testing.T, w *apitest.World) {
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	const script = `<script>alert(document.domain)</script>`
	raster := map[string]bool{}
	for _, kind := range []string{"png", "jpeg", "gif", "webp", "bmp"} {
		raster["image/"+kind] = true
	}
	for name, content := range map[string]string{
		"a page": "<!DOCTYPE html><html>" + script, "a page in capitals": "  \n<HTML><BODY onload=alert(1)>", "a bare script": script, "a page after a BOM": "\ufeff<html>" + script, "a page after a comment": "<!-- " + strings.Repeat("x", 4000) + " --><html>" + script,
		"a drawing": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "a drawing of XML": `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg">` + script + "</svg>", "a drawing after a comment": "<!--" + strings.Repeat("x", 4000) + "--><svg onload=alert(1)>",
		"XHTML": `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">` + script + "</html>", "a style of XML": `<?xml version="1.0"?><?xml-stylesheet href="x.xsl" type="text/xsl"?><a/>`, "XML": `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`,
		"a picture and a page": string(apitest.PNG) + script, "a page in a picture": string(apitest.PNG[:33]) + script + string(apitest.PNG[33:]), "GIF and script": "GIF89a/*" + script + "*/=1;alert(1)", "BMP and page": "BM" + script, "JPEG and page": "\xff\xd8\xff\xe0\x00\x10JFIF\x00" + script,
		"script": "alert(1);//", "a worker": "self.addEventListener('fetch',()=>{})", "PDF": "%PDF-1.7\n" + script, "ZIP": "PK\x03\x04" + script, "Flash": "FWS\x09" + script, "UTF-7": "+ADw-script+AD4-alert(1)+ADw-/script+AD4-", "UTF-16": "\xff\xfe<\x00s\x00c\x00r\x00i\x00p\x00t\x00>\x00", "a manifest": `{"version":"9.9.9"}`, "a signature": "untrusted comment: x", "zeros": strings.Repeat("\x00", 5000),
		"MHTML": "From: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related\r\n\r\n" + script, "a shortcut": "[InternetShortcut]\r\nURL=file:///c:/", "an executable": "MZ\x90\x00", "ELF": "\x7fELF\x02\x01\x01", "a shell script": "#!/bin/sh\nrm -rf /",
	} {
		file, got := sendFile(t, w, nobody, apitest.FilePart(content))
		kind := got.Header.Get("Content-Type")
		if got.Status != 200 || string(got.Body) != content || kind != file.ContentType || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name, got.Status, got.Header)
		}
		if policy := got.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox;") || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "allow-") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		if attached := got.Header.Get("Content-Disposition") == `attachment; filename="`+strings.TrimPrefix(file.Key, uploadFolder)+`"`; attached == raster[kind] {
			t.Errorf("%s is %s, attached: %v", name, kind, attached)
		}
		if strings.HasPrefix(content, "<") && raster[kind] || strings.HasPrefix(kind, "image/svg") != strings.HasSuffix(file.Key, ".svg") {
			t.Errorf("%s is %s at %s", name, kind, file.Key)
		}
	}
}

// uploadName is the name of a file, which nobody can guess.
var uploadName = regexp.MustCompile(`^[0-9a-f]{32}(\.[a-z]{3,4})$`)

func TestHostileFileNames(t *testing.T) { testHostileFileNames(t, apitest.Embedded(t)) }

func testHostileFileNames(t *testing.T, w *apitest.World) {
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	for _, parameter := range []string{
		``, `; filename=""`, `; filename="."`, `; filename=".."`, `; filename="/"`, `; filename="\\"`, `; filename="..\\"`, `; filename="../"`, `; filename="../../../etc/passwd"`, `; filename="/etc/passwd"`, `; filename="C:\\Windows\\x.exe"`, `; filename="..\\..\\x"`,
		`; filename="a/b/c.png"`, `; filename=".\u200e."`, "; filename=\"..\u200e\"", "; filename=\"a\u202egnp.exe\"", `; filename="a%0d%0aSet-Cookie: x=1"`, `; filename="<script>.png"`, `; filename="a\"b.png"`, `; filename="uploads/x.png"`, `; filename="log/stable/0000000001.json"`,
		`; filename*=UTF-8''a%00b.png`, `; filename*=UTF-8''a%0d%0aSet-Cookie%3a%20x.png`, `; filename*=UTF-8''..%2f..%2fetc%2fpasswd`, `; filename*=UTF-8''%2e%2e`, `; filename*=UTF-8''%ff%fe.png`, `; filename*=ISO-8859-1''a%f1o.png`, "; filename=\"\xff\xfe.png\"",
		`; filename="` + strings.Repeat("a", 10_000) + `.png"`, `; filename="` + strings.Repeat("ñ", 5_000) + `"`, `; filename="CON"`, `; filename="a.png` + strings.Repeat(" ", 300) + `.exe"`,
	} {
		body := apitest.FormPart(`Content-Disposition: form-data; name="file"`+parameter+"\r\nContent-Type: text/html", string(apitest.PNG))
		file, got := sendFile(t, w, nobody, body)
		if strings.ContainsAny(file.Name, "/\\") || strings.ContainsFunc(file.Name, unicode.IsControl) || len(file.Name) > 255 || strings.Trim(file.Name, ".") == "" && file.Name != "" {
			t.Errorf("%.80s: the name is %q", parameter, file.Name)
		}
		if !uploadName.MatchString(strings.TrimPrefix(file.Key, uploadFolder)) || file.ContentType != "image/png" || got.Status != 200 || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("%.80s: %+v, %d %v", parameter, file, got.Status, got.Header)
		}
	}
}

// TestHostileFileAddresses requests other objects of the store.
func TestHostileFileAddresses(t *testing.T) { testHostileFileAddresses(t, apitest.Embedded(t)) }

func testHostileFileAddresses(t *testing.T, w *apitest.World) {
	for _, key := range []string{"log/stable/0000000001.json", "releases/1.0.0/release.json", "stable/latest.json", "uploads/secret.png", "uploads/deep/0123456789abcdef0123456789abcdef.png"} {
		if _, err := w.Objects.Create(t.Context(), key, strings.NewReader("secret"), 6, object.Attributes{}); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	server := w.Serve(t)
	file, _ := sendFile(t, w, apitest.Client{TB: t, Base: server.URL}, apitest.FilePart(string(apitest.PNG)))
	name := strings.TrimPrefix(file.Key, uploadFolder)
	for _, path := range []string{
		"", "secret.png", "deep/0123456789abcdef0123456789abcdef.png", "deep%2f0123456789abcdef0123456789abcdef.png", "../log/stable/0000000001.json", "%2e%2e/log/stable/0000000001.json", "..%2flog%2fstable%2f0000000001.json", "..%5clog",
		"../stable/latest.json", "../releases/1.0.0/release.json", "log/stable/0000000001.json", "releases/1.0.0/release.json", "stable/latest.json", "/" + name, "./" + name, "../uploads/" + name, "uploads/" + name, "%2f" + name,
		name + "/", name + "%00", name + ".", name + "%20", name + "%0a", name + ";x", strings.ToUpper(name), name[:31] + name[32:], strings.TrimSuffix(name, "png") + "html", strings.TrimSuffix(name, ".png"), name + ".png", "0" + name, "x", ".", "..", "*", "%", strings.Repeat("0", 32) + ".exe",
	} {
		for _, prefix := range []string{"/uploads/", "/api/uploads/"} {
			got := apitest.SendText(t, server, "GET "+prefix+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if path == "%" || strings.HasSuffix(path, "%") {
				if got.Status != 400 { // which is no path at all
					t.Errorf("%s%s: %d", prefix, path, got.Status)
				}
				continue
			}
			if got.WantFailure(t, 404); bytes.Contains(got.Body, []byte("secret")) || t.Failed() {
				t.Fatalf("%s%s: %d %s", prefix, path, got.Status, got.Body)
			}
		}
	}
	for _, path := range []string{"/updates/uploads/" + name, "/updates/log/stable/0000000001.json", "/updates/%6cog/stable/0000000001.json", "/updates/stable/../log/stable/0000000001.json"} {
		apitest.SendText(t, server, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n").WantFailure(t, 404)
	}
}
