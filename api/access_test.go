package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"tsmon/api/monitor"
	"tsmon/store/record"
)

func testLogin(t *testing.T, w *world) {
	server := w.serve(t)
	nobody := client{tb: t, base: server.URL}
	for _, prefix := range []string{"", "/api"} {
		got := nobody.post(prefix+"/loginPartner", w.ana)
		text, ok := got.data(t).(string)
		if parts := strings.Split(text, "."); !ok || len(parts) != 3 {
			t.Fatalf("data is %v, want a JWT", got.data(t))
		}
		claims := must[map[string]any](t)(payload(text))
		for name, want := range map[string]any{"sub": "1", "schemaName": w.ana.Schema, "ts_name": w.ana.TsName, "profile": 7.0} {
			if claims[name] != want {
				t.Errorf("claim %s is %v, want %v", name, claims[name], want)
			}
		}
		if life := claims["exp"].(float64) - claims["iat"].(float64); life != 12*3600 {
			t.Errorf("the token lives %v s, want 12 h", life)
		}
	}
	nobody.post("/loginPartner", login{strings.ToUpper(w.ana.Email), w.ana.TokenApp, w.ana.Schema, w.ana.TsName}).data(t)
	for name, wrong := range map[string]login{
		"e-mail":  {"eva@example.com", w.ana.TokenApp, w.ana.Schema, w.ana.TsName},
		"token":   {w.ana.Email, w.eva.TokenApp, w.ana.Schema, w.ana.TsName},
		"schema":  {w.ana.Email, w.ana.TokenApp, w.otro.Schema, w.ana.TsName},
		"ts_name": {w.ana.Email, w.ana.TokenApp, w.ana.Schema, w.otro.TsName},
	} {
		if got := nobody.post("/loginPartner", wrong).wantFailure(t, 401); got != "the login was refused" {
			t.Errorf("wrong %s: %q", name, got)
		}
	}
	// A token is good until it expires, and for the leeway of clocks.
	ana := w.as(t, server, w.ana)
	w.now.move(12*time.Hour + 25*time.Second)
	ana.get("/getAllMenu").data(t)
	w.now.move(10 * time.Second)
	ana.get("/getAllMenu").wantFailure(t, 401)
	// One that is revoked ends within a minute.
	ana = w.as(t, server, w.ana)
	ana.get("/getAllMenu").data(t)
	if err := w.Records.DisableUser(t.Context(), w.ana.Schema, w.ana.Email); err != nil {
		t.Fatal(err)
	}
	nobody.post("/loginPartner", w.ana).wantFailure(t, 401)
	w.now.move(time.Minute)
	ana.get("/getAllMenu").wantFailure(t, 401)
}

// testManyLogins: good logins are not refused for being many.
func testManyLogins(t *testing.T, w *world) {
	nobody := client{tb: t, base: w.serve(t).URL}
	statuses := make(chan int, 60)
	for range cap(statuses) {
		go func() { statuses <- nobody.post("/loginPartner", w.ana).status }()
	}
	for range cap(statuses) {
		if status := <-statuses; status != 200 {
			t.Errorf("a good login beside others: %d", status)
		}
	}
}

// testTokenReplaced: what a new partner token issues is good at once.
func testTokenReplaced(t *testing.T, w *world) {
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	ana.get("/getAllMenu").data(t)
	w.now.move(2 * time.Second)
	if err := w.Records.SetUserToken(t.Context(), w.ana.Schema, w.ana.Email, monitor.TokenDigest("another")); err != nil {
		t.Fatal(err)
	}
	again := w.ana
	again.TokenApp = "another"
	w.as(t, server, again).get("/getAllMenu").data(t)
	ana.get("/getAllMenu").wantFailure(t, 401) // now that it is known
}

// payload returns the claims of a JWT without looking at its signature.
func payload(text string) (claims map[string]any, err error) {
	err = json.Unmarshal(decodeSegment(strings.Split(text, ".")[1]), &claims)
	return claims, err
}

