package manifest_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"tsmon/manifest"
	"tsmon/signing/signingtest"
)

// The signatures of testdata, made by the Tauri CLI: the first of each folder is
// bound to version 1.2.3, the second to none.
const (
	bound        = "tauri-password/App_1.2.3_x64.app.tar.gz.sig"
	unbound      = "tauri-password/App_1.2.3_x64_en-US.msi.zip.sig"
	otherBound   = "tauri-empty-password/App_1.2.3_x64.app.tar.gz.sig"
	otherUnbound = "tauri-empty-password/App_1.2.3_x64_en-US.msi.zip.sig"
	pub          = "tauri-password/tauri.key.pub"
	otherPub     = "tauri-empty-password/tauri.key.pub"
)

// goodDocument has every member once, one to a line:
//
//	1 {                            9   "url"
//	2   "version"                 10   },
//	3   "notes"                   11   "windows-x86_64": {
//	4   "pub_date"                12     "signature" (unbound)
//	5   "platforms": {            13     "url"
//	6   (blank)                   14   }
//	7     "darwin-x86_64": {      15   },
//	8       "signature" (bound)   16   "sequence"
func goodDocument(t testing.TB) string {
	t.Helper()
	return `{
  "version": "1.2.3",
  "notes": "Fixes.",
  "pub_date": "2026-11-21T10:00:00Z",
  "platforms": {

    "darwin-x86_64": {
      "signature": "` + signingtest.Testdata(t, bound) + `",
      "url": "https://releases.example.com/App_x64.app.tar.gz"
    },
    "windows-x86_64": {
      "signature": "` + signingtest.Testdata(t, unbound) + `",
      "url": "https://releases.example.com/App_x64.msi.zip"
    }
  },
  "sequence": 12
}
`
}

// with replaces the only occurrence of a passage.
func with(t testing.TB, text, before, after string) string {
	t.Helper()
	if n := strings.Count(text, before); n != 1 {
		t.Fatalf("%q stands %d times in the document", before, n)
	}
	return strings.Replace(text, before, after, 1)
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func unbase64(t testing.TB, s string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func version(t testing.TB, text string) manifest.Version {
	t.Helper()
	return response(t, `{"version":`+quote(text)+`,"platforms":{}}`).Version
}

func response(t testing.TB, body string) *manifest.Response {
	t.Helper()
	r, err := manifest.ParseResponse([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}
