package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// network writes what the tests of values ask for.
func network(tb testing.TB, w *world) {
	tb.Helper()
	now := w.now.now().UnixMilli()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for i, level := range []float64{2, 4, 6} {
		line("tanque,sitio=norte nivel=%v,caudal-1=%v %d", level, level*10, now-int64(3-i)*60_000)
	}
	line(`tanque,sitio=sur nivel=5 %d`, now-90_000)
	line(`bomba estados_0=true,arranques=41i,texto="en marcha" %d`, now-30_000)
	line(`bomba estados_1=false %d`, now-30_000)
	line(`presión\ red entrada=3.5,"ñandú"=2 %d`, now-3*3600_000) // past the shortest range
	line(`viejo valor=9 %d`, now-20*24*3600_000)
	w.put(tb, w.ana.TsName, b.String())
	w.put(tb, w.otro.TsName, fmt.Sprintf("tanque,sitio=norte nivel=777 %d\n", now-60_000))
}

func testCurrentValue(t *testing.T, w *world) {
	network(t, w)
	ana := w.as(t, w.serve(t), w.ana)
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
	} {
		ana.post("/dataTs", map[string]string{"measurement": c.measurement, "calc_field": c.field}).wantData(t, c.want)
		ana.post("/api/dataTs", map[string]string{"measurement": c.measurement, "calc_field": c.field}).wantData(t, c.want)
	}
	for _, body := range []string{`{}`, `[]`, `{"measurement":"tanque"}`, `{"measurement":"_internal","calc_field":"x"}`,
		`{"measurement":"tanque","calc_field":"\u0000"}`, `{"measurement":5,"calc_field":"nivel"}`, `{"measurement":"` + strings.Repeat("m", 257) + `","calc_field":"nivel"}`} {
		ana.post("/dataTs", raw(body)).wantFailure(t, 500)
	}
}