func testPrefixes(t *testing.T, w *world) {
	server := w.serve(t)
	ana, nobody := w.as(t, server, w.ana), client{tb: t, base: server.URL}
	for _, prefix := range []string{"", "/api"} {
		for path, method := range map[string]string{
			"/seriesDataTs": "POST", "/dataTs": "POST", "/multipleDataTs": "POST", "/getObjectCanva?id=1": "GET", "/saveDiagram": "POST",
			"/getVarsTs": "GET", "/getConfigNotify": "GET", "/sendConfigMQTT": "POST", "/getAllMenu": "GET",
			"/getPermission?id=1&type=id_user": "GET", "/indicatorCharts": "GET",
		} {
			if got := nobody.send(method, prefix+path, nil, nil); got.status != 401 {
				t.Errorf("%s%s without a token: %d", prefix, path, got.status)
			}
			got := ana.send(method, prefix+path, raw("{}"), nil)
			if got.status == 401 || got.status == 404 || got.status == 405 || got.header.Get("X-Request-Id") == "" {
				t.Errorf("%s%s: %d %v", prefix, path, got.status, got.header)
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/metrics"} {
			if got := nobody.get(prefix + path); got.status != 200 {
				t.Errorf("%s%s: %d %.200s", prefix, path, got.status, got.body)
			}
		}
	}
}

// i64 is for members that may be null.
func i64(n int64) *int64 { return &n }

// grants are menus, and who may use them.
func grants(tb testing.TB, w *world) {
	tb.Helper()
	err := w.Records.Import(tb.Context(), w.ana.Schema, record.Content{
		Menus: []record.Menu{
			{ID: 1, Name: "Inicio", Icon: "home", Path: "/inicio", Status: true},
			{ID: saveMenu, Name: "Diagramas", Icon: "edit", Path: "/diagramas", Status: true},
			{ID: publishMenu, Name: "Notificaciones", Icon: "bell", Path: "/notificaciones", Status: false},
		},
		Permissions: []record.Permission{
			{ID: 1, Menu: saveMenu, Profile: i64(7), Status: true},
			{ID: 2, Menu: publishMenu, Profile: i64(7), Status: false},
			{ID: 3, Menu: publishMenu, User: i64(1), Status: true}, // the user's row overrides the profile's
			{ID: 4, Menu: saveMenu, Profile: i64(8), Status: true},
			{ID: 5, Menu: saveMenu, User: i64(2), Status: false},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func testMenusAndPermissions(t *testing.T, w *world) {
	grants(t, w)
	server := w.serve(t)
	ana, eva, luis := w.as(t, server, w.ana), w.as(t, server, w.eva), w.as(t, server, w.luis)
	ana.get("/getAllMenu").wantData(t, `[
		{"id":1,"name":"Inicio","icon":"home","path":"/inicio","status":true},
		{"id":2,"name":"Diagramas","icon":"edit","path":"/diagramas","status":true},
		{"id":3,"name":"Notificaciones","icon":"bell","path":"/notificaciones","status":false}]`)
	w.as(t, server, w.otro).get("/getAllMenu").wantData(t, `[]`)
	const (
		ofProfile = `{"id":1,"id_menu":2,"id_profile":7,"id_user":null,"status":true},{"id":2,"id_menu":3,"id_profile":7,"id_user":null,"status":false}`
		ofUser    = `{"id":3,"id_menu":3,"id_profile":null,"id_user":1,"status":true}`
	)
	ana.get("/getPermission?id=1&type=id_user").wantData(t, "["+ofUser+"]")
	ana.get("/getPermission?id=1&type=id_user&profile=7").wantData(t, "["+ofProfile+","+ofUser+"]")
	ana.get("/getPermission?id=7&type=id_profile").wantData(t, "["+ofProfile+"]")
	eva.get("/getPermission?id=1&type=id_user&profile=7").wantData(t, "["+ofProfile+","+ofUser+"]")
	luis.get("/getPermission?id=3&type=id_user&profile=9").wantData(t, "[]")
	for _, query := range []string{"id=2&type=id_user", "id=8&type=id_profile", "id=1&type=id_user&profile=8"} {
		ana.get("/getPermission?"+query).wantFailure(t, 403)
	}
	for _, query := range []string{"", "id=1", "type=id_user", "id=x&type=id_user", "id=1&type=user", "id=1&id=2&type=id_user", "id=1&type=id_user&profile=x", "id=9223372036854775808&type=id_user"} {
		ana.get("/getPermission?"+query).wantFailure(t, 500)
	}
	// What the grants open: a denial of the user's own overrides the profile.
	save := map[string]any{"diagram": map[string]any{"title": "Red"}}
	publish := map[string]any{"topic": w.ana.Schema + "/bomba/1", "data": map[string]any{"source_0": []int{1}}}
	ana.post("/saveDiagram", save).data(t)
	ana.post("/sendConfigMQTT", publish).data(t)
	for _, c := range []client{eva, luis} {
		c.post("/saveDiagram", save).wantFailure(t, http.StatusForbidden)
		c.post("/sendConfigMQTT", publish).wantFailure(t, http.StatusForbidden)
	}
	// Without a setting only administrators may.
	w.as(t, server, w.otro).post("/saveDiagram", save).data(t)
	must[record.User](t)(w.Records.CreateUser(t.Context(), w.otro.Schema, record.User{Email: "bea@example.com", TokenDigest: monitor.TokenDigest("bea")}))
	w.as(t, server, login{"bea@example.com", "bea", w.otro.Schema, w.otro.TsName}).post("/saveDiagram", save).wantFailure(t, http.StatusForbidden)
}

func testAudit(t *testing.T, w *world) {
	grants(t, w)
	server := w.serve(t)
	ana := w.as(t, server, w.ana)
	ana.post("/saveDiagram", map[string]any{"diagram": map[string]any{"title": "Red"}}).data(t)
	ana.post("/saveDiagram", map[string]any{"diagram": map[string]any{"id": 99, "title": "Red"}}).wantFailure(t, 404)
	ana.post("/sendConfigMQTT", map[string]any{"topic": w.ana.Schema + "/bomba/1", "data": map[string]any{}}).data(t)
	client{tb: t, base: server.URL}.post("/loginPartner", login{w.ana.Email, "wrong", w.ana.Schema, w.ana.TsName}).wantFailure(t, 401)
	rows := must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), w.ana.Schema, 10))
	want := []record.Audit{
		{Action: "login", Target: w.ana.TsName}, {Action: "publish", Target: w.ana.Schema + "/bomba/1", OK: true},
		{Action: "save", Target: "diagram 99"}, {Action: "save", Target: "diagram 1", OK: true}, {Action: "login", Target: w.ana.TsName, OK: true},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, row := range rows {
		if row.Request == "" || row.Time.IsZero() || row.Address != "127.0.0.1" || row.User != w.ana.Email || row.Schema != w.ana.Schema {
			t.Errorf("row %d is %+v", i, row)
		}
		if row.Action != want[i].Action || row.Target != want[i].Target || row.OK != want[i].OK {
			t.Errorf("row %d is %+v, want %+v", i, row, want[i])
		}
	}
}
