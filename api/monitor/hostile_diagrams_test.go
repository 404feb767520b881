package monitor_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"tsmon/api/apitest"
)

// hostileSaves returns invalid saves of a diagram with objects 1 to 5, beside another
// with objects 6 to 9.
func hostileSaves(mine int64) map[string]string {
	of := func(members string) string {
		return fmt.Sprintf(`{"diagram":{"id":%d,"title":"changed"},%s}`, mine, members)
	}
	return map[string]string{
		"objects of the other":           of(`"lines":[{"id":6}]`),
		"among own ones":                 of(`"lines":[{"id":1,"stroke":"changed"},{"id":6}]`),
		"an image of it":                 of(`"images":[{"id":7}]`),
		"a text of it":                   of(`"texts":[{"id":8}]`),
		"a polyline of it":               of(`"polylines":[{"id":9}]`),
		"to be deleted":                  of(`"deleted":{"lines":[6]}`),
		"to be deleted among own ones":   of(`"deleted":{"lines":[1,2,6],"images":[3]}`),
		"in a new diagram":               `{"diagram":{"title":"new"},"lines":[{"id":1}]}`,
		"in a new diagram, to delete":    `{"diagram":{"title":"new"},"deleted":{"texts":[4]}}`,
		"twice":                          of(`"lines":[{"id":1},{"id":1}]`),
		"twice, of its own id":           of(`"lines":[{"id":77},{"id":77}]`),
		"deleted twice":                  of(`"deleted":{"lines":[1,1]}`),
		"saved and deleted":              of(`"lines":[{"id":1}],"deleted":{"lines":[1]}`),
		"a negative id":                  of(`"lines":[{"id":-1}]`),
		"the most negative":              of(`"texts":[{"id":-9223372036854775808}]`),
		"an id of 2^63":                  of(`"lines":[{"id":9223372036854775808}]`),
		"an id of 2^64":                  of(`"lines":[{"id":18446744073709551617}]`),
		"to delete 2^63":                 of(`"deleted":{"lines":[9223372036854775808]}`),
		"to delete half of one":          of(`"deleted":{"lines":[1.5]}`),
		"to delete 1.0":                  of(`"deleted":{"lines":[1.0]}`),
		"to delete a text":               of(`"deleted":{"lines":["1"]}`),
		"to delete an object":            of(`"deleted":{"lines":[{"id":1}]}`),
		"to delete them all":             of(`"deleted":{"lines":true}`),
		"deleted is a text":              of(`"deleted":"lines"`),
		"an id of 1.0":                   of(`"lines":[{"id":1.0}]`),
		"an id of 1e0":                   of(`"lines":[{"id":1e0}]`),
		"an id that is text":             of(`"lines":[{"id":"1"}]`),
		"an id that is true":             of(`"lines":[{"id":true}]`),
		"an id that is an array":         of(`"lines":[{"id":[1]}]`),
		"lines are an object":            of(`"lines":{"1":{}}`),
		"lines are text":                 of(`"lines":"x"`),
		"a line is null":                 of(`"lines":[null]`),
		"a line is an array":             of(`"lines":[[]]`),
		"a line is text":                 of(`"lines":["x"]`),
		"1,001 lines":                    of(`"lines":[` + strings.TrimSuffix(strings.Repeat("{},", 1001), ",") + `]`),
		"1,001 polylines":                of(`"polylines":[` + strings.TrimSuffix(strings.Repeat("{},", 1001), ",") + `]`),
		"1,001 to delete":                of(`"deleted":{"images":[` + strings.TrimSuffix(strings.Repeat("9,", 1001), ",") + `]}`),
		"bound to an object":             of(`"lines":[{"id_tsvars":{}}]`),
		"bound to 1.5":                   of(`"lines":[{"id_tsvars":1.5}]`),
		"bound to true":                  of(`"lines":[{"id_tsvars":true}]`),
		"bound to a long name":           of(`"lines":[{"id_tsvars":"` + strings.Repeat("a", 201) + `"}]`),
		"bound to NUL":                   of(`"lines":[{"id_tsvars":"a\u0000"}]`),
		"a diagram of -1":                `{"diagram":{"id":-1}}`,
		"a diagram of 2^63":              `{"diagram":{"id":9223372036854775808}}`,
		"a diagram of 1.0":               fmt.Sprintf(`{"diagram":{"id":%d.0}}`, mine),
		"a diagram of a text":            fmt.Sprintf(`{"diagram":{"id":"%d"}}`, mine),
		"a diagram that is an array":     `{"diagram":[]}`,
		"a diagram that is a text":       `{"diagram":"x"}`,
		"a title of NUL":                 fmt.Sprintf(`{"diagram":{"id":%d,"title":"a\u0000"}}`, mine),
		"a title that is a number":       `{"diagram":{"title":5}}`,
		"a status of 1.5":                `{"diagram":{"status":1.5}}`,
		"a status of 1e400":              `{"diagram":{"status":1e400}}`,
		"a status of 2^63":               `{"diagram":{"status":9223372036854775808}}`,
		"lines of the diagram are wrong": `{"diagram":{"lines":5}}`,
		"a version that is a text":       fmt.Sprintf(`{"diagram":{"id":%d,"version":"1"}}`, mine),
		"a version below 0":              fmt.Sprintf(`{"diagram":{"id":%d,"version":-1}}`, mine),
		"a new one's version below 0":    `{"diagram":{"version":-1}}`,
		"a version of 1.5":               fmt.Sprintf(`{"diagram":{"id":%d,"version":1.5}}`, mine),
		"points are an array":            of(`"lines":[{"id":1,"points":[]}]`),
		"points are a text":              of(`"lines":[{"id":1,"points":"{}"}]`),
		"a start that is a number":       of(`"lines":[{"id":1,"points":{"start":5}}]`),
		"an end of texts":                of(`"lines":[{"id":1,"points":{"end":{"left":"1","top":2}}}]`),
		"a top that is null":             of(`"lines":[{"id":1,"points":{"start":{"left":1,"top":null}}}]`),
		"a stroke that is a number":      of(`"lines":[{"id":1,"stroke":5}]`),
		"a width that is a text":         of(`"lines":[{"id":1,"strokeWidth":"2"}]`),
		"an animation of 1.5":            of(`"lines":[{"id":1,"animation":1.5}]`),
		"an animation that is true":      of(`"lines":[{"id":1,"animation":true}]`),
		"invertAnimation is 0":           of(`"lines":[{"id":1,"invertAnimation":0}]`),
		"the status of a line is a text": of(`"lines":[{"id":1,"status":"1"}]`),
		"the second line is wrong":       of(`"lines":[{"id":1,"stroke":"#fff"},{"stroke":[]}]`),
	}
}

