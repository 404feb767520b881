package manifest_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"tsmon/manifest"
	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// A flaw is one change to a good document and the one problem that it makes.
type flaw struct {
	name          string
	before, after string // passage that is replaced
	want          manifest.Problem
}

// is compares problems; want may have only parts of the two texts.
func is(got, want manifest.Problem) bool {
	return got.Place == want.Place && got.Line == want.Line && got.Column == want.Column && got.Trust == want.Trust &&
		strings.Contains(got.Problem, want.Problem) && strings.Contains(got.Mend, want.Mend)
}

func problem(place string, line, column int, text, mend string) manifest.Problem {
	return manifest.Problem{Place: place, Line: line, Column: column, Problem: text, Mend: mend}
}

// testFlaws spoils a sound document in ways that the mends undo.
//
// follows: leave it out
// follows: write it
// follows: keep one; readers disagree about which one counts
// follows: add the member
// follows: put the value in quotes
// follows: write the text again as UTF-8
// follows: rename or remove it
// follows: add at least one
// follows: write one member a platform, such as windows-x86_64
// follows: write an object with the members
// follows: write it like 2026-11-21T10:00:00Z
// follows: leave it to the publishing command, or leave it out
// follows: write the same time in UTC:
func testFlaws(t *testing.T, document string, flaws []flaw) {
	t.Helper()
	if _, problems := manifest.Check([]byte(document), manifest.Rules{AllowUnbound: true}); len(problems) > 0 {
		t.Fatalf("the sound document: %v", problems)
	}
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			text := with(t, document, f.before, f.after)
			_, problems := manifest.Check([]byte(text), manifest.Rules{AllowUnbound: true})
			if len(problems) != 1 || !is(problems[0], f.want) {
				t.Errorf("got  %+v\nwant %+v", problems, f.want)
			}
			if m, err := manifest.Decode([]byte(text)); m != nil || err == nil || !strings.Contains(err.Error(), f.want.Problem) {
				t.Errorf("Decode returned %v, %v", m, err)
			}
		})
	}
}

func TestCheckAcceptsTheGoodDocument(t *testing.T) {
	text := goodDocument(t)
	for name, body := range map[string]string{
		"as it is":          text,
		"without sequence":  with(t, text, "},\n  \"sequence\": 12", "}"),
		"largest sequence":  with(t, text, "\"sequence\": 12", "\"sequence\": 9007199254740991"),
		"without notes":     with(t, text, "Fixes.", ""),
		"fraction of time":  with(t, text, "10:00:00Z", "10:00:00.999Z"),
		"other white space": strings.ReplaceAll(text, "\n", "\r\n\t "),
		"escaped":           with(t, text, "darwin-x86_64", `\u0064arwin\u002dx86_64`),
	} {
		doc, problems := manifest.Check([]byte(body), manifest.Rules{AllowUnbound: true, Keys: signingtest.Keyring(t, pub)})
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if p := doc.Platforms["darwin-x86_64"]; doc.Version != "1.2.3" || len(doc.Platforms) != 2 || p.Signature != signingtest.Testdata(t, bound) ||
			p.URL != "https://releases.example.com/App_x64.app.tar.gz" || doc.PubDate.Format("2006-01-02T15:04:05.999Z07:00") != "2026-11-21T10:00:00Z" {
			t.Errorf("%s: read as %+v", name, doc.Manifest)
		}
	}
}

