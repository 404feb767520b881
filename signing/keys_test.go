package signing_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

func unbase64(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func rebase64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func TestPublicKeyShapes(t *testing.T) {
	for file, id := range map[string]string{
		"tauri-password/tauri.key.pub":       "D92372BB2DC0FA42",
		"tauri-empty-password/tauri.key.pub": "65375B406D7B1A31",
		"minisign/minisign.pub":              "13796053AC30B9E3",
		"minisign/unencrypted.pub":           "9409900376B24132",
	} {
		text := signingtest.Testdata(t, file)
		key, err := signing.ParsePublicKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if key.ID() != id {
			t.Errorf("%s: id %s, want %s", file, key.ID(), id)
		}
		for _, shape := range []string{
			key.String(), key.File(), key.Tauri(), "\n " + key.String() + "\t\r\n", " " + key.Tauri() + "\r\n",
			strings.ReplaceAll(key.File(), "\n", "\r\n"), strings.TrimSpace(key.File()),
		} {
			if same, err := signing.ParsePublicKey(shape); err != nil || same != key {
				t.Errorf("%s as %q: %v", file, shape, err)
			}
		}
	}
}

func TestPublicKeyRefuses(t *testing.T) {
	key := signingtest.Key(t).Public()
	raw := unbase64(t, key.String())
	prehashed := append([]byte("ED"), raw[2:]...)
	for name, text := range map[string]string{
		"nothing":          "",
		"white space":      " \n",
		"word":             "pubkey",
		"short":            rebase64(raw[:41]),
		"long":             rebase64(append(raw, 0)),
		"other algorithm":  rebase64(append([]byte("Ee"), raw[2:]...)),
		"prehashed":        rebase64(prehashed),
		"broken line":      key.String()[:20] + "\n" + key.String()[20:],
		"two keys":         key.File() + key.File(),
		"third line":       key.File() + "more",
		"twice wrapped":    rebase64([]byte(key.Tauri())),
		"comment missing":  "minisign public key\n" + key.String(),
		"private key":      signingtest.Testdata(t, "tauri-password/tauri.key"),
		"private key file": signingtest.Testdata(t, "minisign/unencrypted.key"),
		"signature":        signingtest.Testdata(t, vectors[0].sig),
		"not UTF-8":        "\xff\xfe" + key.String(),
	} {
		_, err := signing.ParsePublicKey(text)
		checkFormatError(t, name, text, err, "")
	}
}

func TestPrivateKeyShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, password, public string }{
		{"tauri-password/tauri.key", "tauri-password/password.txt", "tauri-password/tauri.key.pub"},
		{"tauri-empty-password/tauri.key", "", "tauri-empty-password/tauri.key.pub"},
		{"minisign/unencrypted.key", "", "minisign/unencrypted.pub"},
	} {
		password := ""
		if c.password != "" {
			password = signingtest.Testdata(t, c.password)
		}
		public := signingtest.Keyring(t, c.public)[0].PublicKey
		text := signingtest.Testdata(t, c.file)
		file := text
		if !strings.HasPrefix(text, "untrusted") {
			file = string(unbase64(t, text))
		}
		for name, shape := range map[string]string{
			"as it is": text, "file": file, "base64": rebase64([]byte(file)), "with line break": text + "\n",
			"CRLF": strings.ReplaceAll(file, "\n", "\r\n"), "payload": strings.Split(file, "\n")[1],
		} {
			sealed, err := signing.ParsePrivateKey(shape)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.file, name, err)
			}
			if sealed.Encrypted() != (c.file != "minisign/unencrypted.key") {
				t.Errorf("%s, %s: Encrypted is %v", c.file, name, sealed.Encrypted())
			}
			if name != "as it is" && sealed.Encrypted() {
				continue // deriving costs a tenth of a second
			}
			checkOpens(t, sealed, password, public)
		}
	}
}