func TestHostileDiagrams(t *testing.T) { testHostileDiagrams(t, apitest.Embedded(t)) }

func testHostileDiagrams(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	mine := saveAs(ana, `{"diagram":{"title":"mine"},"lines":[{"stroke":"#f00"},{}],"images":[{}],"texts":[{}],"polylines":[{}]}`) // 1 to 5
	other := saveAs(ana, `{"diagram":{"title":"other"},"lines":[{"stroke":"#00f"}],"images":[{}],"texts":[{}],"polylines":[{}]}`)  // 6 to 9
	before := apitest.Export(t, w, w.Ana.Schema)
	bodies := hostileSaves(mine)
	for _, image := range hostileImages {
		bodies["image "+image] = fmt.Sprintf(`{"diagram":{"id":%d,"title":"changed","backgroundImg":%s}}`, mine, quoted(t, image))
	}
	for name, body := range bodies {
		if got := ana.Post("/saveDiagram", apitest.Raw(body)); got.WantFailure(t, 500) == "" || len(got.Body) > 2000 {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
	for _, id := range []string{"4711", "9223372036854775807"} {
		ana.Post("/saveDiagram", apitest.Raw(`{"diagram":{"id":`+id+`},"lines":[{}]}`)).WantFailure(t, 404)
		ana.Get("/getObjectCanva?id="+id).WantData(t, "[]")
	}
	if after := apitest.Export(t, w, w.Ana.Schema); after != before {
		t.Errorf("refused saves changed\n%s to\n%s", before, after)
	}
	for _, image := range []string{"", "/uploads/a.png", "a.png", "./a.png?x=1#y", "http://h/a.png", "HTTPS://h/a%20b.png", "//cdn.example.com/a.png", "?a:b", "a/javascript:b"} {
		saveAs(ana, fmt.Sprintf(`{"diagram":{"id":%d,"backgroundImg":%s}}`, other, quoted(t, image)))
	}
}

// hostileImages are addresses that no client may load.
var hostileImages = []string{
	"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "\tjavascript:alert(1)", "java\nscript:alert(1)", "java\tscript:alert(1)", "javascript\u200b:x", "\u00a0javascript:x", "\x01javascript:x", "javascript&colon;x:",
	"data:image/png;base64,AA==", "data:text/html,<script>", "DATA:,x", "vbscript:x", "file:///etc/passwd", "FILE:/etc/passwd", "blob:https://h/x", "about:blank", "ftp://h/a.png", "tauri://localhost/a", "asset://localhost/etc/passwd", "ws://h", "mailto:a@b",
	"http:", "http:/a", "http:a", "https:///a", "http://", "http://[::1", "http://h:port/", `C:\a.png`, `\\host\share`, `/\evil.example/a`, `https:\\evil.example`, `a" onerror="x`, "<svg onload=x>", "%zz", "http://h/%", "x:y", "a b:c", ":",
}

func TestHostileMembersOfDiagrams(t *testing.T) { testHostileMembersOfDiagrams(t, apitest.Embedded(t)) }

func testHostileMembersOfDiagrams(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for name, members := range map[string]string{
		"huge numbers":              `"a":1e400,"b":-1E-400,"c":` + strings.Repeat("9", 5000) + `,"d":0.` + strings.Repeat("1", 5000),
		"deep":                      `"a":` + strings.Repeat("[", 29) + strings.Repeat("]", 29),
		"twice":                     `"a":1,"a":2,"a":1`,
		"of escapes":                `"\u0061":"\u0061","\ud83d\ude00":"\ud83d\ude00"`,
		"half a surrogate":          `"a":"\ud800","\udfff":1`,
		"an escaped NUL":            `"a":"\u0000","\u0000":0`,
		"of odd names":              `"":1,"__proto__":{"x":1},"constructor":null,"toString":"x","' OR 1=1":2,"$1":3`,
		"a page":                    `"a":"<script>alert(1)</script>","b":"]]>","c":"\u2028</script>"`,
		"called like known ones":    `"Id":99,"ID":98,"iD":"x","Stroke":1,"lines":[1],"deleted":{"lines":[1]}`,
		"many":                      `"x0":0` + manyMembers(2000),
		"long":                      `"a":"` + strings.Repeat("b", 100_000) + `"`,
		"a variable of the clients": `"x":{"variable":{"name":"mine"}}`,
	} {
		id := saveAs(ana, `{"diagram":{"title":"t",`+diagramMembers(members)+`},"lines":[{`+members+`}],"texts":[{`+members+`}]}`)
		got := ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id))
		var read struct {
			Data []struct{ Lines, Texts []json.RawMessage }
		}
		apitest.ReadJSON(t, got.Body, &read)
		for _, object := range []json.RawMessage{read.Data[0].Lines[0], read.Data[0].Texts[0]} {
			if !strings.HasSuffix(string(object), ","+members+"}") {
				t.Errorf("%s: %.300s came back as %.300s", name, members, object)
			}
		}
		if !strings.Contains(string(got.Body), `"t","status":1,`) || !strings.Contains(string(got.Body), diagramMembers(members)+`,"lines"`) {
			t.Errorf("%s: the diagram came back as %.600s", name, got.Body)
		}
	}
	// An id that is written with an escape, or twice, is the last that it says.
	id := saveAs(ana, `{"diagram":{},"lines":[{"id":501,"\u0069d":502}]}`)
	ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id)).WantData(t, fmt.Sprintf(`[{"id":%d,"version":1,"title":"","status":1,"backgroundColor":"","backgroundImg":"","lines":[{"id":502}],"images":[],"texts":[],"polylines":[]}]`, id))
	// The highest id that there is leaves room for others.
	saveAs(ana, fmt.Sprintf(`{"diagram":{"id":%d},"lines":[{"id":9223372036854775807}]}`, id))
	saveAs(ana, fmt.Sprintf(`{"diagram":{"id":%d},"lines":[{},{}]}`, id))
}