func TestCheckMembers(t *testing.T) {
	testFlaws(t, goodDocument(t), []flaw{
		{"critical below no version", `"notes": "Fixes."`, `"notes": "Fixes.", "critical_below": "v1"`,
			problem("critical_below", 3, 22, "version", "write MAJOR.MINOR.PATCH")},
		{"critical below a later version", `"notes": "Fixes."`, `"notes": "Fixes.", "critical_below": "1.2.4"`,
			problem("critical_below", 3, 22, "is above version", "up to this one")},
		{"minimum above the version", `"notes": "Fixes."`, `"notes": "Fixes.", "minimum_version": "1.2.4"`,
			problem("minimum_version", 3, 22, "is above version", "lower it")},
		{"unknown member", `"notes": "Fixes."`, `"notes": "Fixes.", "extra": {"deep": [1]}`,
			problem("extra", 3, 22, "unknown member", "leave it out")},
		{"unknown member that is a misspelling", `"notes": "Fixes."`, `"notes": "Fixes.", "pubDate": ""`,
			problem("pubDate", 3, 22, "unknown member", `write it "pub_date"`)},
		{"sequence in other letters", `"sequence"`, `"Sequence"`,
			problem("Sequence", 16, 3, "unknown member", `write it "sequence"`)},
		{"alias of version", `"notes": "Fixes."`, `"notes": "Fixes.", "name": "1.2.3"`,
			problem("name", 3, 22, "unknown member", "leave it out")},
		{"unknown member of a platform", `App_x64.msi.zip"`, `App_x64.msi.zip", "size": 3`,
			problem("platforms.windows-x86_64.size", 13, 62, "unknown member", "leave it out")},
		{"empty name", `"notes": "Fixes."`, `"notes": "Fixes.", "": 1`,
			problem(`""`, 3, 22, "unknown member", "leave it out")},
		{"name that looks like a path", `"notes": "Fixes."`, `"notes": "Fixes.", "platforms.darwin-x86_64": 1`,
			problem(`"platforms.darwin-x86_64"`, 3, 22, "unknown member", "leave it out")},
		{"name with a line break", `"notes": "Fixes."`, `"notes": "Fixes.", "a\nb": 1`,
			problem(`"a\nb"`, 3, 22, "unknown member", "leave it out")},
		{"duplicate member", `"notes": "Fixes."`, `"notes": "Fixes.",   "notes": 3`,
			problem("notes", 3, 24, "written twice", "keep one")},
		{"duplicate member, escaped", `"notes": "Fixes."`, `"notes": "Fixes.", "\u006eotes": ""`,
			problem("notes", 3, 22, "written twice", "keep one")},
		{"duplicate platform", `"windows-x86_64"`, `"darwin-x86_64"`,
			problem("platforms.darwin-x86_64", 11, 5, "written twice", "keep one")},
		{"duplicate member of a platform", `App_x64.msi.zip"`, "App_x64.msi.zip\",\n\"url\": \"\"",
			problem("platforms.windows-x86_64.url", 14, 1, "written twice", "keep one")},
		{"missing version", `"version": "1.2.3",`, ``,
			problem("version", 1, 1, "missing", `add the member "version"`)},
		{"missing notes", `"notes": "Fixes.",`, ``,
			problem("notes", 1, 1, "missing", `add the member "notes"`)},
		{"missing date", `"pub_date": "2026-11-21T10:00:00Z",`, ``,
			problem("pub_date", 1, 1, "missing", `add the member "pub_date"`)},
		{"missing url", ",\n      \"url\": \"https://releases.example.com/App_x64.msi.zip\"", "",
			problem("platforms.windows-x86_64.url", 11, 5, "missing", `add the member "url"`)},
		{"missing signature", `"signature": "` + signingtest.Testdata(t, unbound) + `",`, "",
			problem("platforms.windows-x86_64.signature", 11, 5, "missing", `add the member "signature"`)},
		{"version of another kind", `"1.2.3"`, `123`,
			problem("version", 2, 3, "must be a string", "quotes")},
		{"notes null", `"Fixes."`, `null`,
			problem("notes", 3, 3, "must be a string", "quotes")},
		{"notes as a list", `"Fixes."`, `["Fixes."]`,
			problem("notes", 3, 3, "must be a string", "quotes")},
		{"date of another kind", `"2026-11-21T10:00:00Z"`, `1795254609`,
			problem("pub_date", 4, 3, "must be a string", "quotes")},
		{"url of another kind", `"https://releases.example.com/App_x64.msi.zip"`, `{"href": ""}`,
			problem("platforms.windows-x86_64.url", 13, 7, "must be a string", "quotes")},
		{"signature of another kind", `"` + signingtest.Testdata(t, unbound) + `"`, `true`,
			problem("platforms.windows-x86_64.signature", 12, 7, "must be a string", "quotes")},
		{"half a surrogate pair", `Fixes.`, `Fixes \ud83d.`,
			problem("notes", 3, 3, "lost", "write the text again")},
		{"replacement character", `Fixes.`, "Fixes \uFFFD.",
			problem("notes", 3, 3, "lost", "write the text again")},
	})
}