// checkOpens opens a key, and signs and verifies with it.
func checkOpens(t *testing.T, sealed signing.KeyFile, password string, public signing.PublicKey) {
	t.Helper()
	key, err := sealed.Decrypt(password)
	if err != nil {
		t.Fatal(err)
	}
	if key.Public() != public {
		t.Fatalf("public key is %s, want %s", key.Public(), public)
	}
	s, err := key.Sign(digest(t, "bundle"), signing.Comment{Time: time.Unix(1, 0), File: "f", Version: "1.0.0", Target: "linux-x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "timestamp:1\tfile:f\tversion:1.0.0\ttarget:linux-x86_64"; s.TrustedComment() != want {
		t.Errorf("trusted comment %q, want %q", s.TrustedComment(), want)
	}
	if err := verify(signing.Keyring{{PublicKey: public}}, s, "bundle"); err != nil {
		t.Error(err)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"tauri-password/tauri.key", "tauri-empty-password/tauri.key"} {
		sealed, err := signing.ParsePrivateKey(signingtest.Testdata(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sealed.Decrypt("wrong"); !errors.Is(err, signing.ErrPassword) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestEncryptRoundTrip(t *testing.T) {
	t.Parallel()
	key := signingtest.Key(t)
	for _, password := range []string{"", "pässword 日本"} {
		text, err := key.Encrypt(password)
		if err != nil {
			t.Fatal(err)
		}
		theirs := signingtest.Testdata(t, "tauri-password/tauri.key")
		if len(text) != len(theirs) || text[:72] != theirs[:72] {
			t.Errorf("the key is not written as Tauri writes it: %s", text)
		}
		got, want := payload(t, string(unbase64(t, text))), payload(t, string(unbase64(t, theirs)))
		if !bytes.Equal(got[38:54], want[38:54]) || bytes.Equal(got[6:38], want[6:38]) {
			t.Errorf("scrypt limits %x, want %x; or the salt is not new", got[38:54], want[38:54])
		}
		sealed, err := signing.ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		checkOpens(t, sealed, password, key.Public())
	}
}

// payload decodes the second line of a key file.
func payload(t *testing.T, file string) []byte {
	t.Helper()
	return unbase64(t, strings.Split(file, "\n")[1])
}

// rawKey is the second line of a key file with f applied to its payload.
func rawKey(t *testing.T, file string, f func(raw []byte) []byte) string {
	t.Helper()
	text := signingtest.Testdata(t, file)
	if !strings.HasPrefix(text, "untrusted") {
		text = string(unbase64(t, text))
	}
	return rebase64(f(payload(t, text)))
}

func set(at int, value ...byte) func([]byte) []byte {
	return func(raw []byte) []byte { copy(raw[at:], value); return raw }
}

func set64(at int, value uint64) func([]byte) []byte {
	return set(at, binary.LittleEndian.AppendUint64(nil, value)...)
}

func TestPrivateKeyRefuses(t *testing.T) {
	const sealed = "tauri-password/tauri.key"
	cases := map[string]string{
		"nothing":         "",
		"white space":     "\r\n",
		"word":            "secret",
		"public key":      signingtest.Testdata(t, "minisign/minisign.pub"),
		"signature":       signingtest.Testdata(t, vectors[0].sig),
		"sig file":        signingtest.Testdata(t, "minisign/bundle.tar.gz.minisig"),
		"twice wrapped":   rebase64([]byte(signingtest.Testdata(t, sealed))),
		"two keys":        signingtest.Testdata(t, "minisign/unencrypted.key") + signingtest.Testdata(t, "minisign/unencrypted.key"),
		"other algorithm": rawKey(t, sealed, set(0, 'E', 'D')),
		"other KDF":       rawKey(t, sealed, set(2, 'A', 'r')),
		"other checksum":  rawKey(t, sealed, set(4, 'S', '2')),
		"more work":       rawKey(t, sealed, set64(38, 0x2000001)),
		"endless work":    rawKey(t, sealed, set64(38, 1<<63)),
		"more memory":     rawKey(t, sealed, set64(46, 1<<30+1)),
		"endless memory":  rawKey(t, sealed, set64(46, 1<<63)),
		"cut":             rawKey(t, sealed, func(raw []byte) []byte { return raw[:157] }),
		"extended":        rawKey(t, sealed, func(raw []byte) []byte { return append(raw, 0) }),
		"unpadded":        strings.TrimRight(signingtest.Testdata(t, sealed), "="),
		"broken line":     signingtest.Testdata(t, sealed)[:99] + "\n" + signingtest.Testdata(t, sealed)[99:],
		"damaged payload": "untrusted comment: rsign encrypted secret key\nRWRTY0Iy!!!\n",
	}
	for name, text := range cases {
		_, err := signing.ParsePrivateKey(text)
		checkFormatError(t, name, text, err, "")
	}
}

// The limits alone decide how much is derived: the extremes that are let
// through must not fail otherwise, nor take long.
func TestSmallScryptLimitsWork(t *testing.T) {
	t.Parallel()
	for _, limits := range [][2]uint64{{0, 0}, {1, 1}, {1 << 16, 0}, {0, 1 << 30}} {
		text := rawKey(t, "tauri-password/tauri.key", func(raw []byte) []byte {
			return set64(46, limits[1])(set64(38, limits[0])(raw))
		})
		sealed, err := signing.ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sealed.Decrypt("any"); !errors.Is(err, signing.ErrPassword) {
			t.Errorf("limits %v: %v", limits, err)
		}
	}
}

func TestDecryptRefusesMismatchedHalves(t *testing.T) {
	for at, name := range map[int]string{62: "seed", 94: "public half"} {
		text := rawKey(t, "minisign/unencrypted.key", set(at, 1, 2, 3))
		sealed, err := signing.ParsePrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sealed.Decrypt("")
		checkFormatError(t, name, text, err, "public half")
	}
}

func TestZeroValues(t *testing.T) {
	var key signing.PrivateKey
	if _, err := key.Sign(signing.Digest{}, signing.Comment{}); err == nil {
		t.Error("a zero key signs")
	}
	if _, err := key.Encrypt(""); err == nil {
		t.Error("a zero key is encrypted")
	}
	if key.Public() != (signing.PublicKey{}) {
		t.Error("a zero key has a public key")
	}
	if _, err := (signing.KeyFile{}).Decrypt(""); err == nil {
		t.Error("a zero key file is opened")
	}
	var s signing.Signature
	if _, ok := s.Version(); ok || s.Prehashed() || s.Filename() != "" || s.TrustedComment() != "" {
		t.Error("a zero signature says something")
	}
}

func TestComments(t *testing.T) {
	key := signingtest.Key(t)
	for name, c := range map[string]signing.Comment{
		"none":       {},
		"file":       {File: "Wächter-Überwachung_1.2.3_x64.msi.zip"},
		"decomposed": {File: "Wa\u0308chter.app.tar.gz"},
		"Japanese":   {File: "水道監視 1.2.3.AppImage.tar.gz", Version: "1.2.3", Target: "linux-x86_64"},
		"emoji":      {File: "App💧.tar.gz"},
		"longest":    {File: strings.Repeat("a", 1024), Version: strings.Repeat("1", 1024), Target: strings.Repeat("t", 1024)},
		"colons":     {File: "version:9.9.9", Version: "1.2.3"},
	} {
		s, err := key.Sign(digest(t, "x"), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := signing.ParseSignature(s.String())
		if err != nil || again != s {
			t.Errorf("%s: does not parse back: %v", name, err)
		}
		if err := verify(signing.Keyring{{PublicKey: key.Public()}}, again, "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		version, _ := s.Version()
		target, _ := s.Target()
		if s.Filename() != c.File || version != c.Version || target != c.Target {
			t.Errorf("%s: fields %q, %q, %q", name, s.Filename(), version, target)
		}
		if !strings.HasPrefix(s.File(), "untrusted comment: signature from tauri secret key\n") {
			t.Errorf("%s: written as %q", name, s.File())
		}
	}
	for name, value := range map[string]string{
		"tab": "a\tversion:2.0.0", "line break": "a\nb", "return": "a\rb", "NUL": "a\x00", "escape": "\x1b[31m",
		"C1": "a\u0085b", "not UTF-8": "a\xff", "override": "a\u202egz.exe", "line separator": "a\u2028b",
		"zero width": "a\u200bb", "space before": " a", "space behind": "a ", "long": strings.Repeat("a", 1025),
	} {
		for _, c := range []signing.Comment{{File: value}, {Version: value}, {Target: value}} {
			if _, err := key.Sign(signing.Digest{}, c); err == nil {
				t.Errorf("%s is signed: %+v", name, c)
			}
		}
	}
}

// TestTimestamp: the time of signing is written in whole seconds.
func TestTimestamp(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 24, 0, 999, time.FixedZone("", 3600))
	s, err := signingtest.Key(t).Sign(signing.Digest{}, signing.Comment{Time: at})
	if err != nil || s.TrustedComment() != "timestamp:1795253040" {
		t.Errorf("comment %q, %v", s.TrustedComment(), err)
	}
}

// Whatever prints a private key prints nothing of it.
func TestSecretsAreNotPrinted(t *testing.T) {
	text := signingtest.Testdata(t, "minisign/unencrypted.key")
	sealed, err := signing.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sealed.Decrypt("")
	if err != nil {
		t.Fatal(err)
	}
	seed := payload(t, text)[62:94]
	traces := []string{
		string(seed[:4]), hex.EncodeToString(seed[:4]), strings.ToUpper(hex.EncodeToString(seed[:4])),
		rebase64(seed)[:8], strings.Trim(fmt.Sprint(seed[:3]), "[]"), strings.TrimSuffix(fmt.Sprintf("%#v", seed[:3])[7:], "}"),
		strings.Split(text, "\n")[1][80:100],
	}
	type hiding struct {
		key  signing.PrivateKey
		file signing.KeyFile
	}
	for _, value := range []any{
		key, &key, sealed, &sealed, []signing.PrivateKey{key}, map[string]any{"a": key, "b": sealed},
		hiding{key, sealed}, &hiding{key, sealed}, struct {
			Key  signing.PrivateKey
			File signing.KeyFile
		}{key, sealed},
	} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%08o", "%T", "%c"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", value)
		if err := json.NewEncoder(&out).Encode(value); err != nil {
			t.Error(err)
		}
		fmt.Fprint(&out, fmt.Errorf("with %v", value))
		for _, trace := range traces {
			if strings.Contains(out.String(), trace) {
				t.Errorf("%T shows %q in %s", value, trace, out.String())
			}
		}
	}
	if got := key.String(); got != "private key 9409900376B24132" {
		t.Errorf("String is %q", got)
	}
}

func TestKeyring(t *testing.T) {
	a, b := signingtest.Key(t).Public(), signingtest.Key(t).Public()
	ring, err := signing.ParseKeyring([]signing.KeyText{{Key: a.Tauri()}, {Key: b.String()}, {Key: a.File()}, {Key: a.String()}})
	if err != nil || len(ring) != 2 {
		t.Fatalf("%d keys, %v", len(ring), err)
	}
	if found, ok := ring.Find(b.ID()); !ok || found.PublicKey != b {
		t.Error("second key is not found")
	}
	if _, ok := ring.Find("0000000000000000"); ok {
		t.Error("a key that is not there is found")
	}

	_, err = signing.ParseKeyring([]signing.KeyText{{Key: a.String()}, {Key: "nonsense"}})
	checkFormatError(t, "second key", "nonsense", err, "trusted key 2")

	twin := unbase64(t, a.String())
	twin[41] ^= 1
	_, err = signing.ParseKeyring([]signing.KeyText{{Key: a.String()}, {Key: rebase64(twin)}})
	checkFormatError(t, "twin", rebase64(twin), err, a.ID())
}
