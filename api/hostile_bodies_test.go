package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsmon/api"
	"tsmon/api/apitest"
)

// takers are the routes that read JSON, with a good body that ana may send.
func takers(tb testing.TB, w *apitest.World) []apitest.Route {
	all := []apitest.Route{apitest.NewRoute("POST", "/loginPartner", w.Ana.JSON(tb))}
	for _, r := range apitest.PrivateRoutes(w) {
		if r.Method == "POST" {
			all = append(all, r)
		}
	}
	return all
}

// notJSON are bodies that no route takes.
func notJSON(good string) map[string]string {
	return map[string]string{
		"nothing": "", "spaces": " \n\t", "null": "null", "null in spaces": " null\n", "true": "true", "a number": "5", "text": `"{}"`,
		"an open object": "{", "an open array": "[", "half of it": good[:len(good)/2], "all but the end": good[:len(good)-1],
		"it and another": good + good, "it and a bracket": good + "]", "it and a word": good + "x", "it and NUL": good + "\x00",
		"lines of JSON": good + "\n" + good, "a BOM": "\ufeff" + good, "UTF-16": "\xff\xfe{\x00}\x00", "UTF-16 of the other order": "\xfe\xff\x00{\x00}",
		"not UTF-8": strings.Replace(good, `"`, "\"\xff", 1), "half a rune": strings.Replace(good, `"`, "\"\xc3", 1), "overlong": strings.Replace(good, `"`, "\"\xc0\xaf", 1),
		"a surrogate as UTF-8": strings.Replace(good, `"`, "\"\xed\xa0\x80", 1), "a control character": strings.Replace(good, `"`, "\"\n", 1),
		"a comment": "/* */" + good, "a comment at the end": good + "//", "single quotes": strings.ReplaceAll(good, `"`, "'"), "a trailing comma": good[:len(good)-1] + "," + good[len(good)-1:],
		"NaN": "NaN", "a form": "email=a&tokenApp=b", "XML": "<a/>", "YAML": "a: b", "gzip": "\x1f\x8b\x08\x00",
		"33 deep": strings.Repeat("[", 33) + strings.Repeat("]", 33), "33 deep within it": good[:len(good)-1] + `,"x":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + good[len(good)-1:],
		"100,000 deep": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "100,000 open": strings.Repeat("[", 100_000), "as objects": strings.Repeat(`{"a":`, 100_000),
		"closed only": strings.Repeat("]", 1000), "a long number": strings.Repeat("9", 100_000), "a long name": `"` + strings.Repeat("a", 100_000) + `"`,
	}
}

func TestHostileBodies(t *testing.T) { testHostileBodies(t, apitest.Embedded(t)) }

func testHostileBodies(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for _, r := range takers(t, w) {
		for name, body := range notJSON(r.Body) {
			if got := ana.Post(r.Path, apitest.Raw(body)); got.WantFailure(t, 500) == "" || len(got.Body) > 4096 {
				t.Errorf("%s: %s: %d bytes", r.Path, name, len(got.Body))
			}
		}
		// A byte more than 1 MiB, and exactly as much.
		if got := ana.Post(r.Path, apitest.Raw(strings.Repeat(" ", 1<<20+1-len(r.Body))+r.Body)); got.WantFailure(t, 413) == "" {
			t.Errorf("%s: too large", r.Path)
		}
		if got := ana.Post(r.Path, io.MultiReader(apitest.Raw(strings.Repeat(" ", 1<<20)), apitest.Raw(r.Body))); got.WantFailure(t, 413) == "" { // of no known length
			t.Errorf("%s: too large, in pieces", r.Path)
		}
		if got := ana.Post(r.Path, apitest.Raw(strings.Repeat(" ", 1<<20-len(r.Body))+r.Body)); got.Status != 200 {
			t.Errorf("%s: 1 MiB: %d %s", r.Path, got.Status, got.Body)
		}
		checkTypes(t, ana, r)
	}
	for path, want := range map[string]string{"/multipleDataTs": "10000", "/seriesDataTs": "10000", "/saveDiagram": "10000"} {
		body := "[" + strings.TrimSuffix(strings.Repeat("{},", 10_000), ",") + "]"
		if path == "/saveDiagram" {
			body = `{"diagram":{},"lines":` + body + `}`
		}
		if got := ana.Post(path, apitest.Raw(body)).WantFailure(t, 500); !strings.Contains(got, want) {
			t.Errorf("%s of 10,000 items: %s", path, got)
		}
	}
}

// checkTypes sends a good body as what it is not, and as what it is.
func checkTypes(t *testing.T, ana apitest.Client, r apitest.Route) {
	t.Helper()
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=iso-8859-1",
		"application/jsonx", "application/json, text/plain", "text/json", "*/*", ";", "application/json; charset=utf-8; charset=latin1", "application/x-ndjson"} {
		if got := ana.Request(r, http.Header{"Content-Type": {kind}}); got.WantFailure(t, 415) == "" {
			t.Errorf("%s as %s", r.Path, kind)
		}
	}
	for _, kind := range [][]string{nil, {"application/json"}, {"Application/JSON; charset=UTF-8"}, {`application/json;charset="utf-8"`}} {
		if got := ana.Request(r, http.Header{"Content-Type": kind}); got.Status != 200 {
			t.Errorf("%s as %q: %d %s", r.Path, kind, got.Status, got.Body)
		}
	}
}

// A GET may bring {}, as clients send it, and what else it brings is not read.
func TestHostileBodiesOfGet(t *testing.T) {
	w := apitest.Embedded(t)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for _, r := range apitest.PrivateRoutes(w) {
		if r.Method != "GET" {
			continue
		}
		want := ana.Request(r, nil)
		for _, body := range []string{"{}", "rubbish", "\xff", strings.Repeat("[", 100_000)} {
			r.Body = body
			if got := ana.Request(r, nil); got.Status != 200 || string(got.Body) != string(want.Body) {
				t.Errorf("%s with %.20q: %d %s, want %s", r.Path, body, got.Status, got.Body, want.Body)
			}
		}
	}
}

// Odd members are read in one way, and never answered with somebody's value.
func TestHostileMembers(t *testing.T) {
	w := apitest.Embedded(t)
	apitest.WriteNetwork(t, w)
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for _, c := range []struct{ path, body, want string }{
		{"/dataTs", `{"measurement":"nada","measurement":"tanque","calc_field":"x","calc_field":"nivel"}`, `{"nivel":{"value":6}}`}, // the last counts
		{"/dataTs", `{"measurement":"tanque","calc_field":"nivel","measurement":"nada"}`, `{"nivel":{"value":null}}`},
		{"/dataTs", `{"measurement":"tanque\ud800","calc_field":"nivel"}`, `{"nivel":{"value":null}}`},
		{"/dataTs", `{"measurement":"tanque","calc_field":"\udfff"}`, `{"\ufffd":{"value":null}}`},
		{"/dataTs", `{"measurement":"tanque","calc_field":"nivel","x":{"y":[` + strings.Repeat("1e999,", 1000) + `1]}}`, `{"nivel":{"value":6}}`},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"id":"\ud83d\ude00\ud800","varsTs":` + apitest.FormNivel + `}}]`, `{"😀\ufffd":6}`},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"varsTs":{"a":1},"varsTs":` + apitest.FormNivel + `}}]`, `{"1":6}`},
		{"/multipleDataTs", `[{"dataTs":{"id":-0,"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":1.0,"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":1e2,"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":99999999999999999999999999,"varsTs":` + apitest.FormNivel + `}}]`, `{"99999999999999999999999999":6}`},
		{"/multipleDataTs", `[{"dataTs":{"id":7,"varsTs":` + apitest.FormNivel + `}},{"dataTs":{"id":"7","varsTs":` + apitest.FormNivel + `}}]`, `{"7":6}`},
		{"/multipleDataTs", `[{"dataTs":{"id":true,"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":[1],"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[null]`, ""}, {"/multipleDataTs", `[[]]`, ""}, {"/multipleDataTs", `{}`, ""}, {"/multipleDataTs", `[{"dataTs":[]}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"calc":"true","varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"calc":1,"varsTs":` + apitest.FormNivel + `}}]`, ""},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"varsTs":{"":{"calc_field":"nivel","measure":"tanque"}}}}]`, `{"1":6}`},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"calc":true,"equation":"+","varsTs":{"":{"calc_field":"nivel","measure":"tanque"}}}}]`, `{"1":null}`},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"calc":true,"equation":"9e999*a","varsTs":{"a":{"calc_field":"nivel","measure":"tanque"}}}}]`, `{"1":null}`},
		{"/multipleDataTs", `[{"dataTs":{"id":1,"calc":true,"equation":"1e308*a*1e308","varsTs":{"a":{"calc_field":"nivel","measure":"tanque"}}}}]`, `{"1":null}`},
		{"/seriesDataTs", `[null]`, ""}, {"/seriesDataTs", `[[]]`, ""}, {"/seriesDataTs", `{}`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":60}]`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","start":9223372036854775808}]`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","stop":9223372036854775807}]`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","start":-9223372036854775808}]`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","start":1.5}]`, `{"x":[]}`},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","start":"0001-01-01T00:00:00Z"}]`, ""},
		{"/seriesDataTs", `[{"measurement":"nada","field":"x","samplingPeriod":"1m","start":{}}]`, ""},
		{"/sendConfigMQTT", `{"topic":"acueducto/x","data":null}`, ""}, {"/sendConfigMQTT", `{"topic":"acueducto/x","data":[]}`, ""},
		{"/sendConfigMQTT", `{"topic":"acueducto/x","data":"{}"}`, ""}, {"/sendConfigMQTT", `{"topic":"acueducto/x"}`, ""}, {"/sendConfigMQTT", `{"topic":5,"data":{}}`, ""},
	} {
		got := ana.Post(c.path, apitest.Raw(c.body))
		if c.want == "" {
			got.WantFailure(t, 500)
		} else {
			got.WantData(t, c.want)
		}
		if t.Failed() {
			t.Fatalf("%s %.300s", c.path, c.body)
		}
	}
	// Half a millisecond parts the values around it.
	w.Write(t, w.Ana.TsName, "medio valor=1 1000001\nmedio valor=2 1000002\nmedio valor=3 1000003\n")
	for start, want := range map[string]string{"1000001": "1 2 3", "1000001.5": "2 3", "1000002": "2 3", "1000002.5": "3", "1000003.5": ""} {
		var data struct {
			Data map[string][]struct{ Value float64 }
		}
		got := ana.Post("/seriesDataTs", apitest.Raw(fmt.Sprintf(`[{"id":"x","measurement":"medio","field":"valor","samplingPeriod":"1ms","start":%s,"stop":1000100}]`, start)))
		if err := json.Unmarshal(got.Body, &data); err != nil || got.Status != 200 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		var values []string
		for _, p := range data.Data["x"] {
			values = append(values, fmt.Sprint(p.Value))
		}
		if text := strings.Join(values, " "); text != want {
			t.Errorf("from %s: %q, want %q: %s", start, text, want, got.Body)
		}
	}
	// A message that no broker takes is the client's mistake, and said to be.
	large := fmt.Sprintf(`{"topic":"acueducto/x","data":{"a":%q}}`, strings.Repeat("a", 300_000))
	if got := ana.Post("/sendConfigMQTT", apitest.Raw(large)).WantFailure(t, 500); !strings.Contains(got, "large") {
		t.Errorf("a message of 300,000 bytes: %s", got)
	}
}

