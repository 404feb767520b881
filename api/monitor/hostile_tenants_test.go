package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/store/record"
)

// neighbours gives both tenants the same IDs with different contents, and each some
// that the other lacks.
func neighbours(t *testing.T, w *apitest.World) {
	t.Helper()
	now := w.Clock.Now().UnixMilli()
	for i, who := range []apitest.Login{w.Ana, w.Otro} {
		var c record.Content
		apitest.ReadJSON(t, []byte(strings.ReplaceAll(`{
			"variables": [{"id": 1, "name": "of NAME", "unit": null, "varsTs": {"measurement": "tanque", "field": "nivel"}},
				{"id": "only NAME", "name": "v", "unit": null, "varsTs": {"measurement": "only", "field": "x"}}],
			"diagrams": [{"id": 1, "title": "of NAME", "lines": [{"id": 1, "stroke": "NAME", "id_tsvars": 1}]}],
			"menus": [{"id": 1, "name": "of NAME", "icon": "", "path": "/", "status": true}],
			"permissions": [],
			"notifications": {"NAME": {"b": {"v": []}}},
			"charts": [{"id": 1, "component": "NAME", "data": {}}]}`, "NAME", who.Schema)), &c)
		for menu := range int64(3) {
			c.Permissions = append(c.Permissions, record.Permission{ID: menu + 1, Menu: 1, Profile: apitest.Int64(7), Status: i == 0})
		}
		if i == 1 {
			c.Diagrams = append(c.Diagrams, record.Diagram{ID: 2, Title: "secret", Status: 1})
		}
		if err := w.Records.Import(t.Context(), who.Schema, c); err != nil {
			t.Fatal(err)
		}
		w.Write(t, who.TsName, fmt.Sprintf("tanque nivel=%d %d\nonly_%s x=1 %[2]d\n", i+1, now-60_000, who.Schema))
	}
}

func TestHostileNeighbours(t *testing.T) { testHostileNeighbours(t, apitest.Embedded(t)) }

func testHostileNeighbours(t *testing.T, w *apitest.World) {
	neighbours(t, w)
	server := w.Serve(t)
	clients := []apitest.Client{w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Otro)}
	logins := []apitest.Login{w.Ana, w.Otro}
	span := fmt.Sprintf(`"start":%d,"samplingPeriod":"1d"`, w.Clock.Now().Add(-time.Hour).UnixMilli())
	// Twice, so that what is remembered of the other tenant is there.
	for range 2 {
		for i, c := range clients {
			own, other := logins[i], logins[1-i]
			batch := "[" + apitest.Item(1, "", apitest.FormNivel) + "," + apitest.Item(2, `"type":"sum"`, apitest.FormNivel) + "," +
				apitest.Item(3, "", `{"measurement":"only_`+other.Schema+`","field":"x"}`) + "," + apitest.Item(4, "", `{"measurement":"only_`+own.Schema+`","field":"x"}`) + "]"
			// Members, parameters and headers that name the other tenant change nothing.
			named := `"schemaName":"` + other.Schema + `","ts_name":"` + other.TsName + `","database":"` + other.TsName + `","db":"` + other.TsName + `"`
			query := "?schemaName=" + other.Schema + "&ts_name=" + other.TsName + "&db=" + other.TsName + "&bucket=" + other.TsName
			for _, r := range []struct {
				apitest.Route
				want string
			}{
				{apitest.NewRoute("POST", "/dataTs", `{"measurement":"tanque","calc_field":"nivel",`+named+`}`), fmt.Sprintf(`{"nivel":{"value":%d}}`, i+1)},
				{apitest.NewRoute("POST", "/dataTs"+query, `{"measurement":"tanque","calc_field":"nivel"}`), fmt.Sprintf(`{"nivel":{"value":%d}}`, i+1)},
				{apitest.NewRoute("POST", "/dataTs", `{"measurement":"only_`+other.Schema+`","calc_field":"x"}`), `{"x":{"value":null}}`},
				{apitest.NewRoute("POST", "/dataTs", `{"measurement":"`+other.TsName+`..tanque","calc_field":"nivel"}`), `{"nivel":{"value":null}}`},
				{apitest.NewRoute("POST", "/multipleDataTs"+query, batch), fmt.Sprintf(`{"1":%d,"2":%[1]d,"3":null,"4":1}`, i+1)},
				{apitest.NewRoute("POST", "/seriesDataTs"+query, `[{"measurement":"only_`+other.Schema+`","field":"x",`+span+`,`+named+`}]`), `{"x":[]}`},
				{apitest.NewRoute("GET", "/getObjectCanva"+query+"&id=1", `{`+named+`}`),
					fmt.Sprintf(`[{"id":1,"version":1,"title":"of %[1]s","status":1,"backgroundColor":"","backgroundImg":"","images":[],"texts":[],"polylines":[],
						"lines":[{"id":1,"stroke":"%[1]s","id_tsvars":1,"variable":{"name":"of %[1]s","unit":null,"varsTs":{"measurement":"tanque","field":"nivel"}}}]}]`, own.Schema)},
				{apitest.NewRoute("GET", "/getVarsTs"+query, ""), fmt.Sprintf(`[{"id":1,"name":"of %[1]s","unit":null,"type":"number","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"tanque","field":"nivel"}},
					{"id":"only %[1]s","name":"v","unit":null,"type":"number","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"only","field":"x"}}]`, own.Schema)},
				{apitest.NewRoute("GET", "/getConfigNotify"+query, ""), `{"` + own.Schema + `":{"b":{"v":[]}}}`},
				{apitest.NewRoute("GET", "/getAllMenu"+query, ""), `[{"id":1,"name":"of ` + own.Schema + `","icon":"","path":"/","status":true}]`},
				{apitest.NewRoute("GET", "/indicatorCharts"+query, ""), `[{"id":1,"component":"` + own.Schema + `","data":{}}]`},
				{apitest.NewRoute("GET", "/getPermission"+query+"&id=7&type=id_profile", ""), fmt.Sprintf(
					`[{"id":1,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v},{"id":2,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v},{"id":3,"id_menu":1,"id_profile":7,"id_user":null,"status":%[1]v}]`, i == 0)},
			} {
				got := c.Request(r.Route, map[string][]string{"X-Schema": {other.Schema}, "Cookie": {"token=" + clients[1-i].Token}})
				got.WantData(t, r.want)
				if t.Failed() {
					t.Fatalf("%s: %s %s", own.Schema, r.Path, r.Body)
				}
			}
		}
	}
	// The same bytes from both at once, which may share everything but the values.
	w.Clock.Move(time.Minute)
	apitest.Concurrently(40, func(i int) {
		got := clients[i%2].Attempt(apitest.NewRoute("POST", "/multipleDataTs", "["+apitest.Item(1, "", apitest.FormNivel)+"]"), nil)
		if want := fmt.Sprintf(`{"data":{"1":%d}}`, i%2+1); strings.TrimSpace(string(got.Body)) != want {
			t.Errorf("%d %s, want %s", got.Status, got.Body, want)
		}
	})
	clients[0].Get("/getObjectCanva?id=2").WantData(t, `[]`)
	clients[1].Get("/getObjectCanva?id=2").WantData(t, `[{"id":2,"version":1,"title":"secret","status":1,"backgroundColor":"","backgroundImg":"","lines":[],"images":[],"texts":[],"polylines":[]}]`)
}

