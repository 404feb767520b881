package monitor_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
)

func TestCurrentValue(t *testing.T) { testCurrentValue(t, apitest.Embedded(t)) }

func testCurrentValue(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for _, c := range []struct{ measurement, field, want string }{
		{"tanque", "nivel", `{"nivel":{"value":6}}`},
		{"tanque", "caudal-1", `{"caudal-1":{"value":60}}`},
		{"bomba", "estados_0", `{"estados_0":{"value":1}}`},
		{"bomba", "estados_1", `{"estados_1":{"value":0}}`},
		{"bomba", "arranques", `{"arranques":{"value":41}}`},
		{"bomba", "texto", `{"texto":{"value":null}}`},
		{"presión red", `"ñandú"`, `{"\"ñandú\"":{"value":2}}`},
		{"viejo", "valor", `{"valor":{"value":9}}`},
		{"nada", "nivel", `{"nivel":{"value":null}}`},
		{`tanque" or "bomba`, "nivel", `{"nivel":{"value":null}}`},
		{"_internal", "x", `{"x":{"value":null}}`},
		{"tanque", "\x00", `{"\u0000":{"value":null}}`},
		{strings.Repeat("m", 257), "nivel", `{"nivel":{"value":null}}`},
	} {
		ana.Post("/dataTs", map[string]string{"measurement": c.measurement, "calc_field": c.field}).WantData(t, c.want)
		ana.Post("/api/dataTs", map[string]string{"measurement": c.measurement, "calc_field": c.field}).WantData(t, c.want)
	}
	for _, body := range []string{`{}`, `[]`, `{"measurement":"tanque"}`, `{"measurement":5,"calc_field":"nivel"}`} {
		ana.Post("/dataTs", apitest.Raw(body)).WantFailure(t, 500)
	}
}

func TestBatch(t *testing.T) { testBatch(t, apitest.Embedded(t)) }