func TestCheckPlatforms(t *testing.T) {
	text := goodDocument(t)
	testFlaws(t, text, []flaw{
		{"unknown platform", `"windows-x86_64"`, `"win64"`,
			problem("platforms.win64", 11, 5, `"win64"`, "rename or remove")},
		{"universal", `"windows-x86_64"`, `"darwin-universal"`,
			problem("platforms.darwin-universal", 11, 5, "under darwin-x86_64 and darwin-aarch64", "rename or remove")},
		{"bundle type of another system", `"windows-x86_64"`, `"windows-x86_64-deb"`,
			problem("platforms.windows-x86_64-deb", 11, 5, "msi, nsis", "rename or remove")},
		{"platform name with a dot", `"windows-x86_64"`, `"windows.x86_64"`,
			problem(`platforms."windows.x86_64"`, 11, 5, "not a platform key", "rename or remove")},
		{"platform without a name", `"windows-x86_64"`, `""`,
			problem(`platforms.""`, 11, 5, "not a platform key", "rename or remove")},
	})
	start := strings.Index(text, `"platforms"`)
	body := text[start:strings.LastIndex(text, `,`)]
	testFlaws(t, text, []flaw{
		{"missing platforms", body + ",", "", problem("platforms", 1, 1, "missing", `add the member "platforms"`)},
		{"no platform", body, `"platforms": {}`, problem("platforms", 5, 3, "names no platform", "at least one")},
		{"platforms null", body, `"platforms": null`, problem("platforms", 5, 3, "must be an object", "one member a platform")},
		{"platforms as a list", body, `"platforms": ["darwin-x86_64"]`, problem("platforms", 5, 3, "must be an object", "one member a platform")},
		{"platform null", body, `"platforms": {"linux-x86_64": null}`, problem("platforms.linux-x86_64", 5, 17, "must be an object", "signature, url")},
		{"platform as text", body, `"platforms": {"linux-x86_64": "https://h/x"}`, problem("platforms.linux-x86_64", 5, 17, "must be an object", "signature, url")},
	})
}

