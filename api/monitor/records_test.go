package monitor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tsmon/api/apitest"
	"tsmon/store/record"
)

// contents is the file of a tenant.
const contents = `{
	"variables": [
		{"id": 12, "name": "Nivel", "unit": "m", "varsTs": {"measurement": "tanque", "field": "nivel", "calc_field": "nivel_c"}},
		{"id": "q", "name": "Caudal <total> & más", "unit": null, "calc": true, "equation": "a + b", "status": false,
			"varsTs": {"a": {"calc_field": "q1", "measure": "red"}, "b": {"calc_field": "q2", "measure": "red"}}}],
	"notifications": {"bomba": {"Grundfos": {"v1": [{"id": 1, "id_event_ts": 7, "alarm": true}], "v2": []}}, "tanque": {"ACME": {"1.0": [{"id": 2, "id_event_ts": 8, "alarm": false}]}}},
	"charts": [
		{"id": 1, "component": "PumpControl", "props": {"color": "#fff"}, "data": {"initialPumps": [{"varId": 12, "name": "B1", "value": {"measurement": "bomba", "field": "e1"}}],
			"initialStates": [{"varId": 13, "name": "S1", "unit": null, "calc": false, "equation": null, "value": {"a": {"calc_field": "x", "measure": "y"}}}]}},
		{"id": "m", "component": "MultipleBooleanChart", "data": {"items": [{"label": "uno", "tsVar": {"id": 12, "varsTs": {"measurement": "tanque", "field": "lleno"}}}, {"label": "dos"}]}, "extra": [1, 2.50, 12345678901234567890]},
		{"id": 3, "component": "Gauge", "props": null, "data": {"tsVar": {"id": 12, "varsTs": {"measurement": "tanque", "field": "nivel"}}, "max": 10}}]
}`

func importContents(tb testing.TB, w *apitest.World) {
	tb.Helper()
	var c record.Content
	if err := json.Unmarshal([]byte(contents), &c); err != nil {
		tb.Fatal(err)
	}
	if err := w.Records.Import(tb.Context(), w.Ana.Schema, c); err != nil {
		tb.Fatal(err)
	}
}

func TestContents(t *testing.T) { testContents(t, apitest.Embedded(t)) }

func testContents(t *testing.T, w *apitest.World) {
	importContents(t, w)
	server := w.Serve(t)
	ana, otro := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Otro)
	ana.Get("/getVarsTs").WantData(t, `[
		{"id":12,"name":"Nivel","unit":"m","type":"number","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"tanque","field":"nivel","calc_field":"nivel_c"}},
		{"id":"q","name":"Caudal <total> & más","unit":null,"type":"number","calc":true,"equation":"a + b","status":false,"varsTs":{"a":{"calc_field":"q1","measure":"red"},"b":{"calc_field":"q2","measure":"red"}}}]`)
	ana.Get("/getConfigNotify").WantData(t, `{"bomba":{"Grundfos":{"v1":[{"id":1,"id_event_ts":7,"alarm":true}],"v2":[]}},"tanque":{"ACME":{"1.0":[{"id":2,"id_event_ts":8,"alarm":false}]}}}`)
	charts := ana.Get("/indicatorCharts")
	charts.WantData(t, contents[strings.Index(contents, `"charts": `)+len(`"charts": `):strings.LastIndex(contents, "}")])
	if !strings.Contains(string(charts.Body), "12345678901234567890") || !strings.Contains(string(charts.Body), "2.50") {
		t.Errorf("numbers of charts were changed: %s", charts.Body)
	}
	// A {} on GET is accepted, and another tenant has nothing of it.
	ana.Send("GET", "/getConfigNotify", apitest.Raw("{}"), nil).Data(t)
	otro.Get("/getVarsTs").WantData(t, `[]`)
	otro.Get("/getConfigNotify").WantData(t, `{}`)
	otro.Get("/indicatorCharts").WantData(t, `[]`)
	// A variable's id is the key of its series.
	got := ana.Post("/seriesDataTs", apitest.Raw(`[{"measurement":"tanque","field":"nivel","samplingPeriod":"5m"},{"measurement":"red","field":"q1","samplingPeriod":"5m"}]`))
	got.WantData(t, `{"12":[],"q1":[]}`)
}

// saveAs saves a diagram and returns its id.
// TestSaveVersions has two users change the diagram that both have read.
func TestSaveVersions(t *testing.T) { testSaveVersions(t, apitest.Embedded(t)) }