func TestHostileSaves(t *testing.T) { testHostileSaves(t, apitest.Embedded(t)) }

func testHostileSaves(t *testing.T, w *apitest.World) {
	neighbours(t, w)
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana, otro := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Otro)
	before := apitest.Export(t, w, w.Otro.Schema)
	// A diagram of the other tenant is not there, and an id of its line is free.
	ana.Post("/saveDiagram", apitest.Raw(`{"diagram":{"id":2,"title":"mine"}}`)).WantFailure(t, 404)
	saveAs(ana, `{"diagram":{"id":1,"title":"mine"},"lines":[{"id":1,"stroke":"changed"},{"id":2,"stroke":"new"}],"deleted":{"texts":[1]}}`)
	saveAs(ana, `{"diagram":{"id":1,"title":"mine"},"deleted":{"lines":[1]}}`)
	if after := apitest.Export(t, w, w.Otro.Schema); after != before {
		t.Errorf("the other tenant has\n%s, had\n%s", after, before)
	}
	before = apitest.Export(t, w, w.Ana.Schema)
	saveAs(otro, `{"diagram":{"id":1,"title":"theirs"},"deleted":{"lines":[2]}}`)
	if after := apitest.Export(t, w, w.Ana.Schema); after != before {
		t.Errorf("the tenant has\n%s, had\n%s", after, before)
	}
	for _, topic := range []string{w.Ana.Schema + "/x", w.Ana.Schema + "/../" + w.Otro.Schema + "/x", strings.ToUpper(w.Otro.Schema) + "/x", "x/" + w.Otro.Schema + "/x"} {
		otro.Post("/sendConfigMQTT", map[string]any{"topic": topic, "data": map[string]any{}}).WantFailure(t, 403)
	}
	otro.Post("/sendConfigMQTT", map[string]any{"topic": w.Otro.Schema + "/x", "data": map[string]any{}}).Data(t)
	// What a token says of its tenant can't be mixed.
	mixed := w.Ana
	mixed.TsName = w.Otro.TsName
	apitest.Client{TB: t, Base: server.URL}.Post("/loginPartner", mixed).WantFailure(t, 401)
}