func TestCheckValues(t *testing.T) {
	const date, address = "2026-11-21T10:00:00Z", "https://releases.example.com/App_x64.msi.zip"
	versionFlaw := func(name, text, want, mend string) flaw {
		return flaw{name, `"version": "1.2.3"`, `"version": ` + quote(text), problem("version", 2, 3, want, mend)}
	}
	dateFlaw := func(name, text, want, mend string) flaw {
		return flaw{name, date, text, problem("pub_date", 4, 3, want, mend)}
	}
	urlFlaw := func(name, text, want, mend string) flaw {
		return flaw{name, `"` + address + `"`, quote(text), problem("platforms.windows-x86_64.url", 13, 7, want, mend)}
	}
	sequenceFlaw := func(name, text string) flaw {
		return flaw{name, `"sequence": 12`, `"sequence": ` + text, problem("sequence", 16, 3, "must be a whole number from 1", "leave it")}
	}
	// The signed version is 1.2.3: a document without the bound signature shows
	// the flaw of the version alone.
	free := with(t, goodDocument(t), signingtest.Testdata(t, bound), signingtest.Testdata(t, unbound))
	testFlaws(t, free, []flaw{
		versionFlaw("leading v", "v1.2.3", "begins with a v; write 1.2.3", "MAJOR.MINOR.PATCH"),
		versionFlaw("leading V", "V1.2.3", "begins with a v; write 1.2.3", "MAJOR.MINOR.PATCH"),
		versionFlaw("two parts", "1.2", `"1.2" is not MAJOR.MINOR.PATCH`, "such as 1.4.0"),
		versionFlaw("four parts", "1.2.3.4", "is not MAJOR.MINOR.PATCH", "such as 1.4.0"),
		versionFlaw("leading zero", "1.02.3", "is not MAJOR.MINOR.PATCH", "such as 1.4.0"),
		versionFlaw("empty", "", "is not MAJOR.MINOR.PATCH", "such as 1.4.0"),
		versionFlaw("white space", "1.2.3 ", "is not MAJOR.MINOR.PATCH", "such as 1.4.0"),
		versionFlaw("build metadata", "1.2.3+7", "leave out +7", "such as 1.4.0"),
		versionFlaw("too long", "1.2.3-"+strings.Repeat("a", 123), "129 characters long", "such as 1.4.0"),

		dateFlaw("other zone", "2026-11-21T10:00:00+01:00", "is not in UTC", "write the same time in UTC: 2026-11-21T09:00:00Z"),
		dateFlaw("UTC as an offset", "2026-11-21T10:00:00+00:00", "is not in UTC", "write the same time in UTC: 2026-11-21T10:00:00Z"),
		dateFlaw("no zone", "2026-11-21T10:00:00", "is not an RFC 3339 date", "write it like 2026-11-21T10:00:00Z"),
		dateFlaw("date only", "2026-11-21", "is not an RFC 3339 date", "write it like 2026-11-21T10:00:00Z"),
		dateFlaw("space", "2026-11-21 10:00:00Z", "is not an RFC 3339 date", "write it like 2026-11-21T10:00:00Z"),
		dateFlaw("mail date", "Sat, 21 Nov 2026 10:00:00 GMT", "is not an RFC 3339 date", "write it like"),
		dateFlaw("no such day", "2026-02-29T10:00:00Z", "is not an RFC 3339 date", "write it like"),
		dateFlaw("hour of one digit", "2026-11-21T1:00:00Z", "is not an RFC 3339 date", "write it like"),
		dateFlaw("decimal comma", "2026-11-21T10:00:00,5Z", "is not an RFC 3339 date", "write it like"),
		dateFlaw("lower case", "2026-11-21t10:00:00z", "is not an RFC 3339 date", "write it like"),
		dateFlaw("empty", "", "is not an RFC 3339 date", "write it like"),

		urlFlaw("relative", "App_x64.msi.zip", "relative", "https://HOST/PATH"),
		urlFlaw("relative to the root", "/App_x64.msi.zip", "relative", "https://HOST/PATH"),
		urlFlaw("relative to the scheme", "//h/App_x64.msi.zip", "relative", "https://HOST/PATH"),
		urlFlaw("empty", "", "relative", "https://HOST/PATH"),
		urlFlaw("file", "file:///App_x64.msi.zip", "not an http address", "https://HOST/PATH"),
		urlFlaw("ftp", "ftp://h/App_x64.msi.zip", "not an http address", "https://HOST/PATH"),
		urlFlaw("drive", `C:\App_x64.msi.zip`, "not an address", "https://HOST/PATH"),
		urlFlaw("no host", "https:///App_x64.msi.zip", "names no host", "https://HOST/PATH"),
		urlFlaw("no host but a port", "https://:443/x", "names no host", "https://HOST/PATH"),
		urlFlaw("no slashes", "https:h/x", "names no host", "https://HOST/PATH"),
		urlFlaw("space in the path", "https://h/App x64.msi.zip", "not an address", "https://HOST/PATH"),
		urlFlaw("line break", "https://h/x\n", "not an address", "https://HOST/PATH"),
		urlFlaw("backslash", `https://h\x`, "not an address", "https://HOST/PATH"),
		urlFlaw("bad escape", "https://h/%zz", "not an address", "https://HOST/PATH"),
		urlFlaw("password", "https://user:secret@h/x", "user name or password", "before the @"),
		urlFlaw("port too large", "https://h:65536/x", "port", "https://HOST/PATH"),
		urlFlaw("no such IPv4 address", "https://1.2.3.256/x", "IPv4", "https://HOST/PATH"),
		urlFlaw("IPv6 zone", "https://[fe80::1%25eth0]/x", "IPv6", "https://HOST/PATH"),
		urlFlaw("no such domain name", "https://xn--a.com/x", "domain name", "https://HOST/PATH"),

		sequenceFlaw("zero", "0"), sequenceFlaw("negative", "-1"), sequenceFlaw("fraction", "12.0"),
		sequenceFlaw("exponent", "1e3"), sequenceFlaw("text", `"12"`), sequenceFlaw("null", "null"),
		sequenceFlaw("beyond what doubles hold", "9007199254740992"), sequenceFlaw("beyond 64 bits", "18446744073709551616"),
		sequenceFlaw("out of range", "1e999"),
	})
}