func testSaveVersions(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	save := func(body string) map[string]any {
		t.Helper()
		return ana.Post("/saveDiagram", apitest.Raw(body)).Data(t).(map[string]any)
	}
	read := func(id any) map[string]any {
		t.Helper()
		return ana.Get(fmt.Sprintf("/getObjectCanva?id=%v", id)).Data(t).([]any)[0].(map[string]any)
	}
	id := save(`{"diagram":{"title":"Red"},"lines":[{"stroke":"#f00","points":{"start":{"left":1,"top":2.5}},"strokeWidth":null,"animation":1.0},{"mine":[1]}]}`)["id"]
	first := read(id)
	if first["version"] != 1.0 || len(first["lines"].([]any)) != 2 {
		t.Fatalf("the new diagram is %v", first)
	}
	line := first["lines"].([]any)[0].(map[string]any)["id"]
	if got := save(fmt.Sprintf(`{"diagram":{"id":%v,"version":1,"title":"Red"},"deleted":{"lines":[%v]}}`, id, line)); got["version"] != 2.0 || got["id"] != id {
		t.Errorf("the save answers %v", got)
	}
	stale := fmt.Sprintf(`{"diagram":{"id":%v,"version":1,"title":"Red 2"},"lines":[{"id":%v,"stroke":"#0f0"}]}`, id, line)
	if text := ana.Post("/saveDiagram", apitest.Raw(stale)).WantFailure(t, 409); !strings.Contains(text, w.Ana.Email) || !strings.Contains(text, " m.") || !strings.Contains(text, "version 2") {
		t.Errorf("a stale save: %s", text)
	}
	if now := read(id); now["version"] != 2.0 || now["title"] != "Red" || len(now["lines"].([]any)) != 1 {
		t.Errorf("after a stale save: %v", now)
	}
	// Without a version, or with null, whatever stands is replaced.
	for i, version := range []string{"", `"version":null,`, `"version":0,`} {
		if got := save(fmt.Sprintf(`{"diagram":{"id":%v,%s"title":"%d"},"lines":[{"id":%v}]}`, id, version, i, line)); got["version"] != float64(3+i) {
			t.Errorf("%q: %v", version, got)
		}
	}
	if got := save(fmt.Sprintf(`{"diagram":{"id":%v,"version":5,"title":"2"}}`, id)); got["version"] != 5.0 {
		t.Errorf("the same again answers %v", got)
	}
}

