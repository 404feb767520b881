package signing_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// checkFormatError wants a *FormatError whose problem contains want and which
// shows nothing of the text.
func checkFormatError(t *testing.T, name, text string, err error, want string) {
	t.Helper()
	var fault *signing.FormatError
	if !errors.As(err, &fault) {
		t.Errorf("%s: error is %v", name, err)
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error is %q, want %q in it", name, err, want)
	}
	if fault.Mend == "" {
		t.Errorf("%s: %q has no mend", name, err)
	}
	said := err.Error() + fault.Mend
	for i := 0; i+12 <= len(text); i++ {
		if part := text[i : i+12]; !strings.Contains(part, " ") && strings.Contains(said, part) {
			t.Errorf("%s: %q repeats %q", name, said, part)
			return
		}
	}
}

func TestParseSignatureRefuses(t *testing.T) {
	v := vectors[0]
	line, file := signingtest.Testdata(t, v.sig), string(unbase64(t, signingtest.Testdata(t, v.sig)))
	parts := strings.Split(file, "\n")
	wrap := func(text string) string { return rebase64([]byte(text)) }
	special := wrap(strings.Replace(file, "from tauri", "??? >>> ~~~ öäü", 1)) // has / and +

	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "empty"},
		{"white space", " \r\n", "empty"},
		{"byte order mark only", "\ufeff", "empty"},
		{"path", "dist/App_1.2.3_x64.app.tar.gz.sig", "name of a file"},
		{"Windows path", `C:\dist\App_1.2.3_x64.msi.zip.SIG`, "name of a file"},
		{"minisig path", "bundle.minisig", "name of a file"},
		{"URL", "https://releases.example.com/App.tar.gz.sig", "URL"},
		{"raw file", file, "not its base64"},
		{"raw file, CRLF", strings.ReplaceAll(file, "\n", "\r\n"), "not its base64"},
		{"one line of it", parts[1], "lacks its comments"},
		{"one line, wrapped", wrap(parts[1]), "lacks its comments"},
		{"double base64", wrap(line), "more than once"},
		{"triple base64", wrap(wrap(line)), "more than once"},
		{"double with line break", wrap(line + "\n"), "more than once"},
		{"bundle", wrap("\x1f\x8b\x08\x00 an archive of some length"), "not of a minisign signature"},
		{"word", "signature", "not base64"},
		{"prose", "to be filled in!", "not base64"},
		{"public key", signingtest.Testdata(t, "tauri-password/tauri.key.pub"), "public key"},
		{"public key file", signingtest.Testdata(t, "minisign/minisign.pub"), "public key"},
		{"public key line", strings.Split(signingtest.Testdata(t, "minisign/minisign.pub"), "\n")[1], "public key"},
		{"private key", signingtest.Testdata(t, "tauri-password/tauri.key"), "private key"},
		{"private key, unencrypted", signingtest.Testdata(t, "minisign/unencrypted.key"), "private key"},
		{"private key, wrapped", wrap(signingtest.Testdata(t, "minisign/unencrypted.key")), "private key"},
		{"private key, twice", wrap(signingtest.Testdata(t, "tauri-password/tauri.key")), "private key"},
		{"private key, line", strings.Split(signingtest.Testdata(t, "minisign/unencrypted.key"), "\n")[1], "private key"},
		{"private key, cut", signingtest.Testdata(t, "minisign/unencrypted.key")[:150], "private key"},
		{"private key, cut base64", signingtest.Testdata(t, "tauri-password/tauri.key")[:200], "private key"},
		{"line break", line + "\n", "line break"},
		{"CRLF", line + "\r\n", "line break"},
		{"byte order mark", "\ufeff" + line, "byte order mark"},
		{"space before", " " + line, "around"},
		{"tab behind", line + "\t", "around"},
		{"wrapped lines", line[:76] + "\n" + line[76:], "inside"},
		{"wrapped lines, CRLF", line[:76] + "\r\n" + line[76:], "inside"},
		{"URL-safe", strings.NewReplacer("+", "-", "/", "_").Replace(special), "URL-safe"},
		{"unpadded", strings.TrimRight(padded(file), "="), "padding"},
		{"stray bits", strayBits(padded(file)), "damaged"},
		{"too long", strings.Repeat("A", signing.MaxSignature+1), "8 KiB"},
		{"huge", strings.Repeat("A", 10<<20), "8 KiB"},
		{"UTF-16", "\xff\xfed\x00W\x005\x00", "UTF-16"},
		{"not UTF-8", wrap(strings.Replace(file, "tauri", "\xff\xfe", 1)), "UTF-8"},
		{"byte order mark inside", wrap("\ufeff" + file), "byte order mark"},
		{"one line only", wrap(parts[0]), "fewer"},
		{"two lines", wrap(parts[0] + "\n" + parts[1] + "\n"), "fewer"},
		{"three lines", wrap(strings.Join(parts[:3], "\n")), "fewer"},
		{"five lines", wrap(file + "more\n"), "more than four"},
		{"empty fifth line", wrap(file + "\n"), "more than four"},
		{"two signatures", wrap(file + file), "more than four"},
		{"no untrusted comment", wrap(strings.Replace(file, "untrusted comment: ", "untrusted comment:", 1)), "untrusted comment"},
		{"no trusted comment", wrap(strings.Replace(file, "\ntrusted comment: ", "\ncomment: ", 1)), "trusted comment"},
		{"trusted comment cut", wrap(strings.Replace(file, "\ntrusted comment: ", "\ntrusted comment:", 1)), "trusted comment"},
		{"escape in comment", wrap(strings.Replace(file, "from tauri", "\x1b[2J", 1)), "untrusted comment"},
		{"return in comment", wrap(strings.Replace(file, "\tversion", "\rversion", 1)), "trusted comment"},
		{"lone return at the end", wrap(strings.TrimSuffix(file, "\n") + "\r"), "damaged"},
		{"blank in payload", wrap(strings.Replace(file, parts[1], parts[1]+" ", 1)), "damaged"},
		{"return in payload", wrap(strings.Replace(file, parts[1], parts[1][:9]+"\r"+parts[1][9:], 1)), "damaged"},
		{"short payload", wrap(strings.Replace(file, parts[1], rebase64(unbase64(t, parts[1])[:73]), 1)), "damaged"},
		{"short global", wrap(strings.Replace(file, parts[3], rebase64(unbase64(t, parts[3])[:63]), 1)), "damaged"},
		{"unknown algorithm", wrap(strings.Replace(file, parts[1], rebase64(append([]byte("Ex"), unbase64(t, parts[1])[2:]...)), 1)), "unknown algorithm"},
	} {
		_, err := signing.ParseSignature(c.text)
		checkFormatError(t, c.name, c.text, err, c.want)
	}
}

