package monitor_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tsmon/api/apitest"
	"tsmon/api/monitor/mqtt"
	"tsmon/store/record"
	"tsmon/store/series"
)

// hostileNames would change the meaning of a query, a path or a page that interprets
// them.
var hostileNames = []string{
	`'`, `"`, "`", `''`, `""`, `\`, `\\`, `\"`, `\'`, `"\"`, `;`, `--`, `/*`, `*/`, `#`, `//`, ` `, `%`, `*`, `.`, `..`, `$1`, `?`, `:name`, `${field}`, `{{.}}`, `%s%n`, `tanque`, `nivel `, ` nivel`, `NIVEL`, `Tanque`,
	`tanque"; DROP MEASUREMENT "tanque`, `tanque'; DROP TABLE points; --`, `tanque" or "bomba`, `x" OR "a"='a`, `"."tanque`, `ts_otro"."autogen"."tanque`, `ts_otro..tanque`, `autogen.tanque`,
	`/.*/`, `/./`, `=~ /.*/`, `nivel" FROM "tanque"; SELECT "nivel`, `nivel), sum(nivel`, `nivel::float`, `*::field`, `time`, `name`, `sitio`,
	`" or r._measurement =~ /.*/ or r._field == "`, `") |> yield(name: "x`, `${r._value}`, "tanque\n|> drop(columns: [\"x\"])", `"\x22`, `\u0022`, `nivel\`, "nivel\t", "nivel\r\n", "nivel\n",
	"nivel\x00", "\x00", "tanque\x00x", "nivel\u200b", "ni\u0301vel", "nіvel", "ｎｉｖｅｌ", "\u202elevin", "\ufeffnivel", "\u2028", "😀", "niveĺ", "\ufffd", "\ufffe", "\u007f", "\u0085",
	strings.Repeat("a", 256), strings.Repeat("a", 257), strings.Repeat("é", 128), strings.Repeat("é", 128) + "a", strings.Repeat(`"`, 256), strings.Repeat(`\`, 256), strings.Repeat("x", 70_000),
	`_internal`, `_`, `_field`, `_measurement`, `__proto__`, ``, `null`, `constructor`, `<script>alert(1)</script>`, `../../etc/passwd`, `nivel=1`, `nivel,sitio=norte`, `tanque nivel=1 1`,
}

// quoted returns text as JSON.
func quoted(tb testing.TB, text string) string {
	tb.Helper()
	return string(apitest.Must[[]byte](tb)(json.Marshal(text)))
}

// isNetwork reports whether WriteNetwork writes a field.
func isNetwork(measurement, field string) bool {
	return measurement == "tanque" && field == "nivel"
}

func TestHostileNames(t *testing.T) { testHostileNames(t, apitest.Embedded(t)) }

func testHostileNames(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	kinds := apitest.Must[map[series.Key]series.Kind](t)(w.Series.Fields(t.Context(), w.Ana.TsName))
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	items, want := []string{apitest.Item(0, "", apitest.FormNivel)}, map[string]any{"0": 6.0}
	for _, name := range hostileNames {
		for _, pair := range [][2]string{{name, "nivel"}, {"tanque", name}} {
			if !isNetwork(pair[0], pair[1]) {
				checkHostileName(t, ana, pair[0], pair[1])
			}
		}
		if series.ValidName(name) != nil {
			continue
		}
		text := quoted(t, name)
		for _, varsTs := range []string{
			`{"measurement":` + text + `,"field":` + text + `}`,
			`{"measurement":"tanque","field":` + text + `,"calc_field":` + text + `}`,
			`{` + text + `:{"calc_field":` + text + `,"measure":"tanque"}}`,
			`{"a":{"calc_field":` + text + `,"measure":` + text + `}}`,
		} {
			want[fmt.Sprint(len(items))] = nil
			items = append(items, apitest.Item(len(items), "", varsTs))
		}
	}
	ana.Post("/multipleDataTs", apitest.Raw("["+strings.Join(items, ",")+"]")).WantData(t, asJSON(t, want))
	checkHostileIDs(t, ana)
	checkHostileSeries(t, ana)
	// The network is as it was.
	w.Clock.Move(time.Minute)
	ana.Post("/dataTs", apitest.Raw(`{"measurement":"tanque","calc_field":"nivel"}`)).WantData(t, `{"nivel":{"value":6}}`)
	w.LogIn(t, w.Serve(t), w.Otro).Post("/dataTs", apitest.Raw(`{"measurement":"tanque","calc_field":"nivel"}`)).WantData(t, `{"nivel":{"value":777}}`)
	if got := apitest.Must[map[series.Key]series.Kind](t)(w.Series.Fields(t.Context(), w.Ana.TsName)); fmt.Sprint(got) != fmt.Sprint(kinds) {
		t.Errorf("the fields are %v, were %v", got, kinds)
	}
}

