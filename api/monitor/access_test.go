package monitor_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/monitor"
	"tsmon/store/record"
)

func TestLogin(t *testing.T) { testLogin(t, apitest.Embedded(t)) }

func testLogin(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	nobody := apitest.Client{TB: t, Base: server.URL}
	for _, prefix := range []string{"", "/api"} {
		got := nobody.Post(prefix+"/loginPartner", w.Ana)
		text, ok := got.Data(t).(string)
		if parts := strings.Split(text, "."); !ok || len(parts) != 3 {
			t.Fatalf("data is %v, want a JWT", got.Data(t))
		}
		claims := apitest.Must[map[string]any](t)(payload(text))
		for name, want := range map[string]any{"sub": "1", "schemaName": w.Ana.Schema, "ts_name": w.Ana.TsName, "profile": 7.0} {
			if claims[name] != want {
				t.Errorf("claim %s is %v, want %v", name, claims[name], want)
			}
		}
		if life := claims["exp"].(float64) - claims["iat"].(float64); life != 12*3600 {
			t.Errorf("the token lives %v s, want 12 h", life)
		}
	}
	nobody.Post("/loginPartner", apitest.Login{Email: strings.ToUpper(w.Ana.Email), TokenApp: w.Ana.TokenApp, Schema: w.Ana.Schema, TsName: w.Ana.TsName}).Data(t)
	for name, wrong := range map[string]apitest.Login{
		"e-mail":  {Email: "eva@example.com", TokenApp: w.Ana.TokenApp, Schema: w.Ana.Schema, TsName: w.Ana.TsName},
		"token":   {Email: w.Ana.Email, TokenApp: w.Eva.TokenApp, Schema: w.Ana.Schema, TsName: w.Ana.TsName},
		"schema":  {Email: w.Ana.Email, TokenApp: w.Ana.TokenApp, Schema: w.Otro.Schema, TsName: w.Ana.TsName},
		"ts_name": {Email: w.Ana.Email, TokenApp: w.Ana.TokenApp, Schema: w.Ana.Schema, TsName: w.Otro.TsName},
	} {
		if got := nobody.Post("/loginPartner", wrong).WantFailure(t, 401); got != "the login was refused" {
			t.Errorf("wrong %s: %q", name, got)
		}
	}
	// A token is good until it expires, and for the leeway of clocks.
	ana := w.LogIn(t, server, w.Ana)
	w.Clock.Move(12*time.Hour + 25*time.Second)
	ana.Get("/getAllMenu").Data(t)
	w.Clock.Move(10 * time.Second)
	ana.Get("/getAllMenu").WantFailure(t, 401)
	// One that is revoked ends within a minute.
	ana = w.LogIn(t, server, w.Ana)
	ana.Get("/getAllMenu").Data(t)
	if err := w.Records.DisableUser(t.Context(), w.Ana.Schema, w.Ana.Email); err != nil {
		t.Fatal(err)
	}
	nobody.Post("/loginPartner", w.Ana).WantFailure(t, 401)
	w.Clock.Move(time.Minute)
	ana.Get("/getAllMenu").WantFailure(t, 401)
}

// TestManyLogins checks that only failed logins are throttled.
func TestManyLogins(t *testing.T) { testManyLogins(t, apitest.Embedded(t)) }

func testManyLogins(t *testing.T, w *apitest.World) {
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	statuses := make(chan int, 60)
	for range cap(statuses) {
		go func() { statuses <- nobody.Post("/loginPartner", w.Ana).Status }()
	}
	for range cap(statuses) {
		if status := <-statuses; status != 200 {
			t.Errorf("a good login beside others: %d", status)
		}
	}
}

// TestTokenReplaced checks that a login with a new partner token works at once.
func TestTokenReplaced(t *testing.T) { testTokenReplaced(t, apitest.Embedded(t)) }

func testTokenReplaced(t *testing.T, w *apitest.World) {
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	ana.Get("/getAllMenu").Data(t)
	w.Clock.Move(2 * time.Second)
	if err := w.Records.SetUserToken(t.Context(), w.Ana.Schema, w.Ana.Email, monitor.TokenDigest("another")); err != nil {
		t.Fatal(err)
	}
	again := w.Ana
	again.TokenApp = "another"
	w.LogIn(t, server, again).Get("/getAllMenu").Data(t)
	ana.Get("/getAllMenu").WantFailure(t, 401) // now that it is known
}

// payload returns the claims of a JWT without verifying it.
func payload(text string) (claims map[string]any, err error) {
	err = json.Unmarshal(decodeSegment(strings.Split(text, ".")[1]), &claims)
	return claims, err
}

func TestMenusAndPermissions(t *testing.T) { testMenusAndPermissions(t, apitest.Embedded(t)) }

