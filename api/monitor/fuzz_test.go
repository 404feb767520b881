package monitor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"tsmon/api/monitor/times"
	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// posted returns a request with a body, as handlers get it.
func posted(body []byte) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
}

// wantRefusal checks that an error is one for the client, of bounded length.
func wantRefusal(t *testing.T, err error) {
	t.Helper()
	var f *web.Failure
	if !errors.As(err, &f) || f.Status < 400 || len(f.Messages) == 0 || len(f.Messages) > 21 {
		t.Fatalf("%v is no refusal", err)
	}
	if text := strings.Join(f.Messages, ""); len(text) > 60<<10 || !utf8.ValidString(text) {
		t.Errorf("the refusal has %d bytes", len(text))
	}
}

func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`[{"dataTs":{"id":1,"name":"v","unit":"m","varsTs":{"measurement":"tanque","field":"nivel"}}}]`, `[{"dataTs":{"id":1,"name":"v","unit":"m","type":"mean","calc":true,"equation":"a*2+b","varsTs":{"a":{"calc_field":"x","measure":"y"},"b":{"calc_field":"x","measure":"z"}}}}]`,
		`[{"dataTs":{"id":"ñ","varsTs":{"measurement":"a","field":null,"calc_field":"b"}}}]`, `[{"dataTs":null}]`, `[{"dataTs":{"id":1,"varsTs":{"measurement":{"calc_field":"a","measure":"b"}}}}]`,
		`[{"dataTs":{"id":1,"calc":true,"equation":"nivel/0","varsTs":{"measurement":"tanque","field":"nivel"}}},{"dataTs":{"id":1}}]`, "null", "[]", "{}", `[{"dataTs":{"id":1,"varsTs":{"":{}}}}]`, "[[[", "\xff", `[{"dataTs":{"id":1e400}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var items []struct {
			Variable *variable `json:"dataTs"`
		}
		if err := web.Decode(posted(body), &items); err != nil {
			wantRefusal(t, err)
			return
		}
		variables := make([]*variable, len(items))
		for i := range items {
			variables[i] = items[i].Variable
		}
		plan, err := readAll(variables, 0)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		if len(plan.problems.list) > maxHeader+10 {
			t.Errorf("%d bytes of problems", len(plan.problems.list))
		}
		for id, reading := range plan.readings {
			wants := reading.wants()
			if err := series.ValidWants(wants); err != nil || id == "" {
				t.Errorf("%q: %v", id, err)
			}
			values := map[series.Want]series.Value{}
			found := func(want series.Want) series.Value { return values[want] }
			if v := reading.value(found); v != nil && len(wants) > 0 && reading.equation == nil {
				t.Errorf("%q is %v without a value", id, *v)
			}
			for i, want := range wants {
				values[want] = series.Value{Number: float64(i) - 1, Found: true}
			}
			if v := reading.value(found); v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
				t.Errorf("%q is %v", id, *v)
			}
		}
	})
}

func FuzzSeries(f *testing.F) {
	for _, seed := range []string{
		`[{"measurement":"a","field":"b","samplingPeriod":"5m"}]`, `[{"id":7,"measurement":"a","field":"b","samplingPeriod":"1s","start":1,"stop":"2026-03-05T15:04:05Z"}]`, `[{"measurement":"a","field":"b","samplingPeriod":"999999w"}]`,
		`[{"measurement":"a","field":"b","samplingPeriod":"1ns","start":-8520336000000,"stop":8835955200000}]`, "[" + strings.Repeat(`{"measurement":"a","field":"b","samplingPeriod":"1ns","start":-8488800000000,"stop":8804419200000},`, 99) + `{"measurement":"a","field":"b","samplingPeriod":"1ns"}]`, `[{"stop":9223372036854775807}]`, `[{"start":"0000-01-01T00:00:00+23:59"}]`, `[null]`, `[{"id":"a","measurement":"b","field":"c","samplingPeriod":"1d"},{"measurement":"x","field":"a","samplingPeriod":"1d"}]`,
	} {
		f.Add([]byte(seed), int64(0))
	}
	v := &values{Options: Options{Now: func() time.Time { return time.Date(2026, 3, 5, 15, 4, 5, 6, time.UTC) }}}
	f.Fuzz(func(t *testing.T, body []byte, length int64) {
		var items []descriptor
		if err := web.Decode(posted(body), &items); err != nil {
			wantRefusal(t, err)
			return
		}
		who := caller{tenant: record.Tenant{Settings: record.Settings{SeriesRange: record.Duration(length)}}}
		ranges, err := v.ranges(items, who, time.UTC)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		answer := newSeriesAnswer(v, "db", times.Clock{})
		for i, r := range ranges {
			if err := series.ValidRanges([]series.Range{r}); err != nil && !errors.Is(err, series.ErrName) {
				t.Errorf("item %d: %v", i, err)
			}
			answer.add(strconv.Itoa(i), r)
		}
		there := len(answer.empty)
		for _, p := range slices.Concat(answer.long, answer.whole) {
			there += len(p.ranges)
			if len(p.ranges) > 1 && (p.points > partPoints || p.reads > partReads) {
				t.Errorf("a part of %d points, of %d to read", p.points, p.reads)
			}
		}
		if there != len(items) {
			t.Errorf("%d series of %d items", there, len(items))
		}
		keys := make([]string, len(items))
		for i, item := range items {
			keys[i] = item.ID.Text + item.Field
		}
		long, err := separate(keys, items)
		if err != nil {
			wantRefusal(t, err)
		}
		for i := range items {
			for j := range i {
				if err == nil && long[i] == long[j] && !items[i].same(items[j]) {
					t.Errorf("items %d and %d are both called %q", j, i, long[i])
				}
			}
		}
	})
}

func FuzzDiagram(f *testing.F) {
	for _, seed := range []string{
		`{"diagram":{"title":"a","status":2,"backgroundImg":"/a.png","x":1e400},"lines":[{"id":1,"id_tsvars":7},{}],"images":[],"texts":[{"a":[{}]}],"polylines":[{}],"deleted":{"lines":[2],"texts":[]}}`,
		`{"diagram":{"id":5,"id":6}}`, `{"diagram":null}`, `{"diagram":{"backgroundImg":"java\tscript:x"}}`, `{"diagram":{"backgroundImg":"\\\\h"}}`, `{"lines":[null],"diagram":{}}`, `{"diagram":{},"deleted":{"lines":[1,1]}}`, `{"diagram":{"lines":[{}]},"lines":[{"variable":1,"id_tsvars":"\u0000"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, deleted, err := readDiagram(posted(body))
		if err != nil {
			wantRefusal(t, err)
			return
		}
		if _, err := record.Prepare(d, deleted); err != nil {
			t.Error(err)
		}
		for _, n := range []int{len(d.Lines), len(d.Images), len(d.Texts), len(d.Polylines), len(deleted.Lines), len(deleted.Images), len(deleted.Texts), len(deleted.Polylines)} {
			if n > web.MaxItems {
				t.Errorf("%d objects of a kind", n)
			}
		}
		wantShowable(t, d.BackgroundImg)
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	})
}