func testBatch(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for name, c := range map[string]struct{ items, want string }{
		"the least that a sample has": {
			`{"dataTs":{"id":1,"name":"Nivel","unit":"m","varsTs":{"measurement":"tanque","field":"nivel"}}}`, `{"1":6}`},
		"every member": {
			`{"dataTs":{"id":"n","name":"Nivel","unit":null,"type":"last","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"tanque","field":"nivel","calc_field":null}}}`, `{"n":6}`},
		"type number, null and empty mean last": {
			apitest.Item(1, `"type":"number"`, apitest.FormNivel) + "," + apitest.Item(2, `"type":null`, apitest.FormNivel) + "," + apitest.Item(3, `"type":""`, apitest.FormNivel), `{"1":6,"2":6,"3":6}`},
		"all types": {
			apitest.Item(1, `"type":"last"`, apitest.FormNivel) + "," + apitest.Item(2, `"type":"mean"`, apitest.FormNivel) + "," + apitest.Item(3, `"type":"max"`, apitest.FormNivel) + "," +
				apitest.Item(4, `"type":"min"`, apitest.FormNivel) + "," + apitest.Item(5, `"type":"sum"`, apitest.FormNivel), `{"1":6,"2":4.25,"3":6,"4":2,"5":17}`},
		"calc_field wins if it has a point": {
			apitest.Item(1, "", `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`) + "," +
				apitest.Item(2, "", `{"measurement":"tanque","field":"nivel","calc_field":"nothing"}`) + "," +
				apitest.Item(3, "", `{"measurement":"tanque","calc_field":"caudal-1"}`), `{"1":60,"2":6,"3":60}`},
		"missing is null and spoils nothing else": {
			apitest.Item(1, "", apitest.FormNivel) + "," + apitest.Item(2, "", `{"measurement":"nada","field":"x"}`) + "," + apitest.Item(3, "", `{"measurement":"bomba","field":"texto"}`) + "," + apitest.Item(4, "", `{}`),
			`{"1":6,"2":null,"3":null,"4":null}`},
		"booleans, also among floats and aggregated": {
			apitest.Item(1, "", `{"measurement":"bomba","field":"estados_0"}`) + "," + apitest.Item(2, "", `{"measurement":"bomba","field":"estados_1"}`) + "," +
				apitest.Item(3, `"type":"mean"`, `{"measurement":"bomba","field":"estados_0"}`) + "," + apitest.Item(4, `"type":"sum"`, `{"measurement":"bomba","field":"estados_1"}`) + "," +
				apitest.Item(5, `"type":"mean"`, apitest.FormNivel) + "," + apitest.Item(6, `"type":"max"`, `{"measurement":"bomba","field":"estados_0"}`),
			`{"1":1,"2":0,"3":1,"4":0,"5":4.25,"6":1}`},
		"past the first range, and older than a day": {
			apitest.Item(1, "", `{"measurement":"presión red","field":"entrada"}`) + "," + apitest.Item(2, "", `{"measurement":"viejo","field":"valor"}`) + "," +
				apitest.Item(3, `"type":"mean"`, `{"measurement":"viejo","field":"valor"}`), `{"1":3.5,"2":9,"3":null}`},
		"form B": {
			apitest.Item(1, `"calc":true,"equation":"nivel * 10 + estado"`, `{"nivel":{"calc_field":"nivel","measure":"tanque"},"estado":{"calc_field":"estados_0","measure":"bomba"}}`) + "," +
				apitest.Item(2, "", `{"solo":{"calc_field":"nivel","measure":"tanque"}}`), `{"1":61,"2":6}`},
		"form B whose keys are called like members of form A": {
			apitest.Item(1, `"calc":true,"equation":"measurement + field"`, `{"measurement":{"calc_field":"nivel","measure":"tanque"},"field":{"calc_field":"nivel","measure":"tanque"}}`), `{"1":12}`},
		"each operand is aggregated by the type": {
			apitest.Item(1, `"type":"mean","calc":true,"equation":"a - b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"caudal-1","measure":"tanque"}}`), `{"1":-35.75}`},
		"keys of any text, longest first": {
			apitest.Item(1, `"calc":true,"equation":"caudal-1 - caudal + presión de red"`,
				`{"caudal-1":{"calc_field":"caudal-1","measure":"tanque"},"caudal":{"calc_field":"nivel","measure":"tanque"},"presión de red":{"calc_field":"entrada","measure":"presión red"}}`), `{"1":57.5}`},
		"a missing operand, a division by zero": {
			apitest.Item(1, `"calc":true,"equation":"a + b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"x","measure":"nada"}}`) + "," +
				apitest.Item(2, `"calc":true,"equation":"a / b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"estados_1","measure":"bomba"}}`) + "," + apitest.Item(3, "", apitest.FormNivel),
			`{"1":null,"2":null,"3":6}`},
		"an equation over form A": {
			apitest.Item(1, `"calc":true,"equation":"nivel * 2"`, apitest.FormNivel), `{"1":12}`},
		"an equation that calc switches off": {
			apitest.Item(1, `"calc":false,"equation":"nivel * 2"`, apitest.FormNivel), `{"1":6}`},
		"one id, told in other words": {apitest.Item(1, `"type":"last"`, apitest.FormNivel) + "," + apitest.Item(1, `"type":"number","calc":false`, `{"field":"nivel","measurement":"tanque"}`), `{"1":6}`},
		"an equation by calc_field": {
			apitest.Item(1, `"calc":true,"equation":"caudal-1 * 2"`, `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`) + "," +
				apitest.Item(2, `"calc":true,"equation":"nivel * 2"`, `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`), `{"1":120,"2":120}`},
		"the same item twice": {apitest.Item(1, "", apitest.FormNivel) + "," + apitest.Item(1, "", apitest.FormNivel), `{"1":6}`},
		"nothing":             {"", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			ana := ana.WithTB(t)
			ana.Post("/multipleDataTs", apitest.Raw("["+c.items+"]")).WantData(t, c.want)
		})
	}
}

func TestBatchRefused(t *testing.T) { testBatchRefused(t, apitest.Embedded(t)) }

