package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/store/record"
)

// neighbours gives both tenants the same ids with other contents, and each of
// them what the other has not.
func neighbours(t *testing.T, w *world) {
	t.Helper()
	now := w.now.now().UnixMilli()
	for i, who := range []login{w.ana, w.otro} {
		var c record.Content
		readJSON(t, []byte(strings.ReplaceAll(`{
			"variables": [{"id": 1, "name": "of NAME", "unit": null, "varsTs": {"measurement": "tanque", "field": "nivel"}},
				{"id": "only NAME", "name": "v", "unit": null, "varsTs": {"measurement": "only", "field": "x"}}],
			"diagrams": [{"id": 1, "title": "of NAME", "lines": [{"id": 1, "stroke": "NAME", "id_tsvars": 1}]}],
			"menus": [{"id": 1, "name": "of NAME", "icon": "", "path": "/", "status": true}],
			"permissions": [],
			"notifications": {"NAME": {"b": {"v": []}}},
			"charts": [{"id": 1, "component": "NAME", "data": {}}]}`, "NAME", who.Schema)), &c)
		for menu := range int64(3) {
			c.Permissions = append(c.Permissions, record.Permission{ID: menu + 1, Menu: 1, Profile: i64(7), Status: i == 0})
		}
		if i == 1 {
			c.Diagrams = append(c.Diagrams, record.Diagram{ID: 2, Title: "secret", Status: 1})
		}
		if err := w.Records.Import(t.Context(), who.Schema, c); err != nil {
			t.Fatal(err)
		}
		w.put(t, who.TsName, fmt.Sprintf("tanque nivel=%d %d\nonly_%s x=1 %[2]d\n", i+1, now-60_000, who.Schema))
	}
}

func testHostileNeighbours(t *testing.T, w *world) {
	neighbours(t, w)
	server := w.serve(t)
	clients := []client{w.as(t, server, w.ana), w.as(t, server, w.otro)}
	logins := []login{w.ana, w.otro}
	span := fmt.Sprintf(`"start":%d,"samplingPeriod":"1d"`, w.now.now().Add(-time.Hour).UnixMilli())
	// Twice, so that what is remembered of the other tenant is there.
	for range 2 {
		for i, c := range clients {
			own, other := logins[i], logins[1-i]
			batch := "[" + item(1, "", formNivel) + "," + item(2, `"type":"sum"`, formNivel) + "," +
				item(3, "", `{"measurement":"only_`+other.Schema+`","field":"x"}`) + "," + item(4, "", `{"measurement":"only_`+own.Schema+`","field":"x"}`) + "]"
			// Members, parameters and headers that name the other tenant change nothing.
			named := `"schemaName":"` + other.Schema + `","ts_name":"` + other.TsName + `","database":"` + other.TsName + `","db":"` + other.TsName + `"`
			query := "?schemaName=" + other.Schema + "&ts_name=" + other.TsName + "&db=" + other.TsName + "&bucket=" + other.TsName
			for _, r := range []struct {
				route
				want string
			}{
				{route{"POST", "/dataTs", `{"measurement":"tanque","calc_field":"nivel",` + named + `}`}, fmt.Sprintf(`{"nivel":{"value":%d}}`, i+1)},
				{route{"POST", "/dataTs" + query, `{"measurement":"tanque","calc_field":"nivel"}`}, fmt.Sprintf(`{"nivel":{"value":%d}}`, i+1)},
				{route{"POST", "/dataTs", `{"measurement":"only_` + other.Schema + `","calc_field":"x"}`}, `{"x":{"value":null}}`},
				{route{"POST", "/dataTs", `{"measurement":"` + other.TsName + `..tanque","calc_field":"nivel"}`}, `{"nivel":{"value":null}}`},
				{route{"POST", "/multipleDataTs" + query, batch}, fmt.Sprintf(`{"1":%d,"2":%[1]d,"3":null,"4":1}`, i+1)},
				{route{"POST", "/seriesDataTs" + query, `[{"measurement":"only_` + other.Schema + `","field":"x",` + span + `,` + named + `}]`}, `{"x":[]}`},
				{route{"GET", "/getObjectCanva" + query + "&id=1", `{` + named + `}`},
					fmt.Sprintf(`[{"id":1,"title":"of %[1]s","status":1,"backgroundColor":"","backgroundImg":"","images":[],"texts":[],"polylines":[],
						"lines":[{"id":1,"stroke":"%[1]s","id_tsvars":1,"variable":{"name":"of %[1]s","unit":null,"varsTs":{"measurement":"tanque","field":"nivel"}}}]}]`, own.Schema)},
				{route{"GET", "/getVarsTs" + query, ""}, fmt.Sprintf(`[{"id":1,"name":"of %[1]s","unit":null,"type":"number","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"tanque","field":"nivel"}},
					{"id":"only %[1]s","name":"v","unit":null,"type":"number","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"only","field":"x"}}]`, own.Schema)},
				{route{"GET", "/getConfigNotify" + query, ""}, `{"` + own.Schema + `":{"b":{"v":[]}}}`},
				{route{"GET", "/getAllMenu" + query, ""}, `[{"id":1,"name":"of ` + own.Schema + `","icon":"","path":"/","status":true}]`},
				{route{"GET", "/indicatorCharts" + query, ""}, `[{"id":1,"component":"` + own.Schema + `","data":{}}]`},
				{route{"GET", "/getPermission" + query + "&id=7&type=id_profile", ""}, fmt.Sprintf(
					`[{"id":1,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v},{"id":2,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v},{"id":3,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v}]`, i == 0)},
			} {
				got := c.request(r.route, map[string][]string{"X-Schema": {other.Schema}, "Cookie": {"token=" + clients[1-i].token}})
				got.wantData(t, r.want)
				if t.Failed() {
					t.Fatalf("%s: %s %s", own.Schema, r.path, r.body)
				}
			}
		}
	}
	// The same bytes from both at once, which may share everything but the values.
	w.now.move(time.Minute)
	together(40, func(i int) {
		got := clients[i%2].attempt(route{"POST", "/multipleDataTs", "[" + item(1, "", formNivel) + "]"}, nil)
		if want := fmt.Sprintf(`{"data":{"1":%d}}`, i%2+1); strings.TrimSpace(string(got.body)) != want {
			t.Errorf("%d %s, want %s", got.status, got.body, want)
		}
	})
	clients[0].get("/getObjectCanva?id=2").wantData(t, `[]`)
	clients[1].get("/getObjectCanva?id=2").wantData(t, `[{"id":2,"title":"secret","status":1,"backgroundColor":"","backgroundImg":"","lines":[],"images":[],"texts":[],"polylines":[]}]`)
}