// TestCheckBundleKind holds manifests to the files that the updater of a platform
// can install.
func TestCheckBundleKind(t *testing.T) {
	key, err := signing.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	unnamed := sign(t, key, signing.Comment{Version: "1.2.3"})
	check := func(t *testing.T, platform, url, signature string) manifest.Problems {
		t.Helper()
		_, problems := manifest.Check([]byte(`{"version": "1.2.3", "notes": "", "pub_date": "2026-11-21T10:00:00Z", "platforms": {
			`+quote(platform)+`: {"url": `+quote(url)+`, "signature": `+quote(signature)+`}}}`), manifest.Rules{})
		return problems
	}
	for _, c := range []struct {
		keys, files string
		fits        bool
	}{
		{"windows-x86_64 windows-x86_64-nsis windows-i686-msi", "App_x64-setup.exe App.msi App.msi.zip App.nsis.zip App.EXE App.zip", true},
		{"windows-x86_64 windows-x86_64-nsis", "App.app.tar.gz App.tar.gz App.AppImage App.deb App.dmg App.exe.sig", false},
		{"darwin-x86_64 darwin-aarch64-app", "App.app.tar.gz App.tar.gz App.app.tar.gz?token=a.zip v1.zip/App.app.tar.gz", true},
		{"darwin-x86_64 darwin-aarch64-app", "App.zip App.app.zip App.dmg App.pkg App.AppImage.tar.gz App.exe App.deb App%2Ezip", false},
		{"linux-x86_64", "App.AppImage App.AppImage.tar.gz App.tar.gz App.deb App.rpm", true},
		{"linux-x86_64", "App.app.tar.gz App.zip App.exe App.dmg App.AppImage.sig", false},
		{"linux-x86_64-appimage", "App.AppImage App.AppImage.tar.gz App.tar.gz", true},
		{"linux-x86_64-appimage", "App.deb App.rpm App.app.tar.gz", false},
		{"linux-x86_64-deb", "App.deb", true},
		{"linux-x86_64-deb", "App.rpm App.AppImage App.tar.gz", false},
		{"linux-x86_64-rpm", "App.rpm", true},
		{"linux-x86_64-rpm", "App.deb App.AppImage.tar.gz", false},
		{"windows-x86_64 darwin-x86_64 linux-x86_64-deb", "assets/123456 App App.tar.xz .zip/", true}, // the name says nothing
	} {
		for platform := range strings.FieldsSeq(c.keys) {
			for file := range strings.FieldsSeq(c.files) {
				problems := check(t, platform, "https://h/"+file, unnamed)
				if c.fits && len(problems) > 0 || !c.fits && (len(problems) != 1 || problems[0].Place != "platforms."+platform+".url" || problems[0].Trust ||
					!strings.Contains(problems[0].Problem, "can't be installed on "+platform)) {
					t.Errorf("%s under %s: %v", file, platform, problems)
				}
			}
		}
	}
	// Where the address has no file name, the signature's counts.
	asset := "https://api.github.com/repos/o/r/releases/assets/1"
	for file, fits := range map[string]bool{"App.app.tar.gz": true, "App.zip": false} {
		problems := check(t, "darwin-x86_64", asset, sign(t, key, signing.Comment{Version: "1.2.3", File: file}))
		if (len(problems) == 0) != fits {
			t.Errorf("an asset signed as %s: %v", file, problems)
		}
	}
}