func testBatchRefused(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	// What is not a batch fails as a whole.
	for name, c := range map[string]struct{ items, want string }{
		"no dataTs":               {`{}`, "item 0"},
		"dataTs is null":          {apitest.Item(1, "", apitest.FormNivel) + `,{"dataTs":null}`, "item 1"},
		"no id":                   {`{"dataTs":{"varsTs":` + apitest.FormNivel + `}}`, "id"},
		"an id that is an object": {`{"dataTs":{"id":{},"varsTs":` + apitest.FormNivel + `}}`, ""},
		"too many items":          {strings.TrimSuffix(strings.Repeat(apitest.Item(1, "", apitest.FormNivel)+",", 10_000), ","), ""},
		"too many of them":        {strings.TrimSuffix(strings.Repeat(`{"dataTs":{"id":1}},`, 1001), ","), "1001"},
	} {
		t.Run(name, func(t *testing.T) {
			ana := ana.WithTB(t)
			status := 500
			if len(c.items) > 1<<20 {
				status = http.StatusRequestEntityTooLarge
			}
			if got := ana.Post("/multipleDataTs", apitest.Raw("["+c.items+"]")).WantFailure(t, status); !strings.Contains(got, c.want) {
				t.Errorf("says %q, want something of %q", got, c.want)
			}
		})
	}
	// Each problem has its own member, and their number is bounded.
	got := ana.Post("/multipleDataTs", apitest.Raw("["+strings.TrimSuffix(strings.Repeat(`{"dataTs":{}},`, 100), ",")+"]"))
	if n := strings.Count(string(got.Body), `"message"`); got.Status != 500 || n != maxProblems+1 {
		t.Errorf("%d with %d messages, want %d", got.Status, n, maxProblems+1)
	}
}

// TestBadVariables has variables that can't have a value beside one that has.
func TestBadVariables(t *testing.T) { testBadVariables(t, apitest.Embedded(t)) }