func testBatch(t *testing.T, w *world) {
	network(t, w)
	ana := w.as(t, w.serve(t), w.ana)
	for name, c := range map[string]struct{ items, want string }{
		"the least that a sample has": {
			`{"dataTs":{"id":1,"name":"Nivel","unit":"m","varsTs":{"measurement":"tanque","field":"nivel"}}}`, `{"1":6}`},
		"every member": {
			`{"dataTs":{"id":"n","name":"Nivel","unit":null,"type":"last","calc":false,"equation":null,"status":true,"varsTs":{"measurement":"tanque","field":"nivel","calc_field":null}}}`, `{"n":6}`},
		"type number, null and empty mean last": {
			item(1, `"type":"number"`, formNivel) + "," + item(2, `"type":null`, formNivel) + "," + item(3, `"type":""`, formNivel), `{"1":6,"2":6,"3":6}`},
		"all types": {
			item(1, `"type":"last"`, formNivel) + "," + item(2, `"type":"mean"`, formNivel) + "," + item(3, `"type":"max"`, formNivel) + "," +
				item(4, `"type":"min"`, formNivel) + "," + item(5, `"type":"sum"`, formNivel), `{"1":6,"2":4.25,"3":6,"4":2,"5":17}`},
		"calc_field wins if it has a point": {
			item(1, "", `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`) + "," +
				item(2, "", `{"measurement":"tanque","field":"nivel","calc_field":"nothing"}`) + "," +
				item(3, "", `{"measurement":"tanque","calc_field":"caudal-1"}`), `{"1":60,"2":6,"3":60}`},
		"missing is null and spoils nothing else": {
			item(1, "", formNivel) + "," + item(2, "", `{"measurement":"nada","field":"x"}`) + "," + item(3, "", `{"measurement":"bomba","field":"texto"}`) + "," + item(4, "", `{}`),
			`{"1":6,"2":null,"3":null,"4":null}`},
		"booleans, also among floats and aggregated": {
			item(1, "", `{"measurement":"bomba","field":"estados_0"}`) + "," + item(2, "", `{"measurement":"bomba","field":"estados_1"}`) + "," +
				item(3, `"type":"mean"`, `{"measurement":"bomba","field":"estados_0"}`) + "," + item(4, `"type":"sum"`, `{"measurement":"bomba","field":"estados_1"}`) + "," +
				item(5, `"type":"mean"`, formNivel) + "," + item(6, `"type":"max"`, `{"measurement":"bomba","field":"estados_0"}`),
			`{"1":1,"2":0,"3":1,"4":0,"5":4.25,"6":1}`},
		"past the first range, and older than a day": {
			item(1, "", `{"measurement":"presión red","field":"entrada"}`) + "," + item(2, "", `{"measurement":"viejo","field":"valor"}`) + "," +
				item(3, `"type":"mean"`, `{"measurement":"viejo","field":"valor"}`), `{"1":3.5,"2":9,"3":null}`},
		"form B": {
			item(1, `"calc":true,"equation":"nivel * 10 + estado"`, `{"nivel":{"calc_field":"nivel","measure":"tanque"},"estado":{"calc_field":"estados_0","measure":"bomba"}}`) + "," +
				item(2, "", `{"solo":{"calc_field":"nivel","measure":"tanque"}}`), `{"1":61,"2":6}`},
		"form B whose keys are called like members of form A": {
			item(1, `"calc":true,"equation":"measurement + field"`, `{"measurement":{"calc_field":"nivel","measure":"tanque"},"field":{"calc_field":"nivel","measure":"tanque"}}`), `{"1":12}`},
		"each operand is aggregated by the type": {
			item(1, `"type":"mean","calc":true,"equation":"a - b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"caudal-1","measure":"tanque"}}`), `{"1":-35.75}`},
		"keys of any text, longest first": {
			item(1, `"calc":true,"equation":"caudal-1 - caudal + presión de red"`,
				`{"caudal-1":{"calc_field":"caudal-1","measure":"tanque"},"caudal":{"calc_field":"nivel","measure":"tanque"},"presión de red":{"calc_field":"entrada","measure":"presión red"}}`), `{"1":57.5}`},
		"a missing operand, a division by zero": {
			item(1, `"calc":true,"equation":"a + b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"x","measure":"nada"}}`) + "," +
				item(2, `"calc":true,"equation":"a / b"`, `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"estados_1","measure":"bomba"}}`) + "," + item(3, "", formNivel),
			`{"1":null,"2":null,"3":6}`},
		"an equation over form A": {
			item(1, `"calc":true,"equation":"nivel * 2"`, formNivel), `{"1":12}`},
		"an equation that calc switches off": {
			item(1, `"calc":false,"equation":"nivel * 2"`, formNivel), `{"1":6}`},
		"one id, told in other words": {item(1, `"type":"last"`, formNivel) + "," + item(1, `"type":"number","calc":false`, `{"field":"nivel","measurement":"tanque"}`), `{"1":6}`},
		"an equation by calc_field": {
			item(1, `"calc":true,"equation":"caudal-1 * 2"`, `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`) + "," +
				item(2, `"calc":true,"equation":"nivel * 2"`, `{"measurement":"tanque","field":"nivel","calc_field":"caudal-1"}`), `{"1":120,"2":120}`},
		"the same item twice": {item(1, "", formNivel) + "," + item(1, "", formNivel), `{"1":6}`},
		"nothing":             {"", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			ana := ana.in(t)
			ana.post("/multipleDataTs", raw("["+c.items+"]")).wantData(t, c.want)
		})
	}
}

const formNivel = `{"measurement":"tanque","field":"nivel"}`