func TestCheckSignatureContent(t *testing.T) {
	line := signingtest.Testdata(t, unbound)
	var flaws []flaw
	for _, f := range []struct{ name, text, problem, mend string }{
		{"path", "dist/App_x64.msi.zip.sig", "name of a file", "content of the .sig file"},
		{"URL", "https://h/App_x64.msi.zip.sig", "is a URL", "not its address"},
		{"raw minisig", unbase64(t, line), "not its base64", "encode the whole file"},
		{"double base64", base64.StdEncoding.EncodeToString([]byte(line)), "more than once", "use its content as it is"},
		{"line break", line + "\n", "line break", "remove the line break"},
		{"CRLF", line + "\r\n", "line break", "remove the line break"},
		{"broken lines", line[:76] + "\n" + line[76:], "white space inside", "join its parts"},
		{"byte order mark", "\ufeff" + line, "byte order mark", "without a byte order mark"},
		{"space", " " + line, "white space around", "remove the white space"},
		{"cut off", line[:len(line)-100], "signature", "sign the bundle again"},
		{"public key", signingtest.Testdata(t, pub), "public key", "content of the .sig file"},
		{"empty", "", "empty", "content of the .sig file"},
		{"other base64", "QUJDREVGR0g=", "not of a minisign signature", "content of the .sig file"},
		{"too long", strings.Repeat("A", 8193), "longer than 8 KiB", "content of the .sig file"},
	} {
		flaws = append(flaws, flaw{f.name, `"` + line + `"`, quote(f.text), problem("platforms.windows-x86_64.signature", 12, 7, f.problem, f.mend)})
	}
	flaws = append(flaws, flaw{"padding lost", signingtest.Testdata(t, bound), strings.TrimRight(signingtest.Testdata(t, bound), "="),
		problem("platforms.darwin-x86_64.signature", 8, 7, "padding missing", "with = at its end")})
	testFlaws(t, goodDocument(t), flaws)
}

// Every problem is reported, in the order of the document.
func TestCheckReportsEveryProblem(t *testing.T) {
	text := `{
  "platforms": {"linux-x86_64": {"url": "x"}, "amiga": 3},
  "version": "v1", "version": "2",
  "pub_date": "today"
}`
	want := []manifest.Problem{
		problem("notes", 1, 1, "missing", "add"),
		problem("platforms.linux-x86_64.signature", 2, 17, "missing", "add"),
		problem("platforms.linux-x86_64.url", 2, 34, "relative", "absolute"),
		problem("platforms.amiga", 2, 47, "not a platform key", "rename"),
		problem("platforms.amiga", 2, 47, "must be an object", "signature, url"),
		problem("version", 3, 3, "not a version", "MAJOR"),
		problem("version", 3, 20, "written twice", "keep one"),
		problem("pub_date", 4, 3, "not an RFC 3339 date", "write it like"),
	}
	_, problems := manifest.Check([]byte(text), manifest.Rules{})
	if len(problems) != len(want) {
		t.Fatalf("%d problems, want %d: %v", len(problems), len(want), problems)
	}
	for i, p := range problems {
		if !is(p, want[i]) {
			t.Errorf("problem %d is %+v, want %+v", i, p, want[i])
		}
		if !strings.Contains(problems.Error(), p.String()) {
			t.Errorf("%q is not in the error", p)
		}
	}
	if problems.Trust() {
		t.Error("a problem of form counts as one of trust")
	}
}

func TestProblemsError(t *testing.T) {
	problems := manifest.Problems{problem("", 3, 1, "not UTF-8", ""), problem("platforms.linux-x86_64", 4, 5, "missing", "")}
	if got, want := problems.Error(), "line 3, document: not UTF-8; line 4, platforms.linux-x86_64: missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDocumentAt(t *testing.T) {
	doc, _ := manifest.Check([]byte(goodDocument(t)), manifest.Rules{AllowUnbound: true})
	for _, c := range []struct {
		place        string
		line, column int
	}{
		{"", 1, 1},
		{"version", 2, 3},
		{"platforms.darwin-x86_64", 7, 5},
		{"platforms.windows-x86_64.url", 13, 7},
		{"platforms.windows-x86_64.size", 11, 5}, // the member above
		{"platforms.linux-x86_64.url", 5, 3},
		{"extra", 1, 1},
	} {
		if line, column := doc.At(c.place); line != c.line || column != c.column {
			t.Errorf("%q stands at %d:%d, want %d:%d", c.place, line, column, c.line, c.column)
		}
	}
}