// padded returns the base64 of file, with an untrusted comment of a length
// that makes the base64 end in "==".
func padded(file string) string {
	for len(file)%3 != 1 {
		file = strings.Replace(file, " key\n", "  key\n", 1)
	}
	return rebase64([]byte(file))
}

// strayBits sets bits in the last character that stand for nothing.
func strayBits(line string) string {
	return strings.Replace(line, "Cg==", "Ch==", 1)
}

// What the updater accepts beside the Tauri CLI's own form is accepted too, and
// comes out in that form.
func TestParseSignatureAccepts(t *testing.T) {
	v := vectors[0]
	file := string(unbase64(t, signingtest.Testdata(t, v.sig)))
	want := readSignature(t, v.sig)
	for name, text := range map[string]string{
		"CRLF inside":        strings.ReplaceAll(file, "\n", "\r\n"),
		"no line break last": strings.TrimSuffix(file, "\n"),
	} {
		s, err := signing.ParseSignature(rebase64([]byte(text)))
		if err != nil || s != want || s.String() != signingtest.Testdata(t, v.sig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := signing.ParseSignature(padded(file)); err != nil {
		t.Errorf("padded: %v", err)
	}
}

func TestReadSignature(t *testing.T) {
	v := vectors[0]
	line, file := signingtest.Testdata(t, v.sig), string(unbase64(t, signingtest.Testdata(t, v.sig)))
	want := readSignature(t, v.sig)
	for _, text := range []string{
		line, line + "\n", line + "\r\n", file, strings.TrimSuffix(file, "\n"), strings.ReplaceAll(file, "\n", "\r\n"),
	} {
		if s, err := signing.ReadSignature(text); err != nil || s != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"line break":        "\n",
		"space":             " " + line,
		"space before file": " " + file,
		"double":            rebase64([]byte(line)),
		"public key":        signingtest.Testdata(t, "minisign/minisign.pub"),
		"private key":       signingtest.Testdata(t, "minisign/unencrypted.key"),
		"half a file":       file[:200],
		"long file":         strings.Replace(file, "from tauri", strings.Repeat("x", signing.MaxSignature), 1),
		"too long in line":  strings.Replace(file, "from tauri", strings.Repeat("x", signing.MaxSignature*4/5), 1),
	} {
		_, err := signing.ReadSignature(text)
		checkFormatError(t, name, text, err, "")
	}
}

func seedAll(f *testing.F) {
	files := []string{
		"tauri-password/tauri.key", "tauri-password/tauri.key.pub", "tauri-empty-password/tauri.key",
		"minisign/minisign.key", "minisign/minisign.pub", "minisign/unencrypted.key",
	}
	for _, v := range vectors {
		files = append(files, v.sig)
	}
	for _, name := range files {
		text := signingtest.Testdata(f, name)
		f.Add(text)
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			f.Add(string(raw))
		}
	}
	f.Add("")
	f.Add("\ufeff")
	f.Add("untrusted comment: \n\ntrusted comment: \n\n")
}

func FuzzParseSignature(f *testing.F) {
	seedAll(f)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := signing.ParseSignature(text); err == nil {
			checkIdentity(t, s)
			if same, err := signing.ReadSignature(text); err != nil || same != s {
				t.Fatalf("ReadSignature differs: %v", err)
			}
		}
		if s, err := signing.ReadSignature(text); err == nil {
			checkIdentity(t, s)
		}
	})
}