func testBadVariables(t *testing.T, w *apitest.World) {
	apitest.WriteNetwork(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	deep := strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200)
	eq := func(equation string) string {
		return apitest.Item(1, `"calc":true,"equation":"`+equation+`"`, `{"a":{"calc_field":"nivel","measure":"tanque"}}`)
	}
	good := apitest.Item(2, "", apitest.FormNivel)
	value := fmt.Sprint(ana.Post("/multipleDataTs", apitest.Raw("["+good+"]")).Data(t))
	if value == "map[2:<nil>]" {
		t.Fatal("the good variable has no value")
	}
	for name, c := range map[string]struct{ items, want string }{
		"an unknown type":                {apitest.Item(1, `"type":"median"`, apitest.FormNivel), "median"},
		"no varsTs":                      {`{"dataTs":{"id":1}}`, "varsTs"},
		"varsTs is an array":             {apitest.Item(1, "", `[]`), "varsTs"},
		"varsTs is null":                 {apitest.Item(1, "", `null`), "varsTs"},
		"a member of form B is a number": {apitest.Item(1, "", `{"a":5}`), `"a"`},
		"a member of form B is null":     {apitest.Item(1, "", `{"a":null}`), `"a"`},
		"form A without field":           {apitest.Item(1, "", `{"measurement":"tanque"}`), "field"},
		"a name that begins with _":      {apitest.Item(1, "", `{"measurement":"_internal","field":"x"}`), "underscore"},
		"a name with NUL":                {apitest.Item(1, "", `{"measurement":"tanque","field":"a\u0000b"}`), "NUL"},
		"an equation that is wrong":      {eq("a +"), "equation"},
		"an unknown operand":             {eq("a + b"), "equation"},
		"a deep equation":                {eq(deep), "equation"},
		"a long equation":                {eq("a" + strings.Repeat("+a", 5000)), "equation"},
		"calc without an equation":       {apitest.Item(1, `"calc":true`, apitest.FormNivel), "equation"},
		"several without an equation":    {apitest.Item(1, "", `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"nivel","measure":"tanque"}}`), "equation"},
		"one id, two meanings":           {apitest.Item(1, "", apitest.FormNivel) + "," + apitest.Item(1, `"type":"mean"`, apitest.FormNivel), "different"},
		"two meanings, and the first again": {apitest.Item(1, "", apitest.FormNivel) + "," + apitest.Item(1, `"type":"mean"`, apitest.FormNivel) + "," +
			apitest.Item(1, "", apitest.FormNivel), "different"},
	} {
		w.Logged.Reset()
		got := ana.Post("/multipleDataTs", apitest.Raw("["+c.items+","+good+"]"))
		if text := fmt.Sprint(got.Data(t)); text != "map[1:<nil> "+strings.TrimPrefix(value, "map[") {
			t.Errorf("%s: %s, want null beside %s", name, text, value)
		}
		header := got.Header.Get(problemsHeader)
		id, problem, _ := strings.Cut(header, "=")
		if problem, err := url.QueryUnescape(problem); id != "1" || !strings.Contains(problem, c.want) || err != nil {
			t.Errorf("%s: the header is %q, want something of %q", name, header, c.want)
		}
		if !strings.Contains(w.Logged.String(), header) {
			t.Errorf("%s: the log does not say %q", name, header)
		}
	}
	if h := ana.Post("/multipleDataTs", apitest.Raw("["+good+"]")).Header.Get(problemsHeader); h != "" {
		t.Errorf("a good batch has problems: %q", h)
	}
	var many []string
	for i := range 500 {
		many = append(many, apitest.Item(i, "", "null"))
	}
	if h := ana.Post("/multipleDataTs", apitest.Raw("["+strings.Join(many, ",")+"]")).Header.Get(problemsHeader); len(h) > 4<<10+10 || !strings.HasSuffix(h, ",*") {
		t.Errorf("the header for many has %d bytes", len(h))
	}
	// The name of the member in other requests is not that of this one.
	if text := ana.Post("/dataTs", apitest.Raw(`{"measurement":"tanque","field":"nivel"}`)).WantFailure(t, 500); !strings.Contains(text, "calc_field") {
		t.Error(text)
	}
	got := ana.Post("/dataTs", apitest.Raw(`{"measurement":"_internal","calc_field":"x"}`))
	got.WantData(t, `{"x":{"value":null}}`)
	if h := got.Header.Get(problemsHeader); !strings.HasPrefix(h, "x=") {
		t.Errorf("the header of a single value is %q", h)
	}
	got = ana.Post("/seriesDataTs", apitest.Raw(`[{"id":"años","measurement":"_internal","field":"x","samplingPeriod":"1h"},{"measurement":"nada","field":"y","samplingPeriod":"1h"}]`))
	got.WantData(t, `{"años":[],"y":[]}`)
	if id, _, _ := strings.Cut(got.Header.Get(problemsHeader), "="); id != "a%C3%B1os" {
		t.Errorf("the header of series is %q", got.Header.Get(problemsHeader))
	}
}

func TestSeries(t *testing.T) { testSeries(t, apitest.Embedded(t)) }

