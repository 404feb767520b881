package manifest_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tsmon/manifest"
)

func TestEncode(t *testing.T) {
	platforms := map[string]manifest.Platform{
		"windows-x86_64":     {Signature: "c2ln", URL: "https://h/w?a=1&b=<2>"},
		"darwin-aarch64":     {Signature: "c2ln", URL: "https://h/d"},
		"linux-x86_64-deb":   {Signature: "c2ln", URL: "https://h/l.deb"},
		"linux-x86_64":       {Signature: "c2ln", URL: "https://h/l"},
		"windows-x86_64-msi": {Signature: "c2ln", URL: "https://h/w.msi"},
	}
	m := manifest.Manifest{
		Version: "1.4.0", Notes: "Grüße: <b> & \"x\"\n\t\u2028 \x00 \U0001F600", Sequence: 12,
		PubDate:   time.Date(2026, 11, 21, 11, 0, 0, 999_999_999, time.FixedZone("", 3600)),
		Platforms: platforms,
	}
	const want = `{
  "version": "1.4.0",
  "notes": "Grüße: <b> & \"x\"\n\t\u2028 \u0000 😀",
  "pub_date": "2026-11-21T10:00:00Z",
  "platforms": {
    "darwin-aarch64": {
      "signature": "c2ln",
      "url": "https://h/d"
    },
    "linux-x86_64": {
      "signature": "c2ln",
      "url": "https://h/l"
    },
    "linux-x86_64-deb": {
      "signature": "c2ln",
      "url": "https://h/l.deb"
    },
    "windows-x86_64": {
      "signature": "c2ln",
      "url": "https://h/w?a=1&b=<2>"
    },
    "windows-x86_64-msi": {
      "signature": "c2ln",
      "url": "https://h/w.msi"
    }
  },
  "sequence": 12
}
`
	for range 20 { // maps are walked in another order each time
		m.Platforms = maps.Collect(maps.All(platforms))
		if got := encode(t, &m); got != want {
			t.Fatalf("encoded as\n%s", got)
		}
	}
	if want := []string{"darwin-aarch64", "linux-x86_64", "linux-x86_64-deb", "windows-x86_64", "windows-x86_64-msi"}; !slices.Equal(m.Keys(), want) {
		t.Errorf("keys %v, want %v", m.Keys(), want)
	}
	if m.PubDate.Nanosecond() == 0 || m.PubDate.Hour() != 11 {
		t.Error("Encode changes the manifest")
	}
}

func TestEncodeWithoutContent(t *testing.T) {
	empty := manifest.Manifest{Version: "1.0.0", Platforms: map[string]manifest.Platform{}}
	const want = `{
  "version": "1.0.0",
  "notes": "",
  "pub_date": "0001-01-01T00:00:00Z",
  "platforms": {}
}
`
	if got := encode(t, &empty); got != want {
		t.Errorf("encoded as\n%s", got)
	}
	if got := encode(t, &manifest.Manifest{Version: "1.0.0"}); got != want {
		t.Errorf("without a map encoded as\n%s", got)
	}
	if text, err := (&manifest.Manifest{PubDate: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}).Encode(); err == nil {
		t.Errorf("a date that is not RFC 3339 is encoded as %s", text)
	}
}

// Equal documents have the same canonical bytes, which decode to the same manifest.
func TestDecodeEncodeDecode(t *testing.T) {
	text := goodDocument(t)
	canonical := with(t, text, "\n\n", "\n")
	for name, body := range map[string]string{
		"canonical":         canonical,
		"as it is":          text,
		"other white space": strings.ReplaceAll(text, "\n", "\r\n\t"),
		"in one line":       strings.ReplaceAll(text, "\n", ""),
		"other order":       with(t, with(t, text, "  \"version\": \"1.2.3\",\n", ""), `"sequence"`, `"version": "1.2.3", "sequence"`),
		"escapes":           with(t, with(t, text, "Fixes.", `\u0046ixes\u002e`), "https://releases.example.com/App_x64.msi.zip", `https:\/\/releases.example.com\/App_x64.msi.zip`),
		"fraction":          with(t, text, "10:00:00Z", "10:00:00.5Z"),
	} {
		m, err := manifest.Decode([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encoded := encode(t, m)
		if encoded != canonical {
			t.Errorf("%s: encoded as\n%s", name, encoded)
		}
		if again, err := manifest.Decode([]byte(encoded)); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%s: decoded again as %+v, %v; want %+v", name, again, err, m)
		}
	}
}

func encode(t testing.TB, m *manifest.Manifest) string {
	t.Helper()
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDiff(t *testing.T) {
	date := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	a := manifest.Manifest{Version: "1.0.0", Notes: "one", PubDate: date, Sequence: 1, Platforms: map[string]manifest.Platform{
		"darwin-x86_64": {Signature: "s1", URL: "u1"},
		"linux-x86_64":  {Signature: "s2", URL: "u2"},
	}}
	b := manifest.Manifest{Version: "1.1.0", Notes: "two", PubDate: date.Add(time.Hour), Sequence: 12, Platforms: map[string]manifest.Platform{
		"linux-x86_64":   {Signature: "s3", URL: "u2"},
		"windows-x86_64": {Signature: "s4", URL: "u4"},
	}}
	other := a
	other.PubDate = date.In(time.FixedZone("", 7200))
	same := []manifest.Change(nil)
	fromNothing := []manifest.Change{
		{Place: "version", After: "1.0.0"},
		{Place: "notes", After: "one"},
		{Place: "pub_date", After: "2026-11-21T10:00:00Z"},
		{Place: "sequence", After: "1"},
		{Place: "platforms.darwin-x86_64.url", After: "u1"},
		{Place: "platforms.darwin-x86_64.signature", After: "s1"},
		{Place: "platforms.linux-x86_64.url", After: "u2"},
		{Place: "platforms.linux-x86_64.signature", After: "s2"},
	}
	for _, c := range []struct {
		name string
		a, b manifest.Manifest
		want []manifest.Change
	}{
		{"same", a, a, same},
		{"same moment in another zone", a, other, same},
		{"nothing and nothing", manifest.Manifest{}, manifest.Manifest{Platforms: map[string]manifest.Platform{}}, same},
		{"from nothing", manifest.Manifest{}, a, fromNothing},
		{"everything", a, b, []manifest.Change{
			{Place: "version", Before: "1.0.0", After: "1.1.0"},
			{Place: "notes", Before: "one", After: "two"},
			{Place: "pub_date", Before: "2026-11-21T10:00:00Z", After: "2026-11-21T11:00:00Z"},
			{Place: "sequence", Before: "1", After: "12"},
			{Place: "platforms.darwin-x86_64.url", Before: "u1"},
			{Place: "platforms.darwin-x86_64.signature", Before: "s1"},
			{Place: "platforms.linux-x86_64.signature", Before: "s2", After: "s3"},
			{Place: "platforms.windows-x86_64.url", After: "u4"},
			{Place: "platforms.windows-x86_64.signature", After: "s4"},
		}},
	} {
		if got := manifest.Diff(&c.a, &c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		for i, back := range manifest.Diff(&c.b, &c.a) { // the other way round
			if want := (manifest.Change{Place: c.want[i].Place, Before: c.want[i].After, After: c.want[i].Before}); back != want {
				t.Errorf("%s, back: got %+v, want %+v", c.name, back, want)
			}
		}
	}
}