// wantShowable checks an accepted address as a browser reads it, which removes control
// characters and spaces first.
func wantShowable(t *testing.T, address string) {
	t.Helper()
	seen := strings.ToLower(strings.Map(func(c rune) rune {
		if c <= ' ' {
			return -1
		}
		return c
	}, address))
	scheme, _, found := strings.Cut(seen, ":")
	if found && !strings.ContainsAny(scheme, "/?#") && scheme != "http" && scheme != "https" {
		t.Errorf("%q is loaded by another scheme", address)
	}
}

func FuzzShowable(f *testing.F) {
	for _, seed := range []string{"", "a.png", "https://h/a?b#c", "//h/a", "javascript:alert(1)", "java\nscript:x", "\u00a0javascript:x", "DATA:,x", "http:/a", "http://[::1", `\\host\share`, `a" onerror="x`, "%zz", "x:y", ":"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if showable(address) {
			wantShowable(t, address)
		}
	})
}

func FuzzReceive(f *testing.F) {
	const kind = "multipart/form-data; boundary=b"
	file := func(content string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n" + content + "\r\n"
	}
	f.Add(kind, []byte(file("content")+"--b--\r\n"))
	f.Add(kind, []byte(file(strings.Repeat("x", 100))+"--b--\r\n"))
	f.Add(kind, []byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''..%2f%00a\r\n\r\n\x89PNG\r\n\x1a\n\r\n--b--"))
	f.Add(kind, []byte(file("a")+file("b")+"--b--\r\n"))
	f.Add(kind, []byte("--b\r\nContent-Disposition: form-data; name=file\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41=\r\n=4\r\n--b--"))
	f.Add("multipart/form-data", []byte("--\r\n"))
	const limit = 90
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		r := posted(body)
		r.Header.Set("Content-Type", kind)
		var stored bytes.Buffer
		got, err := receive(r, &stored, limit)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		sum := sha256.Sum256(stored.Bytes())
		if got.Size != int64(stored.Len()) || got.Size < 1 || got.Size > limit || got.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v of %d bytes", got, stored.Len())
		}
		name, ok := strings.CutPrefix(got.Key, uploadFolder)
		if m := uploadName.FindStringSubmatch(name); !ok || m == nil || fileTypes[m[1]] != got.ContentType {
			t.Errorf("%+v would not be served", got)
		}
		if !utf8.ValidString(got.Name) || len(got.Name) > 255 || strings.ContainsAny(got.Name, `/\`) || strings.ContainsFunc(got.Name, unicode.IsControl) || got.Name == "." || got.Name == ".." {
			t.Errorf("the name is %q", got.Name)
		}
	})
}

func FuzzPeriod(f *testing.F) {
	for _, seed := range []string{"1ns", "5m", "999999s", "523w", "3660d", "3661d", "0s", "-1s", "1M", " 1s", "1s\n", "１s", "9999999h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		every, err := parsePeriod(text)
		if (err == nil) != (every > 0) || every > maxPeriod {
			t.Errorf("%q is %s, %v", text, every, err)
		}
		if err == nil && !strings.ContainsAny(text[:1], "123456789") {
			t.Errorf("%q passes", text)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, seed := range []string{"", "null", "0", "-1", "1772723045000", "9223372036854775807", `"2026-03-05T15:04:05Z"`, `"2026-03-05T15:04:05.999999999+14:00"`, `"now()"`, "1.5", "true", "{}", `"9999-12-31T23:59:59-23:59"`} {
		f.Add(seed)
	}
	unset := time.Unix(1, 0)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseTime("start", json.RawMessage(raw), unset)
		if err != nil {
			if len(err.Error()) > 200 || strings.Contains(err.Error(), "\x00") {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		var ms float64
		switch {
		case raw == "" || raw == "null":
			if got != unset {
				t.Errorf("%q is %s", raw, got)
			}
		case json.Unmarshal([]byte(raw), &ms) == nil:
			if float64(got.UnixMilli()) != math.Floor(ms) && string(bytes.TrimSpace([]byte(raw))) != "null" {
				t.Errorf("%q is %s", raw, got)
			}
		case !strings.Contains(raw, `"`):
			t.Errorf("%q passes as %s", raw, got)
		}
	})
}