func testSeries(t *testing.T, w *apitest.World) {
	// A minute that has begun, three hours ago, so that windows are known.
	start := w.Clock.Now().Add(-3 * time.Hour).Truncate(time.Hour)
	var b strings.Builder
	for i := range 10 {
		at := start.Add(time.Duration(i) * time.Minute).UnixMilli()
		fmt.Fprintf(&b, "tanque,sitio=norte nivel=%d,lleno=%v %d\n", i, i%3 == 0, at)
		fmt.Fprintf(&b, "tanque,sitio=norte nivel=%d,lleno=%v %d\n", i+1, i%2 == 0, at+30_000)
	}
	w.Write(t, w.Ana.TsName, b.String())
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	span := fmt.Sprintf(`"start":%d,"stop":"%s"`, start.UnixMilli(), start.Add(10*time.Minute).UTC().Format(time.RFC3339))
	get := func(items string) map[string]any {
		t.Helper()
		return ana.Post("/seriesDataTs", apitest.Raw("["+items+"]")).Data(t).(map[string]any)
	}
	points := func(list any) (values []float64, stamps []int64) {
		for _, p := range list.([]any) {
			values = append(values, p.(map[string]any)["value"].(float64))
			stamps = append(stamps, int64(p.(map[string]any)["ts"].(float64)))
		}
		return values, stamps
	}
	for name, c := range map[string]struct {
		field, period string
		want          []float64
		every         time.Duration
	}{
		"mean of a minute":       {"nivel", "1m", []float64{.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5}, time.Minute},
		"the same in seconds":    {"nivel", "60s", []float64{.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5}, time.Minute},
		"five minutes":           {"nivel", "5m", []float64{2.5, 7.5}, 5 * time.Minute},
		"booleans by their last": {"lleno", "2m", []float64{0, 0, 0, 0, 0}, 2 * time.Minute},
		"an hour":                {"nivel", "1h", []float64{5}, time.Hour},
	} {
		got := get(fmt.Sprintf(`{"measurement":"tanque","field":%q,"samplingPeriod":%q,%s}`, c.field, c.period, span))
		values, stamps := points(got[c.field])
		if fmt.Sprint(values) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, values, c.want)
		}
		for i, ts := range stamps {
			if want := start.Add(time.Duration(i) * c.every).UnixMilli(); ts != want {
				t.Errorf("%s: point %d is stamped %d, want %d", name, i, ts, want)
			}
		}
	}
	// The default range is a day until now.
	values, _ := points(get(`{"measurement":"tanque","field":"nivel","samplingPeriod":"1m"}`)["nivel"])
	if len(values) != 10 {
		t.Errorf("%d points without a range, want 10", len(values))
	}
	if got := get(`{"measurement":"nada","field":"x","samplingPeriod":"1m"}`); len(got["x"].([]any)) != 0 {
		t.Errorf("a series without points is %v, want an empty array", got)
	}
	// Keys: an id stays, whatever the others are called.
	both := get(`{"id":"lleno","measurement":"tanque","field":"nivel","samplingPeriod":"5m"},{"measurement":"otra","field":"lleno","samplingPeriod":"5m"}`)
	if len(both) != 2 || len(both["lleno"].([]any)) == 0 || both["otra.lleno"] == nil {
		t.Errorf("keys beside an id are %v", both)
	}
	got := get(fmt.Sprintf(`{"id":17,"measurement":"tanque","field":"nivel","samplingPeriod":"5m",%[1]s},{"measurement":"tanque","field":"nivel","samplingPeriod":"5m",%[1]s},`+
		`{"measurement":"tanque","field":"lleno","samplingPeriod":"5m"},{"measurement":"otra","field":"lleno","samplingPeriod":"5m"}`, span))
	var keys []string
	for key := range got {
		keys = append(keys, key)
	}
	if len(keys) != 4 || got["17"] == nil || got["nivel"] == nil || got["tanque.lleno"] == nil || got["otra.lleno"] == nil {
		t.Errorf("keys are %q", keys)
	}
	// At most 5,000 points, the newest, and the header says so.
	cut := ana.Post("/seriesDataTs", apitest.Raw(fmt.Sprintf(`[{"id":"años/m","measurement":"tanque","field":"nivel","samplingPeriod":"30s",%s}]`, span)))
	if h := cut.Header.Get(truncatedHeader); h != "" {
		t.Errorf("a series that is whole is called cut: %q", h)
	}
	b.Reset()
	for i := range 5100 {
		fmt.Fprintf(&b, "denso v=%d %d\n", i, start.Add(time.Duration(i)*time.Second).UnixMilli())
	}
	w.Write(t, w.Ana.TsName, b.String())
	cut = ana.Post("/seriesDataTs", apitest.Raw(`[{"id":"años/m","measurement":"denso","field":"v","samplingPeriod":"1s"}]`))
	values, _ = points(cut.Data(t).(map[string]any)["años/m"])
	if name, _ := url.QueryUnescape(cut.Header.Get(truncatedHeader)); len(values) != 5000 || values[4999] != 5099 || name != "años/m" {
		t.Errorf("%d points until %v, header %q", len(values), values[len(values)-1], name)
	}
}