// diagramMembers leaves out members that a diagram itself defines.
func diagramMembers(members string) string {
	return strings.ReplaceAll(members, `"lines":[1],`, "")
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":%d`, i+1, i+1)
	}
	return b.String()
}

// state returns a diagram in which everything names its saver.
func state(id int64, saver int) string {
	return fmt.Sprintf(`{"diagram":{"id":%d,"title":"saver %[2]d"},"lines":[{"id":1,"stroke":"saver %[2]d"},{"id":2,"stroke":"saver %[2]d"}],"texts":[{"id":3,"stroke":"saver %[2]d"}],`+
		`"images":[{"id":%[3]d,"stroke":"saver %[2]d"}],"deleted":{"images":[%[4]d]}}`, id, saver, 4+saver%2, 5-saver%2)
}

// oneState checks that all of a diagram comes from one saver, and returns its name.
func oneState(t *testing.T, got apitest.Answer) string {
	t.Helper()
	var read struct {
		Data []struct {
			Title                           string
			Lines, Texts, Images, Polylines []struct{ Stroke string }
		}
	}
	if err := json.Unmarshal(got.Body, &read); err != nil || got.Status != 200 || len(read.Data) != 1 {
		t.Errorf("%d %s: %v", got.Status, got.Body, err)
		return ""
	}
	d := read.Data[0]
	all := append(append(append(d.Lines, d.Texts...), d.Images...), d.Polylines...)
	if len(all) != 4 {
		t.Errorf("%d objects: %s", len(all), got.Body)
	}
	for _, object := range all {
		if object.Stroke != d.Title {
			t.Errorf("two savers in one diagram: %s", got.Body)
		}
	}
	return d.Title
}