// item is an item of a batch with further members.
func item(id int, members, varsTs string) string {
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"dataTs":{"id":%d,"name":"v","unit":"m",%s"varsTs":%s}}`, id, members, varsTs)
}

func testBatchRefused(t *testing.T, w *world) {
	network(t, w)
	ana := w.as(t, w.serve(t), w.ana)
	deep := strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200)
	long := "a" + strings.Repeat("+a", 5000)
	eq := func(equation string) string {
		return item(1, `"calc":true,"equation":"`+equation+`"`, `{"a":{"calc_field":"nivel","measure":"tanque"}}`)
	}
	for name, c := range map[string]struct{ items, want string }{
		"an unknown type":                {item(1, `"type":"median"`, formNivel), "median"},
		"no dataTs":                      {`{}`, "item 0"},
		"dataTs is null":                 {item(1, "", formNivel) + `,{"dataTs":null}`, "item 1"},
		"no id":                          {`{"dataTs":{"varsTs":` + formNivel + `}}`, "id"},
		"no varsTs":                      {`{"dataTs":{"id":1}}`, "varsTs"},
		"varsTs is an array":             {item(1, "", `[]`), "varsTs"},
		"varsTs is null":                 {item(1, "", `null`), "varsTs"},
		"a member of form B is a number": {item(1, "", `{"a":5}`), `"a"`},
		"a member of form B is null":     {item(1, "", `{"a":null}`), `"a"`},
		"form A without field":           {item(1, "", `{"measurement":"tanque"}`), "field"},
		"a name that begins with _":      {item(1, "", `{"measurement":"_internal","field":"x"}`), "underscore"},
		"a name with NUL":                {item(1, "", `{"measurement":"tanque","field":"a\u0000b"}`), "NUL"},
		"an equation that is wrong":      {eq("a +"), "equation"},
		"an unknown operand":             {eq("a + b"), "equation"},
		"a deep equation":                {eq(deep), "equation"},
		"a long equation":                {eq(long), "equation"},
		"calc without an equation":       {item(1, `"calc":true`, formNivel), "equation"},
		"several without an equation":    {item(1, "", `{"a":{"calc_field":"nivel","measure":"tanque"},"b":{"calc_field":"nivel","measure":"tanque"}}`), "equation"},
		"one id, two meanings":           {item(1, "", formNivel) + "," + item(1, `"type":"mean"`, formNivel), "item 1"},
		"an id that is an object":        {`{"dataTs":{"id":{},"varsTs":` + formNivel + `}}`, ""},
		"too many items":                 {strings.TrimSuffix(strings.Repeat(item(1, "", formNivel)+",", 10_000), ","), ""},
		"too many of them":               {strings.TrimSuffix(strings.Repeat(`{"dataTs":{"id":1}},`, 1001), ","), "1001"},
	} {
		t.Run(name, func(t *testing.T) {
			ana := ana.in(t)
			status := 500
			if len(c.items) > 1<<20 {
				status = http.StatusRequestEntityTooLarge
			}
			if got := ana.post("/multipleDataTs", raw("["+c.items+"]")).wantFailure(t, status); !strings.Contains(got, c.want) {
				t.Errorf("says %q, want something of %q", got, c.want)
			}
		})
	}
	// Each problem has its own member, and their number is bounded.
	got := ana.post("/multipleDataTs", raw("["+strings.TrimSuffix(strings.Repeat(`{"dataTs":{}},`, 100), ",")+"]"))
	if n := strings.Count(string(got.body), `"message"`); got.status != 500 || n != maxProblems+1 {
		t.Errorf("%d with %d messages, want %d", got.status, n, maxProblems+1)
	}
}

func testSeries(t *testing.T, w *world) {
	// A minute that has begun, three hours ago, so that windows are known.
	start := w.now.now().Add(-3 * time.Hour).Truncate(time.Hour)
	var b strings.Builder
	for i := range 10 {
		at := start.Add(time.Duration(i) * time.Minute).UnixMilli()
		fmt.Fprintf(&b, "tanque,sitio=norte nivel=%d,lleno=%v %d\n", i, i%3 == 0, at)
		fmt.Fprintf(&b, "tanque,sitio=norte nivel=%d,lleno=%v %d\n", i+1, i%2 == 0, at+30_000)
	}
	w.put(t, w.ana.TsName, b.String())
	ana := w.as(t, w.serve(t), w.ana)
	span := fmt.Sprintf(`"start":%d,"stop":"%s"`, start.UnixMilli(), start.Add(10*time.Minute).UTC().Format(time.RFC3339))
	get := func(items string) map[string]any {
		t.Helper()
		return ana.post("/seriesDataTs", raw("["+items+"]")).data(t).(map[string]any)
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
	cut := ana.post("/seriesDataTs", raw(fmt.Sprintf(`[{"id":"años/m","measurement":"tanque","field":"nivel","samplingPeriod":"30s",%s}]`, span)))
	if h := cut.header.Get(truncatedHeader); h != "" {
		t.Errorf("a series that is whole is called cut: %q", h)
	}
	b.Reset()
	for i := range 5100 {
		fmt.Fprintf(&b, "denso v=%d %d\n", i, start.Add(time.Duration(i)*time.Second).UnixMilli())
	}
	w.put(t, w.ana.TsName, b.String())
	cut = ana.post("/seriesDataTs", raw(`[{"id":"años/m","measurement":"denso","field":"v","samplingPeriod":"1s"}]`))
	values, _ = points(cut.data(t).(map[string]any)["años/m"])
	if name, _ := url.QueryUnescape(cut.header.Get(truncatedHeader)); len(values) != 5000 || values[4999] != 5099 || name != "años/m" {
		t.Errorf("%d points until %v, header %q", len(values), values[len(values)-1], name)
	}
}

func testSeriesRefused(t *testing.T, w *world) {
	ana := w.as(t, w.serve(t), w.ana)
	one := func(members string) string { return `[{"measurement":"tanque","field":"nivel",` + members + `}]` }
	many := func(n int, members string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"measurement":"tanque","field":"nivel",`+members+`},`, n), ",") + "]"
	}
	for _, body := range []string{
		`{}`, `null`, `[5]`, `[null]`, one(`"samplingPeriod":""`), one(`"samplingPeriod":"5"`), one(`"samplingPeriod":"0s"`), one(`"samplingPeriod":"-5m"`),
		one(`"samplingPeriod":"5m; DROP"`), one(`"samplingPeriod":"1000000s"`), one(`"samplingPeriod":"999999w"`), one(`"samplingPeriod":5`),
		one(`"samplingPeriod":"5y"`), one(`"samplingPeriod":"1.5h"`),
		one(`"samplingPeriod":"5m","start":"yesterday"`), one(`"samplingPeriod":"5m","start":2000,"stop":1000`), one(`"samplingPeriod":"5m","start":1e300`),
		one(`"samplingPeriod":"5m","start":-9000000000000000`), one(`"samplingPeriod":"5m","stop":true`),
		`[{"measurement":"","field":"nivel","samplingPeriod":"5m"}]`, `[{"field":"nivel","samplingPeriod":"5m"}]`,
		many(1001, `"samplingPeriod":"1h"`), many(100, `"samplingPeriod":"1s"`),
		`[{"measurement":"a","field":"b","samplingPeriod":"5m","id":"x"},{"measurement":"a","field":"b","samplingPeriod":"1m","id":"x"}]`,
	} {
		ana.post("/seriesDataTs", raw(body)).wantFailure(t, 500)
	}
	ana.post("/seriesDataTs", raw(`[]`)).wantData(t, `{}`)
}