func TestSeriesRefused(t *testing.T) { testSeriesRefused(t, apitest.Embedded(t)) }

func testSeriesRefused(t *testing.T, w *apitest.World) {
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	one := func(members string) string { return `[{"measurement":"tanque","field":"nivel",` + members + `}]` }
	many := func(n int, members string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"measurement":"tanque","field":"nivel",`+members+`},`, n), ",") + "]"
	}
	for _, body := range []string{
		`{}`, `null`, `[5]`, `[null]`, one(`"samplingPeriod":""`), one(`"samplingPeriod":"5"`), one(`"samplingPeriod":"0s"`), one(`"samplingPeriod":"-5m"`),
		one(`"samplingPeriod":"5m; DROP"`), one(`"samplingPeriod":"1000000s"`), one(`"samplingPeriod":"999999w"`), one(`"samplingPeriod":5`),
		one(`"samplingPeriod":"5y"`), one(`"samplingPeriod":"1.5h"`),
		one(`"samplingPeriod":"5m","start":"yesterday"`), one(`"samplingPeriod":"5m","start":2000,"stop":1000`), one(`"samplingPeriod":"5m","start":1e300`), one(`"samplingPeriod":"5m","start":1e14`),
		one(`"samplingPeriod":"5m","start":-9000000000000000`), one(`"samplingPeriod":"5m","stop":true`),
		`[{"measurement":"","field":"nivel","samplingPeriod":"5m"}]`, `[{"field":"nivel","samplingPeriod":"5m"}]`,
		many(1001, `"samplingPeriod":"1h"`),
		`[{"measurement":"a","field":"b","samplingPeriod":"5m","id":"x"},{"measurement":"a","field":"b","samplingPeriod":"1m","id":"x"}]`,
	} {
		ana.Post("/seriesDataTs", apitest.Raw(body)).WantFailure(t, 500)
	}
	ana.Post("/seriesDataTs", apitest.Raw(`[]`)).WantData(t, `{}`)
}

func TestTimeText(t *testing.T) { testTimeText(t, apitest.Embedded(t)) }

func testTimeText(t *testing.T, w *apitest.World) {
	// Bogotá is five hours behind UTC, all year.
	zone := apitest.Must[*time.Location](t)(time.LoadLocation("America/Bogota"))
	w.Clock.Move(time.Date(2026, 3, 6, 0, 0, 0, 0, zone).Sub(w.Clock.Now()))
	var b strings.Builder
	for _, at := range []time.Time{
		time.Date(2026, 3, 5, 0, 4, 0, 0, zone), time.Date(2026, 3, 5, 9, 5, 30, 0, zone),
		time.Date(2026, 3, 5, 12, 0, 0, 0, zone), time.Date(2026, 3, 5, 15, 4, 0, 0, zone),
	} {
		fmt.Fprintf(&b, "tanque nivel=1 %d\n", at.UnixMilli())
	}
	w.Write(t, w.Ana.TsName, b.String())
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	for period, want := range map[string]string{
		"1m":  `["05/03/26, 12:04 a. m." "05/03/26, 09:05 a. m." "05/03/26, 12:00 p. m." "05/03/26, 03:04 p. m."]`,
		"30s": `["05/03/26, 12:04:00 a. m." "05/03/26, 09:05:30 a. m." "05/03/26, 12:00:00 p. m." "05/03/26, 03:04:00 p. m."]`,
	} {
		span := fmt.Sprintf(`"start":%d,"stop":%d`, time.Date(2026, 3, 5, 0, 0, 0, 0, zone).UnixMilli(), time.Date(2026, 3, 6, 0, 0, 0, 0, zone).UnixMilli())
		got := ana.Post("/seriesDataTs", apitest.Raw(fmt.Sprintf(`[{"measurement":"tanque","field":"nivel","samplingPeriod":%q,%s}]`, period, span)))
		var texts []string
		for _, p := range got.Data(t).(map[string]any)["nivel"].([]any) {
			texts = append(texts, p.(map[string]any)["time"].(string))
		}
		if got := fmt.Sprintf("%q", texts); got != want {
			t.Errorf("%s: %s, want %s", period, got, want)
		}
	}
}

// TestDays cuts days and weeks at the tenant's midnight and Monday.
func TestDays(t *testing.T) { testDays(t, apitest.Embedded(t)) }

func testDays(t *testing.T, w *apitest.World) {
	zone := apitest.Must[*time.Location](t)(time.LoadLocation("America/Bogota"))
	w.Clock.Move(time.Date(2026, 3, 11, 0, 0, 0, 0, zone).Sub(w.Clock.Now()))
	var b strings.Builder
	for hour := range 10 * 24 {
		fmt.Fprintf(&b, "tanque nivel=%d %d\n", hour/24, time.Date(2026, 3, 1, hour, 30, 0, 0, zone).UnixMilli())
	}
	w.Write(t, w.Ana.TsName, b.String())
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	span := fmt.Sprintf(`"start":%d,"stop":%d`, time.Date(2026, 3, 1, 0, 0, 0, 0, zone).UnixMilli(), time.Date(2026, 3, 11, 0, 0, 0, 0, zone).UnixMilli())
	for period, want := range map[string]string{
		"24h": `{01/03/26, 12:00 a. m. 0} {02/03/26, 12:00 a. m. 1} {03/03/26, 12:00 a. m. 2} {04/03/26, 12:00 a. m. 3} {05/03/26, 12:00 a. m. 4} ` +
			`{06/03/26, 12:00 a. m. 5} {07/03/26, 12:00 a. m. 6} {08/03/26, 12:00 a. m. 7} {09/03/26, 12:00 a. m. 8} {10/03/26, 12:00 a. m. 9}`,
		"1w": `{23/02/26, 12:00 a. m. 0} {02/03/26, 12:00 a. m. 4} {09/03/26, 12:00 a. m. 8.5}`,
	} {
		got := ana.Post("/seriesDataTs", apitest.Raw(fmt.Sprintf(`[{"measurement":"tanque","field":"nivel","samplingPeriod":%q,%s}]`, period, span)))
		var texts []string
		for _, p := range got.Data(t).(map[string]any)["nivel"].([]any) {
			texts = append(texts, fmt.Sprintf("{%s %v}", p.(map[string]any)["time"], p.(map[string]any)["value"]))
		}
		if got := strings.Join(texts, " "); got != want {
			t.Errorf("%s: %s, want %s", period, got, want)
		}
	}
}

// TestMinusZero has a sensor measure -0, which is 0 wherever it is read.
func TestMinusZero(t *testing.T) {
	w := apitest.Embedded(t)
	w.Write(t, w.Ana.TsName, fmt.Sprintf("tanque nivel=-0 %d\n", w.Clock.Now().Add(-time.Minute).UnixMilli()))
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	var batch []string
	for i, kind := range []string{"last", "mean", "max", "min", "sum"} {
		batch = append(batch, apitest.Item(i, `"type":"`+kind+`"`, apitest.FormNivel))
	}
	for path, body := range map[string]string{
		"/multipleDataTs": "[" + strings.Join(batch, ",") + "," + apitest.Item(9, `"calc":true,"equation":"-a"`, `{"a":{"calc_field":"nivel","measure":"tanque"}}`) + "]",
		"/dataTs":         `{"measurement":"tanque","calc_field":"nivel"}`,
		"/seriesDataTs":   `[{"measurement":"tanque","field":"nivel","samplingPeriod":"1h"}]`,
	} {
		got := ana.Post(path, apitest.Raw(body))
		if text := string(got.Body); got.Status != 200 || strings.Contains(text, ":-0") || strings.Contains(text, "null") || !strings.Contains(text, ":0") {
			t.Errorf("%s: %d %s", path, got.Status, text)
		}
	}
}