func TestManySavers(t *testing.T) { testManySavers(t, apitest.Embedded(t)) }

func testManySavers(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	id := saveAs(ana, `{"diagram":{},"lines":[{},{}],"texts":[{}]}`)
	saveAs(ana, state(id, 0))
	read := apitest.NewRoute("GET", fmt.Sprintf("/getObjectCanva?id=%d", id), "")
	apitest.Concurrently(40, func(i int) {
		if i%2 == 1 {
			oneState(t, ana.Attempt(read, nil))
		} else if got := ana.Attempt(apitest.NewRoute("POST", "/saveDiagram", state(id, i/2)), nil); got.Status != 200 {
			t.Errorf("saver %d: %d %s", i, got.Status, got.Body)
		}
	})
	oneState(t, ana.Get(read.Path))
	// New diagrams at once have ids of their own.
	ids := make([]string, 20)
	apitest.Concurrently(len(ids), func(i int) {
		ids[i] = string(ana.Attempt(apitest.NewRoute("POST", "/saveDiagram", `{"diagram":{"title":"new"},"lines":[{},{}]}`), nil).Body)
	})
	seen := map[string]bool{}
	for _, body := range ids {
		if seen[body] || !strings.Contains(body, `"success":true`) {
			t.Errorf("answered twice, or not saved: %s", body)
		}
		seen[body] = true
	}
}

// TestSaverGoesAway sends saves whose clients disconnect at once or in the middle.
func TestSaverGoesAway(t *testing.T) { testSaverGoesAway(t, apitest.Embedded(t)) }

func testSaverGoesAway(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	id := saveAs(ana, `{"diagram":{},"lines":[{},{}],"texts":[{}]}`)
	saveAs(ana, state(id, 0))
	for i := range 40 {
		body := state(id, i+1)
		text := fmt.Sprintf("POST /saveDiagram HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", ana.Token, len(body), body)
		if i%4 == 3 {
			text = text[:len(text)-i]
		}
		conn, err := apitest.Dial(t, server)
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Close() // waits until each of them is done
	again := w.Serve(t)
	ana.Base = again.URL
	oneState(t, ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id)))
	if got := ana.Post("/saveDiagram", apitest.Raw(state(id, 99))); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if last := oneState(t, ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id))); last != "saver 99" {
		t.Errorf("the last to save is %q", last)
	}
}