func testHostileSaves(t *testing.T, w *world) {
	neighbours(t, w)
	grants(t, w)
	server := w.serve(t)
	ana, otro := w.as(t, server, w.ana), w.as(t, server, w.otro)
	before := exported(t, w, w.otro.Schema)
	// A diagram of the other tenant is not there, and an id of its line is free.
	ana.post("/saveDiagram", raw(`{"diagram":{"id":2,"title":"mine"}}`)).wantFailure(t, 404)
	saveAs(ana, `{"diagram":{"id":1,"title":"mine"},"lines":[{"id":1,"stroke":"changed"},{"id":2,"stroke":"new"}],"deleted":{"texts":[1]}}`)
	saveAs(ana, `{"diagram":{"id":1,"title":"mine"},"deleted":{"lines":[1]}}`)
	if after := exported(t, w, w.otro.Schema); after != before {
		t.Errorf("the other tenant has\n%s, had\n%s", after, before)
	}
	before = exported(t, w, w.ana.Schema)
	saveAs(otro, `{"diagram":{"id":1,"title":"theirs"},"deleted":{"lines":[2]}}`)
	if after := exported(t, w, w.ana.Schema); after != before {
		t.Errorf("the tenant has\n%s, had\n%s", after, before)
	}
	for _, topic := range []string{w.ana.Schema + "/x", w.ana.Schema + "/../" + w.otro.Schema + "/x", strings.ToUpper(w.otro.Schema) + "/x", "x/" + w.otro.Schema + "/x"} {
		otro.post("/sendConfigMQTT", map[string]any{"topic": topic, "data": map[string]any{}}).wantFailure(t, 403)
	}
	otro.post("/sendConfigMQTT", map[string]any{"topic": w.otro.Schema + "/x", "data": map[string]any{}}).data(t)
	// What a token says of its tenant can't be mixed.
	mixed := w.ana
	mixed.TsName = w.otro.TsName
	client{tb: t, base: server.URL}.post("/loginPartner", mixed).wantFailure(t, 401)
}

// exported is everything that a tenant owns, as text.
func exported(tb testing.TB, w *world, schema string) string {
	tb.Helper()
	return string(must[[]byte](tb)(encode(must[record.Content](tb)(w.Records.Export(tb.Context(), schema)))))
}