func saveAs(c apitest.Client, body string) int64 {
	c.TB.Helper()
	got := c.Post("/saveDiagram", apitest.Raw(body))
	var answer struct {
		Success bool `json:"success"`
		Data    struct {
			Success bool  `json:"success"`
			ID      int64 `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(got.Body, &answer); err != nil || got.Status != 200 || !answer.Success || !answer.Data.Success || answer.Data.ID == 0 {
		c.TB.Fatalf("%d %s", got.Status, got.Body)
	}
	return answer.Data.ID
}

func TestDiagrams(t *testing.T) { testDiagrams(t, apitest.Embedded(t)) }

func testDiagrams(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	importContents(t, w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	id := saveAs(ana, `{"diagram":{"title":"Red","status":2,"backgroundColor":"#aabbcc","backgroundImg":"/uploads/a.png","zoom":1.50},
		"lines":[{"points":{"start":{"left":1,"top":2.5},"end":{"left":3,"top":4}},"stroke":"#f00","strokeWidth":2,"id_tsvars":12,"animation":1,"invertAnimation":true,"status":1,"extra":{"z":[null,1e400]}},
			{"points":{},"stroke":"#0f0","id_tsvars":"q"},{"stroke":"#00f","id_tsvars":null}],
		"images":[{"src":"x.png","id_tsvars":12}],"texts":[{"text":"Hola <b>"}],"polylines":[{"points":[[1,2],[3,4]]}]}`)
	got := ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id))
	var read struct{ Data []map[string]json.RawMessage }
	if err := json.Unmarshal(got.Body, &read); err != nil || len(read.Data) != 1 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for name, want := range map[string]string{
		"id": fmt.Sprint(id), "title": `"Red"`, "status": "2", "backgroundColor": `"#aabbcc"`, "backgroundImg": `"/uploads/a.png"`, "zoom": "1.50",
		"lines": `[{"id":1,"points":{"start":{"left":1,"top":2.5},"end":{"left":3,"top":4}},"stroke":"#f00","strokeWidth":2,"id_tsvars":12,"animation":1,"invertAnimation":true,"status":1,"extra":{"z":[null,1e400]},` +
			`"variable":{"name":"Nivel","unit":"m","varsTs":{"measurement": "tanque", "field": "nivel", "calc_field": "nivel_c"}}},` +
			`{"id":2,"points":{},"stroke":"#0f0","id_tsvars":"q","variable":{"name":"Caudal <total> & más","unit":null,"varsTs":{"a": {"calc_field": "q1", "measure": "red"}, "b": {"calc_field": "q2", "measure": "red"}}}},` +
			`{"id":3,"stroke":"#00f","id_tsvars":null}]`,
		"images": `[{"id":4,"src":"x.png","id_tsvars":12}]`, "texts": `[{"id":5,"text":"Hola <b>"}]`, "polylines": `[{"id":6,"points":[[1,2],[3,4]]}]`,
	} {
		if have := string(read.Data[0][name]); compact(t, have) != compact(t, want) {
			t.Errorf("%s is\n%s, want\n%s", name, have, want)
		}
	}
	// What was read is saved again as it is, with one line gone and one changed.
	saveAs(ana, fmt.Sprintf(`{"diagram":{"id":%d,"title":"Red 2"},"lines":[{"id":2,"stroke":"#123456"}],"images":[],"texts":[],"polylines":[],"deleted":{"lines":[1,77],"images":[4],"texts":[],"polylines":[]}}`, id))
	ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id)).WantData(t, fmt.Sprintf(`[{"id":%d,"version":2,"title":"Red 2","status":1,"backgroundColor":"","backgroundImg":"",
		"lines":[{"id":2,"stroke":"#123456"},{"id":3,"stroke":"#00f","id_tsvars":null}],"images":[],"texts":[{"id":5,"text":"Hola <b>"}],"polylines":[{"id":6,"points":[[1,2],[3,4]]}]}]`, id))
	ana.Get("/getObjectCanva?id=4711").WantData(t, `[]`)
	ana.Get("/getObjectCanva?id=-1").WantData(t, `[]`)
	// A diagram that was read whole, objects and all, can be sent as diagram, unless it is stale.
	ana.Post("/saveDiagram", apitest.Raw(`{"diagram":`+string(apitest.Must[[]byte](t)(json.Marshal(read.Data[0])))+`}`)).WantFailure(t, 409)
	delete(read.Data[0], "version")
	whole := string(apitest.Must[[]byte](t)(json.Marshal(read.Data[0])))
	saveAs(ana, `{"diagram":`+whole+`}`)
	w.LogIn(t, server, w.Otro).Get(fmt.Sprintf("/getObjectCanva?id=%d", id)).WantData(t, `[]`)
}

func compact(tb testing.TB, text string) string {
	tb.Helper()
	var out strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		if text[i] == '"' {
			quoted = !quoted
		}
		if quoted || !strings.ContainsRune(" \n\t", rune(text[i])) {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func TestDiagramsRefused(t *testing.T) { testDiagramsRefused(t, apitest.Embedded(t)) }

func testDiagramsRefused(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	first := saveAs(ana, `{"diagram":{"title":"uno"},"lines":[{"stroke":"#f00"}]}`)
	second := saveAs(ana, `{"diagram":{"title":"dos"}}`)
	for name, body := range map[string]string{
		"a line of another diagram":  fmt.Sprintf(`{"diagram":{"id":%d,"title":"x"},"lines":[{"id":1}]}`, second),
		"deleting one":               fmt.Sprintf(`{"diagram":{"id":%d,"title":"x"},"deleted":{"lines":[1]}}`, second),
		"no diagram":                 `{"lines":[]}`,
		"diagram is null":            `{"diagram":null}`,
		"an id that is text":         `{"diagram":{"id":"uno"}}`,
		"an image that is a script":  `{"diagram":{"backgroundImg":"javascript:alert(1)"}}`,
		"an image of a file":         `{"diagram":{"backgroundImg":"file:///etc/passwd"}}`,
		"an image in itself":         `{"diagram":{"backgroundImg":"data:image/png;base64,AA=="}}`,
		"a title with NUL":           `{"diagram":{"title":"a\u0000b"}}`,
		"an object twice":            fmt.Sprintf(`{"diagram":{"id":%d},"lines":[{"id":1},{"id":1}]}`, first),
		"saved and deleted":          fmt.Sprintf(`{"diagram":{"id":%d},"lines":[{"id":1}],"deleted":{"lines":[1]}}`, first),
		"too many":                   `{"diagram":{},"texts":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1001), ",") + `]}`,
		"a line that is a number":    `{"diagram":{},"lines":[5]}`,
		"a status that is a boolean": `{"diagram":{"status":true}}`,
		"deleted is an array":        `{"diagram":{},"deleted":[]}`,
	} {
		if got := ana.WithTB(t).Post("/saveDiagram", apitest.Raw(body)); got.Status != 500 {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		} else {
			got.WantFailure(t, 500)
		}
	}
	ana.Post("/saveDiagram", apitest.Raw(`{"diagram":{"id":4711}}`)).WantFailure(t, 404)
	ana.Get("/getObjectCanva").WantFailure(t, 500)
	ana.Get("/getObjectCanva?id=uno").WantFailure(t, 500)
	ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", first)).WantData(t,
		fmt.Sprintf(`[{"id":%d,"version":1,"title":"uno","status":1,"backgroundColor":"","backgroundImg":"","lines":[{"id":1,"stroke":"#f00"}],"images":[],"texts":[],"polylines":[]}]`, first))
}