func testMenusAndPermissions(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana, eva, luis := w.LogIn(t, server, w.Ana), w.LogIn(t, server, w.Eva), w.LogIn(t, server, w.Luis)
	ana.Get("/getAllMenu").WantData(t, `[
		{"id":1,"name":"Inicio","icon":"home","path":"/inicio","status":true},
		{"id":2,"name":"Diagramas","icon":"edit","path":"/diagramas","status":true},
		{"id":3,"name":"Notificaciones","icon":"bell","path":"/notificaciones","status":false}]`)
	w.LogIn(t, server, w.Otro).Get("/getAllMenu").WantData(t, `[]`)
	const (
		ofProfile = `{"id":1,"id_menu":2,"id_profile":7,"id_user":null,"status":true},{"id":2,"id_menu":3,"id_profile":7,"id_user":null,"status":false}`
		ofUser    = `{"id":3,"id_menu":3,"id_profile":null,"id_user":1,"status":true}`
	)
	ana.Get("/getPermission?id=1&type=id_user").WantData(t, "["+ofUser+"]")
	ana.Get("/getPermission?id=1&type=id_user&profile=7").WantData(t, "["+ofProfile+","+ofUser+"]")
	ana.Get("/getPermission?id=7&type=id_profile").WantData(t, "["+ofProfile+"]")
	eva.Get("/getPermission?id=1&type=id_user&profile=7").WantData(t, "["+ofProfile+","+ofUser+"]")
	luis.Get("/getPermission?id=3&type=id_user&profile=9").WantData(t, "[]")
	for _, query := range []string{"id=2&type=id_user", "id=8&type=id_profile", "id=1&type=id_user&profile=8"} {
		ana.Get("/getPermission?"+query).WantFailure(t, 403)
	}
	for _, query := range []string{"", "id=1", "type=id_user", "id=x&type=id_user", "id=1&type=user", "id=1&id=2&type=id_user", "id=1&type=id_user&profile=x", "id=7&type=id_profile&profile=false", "id=9223372036854775808&type=id_user"} {
		ana.Get("/getPermission?"+query).WantFailure(t, 500)
	}
	// What the grants open: a denial of the user's own overrides the profile.
	save := map[string]any{"diagram": map[string]any{"title": "Red"}}
	publish := map[string]any{"topic": w.Ana.Schema + "/bomba/1", "data": map[string]any{"source_0": []int{1}}}
	ana.Post("/saveDiagram", save).Data(t)
	ana.Post("/sendConfigMQTT", publish).Data(t)
	for _, c := range []apitest.Client{eva, luis} {
		c.Post("/saveDiagram", save).WantFailure(t, http.StatusForbidden)
		c.Post("/sendConfigMQTT", publish).WantFailure(t, http.StatusForbidden)
	}
	// Without a setting only administrators may.
	w.LogIn(t, server, w.Otro).Post("/saveDiagram", save).Data(t)
	apitest.Must[record.User](t)(w.Records.CreateUser(t.Context(), w.Otro.Schema, record.User{Email: "bea@example.com", TokenDigest: monitor.TokenDigest("bea")}))
	w.LogIn(t, server, apitest.Login{Email: "bea@example.com", TokenApp: "bea", Schema: w.Otro.Schema, TsName: w.Otro.TsName}).Post("/saveDiagram", save).WantFailure(t, http.StatusForbidden)
}

func TestAudit(t *testing.T) { testAudit(t, apitest.Embedded(t)) }

func testAudit(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	server := w.Serve(t)
	ana := w.LogIn(t, server, w.Ana)
	ana.Post("/saveDiagram", map[string]any{"diagram": map[string]any{"title": "Red"}}).Data(t)
	ana.Post("/saveDiagram", map[string]any{"diagram": map[string]any{"id": 99, "title": "Red"}}).WantFailure(t, 404)
	ana.Post("/sendConfigMQTT", map[string]any{"topic": w.Ana.Schema + "/bomba/1", "data": map[string]any{}}).Data(t)
	apitest.Client{TB: t, Base: server.URL}.Post("/loginPartner", apitest.Login{Email: w.Ana.Email, TokenApp: "wrong", Schema: w.Ana.Schema, TsName: w.Ana.TsName}).WantFailure(t, 401)
	rows := apitest.Must[[]record.Audit](t)(w.Records.LastAudits(t.Context(), w.Ana.Schema, 10))
	want := []record.Audit{
		{Action: "login", Target: w.Ana.TsName}, {Action: "publish", Target: w.Ana.Schema + "/bomba/1", OK: true},
		{Action: "save", Target: "diagram 99"}, {Action: "save", Target: "diagram 1", OK: true}, {Action: "login", Target: w.Ana.TsName, OK: true},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, row := range rows {
		if row.Request == "" || row.Time.IsZero() || row.Address != "127.0.0.1" || row.User != w.Ana.Email || row.Schema != w.Ana.Schema {
			t.Errorf("row %d is %+v", i, row)
		}
		if row.Action != want[i].Action || row.Target != want[i].Target || row.OK != want[i].OK {
			t.Errorf("row %d is %+v, want %+v", i, row, want[i])
		}
	}
}
