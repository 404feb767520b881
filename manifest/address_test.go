package manifest_test

import (
	"errors"
	"testing"

	"tsmon/manifest"
)

// Addresses as Rust's url crate takes them: each verdict is that of version
// 2.5.8, but where strict says that it takes what is refused here.
func TestParseResponseAddresses(t *testing.T) {
	const strict = true
	for _, c := range []struct {
		url     string
		refused bool
		strict  bool
	}{
		{"https://h/x", false, false},
		{"HTTPS://User:Pass@Example.COM:8443/x?y#z", false, false},
		{" https://h/x\n", false, false},
		{"ht\ttps://h/x", false, false},
		{"https:h/x", false, false},
		{"https:///x", false, false}, // the host is x
		{`https:\\h\x`, false, false},
		{"https://h/a b/%zz/ü", false, false},
		{"https://h:/x", false, false},
		{"https://h:65535/x", false, false},
		{"https://h:000080/x", false, false},
		{"https://a_b.example.com/x", false, false},
		{"https://-a-.example.com/x", false, false},
		{"https://a..b/x", false, false},
		{"https://example.com./x", false, false},
		{"https://münchen.example/x", false, false},
		{"https://xn--mnchen-3ya.example/x", false, false},
		{"https://日本語。jp/x", false, false},
		{"https://1.2.3.4:80/x", false, false},
		{"https://1.2.3.4a/x", false, false},
		{"https://[2001:db8::1]:443/x", false, false},
		{"https://[::ffff:1.2.3.4]/x", false, false},
		{"https://a@b@h/x", false, false},
		{"ftp://h/x", false, false},
		{"wss://h", false, false},
		{"file:///x", false, false},
		{"file:x", false, false},
		{"file:/<", false, false},
		{"file://", false, false},
		{"file://h/x", false, false},
		{"mailto:a@b", false, false},
		{"tauri://", false, false},
		{"tauri://localhost/x", false, false},
		{"a+b-c.d:x", false, false},

		{"", true, false},
		{"x", true, false},
		{"/x", true, false},
		{"//h/x", true, false},
		{"?x", true, false},
		{":x", true, false},
		{"1http://h/x", true, false},
		{"ht tp://h/x", true, false},
		{"https:", true, false},
		{"https://", true, false},
		{"https:///", true, false},
		{"https://?x", true, false},
		{"https://:80/x", true, false},
		{"https://user@/x", true, false},
		{"https://h:65536/x", true, false},
		{"https://h:80a/x", true, false},
		{"https://h:-1/x", true, false},
		{"https://h h/x", true, false},
		{"https://h<h/x", true, false},
		{"https://h^h/x", true, false},
		{"https://h|h/x", true, false},
		{"https://h\x7f/x", true, false},
		{"https://h]/x", true, false},
		{"https://h[1]/x", true, false},
		{"https://[::1/x", true, false},
		{"https://[::1]x/x", true, false},
		{"https://[::1]:x/x", true, false},
		{"https://[[::1]/x", true, false},
		{"https://[]/x", true, false},
		{"https://[1.2.3.4]/x", true, false},
		{"https://[12345::]/x", true, false},
		{"https://[fe80::1%25eth0]/x", true, false},
		{"https://256.1.1.1/x", true, false},
		{"https://1.2.3.4.5/x", true, false},
		{"https://08.1/x", true, false},
		{"https://example.123/x", true, false},
		{"https://example.0x/x", true, false},
		{"https://example.0xfg.0xff/x", true, false},
		{"https://xn--a.example/x", true, false},
		{"https://xn--/x", true, false},
		{"https://xn--ß.example/x", true, false},
		{"https://\u00ad/x", true, false},
		{"https://\ufeff/x", true, false},
		{"https://\u2135z/x", true, false}, // maps to a letter of the other direction
		{"https://a\u200db/x", true, false},
		{"https://１.２.３.９９９/x", true, false},
		{"file://</x", true, false},
		{"file://h:80/x", true, false},
		{"tauri://h:99999/x", true, false},
		{"tauri://h h/x", true, false},
		{"tauri://:80/x", true, false},

		{"https://1.2.3/x", true, strict},
		{"https://0x7f.1/x", true, strict},
		{"https://1.2.3.4./x", true, strict},
		{"https://ex%41mple.com/x", true, strict},
		{"tauri://h%zz/x", true, strict},
		{"file://C:/x", true, strict},
	} {
		body := `{"version":"1.2.3","platforms":{"a":{"signature":"s","url":` + quote(c.url) + `}}}`
		r, err := manifest.ParseResponse([]byte(body))
		switch {
		case c.refused && !errors.Is(err, manifest.ErrShape):
			t.Errorf("%q is read with %v", c.url, err)
		case !c.refused && (err != nil || r.Platforms["a"].URL != c.url):
			t.Errorf("%q: %+v, %v", c.url, r, err)
		}
	}
}