func checkIdentity(t *testing.T, s signing.Signature) {
	t.Helper()
	again, err := signing.ParseSignature(s.String())
	if err != nil || again != s || again.String() != s.String() {
		t.Fatalf("String does not parse back: %v\n%q", err, s.File())
	}
	if file, err := signing.ReadSignature(s.File()); err != nil || file != s {
		t.Fatalf("File does not parse back: %v\n%q", err, s.File())
	}
	s.Version()
	if err := verify(signing.Keyring{}, s, ""); err == nil {
		t.Fatal("verifies without a key")
	}
}

func FuzzParsePublicKey(f *testing.F) {
	seedAll(f)
	f.Fuzz(func(t *testing.T, text string) {
		key, err := signing.ParsePublicKey(text)
		if err != nil {
			return
		}
		for _, shape := range []string{key.String(), key.File(), key.Tauri()} {
			if again, err := signing.ParsePublicKey(shape); err != nil || again != key {
				t.Fatalf("%q does not parse back: %v", shape, err)
			}
		}
	})
}

func FuzzParsePrivateKey(f *testing.F) {
	seedAll(f)
	f.Fuzz(func(t *testing.T, text string) {
		sealed, err := signing.ParsePrivateKey(text)
		if err != nil || sealed.Encrypted() {
			return // to derive is what the limits are for
		}
		key, err := sealed.Decrypt("")
		if err != nil {
			return
		}
		if _, err := key.Sign(signing.Digest{}, signing.Comment{}); err != nil {
			t.Fatal(err)
		}
	})
}