func asJSON(tb testing.TB, v any) string {
	tb.Helper()
	return string(apitest.Must[[]byte](tb)(json.Marshal(v)))
}

// checkHostileName queries a missing value: null, and a problem if no database could
// store it, or refused if it is empty.
func checkHostileName(t *testing.T, ana apitest.Client, measurement, field string) {
	t.Helper()
	got := ana.Post("/dataTs", map[string]string{"measurement": measurement, "calc_field": field})
	if measurement == "" || field == "" {
		got.WantFailure(t, 500)
		return
	}
	bad := series.ValidWants([]series.Want{{Key: series.Key{Measurement: measurement, Field: field}}}) != nil
	if header := got.Header.Get(problemsHeader); bad != (header != "") || len(header) > maxProblem {
		t.Errorf("%.80q.%.80q: the header is %q", measurement, field, header)
	}
	got.WantData(t, asJSON(t, map[string]any{field: map[string]any{"value": nil}}))
}

// checkHostileIDs uses every name as ID and as key of an equation.
func checkHostileIDs(t *testing.T, ana apitest.Client) {
	t.Helper()
	var items []string
	want := map[string]any{}
	for _, name := range hostileNames {
		if name != "" {
			items = append(items, `{"dataTs":{"id":`+quoted(t, name)+`,"varsTs":`+apitest.FormNivel+`}}`)
			want[name] = 6
		}
	}
	ana.Post("/multipleDataTs", apitest.Raw("["+strings.Join(items, ",")+"]")).WantData(t, asJSON(t, want))
	for _, name := range hostileNames {
		varsTs := `{"k":{"calc_field":"nivel","measure":"tanque"},` + quoted(t, name+"·") + `:{"calc_field":"caudal-1","measure":"tanque"}}`
		got := ana.Post("/multipleDataTs", apitest.Raw("["+apitest.Item(1, `"calc":true,"equation":`+quoted(t, name), varsTs)+"]"))
		if header := got.Header.Get(problemsHeader); header == "" || len(header) > maxProblem {
			t.Errorf("equation %.80q: the header is %q", name, header)
		}
		got.WantData(t, `{"1":null}`)
	}
	for _, name := range append(hostileNames, "LAST", "Mean", "last;", "count", "last ", "median", "sum(x)") {
		if name == "" || name == "null" {
			continue
		}
		ana.Post("/multipleDataTs", apitest.Raw("["+apitest.Item(1, `"type":`+quoted(t, name), apitest.FormNivel)+"]")).WantData(t, `{"1":null}`)
	}
}