// slow makes a server wait as tsmon serve does, but not as long.
func slow(_ *api.Server, config *http.Server) {
	config.ReadHeaderTimeout, config.ReadTimeout = 500*time.Millisecond, 500*time.Millisecond
}

// Bodies that never end, or end early, are answered; headers that never end are
// not, and neither keeps the server from others.
func TestHostileSlowness(t *testing.T) {
	t.Parallel()
	w := apitest.Embedded(t)
	apitest.ImportGrants(t, w)
	server := apitest.ServeWith(t, w, slow)
	ana := w.LogIn(t, server, w.Ana)
	routes := takers(t, w)
	answers := make([]apitest.Answer, len(routes)*3)
	before := apitest.Export(t, w, w.Ana.Schema)
	apitest.Concurrently(len(answers), func(i int) {
		r := routes[i/3]
		head := "POST " + r.Path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + ana.Token + "\r\nContent-Type: application/json\r\n"
		answers[i] = apitest.SendText(t, server, head+[]string{
			"Content-Length: 1000\r\n\r\n" + r.Body, // and then nothing
			"Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(r.Body), r.Body),
			"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + r.Body,
		}[i%3])
	})
	for i, got := range answers {
		if got.WantFailure(t, 408) == "" {
			t.Errorf("%s, %d", routes[i/3].Path, i%3)
		}
	}
	if after := apitest.Export(t, w, w.Ana.Schema); after != before {
		t.Errorf("half a request changed\n%s to\n%s", before, after)
	}
	ana.Get("/getAllMenu").Data(t)
	starts := []string{"", "G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "}
	apitest.Concurrently(len(starts), func(i int) { checkHangsUp(t, server, starts[i]) })
}

// checkHangsUp demands that the server closes the connection of somebody who
// sends this and waits.
func checkHangsUp(t *testing.T, server *httptest.Server, text string) {
	conn, err := apitest.Dial(t, server)
	if err == nil {
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		t.Error(err)
		return
	}
	got, err := io.ReadAll(conn)
	if err != nil || len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("%q: %.100q, %v", text, got, err)
	}
}