func testTimeText(t *testing.T, w *world) {
	// Bogotá is five hours behind UTC, all year.
	zone := must[*time.Location](t)(time.LoadLocation("America/Bogota"))
	w.now.move(time.Date(2026, 3, 6, 0, 0, 0, 0, zone).Sub(w.now.now()))
	var b strings.Builder
	for _, at := range []time.Time{
		time.Date(2026, 3, 5, 0, 4, 0, 0, zone), time.Date(2026, 3, 5, 9, 5, 30, 0, zone),
		time.Date(2026, 3, 5, 12, 0, 0, 0, zone), time.Date(2026, 3, 5, 15, 4, 0, 0, zone),
	} {
		fmt.Fprintf(&b, "tanque nivel=1 %d\n", at.UnixMilli())
	}
	w.put(t, w.ana.TsName, b.String())
	ana := w.as(t, w.serve(t), w.ana)
	for period, want := range map[string]string{
		"1m":  `["05/03/26, 12:04 a. m." "05/03/26, 09:05 a. m." "05/03/26, 12:00 p. m." "05/03/26, 03:04 p. m."]`,
		"30s": `["05/03/26, 12:04:00 a. m." "05/03/26, 09:05:30 a. m." "05/03/26, 12:00:00 p. m." "05/03/26, 03:04:00 p. m."]`,
	} {
		span := fmt.Sprintf(`"start":%d,"stop":%d`, time.Date(2026, 3, 5, 0, 0, 0, 0, zone).UnixMilli(), time.Date(2026, 3, 6, 0, 0, 0, 0, zone).UnixMilli())
		got := ana.post("/seriesDataTs", raw(fmt.Sprintf(`[{"measurement":"tanque","field":"nivel","samplingPeriod":%q,%s}]`, period, span)))
		var texts []string
		for _, p := range got.data(t).(map[string]any)["nivel"].([]any) {
			texts = append(texts, p.(map[string]any)["time"].(string))
		}
		if got := fmt.Sprintf("%q", texts); got != want {
			t.Errorf("%s: %s, want %s", period, got, want)
		}
	}
}