func checkHostileSeries(t *testing.T, ana apitest.Client) {
	t.Helper()
	items, want := []string{}, map[string]any{}
	for i, name := range hostileNames {
		text := quoted(t, name)
		for j, pair := range [][2]string{{text, `"nivel"`}, {`"tanque"`, text}} {
			id := fmt.Sprintf("%d-%d", i, j)
			one := fmt.Sprintf(`{"id":%q,"measurement":%s,"field":%s,"samplingPeriod":"1d"}`, id, pair[0], pair[1])
			switch {
			case isNetwork(name, "nivel"):
			case name == "":
				ana.Post("/seriesDataTs", apitest.Raw("["+one+"]")).WantFailure(t, 500)
			default:
				items, want[id] = append(items, one), []any{}
			}
		}
	}
	ana.Post("/seriesDataTs", apitest.Raw("["+strings.Join(items, ",")+"]")).WantData(t, asJSON(t, want))
	for _, period := range append(hostileNames, "0s", "-1m", "1y", "1M", "1.5m", "1e3s", "１m", "1m ", " 1m", "1000000s", "5", "m", "1mm", "1m;", "١m", "1u", "1µs", "1m\n", "01m", "+1m", "0x1m", "999999w", "1h), sum(nivel") {
		ana.Post("/seriesDataTs", apitest.Raw(`[{"measurement":"tanque","field":"nivel","samplingPeriod":`+quoted(t, period)+`}]`)).WantFailure(t, 500)
	}
	for _, at := range append(hostileNames, "2026-03-05", "2026-03-05T15:04:05", "now()", "now() - 1h", "-1h", "2026-13-05T15:04:05Z", "9999-12-31T23:59:59Z", "12345") {
		if at != "" {
			ana.Post("/seriesDataTs", apitest.Raw(`[{"measurement":"tanque","field":"nivel","samplingPeriod":"1m","start":`+quoted(t, at)+`}]`)).WantFailure(t, 500)
		}
	}
}

func TestHostileRecords(t *testing.T) { testHostileRecords(t, apitest.Embedded(t)) }

func testHostileRecords(t *testing.T, w *apitest.World) {
	apitest.ImportGrants(t, w)
	importContents(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	before := apitest.Export(t, w, w.Ana.Schema)
	other := apitest.Export(t, w, w.Otro.Schema)
	for _, name := range hostileNames {
		at := url.QueryEscape(name)
		for _, path := range []string{"/getObjectCanva?id=" + at, "/getObjectCanva?id=1" + at + "x", "/getPermission?type=id_user&id=" + at, "/getPermission?id=1&type=" + at} {
			ana.Get(path).WantFailure(t, 500)
		}
		if name != "" {
			ana.Get("/getPermission?id=1&type=id_user&profile="+at).WantFailure(t, 500)
		}
		for _, path := range []string{"/updates/", "/uploads/", "/updates/releases/1.0.0/", "/updates/releases/", "/getAllMenu/"} {
			if got := ana.Get(path + url.PathEscape(name) + "x"); got.Status != 404 {
				t.Errorf("%s%.80q: %d", path, name, got.Status)
			}
		}
		topic := w.Ana.Schema + "/" + name
		got := ana.Post("/sendConfigMQTT", map[string]any{"topic": topic, "data": map[string]any{name: []int{1}}})
		if mqtt.ValidTopic(topic) != nil {
			got.WantFailure(t, 500)
		} else {
			got.Data(t)
		}
		if got := ana.Post("/sendConfigMQTT", map[string]any{"topic": name, "data": map[string]any{}}); got.Status != 403 && got.Status != 500 {
			t.Errorf("topic %.80q: %d", name, got.Status)
		}
	}
	if after := apitest.Export(t, w, w.Ana.Schema); after != before {
		t.Errorf("the tenant has\n%s, had\n%s", after, before)
	}
	checkHostileTexts(t, w, ana)
	if after := apitest.Export(t, w, w.Otro.Schema); after != other {
		t.Errorf("the other tenant has\n%s, had\n%s", after, other)
	}
}

// checkHostileTexts saves every name as every text of a diagram and reads it back.
func checkHostileTexts(t *testing.T, w *apitest.World, ana apitest.Client) {
	t.Helper()
	for _, name := range hostileNames {
		text := quoted(t, name)
		body := `{"diagram":{"title":` + text + `,"backgroundColor":` + text + `},"lines":[{"stroke":` + text + `,"k` + text[1:] + `:1}],"texts":[{"id_tsvars":` + text + `}]}`
		if !record.Storable(name) {
			ana.Post("/saveDiagram", apitest.Raw(body)).WantFailure(t, 500)
			continue
		}
		id := saveAs(ana, body)
		got := ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id)).Data(t).([]any)[0].(map[string]any)
		line, other := got["lines"].([]any)[0].(map[string]any), got["texts"].([]any)[0].(map[string]any)
		if got["title"] != name || got["backgroundColor"] != name || line["stroke"] != name || line["k"+name] != 1.0 || other["id_tsvars"] != name {
			t.Errorf("%.80q is read as %.500v", name, got)
		}
	}
	// A line is bound to nothing by such a name.
	var lines []string
	for _, name := range hostileNames {
		line := `{"id_tsvars":` + quoted(t, name) + `}`
		if record.Storable(name) && len(name) <= 200 {
			lines = append(lines, line)
		} else {
			ana.Post("/saveDiagram", apitest.Raw(`{"diagram":{},"lines":[`+line+`]}`)).WantFailure(t, 500)
		}
	}
	id := saveAs(ana, `{"diagram":{},"lines":[`+strings.Join(lines, ",")+`]}`)
	if got := ana.Get(fmt.Sprintf("/getObjectCanva?id=%d", id)); strings.Contains(string(got.Body), `"variable"`) || strings.Count(string(got.Body), "id_tsvars") != len(lines) {
		t.Errorf("%d lines are read as %s", len(lines), got.Body)
	}
}

