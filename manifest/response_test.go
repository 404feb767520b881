package manifest_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsmon/manifest"
)

const (
	staticForm  = `{"version":"1.2.3","platforms":{"linux-x86_64":{"signature":"s","url":"https://h/l"}}}`
	dynamicForm = `{"version":"1.2.3","url":"https://h/l","signature":"s"}`
)

func TestParseResponse(t *testing.T) {
	linux := manifest.Platform{Signature: "s", URL: "https://h/l"}
	one := map[string]manifest.Platform{"linux-x86_64": linux}
	date := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	none := map[string]manifest.Platform{}
	for _, c := range []struct {
		name, body, version string
		want                manifest.Response // without its version
	}{
		{"static", staticForm, "1.2.3", manifest.Response{Platforms: one}},
		{"dynamic", dynamicForm, "1.2.3", manifest.Response{Dynamic: linux}},
		{"everything", `{"version":"1.2.3","notes":"n","pub_date":"2026-11-21T10:00:00Z","platforms":{"linux-x86_64":{"signature":"s","url":"https://h/l"}},"sequence":12}`,
			"1.2.3", manifest.Response{Notes: "n", PubDate: date, Platforms: one, Sequence: 12}},
		{"nulls", `{"version":"1.2.3","notes":null,"pub_date":null,"platforms":null,"url":"https://h/l","signature":"s","sequence":null}`, "1.2.3", manifest.Response{Dynamic: linux}},
		{"both forms", `{"version":"1.2.3","platforms":{},"url":"https://h/l","signature":"s"}`, "1.2.3", manifest.Response{Platforms: none}},
		{"static beside nulls", `{"version":"1.2.3","platforms":{},"url":null,"signature":null}`, "1.2.3", manifest.Response{Platforms: none}},
		{"alias of version", `{"name":"1.2.3","platforms":{}}`, "1.2.3", manifest.Response{Platforms: none}},
		{"one leading v", `{"version":"v1.2.3","platforms":{}}`, "1.2.3", manifest.Response{Platforms: none}},
		{"many leading v's", `{"version":"vvv1.2.3-v+v","platforms":{}}`, "1.2.3-v+v", manifest.Response{Platforms: none}},
		{"unknown members", `{"version":"1.2.3","platforms":{"linux-x86_64":{"signature":"s","url":"https://h/l","x":[{}]}},"x":-1.5e3,"Version":1}`, "1.2.3", manifest.Response{Platforms: one}},
		{"duplicates: the last counts", `{"version":3,"version":"1.2.3","platforms":{"linux-x86_64":{"url":"x"},"linux-x86_64":{"url":"x","url":"https://h/l","signature":"s"}}}`, "1.2.3", manifest.Response{Platforms: one}},
		{"duplicate platforms: the last object alone", `{"version":"1.2.3","platforms":{"a":{}},"platforms":{"linux-x86_64":{"signature":"s","url":"https://h/l"}}}`, "1.2.3", manifest.Response{Platforms: one}},
		{"unknown platforms", `{"version":"1.2.3","platforms":{"amiga":{"signature":"s","url":"https://h/l"}}}`, "1.2.3", manifest.Response{Platforms: map[string]manifest.Platform{"amiga": linux}}},
		{"white space", " \r\n\t{ \"version\" : \"1.2.3\" , \"notes\" : null , \"platforms\" : null , \"url\" : \"https://h/l\" , \"signature\" : \"s\" } \n", "1.2.3", manifest.Response{Dynamic: linux}},
		{"surrogate pair", `{"version":"1.2.3","notes":"\ud83d\ude00\\ud83d","platforms":{}}`, "1.2.3", manifest.Response{Notes: "😀\\ud83d", Platforms: none}},
		{"sequence that is not ours", `{"version":"1.2.3","platforms":{},"sequence":"12"}`, "1.2.3", manifest.Response{Platforms: none}},
		{"negative sequence", `{"version":"1.2.3","platforms":{},"sequence":-12}`, "1.2.3", manifest.Response{Platforms: none}},
		{"any signature", `{"version":"1.2.3","url":"https://h/l","signature":""}`, "1.2.3", manifest.Response{Dynamic: manifest.Platform{URL: "https://h/l"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := *response(t, c.body)
			if got.Version.String() != c.version {
				t.Errorf("version %q, want %q", got.Version, c.version)
			}
			got.Version = manifest.Version{}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestParseResponseRefuses(t *testing.T) {
	object := func(member string) string { return `{"version":"1.2.3","platforms":{},` + member + `}` }
	platform := func(of string) string { return `{"version":"1.2.3","platforms":{"a":` + of + `}}` }
	for _, c := range []struct {
		name, body string
		cause      error
		says       string
	}{
		{"empty", ``, manifest.ErrNotJSON, "empty"},
		{"page", `<!doctype html>`, manifest.ErrNotJSON, "invalid character"},
		{"byte order mark", "\ufeff" + staticForm, manifest.ErrNotJSON, "invalid character"},
		{"two documents", staticForm + staticForm, manifest.ErrNotJSON, "something follows"},
		{"half a pair", object(`"x":"\ud83d"`), manifest.ErrNotJSON, "surrogate"},
		{"second half", object(`"x":"\udE00"`), manifest.ErrNotJSON, "surrogate"},
		{"halves in the wrong order", object(`"x":"\ude00\ud83d"`), manifest.ErrNotJSON, "surrogate"},
		{"first of the first halves", object(`"x":"\ud800"`), manifest.ErrNotJSON, "surrogate"},
		{"last of the first halves", object(`"x":"\udbff"`), manifest.ErrNotJSON, "surrogate"},
		{"first of the second halves", object(`"x":"\udc00"`), manifest.ErrNotJSON, "surrogate"},
		{"last of the second halves", object(`"x":"\udfff"`), manifest.ErrNotJSON, "surrogate"},
		{"half, then another escape", object(`"x":"\ud83d\n"`), manifest.ErrNotJSON, "surrogate"},
		{"half, then a letter", object(`"x":"\ud83d\u0041"`), manifest.ErrNotJSON, "surrogate"},
		{"half in a name", object(`"\ud83d":1`), manifest.ErrNotJSON, "surrogate"},
		{"half in a duplicate", `{"version":"\ud83d","version":"1.2.3","platforms":{}}`, manifest.ErrNotJSON, "surrogate"},
		{"number out of range", object(`"x":1e999`), manifest.ErrNotJSON, "out of range"},
		{"negative out of range", object(`"x":[-1e309]`), manifest.ErrNotJSON, "out of range"},
		{"leading 9 out of range", object(`"x":9e308`), manifest.ErrNotJSON, "out of range"},
		{"leading 0 out of range", object(`"x":0.1e310`), manifest.ErrNotJSON, "out of range"},
		{"many digits out of range", object(`"x":1` + strings.Repeat("0", 309)), manifest.ErrNotJSON, "out of range"},
		{"control character", object("\"x\":\"a\tb\""), manifest.ErrNotJSON, "invalid character"},
		{"invalid UTF-8", object("\"x\":\"a\xff\""), manifest.ErrNotJSON, "UTF-8"},
		{"too deep", object(`"x":` + strings.Repeat("[", 127) + strings.Repeat("]", 127)), manifest.ErrNotJSON, "deeper"},

		{"no object", `["1.2.3",null,null,{},null,null]`, manifest.ErrShape, "object"},
		{"no version", `{"platforms":{}}`, manifest.ErrShape, "version is missing"},
		{"version null", `{"version":null,"platforms":{}}`, manifest.ErrShape, "version is missing"},
		{"version number", `{"version":1,"platforms":{}}`, manifest.ErrShape, "version is no string"},
		{"version and its alias", `{"version":"1.2.3","name":"1.2.3","platforms":{}}`, manifest.ErrShape, "alias"},
		{"version V", `{"version":"V1.2.3","platforms":{}}`, manifest.ErrShape, "not a version"},
		{"version of two parts", `{"version":"1.2","platforms":{}}`, manifest.ErrShape, "not a version"},
		{"version beyond 64 bits", `{"version":"1.2.18446744073709551616","platforms":{}}`, manifest.ErrShape, "not a version"},
		{"notes number", object(`"notes":1`), manifest.ErrShape, "notes is no string"},
		{"date number", object(`"pub_date":1`), manifest.ErrShape, "pub_date is no string"},
		{"date empty", object(`"pub_date":""`), manifest.ErrShape, "RFC 3339"},
		{"no form", `{"version":"1.2.3"}`, manifest.ErrShape, "url is missing"},
		{"dynamic without signature", `{"version":"1.2.3","url":"https://h/l"}`, manifest.ErrShape, "signature is missing"},
		{"dynamic with a relative url", `{"version":"1.2.3","url":"l","signature":"s"}`, manifest.ErrShape, "relative"},
		{"platforms as a list", `{"version":"1.2.3","platforms":[]}`, manifest.ErrShape, "platforms: "},
		{"static beside a bad url", object(`"url":"l"`), manifest.ErrShape, "relative"},
		{"static beside a url of another kind", object(`"url":{}`), manifest.ErrShape, "url is no string"},
		{"static beside a bad signature", object(`"signature":1`), manifest.ErrShape, "signature is no string"},
		{"platform null", platform(`null`), manifest.ErrShape, "platforms.a: "},
		{"platform as text", platform(`"https://h/l"`), manifest.ErrShape, "platforms.a: "},
		{"platform without url", platform(`{"signature":"s"}`), manifest.ErrShape, "platforms.a: the answer is not a release: url is missing"},
		{"platform without signature", platform(`{"url":"https://h/l"}`), manifest.ErrShape, "signature is missing"},
		{"platform with url null", platform(`{"url":null,"signature":"s"}`), manifest.ErrShape, "url is missing"},
		{"one bad platform of two", `{"version":"1.2.3","platforms":{"b":{"url":"l","signature":"s"},"a":{"url":"https://h/l","signature":"s"}}}`, manifest.ErrShape, "platforms.b: "},
		{"broken duplicate", `{"version":"1.2.3","version":null,"platforms":{}}`, manifest.ErrShape, "version is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := manifest.ParseResponse([]byte(c.body))
			if r != nil || !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %+v, %v; want %v and %q", r, err, c.cause, c.says)
			}
			if errors.Is(err, manifest.ErrNotJSON) && errors.Is(err, manifest.ErrShape) {
				t.Error("the updater can't both abort and go on")
			}
		})
	}
}

// The limits of serde_json, from both sides.
func TestParseResponseAtTheLimits(t *testing.T) {
	for _, value := range []string{
		strings.Repeat("[", 126) + strings.Repeat("]", 126),
		strings.Repeat(`[{"a":`, 63) + "1" + strings.Repeat("}]", 63),
		"[" + strings.Repeat("[],", 500) + "0]",
		"1e308", "-1e308", "1e-999", "0e99999999999", "123456789012345678901234567890", "-0", "0.1E+5",
		`"\u0000\"\\\/\b\f\n\r\t\u00e9"`, `"\uFFFF\ud7ff\ue000"`, `"\ud800\udc00\uDBFF\uDFFF"`,
	} {
		if r := response(t, `{"version":"1.2.3","platforms":{},"x":`+value+`}`); r.Version.String() != "1.2.3" {
			t.Errorf("%.60s: version %q", value, r.Version)
		}
	}
}

// Dates as the time crate's RFC 3339 parser reads them: any separator, and a leap
// second only as the last of a month in UTC.
func TestParseResponseDates(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // in UTC; empty: refused
	}{
		{"2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"},
		{"2026-11-21t10:00:00z", "2026-11-21T10:00:00Z"},
		{"2026-11-21T10:00:00.123456789Z", "2026-11-21T10:00:00.123456789Z"},
		{"2026-11-21T10:00:00.1234567891Z", "2026-11-21T10:00:00.123456789Z"},
		{"2026-11-21T10:00:00+01:30", "2026-11-21T08:30:00Z"},
		{"2026-11-21T10:00:00-23:59", "2026-11-22T09:59:00Z"},
		{"2026-11-21T10:00:00-00:00", "2026-11-21T10:00:00Z"},
		{"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
		{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
		{"2026-11-21T1:00:00Z", ""},
		{"2026-11-21T10:00:00,5Z", ""},
		{"2026-11-21T10:00:00.Z", ""},
		{"2026-11-21T10:00:00+24:00", ""},
		{"2026-11-21T10:00:00+01:60", ""},
		{"2026-11-21T10:00:00+0100", ""},
		{"2026-11-21T10:00:00+01", ""},
		{"2026-11-21T10:00:00\u221201:00", ""},
		{"2026-11-21T10:00:00", ""},
		{"2026-11-21T24:00:00Z", ""},
		{"2026-02-29T00:00:00Z", ""},
		{"2026-13-01T00:00:00Z", ""},
		{"26-11-21T10:00:00Z", ""},
		{"+2026-11-21T10:00:00Z", ""},
		{" 2026-11-21T10:00:00Z", ""},
		{"2026-11-21T10:00:00Z ", ""},
		{"٢٠٢٦-11-21T10:00:00Z", ""},
		{"2026-11-21 10:00:00Z", "2026-11-21T10:00:00Z"},
		{"2026-11-21_10:00:00z", "2026-11-21T10:00:00Z"},
		{"2026-11-21\n10:00:00Z", "2026-11-21T10:00:00Z"},
		{"2026-11-21é10:00:00Z", ""},
		{"2026-11-2110:00:00Z", ""},
		{"2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999999Z"},
		{"2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.999999999Z"},
		{"2017-01-01T01:29:60+01:30", "2016-12-31T23:59:59.999999999Z"},
		{"2024-02-29T23:59:60Z", "2024-02-29T23:59:59.999999999Z"},
		{"2016-12-30T23:59:60Z", ""},
		{"2016-12-31T23:58:60Z", ""},
		{"2016-12-31T23:59:60+01:00", ""},
		{"2016-12-31T23:59:61Z", ""},
	} {
		r, err := manifest.ParseResponse([]byte(`{"version":"1.2.3","platforms":{},"pub_date":` + quote(c.text) + `}`))
		switch {
		case c.want == "" && !errors.Is(err, manifest.ErrShape):
			t.Errorf("%q: read with %v", c.text, err)
		case c.want != "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.want != "" && r.PubDate.UTC().Format(time.RFC3339Nano) != c.want:
			t.Errorf("%q: read as %s, want %s", c.text, r.PubDate, c.want)
		}
	}
}