// TestHostileTenantNames uses the names as names of tenants and databases.
func TestHostileTenantNames(t *testing.T) { testHostileTenantNames(t, apitest.Embedded(t)) }

func testHostileTenantNames(t *testing.T, w *apitest.World) {
	w.BehindProxy = true
	nobody := apitest.Client{TB: t, Base: w.Serve(t).URL}
	tenants := apitest.Must[[]record.Tenant](t)(w.Records.Tenants(t.Context()))
	var logins errgroup.Group
	logins.SetLimit(32) // a login waits for the records for three seconds
	for i := range len(hostileNames) * 4 {
		logins.Go(func() error {
			name, c := hostileNames[i/4], w.Ana
			*[]*string{&c.Email, &c.TokenApp, &c.Schema, &c.TsName}[i%4] = name
			body, err := json.Marshal(c)
			if got := nobody.Attempt(apitest.NewRoute("POST", "/loginPartner", string(body)), from(i)); got.WantFailure(t, 401) != "the login was refused" {
				t.Errorf("%.80q: %d %s", name, got.Status, got.Body)
			}
			return err
		})
	}
	if err := logins.Wait(); err != nil {
		t.Error(err)
	}
	for _, name := range hostileNames {
		for _, param := range []string{"bucket=" + url.QueryEscape(name), "bucket=" + w.Ana.TsName + url.QueryEscape(name) + "x", "db=" + w.Ana.TsName + "&bucket=" + url.QueryEscape(name)} {
			got := nobody.Send("POST", "/v2/write?org=x&"+param, apitest.Raw("tanque nivel=1"), map[string][]string{"Authorization": {"Token " + w.WriteToken}})
			if got.Status != 404 || !strings.Contains(string(got.Body), `"not found"`) {
				t.Errorf("%.80s: %d %s", param, got.Status, got.Body)
			}
		}
	}
	if after := apitest.Must[[]record.Tenant](t)(w.Records.Tenants(t.Context())); fmt.Sprint(after) != fmt.Sprint(tenants) {
		t.Errorf("the tenants are %v, were %v", after, tenants)
	}
	if got := nobody.Send("POST", "/loginPartner", w.Ana, from(9999)); got.Status != 200 {
		t.Errorf("a good login: %d %s", got.Status, got.Body)
	}
}
